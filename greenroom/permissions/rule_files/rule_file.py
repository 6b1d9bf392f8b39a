"""Rule files: read as a whole or refused as a whole, written all or nothing."""

import json  # noqa: TID251 - only its error, which tells line and column
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from greenroom.core import RuleDecision, RuleFileError, serde
from greenroom.permissions.rule_files.examples import check_examples
from greenroom.permissions.rule_files.json_place import place_of
from greenroom.permissions.rule_files.small_file import read_text, write_atomically
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule

__all__ = [
    "asking_everything",
    "encode_rule",
    "parse_rules",
    "read_rules",
    "store_rules",
    "tightening",
    "write_rules",
]

_SHAPE = '{"version": 1, "rules": [{"decision": "allow", "command_prefix": ["git status"]}]}'
_UNKNOWN_FIELD = "an unknown field is an error, since a misspelt matcher would match everything"


def read_rules(path: str | Path) -> tuple[PermissionRule, ...]:
    """Read a rule file.

    Raises:
        RuleFileError: it can't be read, is no regular file, is larger than 1 MiB, is no JSON, has a key that stands twice, an unknown
            field or version, or a rule that can't be used. It names line, column and field; no
            rule of the file is used.
    """
    return parse_rules(read_text(path), str(path))


def parse_rules(text: str, source: str) -> tuple[PermissionRule, ...]:
    """Read the text of a rule file; `source` is what its rules and its errors name as its place.

    Raises:
        RuleFileError: as `read_rules`.
    """
    rules = _rules(_decoded(text, source), text, source)
    return tuple(replace(rule, source=source) for rule in rules)


def encode_rule(rule: PermissionRule) -> dict[str, object]:
    """Describe a rule as a rule file does; a condition in Python is left out."""
    from greenroom.permissions.rule_files.model import RuleModel

    return RuleModel.of(rule).model_dump(mode="json", exclude_defaults=True)


def _decoded(text: str, path: str) -> dict[str, object]:
    try:
        return serde.loads_object(text)
    except serde.InvalidJSONError as error:
        line, column = None, None
        if isinstance(error.__cause__, json.JSONDecodeError):
            line, column = error.__cause__.lineno, error.__cause__.colno
        raise RuleFileError(
            error.message, path=path, line=line, column=column, hint=f"a rule file is {_SHAPE}"
        ) from error


def _rules(data: dict[str, object], text: str, path: str) -> tuple[PermissionRule, ...]:
    # Here and not above: pydantic is only loaded by those who use a file.
    from pydantic import ValidationError

    from greenroom.permissions.rule_files.model import RuleFileModel

    try:
        models = RuleFileModel.model_validate(data).rules
    except ValidationError as error:
        first = error.errors()[0]
        hint = _SHAPE if first["type"] != "extra_forbidden" else _UNKNOWN_FIELD
        raise _error(first["loc"], first["msg"], hint, text, path) from error
    rules: dict[str, PermissionRule] = {}
    for index, model in enumerate(models):
        try:
            rule = model.rule()
            check_examples(rule)
        except RuleFileError as error:
            raise _error(("rules", index), error.message, error.hint, text, path) from error
        if model.id in rules:
            said = f"two rules have the id {model.id!r}"
            raise _error(("rules", index), said, "rename one", text, path)
        rules[model.id or f"rules[{index}]"] = rule
    return tuple(rules.values())


def _error(
    steps: Sequence[str | int], message: str, hint: str, text: str, path: str
) -> RuleFileError:
    line, column = place_of(text, steps)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return RuleFileError(
        f"{field.removeprefix('.')}: {message}", path=path, line=line, column=column, hint=hint
    )


def write_rules(path: str | Path, rules: Iterable[PermissionRule]) -> None:
    """Write a rule file anew: to a file beside it first, readable by its owner alone.

    Raises:
        RuleFileError: a rule with a Python condition, or a disk that refuses.
    """
    kept = list(rules)
    for rule in kept:
        if rule.matcher.predicate is not None:
            raise RuleFileError(
                f"the rule {rule.id!r} has a condition in Python, which no file can hold",
                hint="add such rules in code",
            )
    encoded = [encode_rule(rule) for rule in kept]
    data = serde.dumps({"version": 1, "rules": encoded}, pretty=True) + b"\n"
    write_atomically(Path(path), data)


def store_rules(path: str | Path, rules: Iterable[PermissionRule]) -> None:
    """Add rules to a file, which is made if there is none. It blocks: call it in a thread.

    Raises:
        RuleFileError: the file that is there can't be used (it is then left as it is), or the disk
            refuses.
    """
    known = read_rules(path) if Path(path).exists() else ()
    write_rules(path, dict.fromkeys((*known, *rules)))


def tightening(rules: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Keep the rules that deny or ask: all that a project's file may say until it is trusted.

    Whatever their order, what they ask about is denied where another rule denies it.
    """
    return tuple(replace(rule, tightens=True) for rule in rules if rule.decision != "allow")


def asking_everything(rules: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Keep the rules that deny or ask, above all others, and ask about every other call.

    That is what holds while a rule file can't be used: it may have denied anything.
    """
    kept = [replace(rule, final=True) for rule in rules if rule.decision != "allow"]
    question = PermissionRule(
        decision=RuleDecision.ASK,
        matcher=RuleMatcher(all=True),
        id="unusable-rules",
        description="a rule file can't be used",
        final=True,
        priority=min((rule.priority for rule in kept), default=0) - 1,
    )
    return (*kept, question)
