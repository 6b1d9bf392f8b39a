"""Files of tokens: what is accepted, and what a server refuses to start with."""

import hashlib
import os
import stat

import pytest

from greenroom import ConfigurationError
from greenroom.interop import Tokens
from greenroom.interop._internal import Role, add_token
from tests.interop.serving.services import write_tokens

HASH = hashlib.sha256(b"secret").hexdigest()


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_found_by_its_hash_and_no_other_is(tmp_path):
    tokens = Tokens.load(write_tokens(tmp_path / "tokens"))
    found = tokens.find("token-of-ann-viewer")
    assert (found.name, found.role) == ("ann", Role.VIEWER)
    assert tokens.find("token-of-nobody") is None
    assert tokens.find("") is None
    assert tokens.find(found.digest) is None
    assert HASH not in repr(tokens)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nobody\n\n",
        "ann operator\n",
        f"ann boss {HASH}\n",
        f"ann operator {HASH.upper()}\n",
        f"ann operator {HASH} more\n",
        f"ann operator {HASH[:-1]}\n",
        f"rules operator {HASH}\n",
        f"time-out operator {HASH}\n",
        f"runtime operator {HASH}\n",
        f"user operator {HASH}\n",
        f"a:b operator {HASH}\n",
        f"ann operator {HASH}\nbad\n",
        "\0",
    ],
)
def test_a_server_starts_with_no_bad_file(tmp_path, text):
    path = write(tmp_path / "tokens", text)
    with pytest.raises(ConfigurationError) as caught:
        Tokens.load(path)
    assert str(path) in str(caught.value)
    assert HASH not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700, 0o602])
def test_others_may_not_use_the_file(tmp_path, mode):
    path = write(tmp_path / "tokens", f"ann operator {HASH}\n", mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Tokens.load(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigurationError):
            Tokens.load(path)


def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(tmp_path, caplog):
    path = write_tokens(tmp_path / "tokens")
    tokens = Tokens.load(path)
    ann = tokens.find("token-of-ann")
    write(path, f"zoe admin {HASH}\n")
    tokens.refresh()
    assert tokens.find("token-of-ann") is None
    assert not tokens.knows(ann)
    assert tokens.find("secret").name == "zoe"
    for spoil in (lambda: write(path, "bad\n"), lambda: path.chmod(0o644), path.unlink):
        caplog.clear()
        spoil()
        tokens.refresh()
        tokens.refresh()
        assert tokens.find("secret").name == "zoe"
        assert len(caplog.records) == 1
        assert "secret" not in caplog.text
    write_tokens(path)
    tokens.refresh()
    assert tokens.knows(ann)


def test_a_new_token_is_added_and_works_at_once(tmp_path):
    path = tmp_path / "folder" / "tokens"
    first = add_token(path, "ann", Role.OPERATOR)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    path.write_text(path.read_text().rstrip("\n"))  # an editor left the last line open
    second = add_token(path, "ann", Role.VIEWER)
    tokens = Tokens.load(path)
    assert tokens.find(first).role is Role.OPERATOR
    assert tokens.find(second).role is Role.VIEWER
    assert first not in path.read_text()
    with pytest.raises(ConfigurationError):
        add_token(path, "time-out", Role.ADMIN)
    with pytest.raises(ConfigurationError):
        add_token(write(tmp_path / "open", "", 0o644), "ann", Role.ADMIN)


@pytest.mark.parametrize("role", Role)
def test_each_role_includes_the_ones_below_it(role):
    allowed = {each for each in Role if role.allows(each)}
    assert (
        allowed
        == {
            Role.VIEWER: {Role.VIEWER},
            Role.OPERATOR: {Role.VIEWER, Role.OPERATOR},
            Role.ADMIN: {*Role},
            Role.AUDITOR: {Role.AUDITOR},
        }[role]
    )
