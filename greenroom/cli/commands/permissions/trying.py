"""`greenroom permissions test`: are the calls of a file decided as its author expects?"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.cli.commands.permissions.case import Case, Judged, judge_case, read_case
from greenroom.cli.commands.sessions.row import counted, one_line
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.folders import working_folder
from greenroom.cli.run.rules import rules_of_run
from greenroom.cli.streams.output_writer import tell
from greenroom.core import ConfigurationError, InvalidJSONError, RuleFileError, serde
from greenroom.permissions import PermissionManager, parse_rules

if TYPE_CHECKING:
    from greenroom.cli.commands.permissions.arguments import PermissionsOptions

_FAILED = 1


@dataclass(frozen=True)
class _Tried:
    """A case, what was decided about it, and the line that it stands in."""

    line: int
    case: Case
    judged: Judged

    @property
    def is_expected(self) -> bool:
        return self.judged.decision in (self.case.expect, *self.case.also_ok)

    @property
    def name(self) -> str:
        return one_line(self.case.id) or f"line {self.line}"


async def try_file(options: "PermissionsOptions") -> int:
    """Judge the calls of a file; the exit code is 1 where one is not decided as expected.

    Raises:
        ConfigurationError: the file can't be read, or a line is no case.
        RuleFileError: a rule of the command line can't be used.
    """
    text = await trio.to_thread.run_sync(_read, options.file)
    page = Page()
    if _is_rule_file(text):
        return await _try_rules(text, options, page)
    return await _try_calls(text, options, page)


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{name} is no text: {error}") from error


def _is_rule_file(text: str) -> bool:
    """Whether it is one object that says its version, laid out in whatever way, and no cases."""
    first = text.lstrip().partition("\n")[0]
    try:
        return "version" in serde.loads_object(first)
    except InvalidJSONError:
        return True  # an object of several lines; of damage, the errors of a rule file say most


async def _try_rules(text: str, options: "PermissionsOptions", page: Page) -> int:
    try:
        rules = await trio.to_thread.run_sync(parse_rules, text, options.file)
    except RuleFileError as error:
        if options.json:
            found = {"error": error.message, "line": error.line, "column": error.column}
            await page.line(serde.dumps({"rules": 0, "examples": 0, "failed": [found]}))
        else:
            await page.text(str(error))
        return _FAILED
    examples = sum(len(rule.match) + len(rule.not_match) for rule in rules)
    if options.json:
        await page.line(serde.dumps({"rules": len(rules), "examples": examples, "failed": []}))
    else:
        said = f"{counted(len(rules), 'rule')} can be used; {counted(examples, 'example')} tried"
        await page.text(said)
    return 0


async def _try_calls(text: str, options: "PermissionsOptions", page: Page) -> int:
    folder = working_folder()
    cases = list(_cases(text, options.file))
    rules = await trio.to_thread.run_sync(
        rules_of_run, folder, options.allow, options.deny, options.mode, options.read_only
    )
    if any(case.rules is None for _, case in cases):
        tell(*rules.warnings, *rules.notes)
    tried = await trio.to_thread.run_sync(_try, cases, rules.manager, str(folder))
    failed = [each for each in tried if not each.is_expected]
    if options.json:
        failures = [_as_json(each) for each in failed]
        await page.line(serde.dumps({"cases": len(tried), "failed": failures}))
    else:
        await _tell(tried, failed, page)
    return _FAILED if failed else 0


def _cases(text: str, name: str) -> Iterator[tuple[int, Case]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, read_case(line)
            except InvalidJSONError as error:
                raise ConfigurationError(
                    f"{name}:{number}: {error.message}",
                    hint='a case is such as {"input": {"command": "git push"}, "expect": "deny"}',
                ) from error


def _try(cases: Iterable[tuple[int, Case]], usual: PermissionManager, folder: str) -> list[_Tried]:
    return [_Tried(line, case, judge_case(case, usual, folder)) for line, case in cases]


async def _tell(tried: list[_Tried], failed: list[_Tried], page: Page) -> None:
    for each in tried:
        for rule in each.judged.left_out:
            await page.text(f"{each.name}: a rule is left out: {one_line(rule)}")
    for each in failed:
        call = one_line(each.case.input.get("command") or each.case.input_raw or each.case.input)
        await page.text(f"{each.name}: {each.case.tool} {call}")
        judged = f"{each.judged.decision}: {one_line(each.judged.reason)}"
        await page.text(f"    expected {each.case.expect}, found {judged}")
    missed = f"{len(failed)} not" if failed else "all"
    await page.text(f"{counted(len(tried), 'case')}, {missed} as expected")


def _as_json(tried: _Tried) -> dict[str, object]:
    return {
        "line": tried.line,
        "id": tried.case.id,
        "tool": tried.case.tool,
        "expected": [tried.case.expect, *tried.case.also_ok],
        "decision": tried.judged.decision,
        "reason": tried.judged.reason,
    }
