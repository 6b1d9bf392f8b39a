"""Commands of the input line about agents: `/compact`, `/agents`, `/context`, `/quit`."""

from functools import partial

import trio
from rich.text import Text

from greenroom import core
from greenroom.agents._internal import CODER_PROMPT
from greenroom.cli.command_context import CommandContext
from greenroom.cli.formatting import one_line, recap
from greenroom.cli.render_chunk import render_recap
from greenroom.core import ConfigurationError, ModelRequest
from greenroom.core._internal import SUMMARY, visible
from greenroom.llm import EstimatedCounter, find_window
from greenroom.memory import COMPACT
from greenroom.runtime import AgentHandle

_RECAP = 6  # messages of an agent that are shown before what it says from now on
_BAR = 24  # cells of the bar that shows how full the window is


async def compact(context: CommandContext, words: str) -> None:
    """Shorten the conversation; the words say what the summary has to keep in view."""
    about = {"about": words} if words else {}
    context.send(f"/compact {words}".rstrip(), {**COMPACT, **about})


async def leave(context: CommandContext, words: str) -> None:
    """Leave; the session stays."""
    context.leave()


async def show_agents(context: CommandContext, words: str) -> None:
    """List the agents that run; follow one, send it a message, or stop it."""
    name, _, rest = words.partition(" ")
    verb, _, text = rest.strip().partition(" ")
    if not name:
        rows = [_describe_agent(each) for each in _subagents(context)]
        context.screen.note("\n".join(rows) if rows else "no subagents are running")
        return
    agent = next(
        (each for each in _subagents(context) if name in (each.name, each.session_id)), None
    )
    if agent is None:
        known = ", ".join(each.name for each in _subagents(context))
        raise ConfigurationError(
            f"no agent {one_line(name)!r} is running", hint=f"these are: {known}" if known else ""
        )
    match verb:
        case "" | "follow":
            await _follow(context, agent)
        case "say" if text.strip():
            agent.send_input_nowait(text.strip())
            context.screen.note(f"sent to {agent.name}")
        case "stop":
            context.start_soon(partial(agent.shutdown, grace=2.0))
            context.screen.note(f"{agent.name} is being stopped")
        case _:
            raise ConfigurationError(
                f"can't {one_line(rest)!r} an agent", hint="follow, say TEXT or stop"
            )


def _subagents(context: CommandContext) -> list[AgentHandle]:
    runtime = context.run.runtime
    handles = (runtime.get(each) for each in runtime.list_active())
    return [each for each in handles if each is not None and each.parent is not None]


def _describe_agent(agent: AgentHandle) -> str:
    return f"{visible(agent.name)}  {visible(str(agent.state))}  {agent.session_id}"


async def _follow(context: CommandContext, agent: AgentHandle) -> None:
    """Show what an agent has said, and from now on what it says, until it ends."""
    screen = context.screen
    for line in recap(await agent.history(), _RECAP):
        screen.print(render_recap(line, screen.scheme))
    context.start_soon(partial(_show_replies, context, agent))


async def _show_replies(context: CommandContext, agent: AgentHandle) -> None:
    async with agent.subscribe("none") as chunks:
        async for chunk in chunks:
            if isinstance(chunk, core.TextComplete):
                said = f"{visible(agent.name)}: {visible(chunk.text)}"
                context.screen.print(Text(said, context.screen.scheme.subagent))
                await context.screen.draw()


async def show_context(context: CommandContext, words: str) -> None:
    """Show what fills the model's window: system, tools, instructions, messages, free."""
    setup, counter = context.run.setup, EstimatedCounter()
    history = await context.handle.history()

    def count(**parts: object) -> int:
        request = ModelRequest(**{"messages": (), **parts})  # type: ignore[arg-type]
        return counter.count(request, model=setup.model.model)

    def count_parts() -> list[tuple[str, int]]:
        recalled = [each for each in history if each.sender == SUMMARY]
        return [
            ("system prompt", count(system=CODER_PROMPT)),
            ("tools", count(tools=setup.tools.definitions())),
            ("instructions", count(system=setup.instructions) if setup.instructions else 0),
            ("summary of what was compacted", count(messages=recalled) if recalled else 0),
            ("messages", count(messages=[m for m in history if m not in recalled])),
        ]

    parts = await trio.to_thread.run_sync(count_parts)
    window = (await find_window(setup.model)).tokens
    context.screen.print(*_draw_parts(context, parts, window))


def _draw_parts(
    context: CommandContext, parts: list[tuple[str, int]], window: int | None
) -> list[Text]:
    used = sum(count for _, count in parts)
    rows = [*parts, *([("free", max(window - used, 0))] if window else [])]
    whole = max(window or used, 1)
    about = f"of a window of {window:,}" if window else "the window is not known"
    lines = [Text(f"about {used:,} tokens, {about}", context.screen.scheme.note)]
    for name, count in rows:
        bar = "█" * round(_BAR * min(count / whole, 1))
        lines.append(Text(f"{bar:<{_BAR}} {count:>9,}  {name}"))
    return lines
