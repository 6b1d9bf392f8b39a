import errno
import os
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from greenroom.agents._internal import is_trusted, keep_rules, rules_digest, user_rules_path
from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.core._internal import serde
from greenroom.fs._internal import durable
from greenroom.permissions import PermissionManager, PermissionRule, RuleScope
from greenroom.permissions._internal import read_rules, tighten
from greenroom.permissions.rule_file import store_rules
from greenroom.permissions.rule_schema import RuleFileModel

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "permissions.schema.json"
RULES = (
    PermissionRule.allow_command(
        "git status", id="git", match=("git status -s",), not_match=("git push",)
    ),
    PermissionRule.deny_path("**/{.env,*.pem}", final=True, message="secrets stay secret"),
    PermissionRule.allow_domain("docs.python.org", "*.readthedocs.io", priority=3),
    PermissionRule.allow_tool("Read", scope=RuleScope.AGENT, agent="coder"),
    PermissionRule.allow_all(
        scope=RuleScope.SESSION, session="s-1", expires=datetime(2030, 1, 1, tzinfo=UTC)
    ),
    PermissionRule.parse("Bash(make -C sub)", "ask", description="exact"),
)


def write(path, text):
    path.write_text(text)
    return path


def test_rules_survive_a_file(tmp_path):
    path = tmp_path / "deep" / "rules.json"
    PermissionManager(RULES).save_to_file(path)
    assert PermissionManager.load_from_file(path).rules == PermissionManager(RULES).rules
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    jsonschema.validate(serde.loads(path.read_bytes()), serde.loads(SCHEMA.read_bytes()))


def test_the_published_schema_is_current():
    schema = RuleFileModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    assert serde.loads(SCHEMA.read_bytes()) == serde.loads(serde.dumps(schema))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"version": 1,\n "rules": [\n  {"decision": "allow", "tol": "x"}]}', (3, 32), "tol"),
        ('{"version": 1, "rules": [{"decision": "perhaps", "tool": "x"}]}', (1, 39), "decision"),
        ('{"version": 2, "rules": []}', (1, 13), "version"),
        ('{"rules": []}', (1, 1), "version"),
        ('{"version": 1,\n "rules": [}', (2, 12), "JSON"),
        ('{"version": 1, "version": 1}', (1, 16), "twice"),
        ("[]", (None, None), "object"),
        ('{"version": 1, "rules": [{"decision": "allow"}]}', (1, 26), "matcher"),
        (
            '{"version": 1, "rules": [{"decision": "deny", "regex": "(a+"}]}',
            (1, 26),
            "regular expression",
        ),
        ('{"version": 1, "rules": [{"decision": "deny", "regex": "("}]}', (1, 26), "regular"),
        ('{"version": 1, "rules": [{"decision": "deny", "path": "../a"}]}', (1, 26), "'..'"),
        ('{"version": 1, "rules": [{"decision": "deny", "path": "~bob/a"}]}', (1, 26), "home"),
        ('{"version": 1, "rules": [{"decision": "deny", "path": "{a"}]}', (1, 26), "brace"),
        ('{"version": 1, "rules": [{"decision": "deny", "domain": "a b"}]}', (1, 26), "host"),
        (
            '{"version": 1, "rules": [{"decision": "deny", "command_prefix": "a; b"}]}',
            (1, 26),
            "plain command",
        ),
        (
            '{"version": 1, "rules": [{"decision": "deny", "tool": "mcp__jira__*"}]}',
            (1, 26),
            "names are exact",
        ),
        (
            '{"version": 1, "rules": [{"decision": "deny", "tool": "x", "redirect_to": "a"}]}',
            (1, 26),
            "redirect_to",
        ),
        (
            '{"version": 1, "rules": [{"decision": "deny", "path": "a", "domain": "b"}]}',
            (1, 26),
            "same time",
        ),
        (
            '{"version": 1, "rules": [{"decision": "allow", "tool": "x", "scope": "agent"}]}',
            (1, 26),
            "agent",
        ),
        (
            '{"version": 1, "rules": [{"decision": "allow", "tool": "x", "scope": "session"}]}',
            (1, 26),
            "session",
        ),
        (
            '{"version": 1, "rules": [{"decision": "allow", "command_prefix": "ls",'
            ' "match": ["pwd"]}]}',
            (1, 26),
            "does not match",
        ),
        (
            '{"version": 1, "rules": [{"decision": "deny", "path": "a/**", "not_match": ["a/b"]}]}',
            (1, 26),
            "must not match",
        ),
        (
            '{"version": 1, "rules": [{"id": "a", "decision": "deny", "tool": "x"},'
            ' {"id": "a", "decision": "deny", "tool": "y"}]}',
            (1, 72),
            "two rules",
        ),
    ],
)
def test_a_bad_file_is_refused_with_the_place_of_the_fault(tmp_path, text, place, words):
    path = write(tmp_path / "rules.json", text)
    with pytest.raises(RuleFileError, match=words) as caught:
        read_rules(path)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.path == str(path)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(RuleFileError, match="can't be read"):
        read_rules(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleFileError, match="can't be read"):
        read_rules(tmp_path / "binary")


def a_pipe(path):
    os.mkfifo(path)


def a_link_to_an_endless_device(path):
    path.symlink_to("/dev/zero")


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def a_large_file(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)  # nothing is stored of it


ODD_FILES = [a_pipe, a_link_to_an_endless_device, a_socket, a_large_file, Path.mkdir]


@pytest.mark.parametrize("make", ODD_FILES)
def test_what_is_no_file_of_a_usual_size_is_an_error_at_once(tmp_path, monkeypatch, make):
    path = tmp_path / "permissions.json"
    make(path)
    with pytest.raises(RuleFileError) as caught:
        read_rules(path)
    assert caught.value.path == str(path)
    assert rules_digest(path) is None
    with pytest.raises(RuleFileError):
        store_rules(path, RULES)


@pytest.mark.parametrize("make", ODD_FILES)
def test_a_record_of_trust_that_is_no_file_is_an_error_at_once(tmp_path, monkeypatch, make):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    user_rules_path().parent.mkdir()
    store_rules(tmp_path / "rules.json", RULES)
    make(user_rules_path().with_name("trusted.json"))
    with pytest.raises(RuleFileError, match=r"trusted\.json"):
        is_trusted(tmp_path / "rules.json")


def test_no_more_is_written_than_can_be_read_again(tmp_path):
    path = tmp_path / "rules.json"
    store_rules(path, RULES)
    before = path.read_bytes()
    with pytest.raises(RuleFileError, match="larger than 1 MiB"):
        store_rules(path, [PermissionRule.deny_tool("x", message="a" * (1 << 20))])
    assert path.read_bytes() == before


def test_a_link_to_a_file_and_a_mark_at_its_beginning_are_usual(tmp_path):
    store_rules(tmp_path / "rules.json", RULES[:1])
    (tmp_path / "link.json").symlink_to("rules.json")
    assert len(read_rules(tmp_path / "link.json")) == 1
    (tmp_path / "marked.json").write_text('\ufeff{"version": 1}', encoding="utf-8")
    assert read_rules(tmp_path / "marked.json") == ()


def test_a_file_may_give_one_text_wherever_it_may_give_several(tmp_path):
    text = """{"version": 1, "rules": [{"decision": "allow", "tool": "Bash",
        "argv_exact": "echo 'a b'", "match": "echo 'a b'", "not_match": "echo a b"}]}"""
    [rule] = read_rules(write(tmp_path / "rules.json", text))
    assert rule.matcher.argv_exact == ("echo", "a b")


def test_examples_of_hosts_tools_and_questions_are_verified():
    manager = PermissionManager(
        [
            PermissionRule.allow_domain("a.test", match=("a.test",), not_match=("https://b.test",)),
            PermissionRule.ask_for_command("git push", match=("git push -f",)),
            PermissionRule.deny_tool("Write", match=("Write",), not_match=("Read",)),
        ]
    )
    assert len(manager.rules) == 3
    for wrong in (
        {"match": ("b.test",)},
        {"not_match": ("https://a.test/x",)},
    ):
        with pytest.raises(RuleFileError, match=r"does not match|must not match"):
            manager.add_rule(PermissionRule.allow_domain("a.test", **wrong))


def test_a_condition_in_python_can_not_be_saved(tmp_path):
    manager = PermissionManager([PermissionRule.allow_if(lambda tool, _: tool == "Read")])
    with pytest.raises(RuleFileError, match="no file can hold"):
        manager.save_to_file(tmp_path / "rules.json")


def test_stored_rules_are_added_to_those_that_are_there(tmp_path):
    path = tmp_path / "rules.json"
    store_rules(path, RULES[:2])
    store_rules(path, RULES[1:3])
    assert set(read_rules(path)) == set(RULES[:3])


def test_a_bad_file_is_left_as_it_is_when_rules_are_stored(tmp_path):
    path = write(tmp_path / "rules.json", "{")
    with pytest.raises(RuleFileError):
        store_rules(path, RULES)
    assert path.read_text() == "{"


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "sync", refuse)
    with pytest.raises(RuleFileError, match="No space left"):
        store_rules(tmp_path / "rules.json", RULES)
    assert list(tmp_path.iterdir()) == []


def test_an_untrusted_project_may_only_tighten():
    kept = tighten([*RULES, PermissionRule.deny_tool("Write")])
    assert {rule.decision for rule in kept} == {RuleDecision.DENY, RuleDecision.ASK}


def test_remembered_rules_have_their_places(tmp_path, monkeypatch):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    assert keep_rules(RULES, "session", context) is None
    path = tmp_path / ".greenroom" / "permissions.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert keep_rules(RULES, "project", context) == path
    path = tmp_path / "greenroom" / "permissions.json"
    assert keep_rules(RULES, "always", context) == path == user_rules_path()
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert user_rules_path() == Path("~/.config/greenroom/permissions.json").expanduser()
    monkeypatch.setattr("sys.platform", "darwin")
    assert "Application Support" in str(user_rules_path())


def test_rules_are_kept_and_trusted_where_a_folder_can_t_be_flushed(tmp_path, monkeypatch):
    """The flush is for a power cut: without it the answer is on the disk all the same."""

    def refuse(_fd):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(os, "fsync", refuse)
    path = keep_rules(RULES, "project", context)
    assert is_trusted(path)


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_what_is_not_a_file_is_refused_as_one_that_can_t_be_written(path):
    with pytest.raises(RuleFileError):
        PermissionManager(RULES).save_to_file(path)
