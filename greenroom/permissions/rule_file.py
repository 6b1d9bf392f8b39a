"""Rule files: read and verified as a whole or refused as a whole, and written all or nothing."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from greenroom.core import RuleDecision, RuleFileError
from greenroom.core._internal import error_at, error_of_json, serde
from greenroom.fs._internal import durable, read_beginning
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.rule import PermissionRule

MAX_SIZE = 1 << 20
_SHAPE = '{"version": 1, "rules": [{"decision": "allow", "command_prefix": ["git status"]}]}'
_UNKNOWN_FIELD = "an unknown field is an error, since a misspelt matcher would match everything"


def read_rules(path: str | Path) -> tuple[PermissionRule, ...]:
    """Read a rule file.

    Raises:
        RuleFileError: it can't be read, is not a regular file, is larger than 1 MiB, is not JSON,
            or holds a key twice, an unknown field or version, or an invalid rule. The error names
            line, column and field; no rule of the file is used.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleFileError(f"can't be read: {error}", path=str(path)) from error
    return parse_rules(text, str(path))


def parse_rules(text: str, source: str) -> tuple[PermissionRule, ...]:
    """Parse the text of a rule file; its rules and errors name `source` as their origin.

    Raises:
        RuleFileError: as `read_rules`.
    """
    # Imported here, so that only those who use a rule file load pydantic.
    from pydantic import ValidationError

    from greenroom.permissions.rule_schema import RuleFileModel

    steps: Sequence[str | int] = ()
    rules, ids = list[PermissionRule](), set[str]()
    try:
        for index, model in enumerate(RuleFileModel.model_validate(serde.loads_object(text)).rules):
            steps = ("rules", index)
            rule = replace(model.rule(), source=source)
            check_rule(rule, ids)
            ids.add(rule.id)
            rules.append(rule)
    except serde.InvalidJSONError as error:
        hint = f"a rule file is {_SHAPE}"
        raise error_of_json(RuleFileError, text, error, source, hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        hint = _SHAPE if first["type"] != "extra_forbidden" else _UNKNOWN_FIELD
        raise error_at(RuleFileError, text, source, first["loc"], first["msg"], hint) from error
    except RuleFileError as error:
        raise error_at(RuleFileError, text, source, steps, error.message, error.hint) from error
    return tuple(rules)


def check_rule(rule: PermissionRule, ids: Container[str]) -> None:
    """Verify that a rule's id is not among these, and that it meets its examples on its own.

    Raises:
        RuleFileError: it names the id, or the first example that the rule fails.
    """
    if rule.id != rule.generated_id and rule.id in ids:
        raise RuleFileError(f"two rules have the id {rule.id!r}", hint="rename one")
    if not (rule.match or rule.not_match):
        return
    from greenroom.permissions.examples import meets  # with what judges calls

    for example in rule.match:
        if not meets(rule, example):
            raise RuleFileError(f"the rule {rule.id!r} does not match its example {example!r}")
    for example in rule.not_match:
        if meets(rule, example):
            raise RuleFileError(f"the rule {rule.id!r} must not match {example!r}, but does")


def encode_rule(rule: PermissionRule) -> dict[str, object]:
    """Encode a rule as in a rule file; a condition in Python is left out."""
    from greenroom.permissions.rule_schema import RuleModel

    return RuleModel.of(rule).model_dump(mode="json", exclude_defaults=True)


def write_rules(path: str | Path, rules: Iterable[PermissionRule]) -> None:
    """Replace a rule file, atomically; only its owner may read it.

    Raises:
        RuleFileError: a rule has a condition in Python, or the file can't be written.
    """
    rules = tuple(rules)
    for rule in rules:
        if rule.matcher.predicate is not None:
            message = f"the rule {rule.id!r} has a condition in Python, which no file can hold"
            raise RuleFileError(message, hint="add such rules in code")
    content = {"version": 1, "rules": [encode_rule(rule) for rule in rules]}
    write_atomically(Path(path), serde.dumps(content, pretty=True) + b"\n")


def store_rules(path: str | Path, rules: Iterable[PermissionRule]) -> None:
    """Add rules to a file, creating it if it is missing. It blocks: call it in a thread.

    Raises:
        RuleFileError: the existing file is invalid (and is left as it is), or can't be written.
    """
    known = read_rules(path) if Path(path).exists() else ()
    write_rules(path, dict.fromkeys((*known, *rules)))


def read_bytes(path: str | Path) -> bytes:
    """Read a regular file of at most 1 MiB; it never waits for a pipe or a device.

    Raises:
        RuleFileError: it can't be read, is not a regular file, or is larger.
    """
    try:
        data = read_beginning(path, MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        raise RuleFileError(f"can't be read: {error}", path=str(path)) from error
    _check_size(data, path)
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by a new one that was written beside it; only its owner may read it.

    Raises:
        RuleFileError: the data is too large, or can't be written; the old file stays.
    """
    _check_size(data, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(str(path), data)
    except OSError as error:
        raise RuleFileError(f"can't be written: {error}", path=str(path)) from error


def _check_size(data: bytes, path: str | Path) -> None:
    if len(data) > MAX_SIZE:
        message, hint = f"larger than {MAX_SIZE >> 20} MiB", "remove what is not needed"
        raise RuleFileError(message, path=str(path), hint=hint)


def tighten(rules: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Keep only the rules that deny or ask, as for a project's file that is not trusted.

    Whatever their order, a denial by another rule overrides their questions.
    """
    return tuple(replace(rule, tightens=True) for rule in rules if rule.decision != "allow")


def ask_about_everything(rules: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Keep only the rules that deny or ask, make them final, and ask about every other call.

    This applies while a rule file is invalid, since it may have denied anything.
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
