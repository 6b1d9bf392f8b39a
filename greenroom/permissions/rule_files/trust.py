"""Which project rule files the user has agreed to: by their path, and by every byte in them.

A project's file comes with the project, from whoever wrote it. What it allows counts only while it
is exactly what this user has agreed to, or has written there through answers of their own; any
change takes the trust away. The record lies beside the user's own rules, out of the project's reach.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from greenroom.core import AgentContext, Remember, RuleFileError, serde
from greenroom.permissions.rule_files.location import remembered_path, user_rules_path
from greenroom.permissions.rule_files.rule_file import store_rules
from greenroom.permissions.rule_files.small_file import read_bytes, read_text, write_atomically
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["is_trusted", "keep_rules", "rules_digest", "trust_rules"]

_MAX_PROJECTS = 1_000


def is_trusted(path: str | Path) -> bool:
    """Whether this rule file is, byte for byte, what the user has agreed to. Reads files.

    Raises:
        RuleFileError: the record of what is trusted can't be read.
    """
    digest = rules_digest(path)
    return digest is not None and _record().get(_key(path)) == digest


def trust_rules(path: str | Path, digest: str) -> None:
    """Trust a project's rule file as a whole, as long as it is what a person was shown.

    Args:
        path: the file.
        digest: its `rules_digest` from before it was read and shown.

    Raises:
        RuleFileError: it is another one meanwhile, or the record can't be read or written.
    """
    if rules_digest(path) != digest:
        raise RuleFileError("it has changed meanwhile", path=str(path), hint="look at it again")
    _trust(path, digest)


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
    path = remembered_path(lifetime, context)
    kept = tuple(rules)
    if path is None or not kept:
        return None
    ours = lifetime == "project" and (not path.exists() or is_trusted(path))
    store_rules(path, kept)
    if ours:
        _trust(path, str(rules_digest(path)))
    return path


def _trust(path: str | Path, digest: str) -> None:
    record = _record()
    record.pop(_key(path), None)
    record[_key(path)] = digest
    newest = dict(list(record.items())[-_MAX_PROJECTS:])
    write_atomically(_record_path(), serde.dumps({"version": 1, "trusted": newest}))


def _record_path() -> Path:
    return user_rules_path().with_name("trusted.json")


def _record() -> dict[str, str]:
    path = _record_path()
    try:
        trusted = serde.loads_object(read_text(path)).get("trusted")
    except RuleFileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return {}
        raise
    except serde.InvalidJSONError as error:
        raise RuleFileError(error.message, path=str(path), hint="remove it") from error
    if not isinstance(trusted, dict):
        raise RuleFileError("this is no record of trusted files", path=str(path), hint="remove it")
    return {str(key): str(value) for key, value in trusted.items()}


def _key(path: str | Path) -> str:
    return os.path.realpath(path)
