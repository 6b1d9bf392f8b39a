"""Where remembered rules are stored, and which of a project's files the user trusts.

A project's files come from its author. What its rule file allows, and what its texts for the model
ask for, counts only while the file is, byte for byte, what this user has agreed to, or what their
own answers have written; any change ends the trust. The record is stored beside the user's own
rules, out of the project's reach.
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from greenroom.core import AgentContext, RuleFileError
from greenroom.core._internal import Remember, serde
from greenroom.permissions import PermissionRule
from greenroom.permissions._internal import (
    read_bytes,
    read_rules,
    store_rules,
    write_atomically,
    write_rules,
)

_FILE = "permissions.json"
_MAX_PROJECTS = 1_000


class _Record(msgspec.Struct):
    trusted: dict[str, str]  # the digests of files, by their paths
    version: int = 1


def user_rules_path() -> Path:
    """Return the path of the user's own rule file, which applies in every project."""
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/greenroom").expanduser() / _FILE
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()
    return folder / "greenroom" / _FILE


def is_trusted(path: str | Path, digest: str | None = None) -> bool:
    """Return whether a file is, byte for byte, what the user has agreed to. Reads files.

    Args:
        path: a project's rule file, or one of its texts for the model.
        digest: the SHA-256 of its bytes if they have been read already; by default they are read.

    Raises:
        RuleFileError: the record of trusted files can't be read.
    """
    digest = digest or rules_digest(path)
    return digest is not None and _read_record().get(os.path.realpath(path)) == digest


def trust_rules(path: str | Path, digest: str) -> None:
    """Trust a project's file, as long as its content stays as it was shown to a person.

    Args:
        path: the rule file, or one of the project's texts for the model.
        digest: its `rules_digest` from before it was read and shown.

    Raises:
        RuleFileError: the file has changed since, or the record can't be read or written.
    """
    if rules_digest(path) != digest:
        raise RuleFileError("it has changed meanwhile", path=str(path), hint="look at it again")
    real = os.path.realpath(path)
    others = [each for each in _read_record().items() if each[0] != real]
    newest = dict([*others, (real, digest)][-_MAX_PROJECTS:])
    write_atomically(_record_path(), serde.encode(_Record(newest)))


def rules_digest(path: str | Path) -> str | None:
    """Return the SHA-256 of a rule file, or None if it can't be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except RuleFileError:
        return None


def keep_rules(
    rules: Iterable[PermissionRule], lifetime: Remember, context: AgentContext
) -> Path | None:
    """Store the rules of an answer where its lifetime says. It blocks: call it in a thread.

    A project's file that did not exist before, or was trusted, is trusted afterwards.

    Returns:
        The file, or None for rules that are only kept in memory.

    Raises:
        RuleFileError: a file can't be read or written; it is left as it is.
    """
    kept = tuple(rules)
    if lifetime == "session" or not kept:
        return None
    project = context.workspace.root / ".greenroom" / _FILE
    path = project if lifetime == "project" else user_rules_path()
    trusts = lifetime == "project" and (not path.exists() or is_trusted(path))
    store_rules(_written_at(path), kept)
    if trusts:
        trust_rules(path, str(rules_digest(path)))
    return path


def drop_rule(path: str | Path, id_: str) -> bool:
    """Take the rules with an id out of a file; return whether there was one. It blocks.

    A project's file that was trusted is trusted afterwards.

    Raises:
        RuleFileError: the file can't be read or written; it is left as it is.
    """
    rules = read_rules(path)
    kept = [rule for rule in rules if rule.id != id_]
    if len(kept) == len(rules):
        return False
    trusts = is_trusted(path)
    write_rules(_written_at(path), kept)
    if trusts:
        trust_rules(path, str(rules_digest(path)))
    return True


def _written_at(path: str | Path) -> str:
    """Return where to write a rule file: behind a link, if the file is the user's own.

    A link in a project is replaced, as it may lead anywhere.
    """
    return os.path.realpath(path) if Path(path) == user_rules_path() else os.fspath(path)


def _record_path() -> Path:
    return user_rules_path().with_name("trusted.json")


def _read_record() -> dict[str, str]:
    path = _record_path()
    try:
        return serde.decode(read_bytes(path), _Record).trusted if os.path.lexists(path) else {}
    except serde.InvalidJSONError as error:
        raise RuleFileError(error.message, path=str(path), hint="remove it") from error
