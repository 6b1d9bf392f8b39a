"""`greenroom permissions explain`: what would be decided about one call, and why."""

from typing import TYPE_CHECKING

import msgspec
import trio

from greenroom.cli.drawing.page import Page
from greenroom.cli.run.folders import working_folder
from greenroom.cli.run.rules import rules_of_run
from greenroom.cli.streams.output_writer import tell
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    InvalidJSONError,
    Workspace,
    serde,
    visible,
)
from greenroom.permissions import Explanation
from greenroom.tools import ToolRegistry, builtin_tools

if TYPE_CHECKING:
    from rich.text import Text

    from greenroom.cli.commands.permissions.arguments import PermissionsOptions
    from greenroom.cli.drawing.theme import ColorScheme

_AGENT = "coder"  # whose rules hold in a run of the command


async def explain_call(options: "PermissionsOptions") -> int:
    """Print what a run in this folder would decide about a call; nothing of it happens.

    Raises:
        ConfigurationError: the input is no JSON object, or a command is given for another tool.
        RuleFileError: a rule of the command line can't be used.
    """
    arguments = _input(options)
    workspace = working_folder()
    rules = await trio.to_thread.run_sync(
        rules_of_run, workspace, options.allow, options.deny, options.mode, options.read_only
    )
    tell(*rules.warnings, *rules.notes)
    tool = ToolRegistry(builtin_tools()).get(options.tool) or options.tool
    context = AgentContext(
        session_id="explained", agent_type=_AGENT, workspace=Workspace(workspace)
    )
    found = await trio.to_thread.run_sync(rules.manager.explain, tool, arguments, context)
    page = Page()
    if options.json:
        about = {"tool": options.tool, "input": arguments, "cwd": str(workspace)}
        await page.line(serde.dumps({**about, "mode": options.mode, **as_json(found)}))
    else:
        await _show(found, options, page)
    return 0


def _input(options: "PermissionsOptions") -> dict[str, object]:
    if options.text is not None:
        if options.tool != "Bash":
            raise ConfigurationError(
                f"a command is for Bash, not for {options.tool}",
                hint='write --input, such as \'{"file_path": "a.py"}\'',
            )
        return {"command": options.text}
    try:
        return serde.loads_object(options.input or "")
    except InvalidJSONError as error:
        raise ConfigurationError(f"--input: {error.message}", hint="one JSON object") from error


def as_json(found: Explanation) -> dict[str, object]:
    """Describe an explanation with plain values."""
    return {
        "decision": found.decision,
        "reason": found.reason,
        "rule": found.rule.id if found.rule else None,
        "source": found.rule.source if found.rule else None,
        "message": found.message,
        "parts": [msgspec.to_builtins(part) for part in found.parts],
        "digest": found.digest,
        "remembers": [str(rule) for rule in found.remembers],
        "forbids": [str(rule) for rule in found.forbids],
    }


async def _show(found: Explanation, options: "PermissionsOptions", page: Page) -> None:
    from greenroom.cli.drawing.theme import ColorScheme
    from greenroom.cli.questions.render_part import render_part

    scheme = ColorScheme()
    lines = [_head(found, scheme), *(render_part(part, scheme) for part in found.parts)]
    await page.show(*lines, *_remarks(found, options, scheme))


def _head(found: Explanation, scheme: "ColorScheme") -> "Text":
    from rich.text import Text

    styles = {"allow": scheme.added, "deny": scheme.error, "ask": scheme.question}
    head = Text(str(found.decision), styles[found.decision])
    return head.append(f": {visible(found.reason)}")


def _remarks(
    found: Explanation, options: "PermissionsOptions", scheme: "ColorScheme"
) -> "list[Text]":
    from rich.text import Text

    lines = [f"the mode is {options.mode}"] if options.mode != "default" else []
    if found.decision == "deny":
        lines.append(f"the model is told: {found.message}")
    if found.decision == "ask":
        rules = ", ".join(str(rule) for rule in found.remembers)
        why = f": {found.unremembered}" if found.unremembered else ""
        lines.append(f"an always would store: {rules}" if rules else f"no always is offered{why}")
        if found.forbids:
            lines.append(f"a never would store: {', '.join(str(each) for each in found.forbids)}")
    lines.append(f"digest: {found.digest}")
    return [Text(f"  {visible(line)}", scheme.note) for line in lines]
