"""Commands of the input line about agents: `/compact`, `/agents`, `/context`, `/quit`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import trio
from rich.text import Text

from greenroom import core
from greenroom.agents._internal import CODER_PROMPT
from greenroom.cli.command_context import CommandContext
from greenroom.cli.formatting import one_line, recap
from greenroom.cli.markdown_view import render_markdown
from greenroom.cli.memory_command import MEMORY_TEXT, RECALL_TOOL
from greenroom.cli.painter import Prefixed
from greenroom.cli.render_chunk import render_recap
from greenroom.cli.staying import OutputReader, describe_command
from greenroom.core import ConfigurationError, Message, ModelRequest
from greenroom.core._internal import SUMMARY, visible
from greenroom.llm import EstimatedCounter, find_window
from greenroom.memory._internal import COMPACT
from greenroom.runtime import AgentHandle
from greenroom.tools._internal import StayingCommand

_RECAP = 6  # messages of an agent that are shown before what it says from now on
_NAME = len("summary of what was compacted")
_BAR = 24  # cells of the bar that shows how full the window is


async def compact(context: CommandContext, words: str) -> None:
    """Shorten the conversation; the words say what the summary has to keep in view."""
    about = {"about": words} if words else {}
    context.send(f"/compact {words}".rstrip(), {**COMPACT, **about})


async def leave(context: CommandContext, words: str) -> None:
    """Leave; the session stays."""
    context.leave()


async def show_agents(context: CommandContext, words: str) -> None:
    """List the agents that run, and commands in the background; follow, tell or stop one."""
    agents, commands = _subagents(context), context.run.setup.commands.running
    if not words:
        rows = [*map(_describe_agent, agents), *map(describe_command, commands)]
        context.screen.note("\n".join(rows) if rows else "no subagents are running")
        return
    by_name: dict[str, AgentHandle | StayingCommand] = {each.session_id: each for each in agents}
    by_name |= {each.name: each for each in agents}
    by_name |= {each.id: each for each in commands}
    # A name may hold blanks, and begin as another one does.
    named = [name for name in by_name if f"{words} ".startswith(f"{name} ")]
    if not named:
        known = ", ".join([each.name for each in agents] + [each.id for each in commands])
        raise ConfigurationError(
            f"no agent {one_line(words.split(maxsplit=1)[0])!r} is running",
            hint=f"these are: {known}; write /agents NAME follow" if known else "",
        )
    name = max(named, key=len)
    verb, _, text = words[len(name) :].strip().partition(" ")
    found = by_name[name]
    if isinstance(found, StayingCommand):
        _act_on_command(context, found, verb or "follow")
    else:
        await _act_on_agent(context, found, verb or "follow", text.strip())


async def _act_on_agent(context: CommandContext, agent: AgentHandle, verb: str, text: str) -> None:
    name, followed = visible(agent.name), context.run.followed
    match verb:
        case "follow" if agent.session_id in followed:
            followed[agent.session_id].cancel()
            context.screen.note(f"{name} is not followed any more")
        case "follow":
            await _follow(context, agent)
        case "say" if text:
            agent.send_input_nowait(text)
            context.screen.note(f"sent to {name}")
        case "stop":
            context.start_soon(partial(agent.shutdown, grace=2.0))
            context.screen.note(f"{name} is being stopped")
        case _:
            raise ConfigurationError(
                f"can't {one_line(f'{verb} {text}'.strip())!r} an agent",
                hint="follow, say TEXT or stop",
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
    with _remember_follower(context, agent.session_id):
        await _show_each_reply(context, agent)


@contextmanager
def _remember_follower(context: CommandContext, id_: str) -> Iterator[None]:
    """Follow one until the block ends, or the person asks for it again."""
    followed = context.run.followed
    with trio.CancelScope() as followed[id_]:
        try:
            yield
        finally:
            del followed[id_]


async def _show_each_reply(context: CommandContext, agent: AgentHandle) -> None:
    async with agent.subscribe("none") as chunks:
        async for chunk in chunks:
            if isinstance(chunk, core.TextComplete):
                screen = context.screen
                name = Text(f"{one_line(agent.name)} │ ", screen.scheme.subagent)
                screen.print(Prefixed(name, render_markdown(chunk.text, screen.scheme)))
                await screen.draw()


def _act_on_command(context: CommandContext, command: StayingCommand, verb: str) -> None:
    screen, followed = context.screen, context.run.followed
    match verb:
        case "follow" if command.id in followed:
            followed[command.id].cancel()
            screen.note(f"{command.id} is not followed any more")
        case "follow":
            screen.note(describe_command(command))
            context.start_soon(partial(_show_output, context, command))
        case "stop":
            command.end()
            screen.note(f"{command.id} is being ended")
        case _:
            raise ConfigurationError(
                f"can't {one_line(verb)!r} a command in the background", hint="follow or stop"
            )


async def _show_output(context: CommandContext, command: StayingCommand) -> None:
    """Print what a command prints, a part at a time, until it ends."""
    screen = context.screen
    with _remember_follower(context, command.id):
        reader = OutputReader(command, screen.scheme)
        while (part := await reader.read()) is not None:
            screen.print(part)
            await screen.draw()


async def show_context(context: CommandContext, words: str) -> None:
    """Show what fills the model's window: system, tools, instructions, memory, messages, free."""
    setup, counter = context.run.setup, EstimatedCounter()
    history = await context.handle.history()

    def count(**parts: object) -> int:
        request = ModelRequest(**{"messages": (), **parts})  # type: ignore[arg-type]
        return counter.count(request, model=setup.model.model)

    def count_parts() -> list[tuple[str, int]]:
        summed_up = [each for each in history if each.sender == SUMMARY]
        recalled = _find_recalled(history)
        rest = [each for each in history if each not in summed_up]
        instructions = setup.instructions.removesuffix(MEMORY_TEXT)
        memory = MEMORY_TEXT if instructions != setup.instructions else ""
        of_results = count(messages=recalled) if recalled else 0
        return [
            ("system prompt", count(system=CODER_PROMPT)),
            ("tools", count(tools=setup.tools.definitions())),
            ("instructions", count(system=instructions) if instructions else 0),
            ("memory", (count(system=memory) if memory else 0) + of_results),
            ("summary of what was compacted", count(messages=summed_up) if summed_up else 0),
            ("messages", max(count(messages=rest) - of_results, 0)),
        ]

    parts = await trio.to_thread.run_sync(count_parts)
    window = (await find_window(setup.model)).tokens
    context.screen.print(*_draw_parts(context, parts, window))


def _find_recalled(history: Sequence[Message]) -> list[Message]:
    """Return what has come from the memory, as messages of results alone."""
    calls = {call.id for each in history for call in each.tool_uses if call.name == RECALL_TOOL}
    results = [
        result for each in history for result in each.tool_results if result.tool_use_id in calls
    ]
    return [Message.user(results)] if results else []


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
        row = f"{count:>9,}  {name:<{_NAME}} {bar}".rstrip()
        lines.append(Text(row, no_wrap=True, overflow="crop"))
    return lines
