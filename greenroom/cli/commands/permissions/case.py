"""One line of a file of cases: a call, under which rules, and what is to be decided about it."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import msgspec

from greenroom.cli.commands.permissions.scene import Setup, scene
from greenroom.core import (
    AgentContext,
    InvalidJSONError,
    RuleDecision,
    RuleFileError,
    Workspace,
    serde,
)
from greenroom.permissions import JudgedTool, PermissionManager, PermissionRule, parse_rules

_TEMPORARY = "@TMP"


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call and what is expected.

    Attributes:
        expect: what is to be decided.
        also_ok: other decisions that will do.
        tool: the tool's name.
        input: the call's input.
        input_raw: the same as the model sent it; what is no usable JSON object is asked about.
        rules: the rules, as in a rule file; None for those in force here. One that can't be used is
            left out.
        cwd: the workspace; "@TMP" for a temporary folder; empty for the working directory.
        setup: what there is in the temporary folder.
        context: the `session` and the `agent` (its type) that it is judged for.
        meta: the `category` of a tool that is none of ours.
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
class Judged:
    """What was decided about a case.

    Attributes:
        decision: the decision.
        reason: why.
        left_out: the rules that can't be used, a line each.
    """

    decision: RuleDecision
    reason: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Tool:
    name: str
    category: str


def read_case(line: bytes | str) -> Case:
    """Read a line.

    Raises:
        InvalidJSONError: it is no case; the message names the field.
    """
    return serde.decode(line, Case)


def judge_case(case: Case, usual: PermissionManager, folder: str) -> Judged:
    """Decide about a case, by its own rules or the `usual` ones; it touches the disk.

    Raises:
        ConfigurationError: what is to stand in its folder can't.
    """
    needs_scene = case.cwd == _TEMPORARY or case.setup != Setup()
    with scene(case.setup) if needs_scene else nullcontext(case.cwd or folder) as root:
        manager, left_out = (usual, ()) if case.rules is None else _manager(case.rules)
        try:
            data = case.input if case.input_raw is None else serde.loads_object(case.input_raw)
        except InvalidJSONError as error:
            return Judged(RuleDecision.ASK, error.message, left_out)
        context = AgentContext(
            session_id=case.context.get("session", "tested"),
            agent_type=case.context.get("agent", "coder"),
            workspace=Workspace(root),
        )
        found = manager.explain(_tool(case), data, context, files=False)
        return Judged(found.decision, found.reason, left_out)


def _tool(case: Case) -> str | JudgedTool:
    return _Tool(case.tool, case.meta["category"]) if "category" in case.meta else case.tool


def _manager(
    rules: tuple[dict[str, object], ...],
) -> tuple[PermissionManager, tuple[str, ...]]:
    found, left_out = list[PermissionRule](), list[str]()
    for number, rule in enumerate(rules):
        try:
            text = serde.dumps({"version": 1, "rules": [rule]}).decode()
            found += parse_rules(text, f"rules[{number}]")
        except RuleFileError as error:
            left_out.append(error.message)
    return PermissionManager(found), tuple(left_out)
