"""Where remembered rules are kept, and which of a project's files the user has agreed to.

A project's file comes with the project, from whoever wrote it. What a rule file allows, and what a
text for the model asks for, counts only while it is, byte for byte, what this user has agreed to, or has written there through answers of their own;
any change takes the trust away. The record lies beside the user's own rules, out of the project's
reach.
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from greenroom.core import AgentContext, Remember, RuleFileError, serde
from greenroom.permissions.rule_files.rule_file import read_bytes, store_rules, write_atomically
from greenroom.permissions.rules.rule import PermissionRule

_FILE = "permissions.json"
_MAX_PROJECTS = 1_000


@dataclass
class _Record:
    trusted: dict[str, str]  # the digests of files, by their paths
    version: int = 1


def user_rules_path() -> Path:
    """Return the user's own rule file, which holds in every project."""
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/greenroom").expanduser() / _FILE
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()
    return folder / "greenroom" / _FILE


def is_trusted(path: str | Path, digest: str | None = None) -> bool:
    """Whether this file is, byte for byte, what the user has agreed to. Reads files.

    Args:
        path: a project's rule file, or a text that it brings for the model.
        digest: the SHA-256 of its bytes, where they have been read; else they are read now.

    Raises:
        RuleFileError: the record of what is trusted can't be read.
    """
    digest = digest or rules_digest(path)
    return digest is not None and _read_record().get(os.path.realpath(path)) == digest


def trust_rules(path: str | Path, digest: str) -> None:
    """Trust a project's file as a whole, as long as it is what a person was shown.

    Args:
        path: the rule file, or a text that the project brings for the model.
        digest: its `rules_digest` from before it was read and shown.

    Raises:
        RuleFileError: it is another one meanwhile, or the record can't be read or written.
    """
    if rules_digest(path) != digest:
        raise RuleFileError("it has changed meanwhile", path=str(path), hint="look at it again")
    real = os.path.realpath(path)
    others = [each for each in _read_record().items() if each[0] != real]
    newest = dict([*others, (real, digest)][-_MAX_PROJECTS:])
    write_atomically(_record_path(), serde.encode(_Record(newest)))


def rules_digest(path: str | Path) -> str | None:
    """Return a SHA-256 over the bytes of a rule file, or None where it can't be read."""
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except RuleFileError:
        return None


def keep_rules(
    rules: Iterable[PermissionRule], lifetime: Remember, context: AgentContext
) -> Path | None:
    """Keep the rules of an answer where its lifetime says; it blocks: call it in a thread.

    A project's file that did not exist, or was trusted, is trusted afterwards.

    Returns:
        The file, or None for rules that live in memory only.

    Raises:
        RuleFileError: a file can't be read or written; it is left as it is.
    """
    kept = tuple(rules)
    if lifetime == "session" or not kept:
        return None
    project = context.workspace.root / ".greenroom" / _FILE
    path = project if lifetime == "project" else user_rules_path()
    trusts = lifetime == "project" and (not path.exists() or is_trusted(path))
    store_rules(path, kept)
    if trusts:
        trust_rules(path, str(rules_digest(path)))
    return path


def _record_path() -> Path:
    return user_rules_path().with_name("trusted.json")


def _read_record() -> dict[str, str]:
    path = _record_path()
    try:
        return serde.decode(read_bytes(path), _Record).trusted if os.path.lexists(path) else {}
    except serde.InvalidJSONError as error:
        raise RuleFileError(error.message, path=str(path), hint="remove it") from error
