"""`pipeline`, `parallel` and `loop`: agents in sequence, in parallel, or until the output is good.

Each returns a `Pattern`, which can itself be a member of another one.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from msgspec import UNSET

from greenroom.core import ConfigurationError, Custom
from greenroom.core._internal import serde
from greenroom.flow.errors import TeamError
from greenroom.flow.graph import is_count
from greenroom.flow.members import Member, name_members
from greenroom.flow.pattern import Pattern, TeamTurn

if TYPE_CHECKING:
    from greenroom.flow.resume import Content

T = TypeVar("T")

LOOP_ROUND = "loop.round"
"""The kind of the chunk at the end of each round of a `loop`."""

Join: TypeAlias = Callable[[dict[str, object]], object | Awaitable[object]]
"""Combines the outputs of several agents, by name."""

Until: TypeAlias = Callable[[object], bool | str | Awaitable[bool | str]]
"""Judges an output: True if it is good, else False or feedback for the agent."""


def pipeline(*agents: Member, name: str = "pipeline", description: str = "") -> Pattern:
    """Run agents in sequence: the output of each is the input of the next.

    The first gets the original input. Each of the others gets the output of the one before, as JSON
    unless it is a text, with that agent as the sender. The last output is that of the pipeline. A
    failure ends it.

    Args:
        *agents: agent functions, in their order.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.

    Raises:
        ConfigurationError: there are no agents, or one has an invalid name.
        TypeError: one of them is not an agent function.

    Example:
        >>> from greenroom import Agent
        >>>
        >>> from greenroom.testing import ScriptedProvider
        >>> researcher = Agent(ScriptedProvider("Cats sleep 13 hours."), name="researcher")
        >>> writer = Agent(ScriptedProvider("Half the day, a cat is away."), name="writer")
        >>> pipeline(researcher, writer).run_sync("Write about cats.").output
        'Half the day, a cat is away.'
    """
    members = name_members(agents)

    async def work(team: TeamTurn) -> object:
        output: object = None
        content: Content = team.message.content
        sender = team.sender
        for each, member in members.items():
            output = await team.ask(member, content, name=each, sender=sender)
            content, sender = serde.to_text(output), each
        return output

    return Pattern(name, work, description=description)


def parallel(
    *agents: Member,
    join: Join | None = None,
    on_failure: Literal["end", "leave_out"] = "end",
    name: str = "parallel",
    description: str = "",
) -> Pattern:
    """Give several agents the same input, in parallel.

    It takes as long as the slowest of them. All of them start at once, as far as there is room
    (`RuntimeLimits.subagents`); the others wait.

    Args:
        *agents: agent functions; a second one of the same name is called "writer 2".
        join: a function, async or not, that combines the outputs, a dict by name in the order of
            the agents. By default the dict is the output.
        on_failure: with "end", a failure ends the other agents and the turn. With "leave_out", its
            output is missing and the result has a warning; the turn fails only if all agents fail.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.

    Raises:
        ConfigurationError: there are no agents, one has an invalid name, or `on_failure` is another
            word.
        TypeError: one of them is not an agent function.

    Example:
        >>> from greenroom import Agent
        >>>
        >>> from greenroom.testing import ScriptedProvider
        >>> optimist = Agent(ScriptedProvider("It will be sunny."), name="optimist")
        >>> pessimist = Agent(ScriptedProvider("It will rain."), name="pessimist")
        >>> parallel(optimist, pessimist).run_sync("How will it be?").output
        {'optimist': 'It will be sunny.', 'pessimist': 'It will rain.'}
    """
    members = name_members(agents)
    if on_failure not in ("end", "leave_out"):
        raise ConfigurationError(f"on_failure={on_failure!r} is neither 'end' nor 'leave_out'")

    async def work(team: TeamTurn) -> object:
        def warn(error: TeamError) -> None:
            team.report.warnings.append(error.message)

        outputs = await team.ask_all(members, None if on_failure == "end" else warn)
        if not outputs:
            raise TeamError("; ".join(team.report.warnings))
        return outputs if join is None else await _await_value(join(outputs))

    return Pattern(name, work, description=description)


def loop(
    agent: Member,
    until: Until | None = None,
    *,
    max_rounds: int = 10,
    name: str = "loop",
    description: str = "",
) -> Pattern:
    """Ask an agent again until its output is good.

    All rounds are in one conversation, so the agent knows the original input. After `max_rounds`
    the last output counts, and the result has `is_truncated` and a warning. Each round ends with a
    `Custom("loop.round")` chunk.

    Args:
        agent: an agent function; for several agents, a pattern such as a `pipeline`.
        until: a function, async or not, of an output: a text is the agent's next input, anything
            else that is true ends the loop, and after False the next input is its own output. By
            default the loop ends when two outputs in a row are equal.
        max_rounds: the most rounds; after the last one its output counts.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.

    Raises:
        ConfigurationError: `max_rounds` is below 1, or the agent's name is invalid.
        TypeError: it is not an agent function.

    Example:
        >>> from greenroom import Agent
        >>>
        >>> from greenroom.testing import ScriptedProvider
        >>> poet = Agent(ScriptedProvider("The sea is wide.", "The sea is wide and deep."))
        >>> def is_long(line: object) -> bool | str:
        ...     return len(str(line)) > 20 or "Longer."
        >>> loop(poet, is_long).run_sync("A line about the sea.").output
        'The sea is wide and deep.'
    """
    [(each, member)] = name_members([agent]).items()
    if not is_count(max_rounds):
        raise ConfigurationError(f"max_rounds is {max_rounds!r}", hint="1 asks once")

    async def work(team: TeamTurn) -> object:
        before: object = UNSET
        output: object = UNSET
        content: Content = team.message.content
        sender = team.sender
        async with team.talk_to(member, each) as talk:
            for number in range(1, max_rounds + 1):
                output = await talk.ask(content, sender)
                verdict = output == before if until is None else await _await_value(until(output))
                feedback = verdict if isinstance(verdict, str) else ""
                # A match, or a bool of numpy, is true, too.
                is_good = bool(verdict) and not feedback
                _report_round(team, number, max_rounds, is_over=is_good)
                if is_good:
                    break
                before, sender = output, name
                content = feedback or serde.to_text(output)
        return output

    return Pattern(name, work, description=description)


def _report_round(team: TeamTurn, number: int, max_rounds: int, *, is_over: bool) -> None:
    reason = "done" if is_over else "limit" if number == max_rounds else "again"
    text = {
        "done": f"round {number}: it is good",
        "limit": f"round {number}: the limit, whether it is good or not",
        "again": f"round {number} of at most {max_rounds}",
    }[reason]
    team.agent.send_nowait(Custom(LOOP_ROUND, {"round": number, "reason": reason}, text))
    if reason == "limit":
        team.report.is_truncated = True
        team.report.warnings.append(text)


async def _await_value(given: T | Awaitable[T]) -> T:
    return await given if inspect.isawaitable(given) else given
