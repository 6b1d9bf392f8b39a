"""`greenroom permissions`: explain decisions, list rules, show past decisions, trust a project.

`permissions_test_command` judges the calls of a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec
import trio

from greenroom import core
from greenroom.agents._internal import trust_rules
from greenroom.cli.command_options import PermissionsOptions
from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.modes import DESCRIPTIONS
from greenroom.cli.options import DONE, FAILED
from greenroom.cli.run_rules import RunRules, load_run_rules, project_rules_path
from greenroom.cli.stdio import OutputWriter, confirm, tell
from greenroom.cli.stored_sessions import load_session, open_store, working_folder
from greenroom.cli.tool_names import find_unknown_names, find_unknown_tool, has_known_names
from greenroom.core._internal import InvalidJSONError, PermissionRecord, exact, serde
from greenroom.git._internal import GitAnswers
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions._internal import AnyTool, Explanation, encode_rule
from greenroom.programs._internal import read_only_commands
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry, builtin_tools

if TYPE_CHECKING:
    from greenroom.cli.project_files import Claim


_AGENT = "coder"  # whose rules count in a run of the command


async def explain_call(options: PermissionsOptions) -> int:
    """Print what a run in this folder would decide about a call; nothing of it happens.

    Raises:
        ConfigurationError: the input is not a JSON object, or a command is given for another tool.
        RuleFileError: a rule of the command line can't be used.
    """
    arguments = _read_input(options)
    workspace = working_folder()
    rules = await load_run_rules(options, workspace)
    tell(*rules.warnings, *rules.notes)
    tell(*find_unknown_tool(options.tool))
    tool = ToolRegistry(builtin_tools()).get(options.tool) or options.tool
    context = core.AgentContext(
        session_id="explained", agent_type=_AGENT, workspace=core.Workspace(workspace)
    )
    verdict = await trio.to_thread.run_sync(_explain, rules.manager, tool, arguments, context)
    page = OutputWriter()
    if options.json:
        about = {"tool": options.tool, "input": arguments, "cwd": str(workspace)}
        about["mode"] = options.mode
        await page.line(serde.dumps({**about, **_explanation_as_json(verdict)}))
    else:
        await _show_explanation(verdict, options, page)
    return 0


def _explain(
    manager: PermissionManager,
    tool: AnyTool,
    arguments: dict[str, object],
    context: core.AgentContext,
) -> Explanation:
    """Explain a call, after git was asked about the repositories that it reads."""
    git = GitAnswers()
    missing = manager.judge(tool, arguments, context).missing_answers
    answers = {folder: git.ask(folder) for folder in missing}
    return manager.explain(tool, arguments, context, git=answers)


def _read_input(options: PermissionsOptions) -> dict[str, object]:
    if options.text is not None:
        if options.tool != "Bash":
            raise core.ConfigurationError(
                f"a command is for Bash, not for {options.tool}",
                hint='write --input, such as \'{"file_path": "a.py"}\'',
            )
        return {"command": options.text}
    try:
        return serde.loads_object(options.input or "")
    except InvalidJSONError as error:
        raise core.ConfigurationError(
            f"--input: {error.message}", hint="one JSON object"
        ) from error


def _explanation_as_json(verdict: Explanation) -> dict[str, object]:
    """Describe an explanation with plain values."""
    return {
        "decision": verdict.decision,
        "reason": verdict.reason,
        "rule": verdict.rule.id if verdict.rule else None,
        "source": verdict.rule.source if verdict.rule else None,
        "message": verdict.message,
        "parts": [msgspec.to_builtins(part) for part in verdict.parts],
        "runs_as": verdict.runs_as,
        "digest": verdict.digest,
        "remembers": [str(rule) for rule in verdict.remembers],
        "prefixes": [str(rule) for rule in verdict.prefixes],
        "forbids": [str(rule) for rule in verdict.forbids],
    }


async def _show_explanation(
    verdict: Explanation, options: PermissionsOptions, page: OutputWriter
) -> None:
    from rich.text import Text

    from greenroom.cli.painter import ColorScheme
    from greenroom.cli.permission_prompt import render_part

    scheme = ColorScheme()
    styles = {"allow": scheme.added, "deny": scheme.error, "ask": scheme.question}
    head = Text(str(verdict.decision), styles[verdict.decision])
    head.append(f": {exact(verdict.reason)}")
    # What a person says yes to runs as it was written.
    way = "runs as" if verdict.decision == "allow" else "read as"
    lines = [f"{way}: {verdict.runs_as}"] if verdict.runs_as else []
    lines += [f"the mode is {options.mode}"] if options.mode != "default" else []
    if verdict.decision == "deny":
        lines.append(f"the model gets: {verdict.message}")
    if verdict.decision == "ask":
        rules = ", ".join(str(rule) for rule in verdict.remembers)
        why = f": {verdict.unremembered}" if verdict.unremembered else ""
        lines.append(f"an always would store: {rules}" if rules else f"always is not offered{why}")
        if verdict.prefixes:
            lines.append(f"or with a prefix: {', '.join(map(str, verdict.prefixes))}")
        lines += [
            f"the files that {program} reads by default are not checked"
            for program in verdict.effects.unchecked
        ]
        if verdict.forbids:
            lines.append(f"a never would store: {', '.join(str(each) for each in verdict.forbids)}")
    lines.append(f"digest: {verdict.digest}")
    remarks = [Text(f"  {exact(line)}", scheme.note) for line in lines]
    await page.show(head, *(render_part(part, scheme) for part in verdict.parts), *remarks)


_IGNORED = "it allows, and the project's file is not trusted"
_EXPIRED = "it has expired"
_NO_BREAK = "\N{NO-BREAK SPACE}"


async def list_rules(options: PermissionsOptions) -> int:
    """Print the rules of a run in this folder, their sources, and the rules that are ignored.

    Raises:
        RuleFileError: a rule of the command line can't be used.
    """
    rules = await load_run_rules(options, working_folder())
    tell(*rules.warnings)
    page = OutputWriter()
    if options.json:
        await page.line(serde.dumps(_rules_as_json(rules)))
        return 0
    live = _find_live(rules)
    await page.table(RULE_COLUMNS, [rule_row(rule) for rule in live])
    if left_out := _find_ignored(rules):
        await page.text("\nThese don't count:")
        await page.table((*RULE_COLUMNS, "why"), [(*rule_row(rule), why) for rule, why in left_out])
    if rules.manager.read_only:
        await page.text(f"\n{_READ_ONLY}")
        whole = (name.replace(" ", _NO_BREAK) for name in read_only_commands())
        lines = wrap(", ".join(whole), 96, break_on_hyphens=False)
        await page.text("\n".join(lines).replace(_NO_BREAK, " "))
    await page.text(f"\n{DESCRIPTIONS[rules.manager.mode]}")
    return 0


RULE_COLUMNS = ("decision", "rule", "name", "scope", "from")
"""What is shown of a rule; see `rule_row`."""

_READ_ONLY = """\
Built in: these commands need no rule where they only read, inside the workspace. Options that write
or run something are asked about, and git where its repository names a program. --no-read-only turns
that off."""


def _find_live(rules: RunRules) -> list[PermissionRule]:
    return [rule for rule in rules.manager.rules if not _find_reason(rule)]


def _find_ignored(rules: RunRules) -> list[tuple[PermissionRule, str]]:
    """Return the ignored rules, each with the reason."""
    reasons = ((rule, _find_reason(rule)) for rule in rules.manager.rules)
    return [*((rule, _IGNORED) for rule in rules.ignored), *(each for each in reasons if each[1])]


def _find_reason(rule: PermissionRule) -> str:
    """Return why a rule is about no call; empty if it is about some."""
    if rule.is_expired:
        return _EXPIRED
    return "" if has_known_names(rule) else "; ".join(find_unknown_names(rule))


def rule_row(rule: PermissionRule) -> tuple[str, ...]:
    """Describe a rule in the cells of a table with `RULE_COLUMNS`."""
    limits = [part for part in (rule.agent, rule.session) if part]
    scope = " ".join([rule.scope, *limits])
    extras = ["final"] if rule.final else []
    extras += [f"priority {rule.priority}"] if rule.priority else []
    extras += [f"until {rule.expires.astimezone():%Y-%m-%d %H:%M}"] if rule.expires else []
    name = "" if rule.id == rule.generated_id else rule.id
    cells = map(one_line, (name, ", ".join([scope, *extras])))
    # A matcher is shown whole, so that it can be given to --allow and --deny.
    return (str(rule.decision), str(rule.matcher), *cells, shorten_home(one_line(rule.source)))


def _rules_as_json(rules: RunRules) -> dict[str, object]:
    return {
        "mode": rules.manager.mode,
        "read_only": read_only_commands() if rules.manager.read_only else (),
        "rules": [_rule_as_json(rule) for rule in _find_live(rules)],
        "ignored": [{**_rule_as_json(rule), "why": why} for rule, why in _find_ignored(rules)],
    }


def _rule_as_json(rule: PermissionRule) -> dict[str, object]:
    return {"id": rule.id, **encode_rule(rule), "scope": rule.scope, "source": rule.source}


@dataclass(frozen=True)
class _Decision:
    """A decision, and the session that it was made in."""

    session: AgentSession
    record: PermissionRecord


async def show_decisions(options: PermissionsOptions) -> int:
    """Print past decisions, the oldest first; the exit code is 1 if a subagent's can't be read.

    Raises:
        SessionError: the session is unknown or can't be read.
        OSError: standard output can't be written.
    """
    root = await load_session(options.session_id, open_store(options))
    rows, missing = await _collect_decisions(root)
    decisions = rows[-options.last :] if options.last else rows
    page = OutputWriter()
    if options.json:
        await page.line(serde.dumps([_decision_as_json(row) for row in decisions]))
    elif not rows:
        await page.text("Nothing was decided in this session.")
    else:
        await _show_decisions(decisions, root, page)
    tell(*missing)
    return 1 if missing else 0


async def _collect_decisions(root: AgentSession) -> tuple[list[_Decision], list[str]]:
    """Read the decisions of a session and its subagents by time, and what could not be read."""
    rows, missing, seen, waiting = list[_Decision](), list[str](), set[str](), [root]
    while waiting:
        session = waiting.pop()
        rows += [_Decision(session, record) for record in await session.read_decisions()]
        seen.add(session.session_id)
        for id_ in session.child_session_ids:
            if id_ not in seen:
                seen.add(id_)
                try:
                    waiting.append(await AgentSession.load(id_, store=root.store))
                except core.SessionError as error:
                    missing.append(error.message)
    return sorted(rows, key=lambda row: row.record.at), missing


_WHO = {
    "shutdown": "since the agent was shut down",
    "time-out": "since no answer came in time",
    "unattended": "since there was nobody to ask",
    "withdrawn": "since the question was withdrawn",
}
"""What is said where nobody decided."""


async def _show_decisions(rows: list[_Decision], root: AgentSession, page: OutputWriter) -> None:
    from rich.text import Text

    from greenroom.cli.painter import ColorScheme
    from greenroom.cli.permission_prompt import render_part

    scheme = ColorScheme()
    for row in rows:
        record = row.record
        style = scheme.added if record.decision == "allow" else scheme.error
        head = Text(f"{record.at.astimezone():%Y-%m-%d %H:%M:%S}  ")
        head.append({"allow": "allowed", "deny": "denied"}[record.decision], style)
        head.append(
            f"  {exact(record.tool_name)}  {_WHO.get(record.by) or f'by {exact(record.by)}'}"
        )
        if row.session.session_id != root.session_id:
            head.append(f"  in the subagent {row.session.session_id}", scheme.subagent)
        parts = [render_part(part, scheme) for part in record.parts]
        remarks = [Text(f"  {exact(line)}", scheme.note) for line in _describe_record(record)]
        await page.show(head, *parts, *remarks)


def _describe_record(record: PermissionRecord) -> list[str]:
    lines = [f"{record.left_out} more parts"] if record.left_out else []
    lines += ["the input was changed by the person"] if record.edited else []
    lines += [f"said: {one_line(record.message)}"] if record.message else []
    if record.remember:
        lines.append(f"remembered ({record.remember}): {one_line(', '.join(record.rules))}")
    lines += [f"sandbox: {record.sandbox}"] if record.sandbox else []
    lines += [f"mode {record.mode}"] if record.mode != "default" else []
    return lines


def _decision_as_json(row: _Decision) -> dict[str, object]:
    session = {"session_id": row.session.session_id, "agent_type": row.session.agent_type}
    record = {name: getattr(row.record, name) for name in row.record.__struct_fields__}
    return {**session, **msgspec.to_builtins(record)}


async def trust_project(options: PermissionsOptions) -> int:
    """Show what the project's files say, one by one, and trust each if a person agrees.

    It counts as long as the file stays as it is. Only a person at a terminal can agree: no option
    does, so that no command that an agent runs can. The exit code is 1 where one is not trusted.

    Raises:
        ConfigurationError: there is nothing to trust, or no terminal to ask at.
        RuleFileError: a file can't be used, or has changed while it was looked at.
    """
    # Only here: it loads all of the agents, which no other verb needs.
    from greenroom.cli.project_files import find_claims

    workspace, page = working_folder(), OutputWriter()
    claims = await trio.to_thread.run_sync(find_claims, workspace)
    if not claims:
        raise core.ConfigurationError(
            f"{project_rules_path(workspace)} can't be read", hint="there is nothing to trust here"
        )
    agreed = dict[Path, bool]()
    for claim in claims:
        agreed[claim.path] = claim.is_trusted or await _ask_to_trust(claim, page)
    if options.json:
        await page.line(serde.dumps(_claims_as_json(claims, agreed)))
    else:
        for each, is_agreed in agreed.items():
            await page.text(f"{each} is {'trusted' if is_agreed else 'not trusted'}")
    return DONE if all(agreed.values()) else FAILED


async def _ask_to_trust(claim: "Claim", page: OutputWriter) -> bool:
    for line in claim.description:
        await page.text(line)
    agreed = await confirm("Trust it as long as it stays as it is?", hint="use a terminal")
    if agreed:
        await trio.to_thread.run_sync(trust_rules, claim.path, claim.digest)
    return agreed


def _claims_as_json(claims: Sequence["Claim"], agreed: dict[Path, bool]) -> dict[str, object]:
    """Describe the rules first, as the object, and the other files as its list."""
    others = [
        {"path": str(each.path), "trusted": agreed[each.path]}
        for each in claims
        if each.allowed is None
    ]
    rules = next((each for each in claims if each.allowed is not None), None)
    about_rules: dict[str, object] = {}
    if rules is not None:
        about_rules = {
            "path": str(rules.path),
            "trusted": agreed[rules.path],
            "allowed": rules.allowed,
        }
    return about_rules | {"texts": others}
