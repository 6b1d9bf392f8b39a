"""`greenroom permissions test`: check the decisions about the calls of a file.

A file holds a `Case` a line: a call, its rules, and the expected decision. A case that needs
files gets a temporary folder.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import trio

from greenroom import core
from greenroom.cli.command_options import PermissionsOptions
from greenroom.cli.formatting import one_line
from greenroom.cli.options import DONE, FAILED
from greenroom.cli.run_rules import load_run_rules
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.cli.tool_names import warn_of_unknown_names
from greenroom.core import RuleDecision
from greenroom.core._internal import InvalidJSONError, quantity, serde
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions._internal import parse_rules

_TEMPORARY = "@TMP"


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a temporary folder contains.

    Attributes:
        dirs: folders.
        files: files, which are empty.
        symlinks: links, by their names, and where they lead.
    """

    dirs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    symlinks: Mapping[str, str] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call and the expected decision.

    Attributes:
        expect: what should be decided.
        also_ok: other decisions that will do.
        tool: the tool's name.
        input: the call's input.
        input_raw: the same as the model sent it; anything but a JSON object is asked about.
        rules: the rules, as in a rule file; None for those in force here. Unusable ones are left
            out.
        cwd: the workspace; "@TMP" for a temporary folder; empty for the working directory.
        setup: what the temporary folder contains.
        context: the `session` and the `agent` (its type) that it is judged for.
        meta: the `category` of a tool that is not one of ours.
        id: its name.
        group: what kind of case it is, for people.
        tier: how much it counts, for people.
        why: why that is expected, for people.
    """

    expect: RuleDecision
    tool: str = "Bash"
    input: dict[str, object] = {}
    input_raw: str | None = None
    rules: tuple[dict[str, object], ...] | None = None
    also_ok: tuple[RuleDecision, ...] = ()
    cwd: str = ""
    setup: Setup = Setup()
    context: Mapping[str, str] = {}
    meta: Mapping[str, str] = {}
    id: str = ""
    group: str = ""
    tier: str = ""
    why: str = ""


@dataclass(frozen=True)
class _Tool:
    name: str
    category: str


@dataclass(frozen=True)
class _Result:
    """The decision about the case of a line, and the rules that were left out."""

    line: int
    case: Case
    decision: RuleDecision
    reason: str
    left_out: tuple[str, ...]

    @property
    def is_expected(self) -> bool:
        return self.decision in (self.case.expect, *self.case.also_ok)

    @property
    def name(self) -> str:
        return one_line(self.case.id) or f"line {self.line}"


async def test_file(options: PermissionsOptions) -> int:
    """Judge the calls of a file; the exit code is 1 if a decision is not as expected.

    Raises:
        ConfigurationError: the file can't be read, or a line is not a case.
        RuleFileError: a rule of the command line can't be used.
    """
    text = await trio.to_thread.run_sync(_read, options.file)
    test = _test_rules if _is_rule_file(text) else _test_calls
    return await test(text, options, OutputWriter())


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise core.ConfigurationError(f"{name} is not UTF-8 text: {error}") from error


def _is_rule_file(text: str) -> bool:
    """Whether the text is a rule file, which is one object with a version, and not cases."""
    first = text.lstrip().partition("\n")[0]
    try:
        return "version" in serde.loads_object(first)
    except InvalidJSONError:
        return True  # an object of several lines; of damage, the errors of a rule file say most


async def _test_rules(text: str, options: PermissionsOptions, page: OutputWriter) -> int:
    """Read a rule file, which tries the examples of each rule."""
    try:
        rules = await trio.to_thread.run_sync(parse_rules, text, options.file)
    except core.RuleFileError as error:
        failure = {"error": error.message, "line": error.line, "column": error.column}
        result = {"rules": 0, "examples": 0, "failed": [failure]}
        await page.result(str(error), result, as_json=options.json)
        return FAILED
    tell(*warn_of_unknown_names(rules))
    examples = sum(len(rule.match) + len(rule.not_match) for rule in rules)
    text = f"{quantity(len(rules), 'rule')} can be used; {quantity(examples, 'example')} tried"
    result = {"rules": len(rules), "examples": examples, "failed": []}
    await page.result(text, result, as_json=options.json)
    return DONE


async def _test_calls(text: str, options: PermissionsOptions, page: OutputWriter) -> int:
    folder = working_folder()
    cases = list(_read_cases(text, options.file))
    rules = await load_run_rules(options, folder)
    if any(case.rules is None for _, case in cases):
        tell(*rules.warnings, *rules.notes)

    def judge_all() -> list[_Result]:
        return [_judge(line, case, rules.manager, str(folder)) for line, case in cases]

    results = await trio.to_thread.run_sync(judge_all)
    failed = [each for each in results if not each.is_expected]
    if options.json:
        failures = [_as_json(each) for each in failed]
        await page.line(serde.dumps({"cases": len(results), "failed": failures}))
    else:
        await _print(results, failed, page)
    return FAILED if failed else DONE


def _read_cases(text: str, name: str) -> Iterator[tuple[int, Case]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, serde.decode(line, Case)
            except InvalidJSONError as error:
                raise core.ConfigurationError(
                    f"{name}:{number}: {error.message}",
                    hint='write a case as {"input": {"command": "git push"}, "expect": "deny"}',
                ) from error


def _judge(line: int, case: Case, usual: PermissionManager, folder: str) -> _Result:
    """Decide about a case, by its own rules or the `usual` ones; it touches the disk."""
    needs_folder = case.cwd == _TEMPORARY or case.setup != Setup()
    with _make_folder(case.setup) if needs_folder else nullcontext(case.cwd or folder) as root:
        manager, left_out = (usual, ()) if case.rules is None else _make_manager(case.rules)
        try:
            data = case.input if case.input_raw is None else serde.loads_object(case.input_raw)
        except InvalidJSONError as error:
            return _Result(line, case, RuleDecision.ASK, error.message, left_out)
        context = core.AgentContext(
            session_id=case.context.get("session", "tested"),
            agent_type=case.context.get("agent", "coder"),
            workspace=core.Workspace(root),
        )
        category = case.meta.get("category")
        tool = case.tool if category is None else _Tool(case.tool, category)
        explanation = manager.explain(tool, data, context, files=False)
        return _Result(line, case, explanation.decision, explanation.reason, left_out)


@contextmanager
def _make_folder(setup: Setup) -> Iterator[str]:
    """Make a temporary folder with all of this in it, until the block is left."""
    with TemporaryDirectory(prefix="greenroom-") as name:
        root = Path(os.path.realpath(name))
        try:
            for each in setup.dirs:
                _place(root, each).mkdir(parents=True, exist_ok=True)
            for each in setup.files:
                _place(root, each).touch()
            for each, target in setup.symlinks.items():
                _place(root, each).symlink_to(target)
        except OSError as error:
            raise core.ConfigurationError(f"setup: {error.filename}: {error.strerror}") from error
        yield str(root)


def _place(root: Path, name: str) -> Path:
    """Return the path in the temporary folder, which no untrusted case may leave."""
    path = root / name
    if not path.parent.resolve().is_relative_to(root) or ".." in Path(name).parts:
        raise core.ConfigurationError(f"setup: {name!r} is outside of the temporary folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _make_manager(
    rules: tuple[dict[str, object], ...],
) -> tuple[PermissionManager, tuple[str, ...]]:
    usable, left_out = list[PermissionRule](), list[str]()
    for number, rule in enumerate(rules):
        try:
            text = serde.dumps({"version": 1, "rules": [rule]}).decode()
            usable += parse_rules(text, f"rules[{number}]")
        except core.RuleFileError as error:
            left_out.append(error.message)
    return PermissionManager(usable), tuple(left_out)


async def _print(results: list[_Result], failed: list[_Result], page: OutputWriter) -> None:
    for each in results:
        for rule in each.left_out:
            await page.text(f"{each.name}: a rule is left out: {one_line(rule)}")
    for each in failed:
        call = one_line(each.case.input.get("command") or each.case.input_raw or each.case.input)
        await page.text(f"{each.name}: {each.case.tool} {call}")
        actual = f"{each.decision}: {one_line(each.reason)}"
        await page.text(f"    expected {each.case.expect}, found {actual}")
    missed = f"{len(failed)} not" if failed else "all"
    await page.text(f"{quantity(len(results), 'case')}, {missed} as expected")


def _as_json(result: _Result) -> dict[str, object]:
    return {
        "line": result.line,
        "id": result.case.id,
        "tool": result.case.tool,
        "expected": [result.case.expect, *result.case.also_ok],
        "decision": result.decision,
        "reason": result.reason,
    }
