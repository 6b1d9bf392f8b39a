"""The steps of an `Agent`'s loop, from turn to turn, whichever agent has the conversation.

`Steps` has what spans a turn: the agent that was run, its budget and steps, the report, and the
agent that has the conversation. What depends on that agent, such as the model and the tools, is in
its `BoundAgent`. `StallDetector` ends a turn that leads nowhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import trio
from msgspec import UNSET
from msgspec.structs import replace

from greenroom.agents.agent_result import RunReport
from greenroom.agents.bound_agent import BoundAgent
from greenroom.agents.call_gate import run_tools
from greenroom.agents.callers import check_depth, find_caller, report_to
from greenroom.agents.cut_off import settle_calls
from greenroom.agents.errors import GuardError, NoProgressError
from greenroom.agents.handoff import Switches, Team, find_holder
from greenroom.agents.reply_end import ask_again, find_answer, warn_of_end
from greenroom.agents.run_context import RunContext, RunState
from greenroom.core import (
    BudgetExceededError,
    ContentBlock,
    Custom,
    Message,
    Resume,
    StopReason,
    TextBlock,
    ToolResult,
    ToolUseBlock,
)
from greenroom.core._internal import ConversationInput, ResultContent
from greenroom.llm import EstimatedCounter
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import Turn

if TYPE_CHECKING:
    from greenroom.resilience import Budget

_WARN_AT, _END_AT = 2, 5
"""So many equal calls with equal results in a row are a warning, and end the turn."""

_FAILURES = 3
"""So many calls in a row that could not run end the turn."""


class StallDetector:
    """Finds turns that lead nowhere: the same call again and again, or no call that can run."""

    def __init__(self) -> None:
        self._last: tuple[str, object, object] | None = None
        self._same = 0
        self._failed = 0
        # The counts at the last reply: so many of these results the model has seen.
        self._seen_same = 0
        self._seen_failed = 0

    def note(self, ended: Iterable[tuple[ToolUseBlock, ToolResult]]) -> list[ToolResult]:
        """Count the results of a reply's calls, and return them; repeated ones get a note.

        They are counted in the order of the calls, which is on record, and not in that of their
        ends, which is not: so a replay counts the same.
        """
        return [self._note(call, result) for call, result in ended]

    def _note(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        this = (call.name, call.raw_input if call.invalid else call.input, result.content)
        if this == self._last:
            self._same += 1
        else:
            self._last, self._same, self._seen_same = this, 1, 0
        if result.could_run and "raised" not in result.metadata:
            self._failed = self._seen_failed = 0
        else:
            self._failed += 1
        if self._same < _WARN_AT:
            return result
        note = TextBlock(f"[This is call {self._same}{_AGAIN}")
        return replace(result, content=(*result.content, note))

    @property
    def warning(self) -> str:
        """A sentence about the last call if it was repeated, else an empty text."""
        name = self._last[0] if self._last else ""
        return f"{name} was called {self._same} times in a row" if self._same >= _WARN_AT else ""

    def check(self) -> None:
        """End the turn if it leads nowhere; call this after the calls of each reply.

        The calls of a single reply don't count: the model has not seen their results yet.

        Raises:
            NoProgressError: the turn leads nowhere.
        """
        name = self._last[0] if self._last else ""
        if self._same >= _END_AT and self._seen_same:
            raise NoProgressError(
                f"{name} was called {self._same} times in a row, with the same input and result",
                hint="say in the instructions when the work is done, or give another tool",
            )
        if self._failed >= _FAILURES and self._seen_failed:
            raise NoProgressError(
                f"{self._failed} calls in a row could not run, the last one of {name}",
                hint="result.messages has their errors; result.denials says what was not allowed",
            )
        self._seen_same, self._seen_failed = self._same, self._failed


_AGAIN = (
    " of the same kind in a row, and its result is the same as before. Do something else, or say"
    " what stands in the way.]"
)


def without_note(content: Sequence[ResultContent]) -> tuple[ResultContent, ...]:
    """Return what a tool returned, without the note that a repeated result gets."""
    last = content[-1] if content else None
    has_note = isinstance(last, TextBlock) and last.text.endswith(_AGAIN)
    return tuple(content[:-1] if has_note else content)


DepsT = TypeVar("DepsT")

_USED_UP = "the agent's steps are used up"


class Steps(Generic[DepsT]):
    """The parts of an `Agent`'s loop, over the agents that share its conversation."""

    def __init__(
        self, team: Team[DepsT], internals: AgentInternals, deps: DepsT, report: RunReport
    ) -> None:
        """Bind the agents of a team to the internals of a run.

        Raises:
            ConfigurationError: a model can't be opened, or agents are nested too deep.
        """
        caller = find_caller(internals.context)
        self._above = caller.agents
        check_depth(team.first, self._above)
        self._team = team
        self._agent = team.first
        self._internals = internals
        self._state = RunState(internals, deps)
        internals.context.resources.insert(self._state)
        self._report = report
        self._report.above = caller.report
        self._members = {
            name: BoundAgent(agent, team.handoffs(agent), internals, self._context)
            for name, agent in team.members.items()
        }
        self._stalls = StallDetector()
        self._input: Sequence[ContentBlock] = ()
        self._budget: Budget | None = None
        self._counter = EstimatedCounter()
        self._answer: Message | None = None  # that was given before the turn was cut off
        self.value: object = UNSET
        """The output of the turn."""

    def find_current(self) -> "BoundAgent[DepsT, object]":
        """Return the agent that has the conversation; call this before each turn."""
        session, first = self._internals.session, self._agent.name
        holder = find_holder(session) or first
        self._missing_holder = "" if holder in self._members else holder
        self._switch_to(first if self._missing_holder else holder)
        busy = {name for name, agent in self._team.members.items() if agent in self._above}
        self._switches = Switches(session, self._current.name, self._team.max_switches, busy)
        return self._current

    def _switch_to(self, name: str) -> None:
        self._current = self._members[name]
        self._current.begin()
        self._report.agent = self._current.agent

    @contextmanager
    def turn(self, turn: Turn) -> Iterator[None]:
        """Begin the steps of a turn, and report how it ends."""
        self._state.step = 0
        self._stalls = StallDetector()
        report, budget = self._report, self._agent.budget
        if self._missing_holder:
            missing, name = self._missing_holder, self._agent.name
            text = f"{missing} had the conversation and is not here: {name} goes on"
            report.warnings.append(text)
            self._announce_handoff(missing, name, text)
        try:
            limits = budget.statistics().limits if budget else {}
            own = self._internals.budget(**limits) if limits else nullcontext()  # type: ignore[arg-type]
            with report_to(report), own as self._budget:
                yield
        except BaseException as error:
            report.fail(error)
            if isinstance(report.error, GuardError):
                text = report.error.message
                self._internals.send_nowait(Custom("guard.tripped", {"reason": text}, text))
            raise
        finally:
            report.steps = turn.steps
            self._report = RunReport(report.above)  # a report is about one turn

    async def begin(self, message: ConversationInput) -> None:
        """Check the input with the guards, or go on with calls that an earlier life left open."""
        self._input = ()
        if isinstance(message, Resume):
            self._answer = None if message.calls else find_answer(self._internals.session.history)
            await self._current.refresh_tools()
            tools = self._current.toolbox.registry
            await self.run_tools(await settle_calls(self._internals, message.calls, tools))
            return
        content: Sequence[ContentBlock] = message.content
        if self._current.checks_inputs:
            content = await self._current.take(message)
        self._input = content

    async def reply(self) -> Sequence[ToolUseBlock] | None:
        """Ask the model; return the calls to run, or None if the reply is the answer.

        At the last step the model can't call tools any more.

        Raises:
            ModelOutputError: the answer does not fit the `output_type`.
        """
        self._state.step += 1
        current, is_last = self._current, self._state.step >= self._agent.max_steps
        system = await self._prepare(current)
        self._check_tokens(system)
        warn = self._report.warnings.append
        reply, self._answer = self._answer, None
        if reply is None:
            try:
                reply = await current.reply(system, is_last=is_last, on_warning=warn)
            finally:
                self._report.warnings += current.take_warnings()
        is_pause = reply.stop_reason is StopReason.PAUSE
        cut_short = is_last and (current.has_tools or is_pause)
        self._report.is_truncated = cut_short or reply.stop_reason is StopReason.MAX_TOKENS
        if not is_last and (is_pause or not current.answer.is_in(reply)):
            return reply.tool_uses
        if current.agent.output is None:
            if not is_last and ask_again(self._internals, reply):
                return ()
            if warning := warn_of_end(self._internals, reply):
                self._report.warnings.append(warning)
        return self._read(reply, is_last=is_last)

    async def _prepare(self, current: "BoundAgent[DepsT, object]") -> str:
        """Get the tools and the instructions of a step, and meanwhile search for the input."""
        content, self._input = self._input, ()
        if not content or not current.has_memory:
            return await current.prepare()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(current.remind, content)
                system = await current.prepare()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            failure = group.exceptions[0]  # without the group, as it was raised
            raise failure from failure.__cause__
        return system

    def _read(self, reply: Message, *, is_last: bool) -> Sequence[ToolUseBlock] | None:
        """Read the answer; return None if it is valid, no calls if the model has to try again."""
        self.value, response = self._current.answer.read(reply, is_last=is_last)
        if response is not None:
            self._internals.session.add_message(response)
        self._internals.session.conversation.pair_tool_uses(_USED_UP)
        if self.value is UNSET:
            return ()
        if self.value == "" and not self._current.checks_outputs:  # guards did not check that text
            self.value = self._last_text()
        self._report.output = self.value
        return None

    def _announce_handoff(self, giver: str, taker: str, text: str) -> None:
        self._internals.send_nowait(Custom("handoff", {"from": giver, "to": taker}, text))

    def _check_tokens(self, system: str) -> None:
        """Refuse a request that, by a rough estimate, exceeds the turn's budget.

        Raises:
            BudgetExceededError: it would exceed it.
        """
        limits = self._budget.remaining if self._budget else {}
        left = min(limits.get("tokens", inf), limits.get("input_tokens", inf))
        if left == inf:
            return
        estimate = self._counter.count([Message.user(system), *self._internals.session.history])
        if estimate > left:
            raise BudgetExceededError(
                f"the budget of {self._agent.name} has {left:g} tokens left, and the next request"
                f" takes about {estimate:.0f}",
                hint="raise the budget, or begin a new session",
            )

    async def run_tools(self, calls: Sequence[ToolUseBlock]) -> None:
        """Run the calls of a reply, and check that the turn makes progress.

        If one of them passes the conversation on, the agent that gets it makes the next step.

        Raises:
            NoProgressError: the turn leads nowhere.
            HandoffLimitError: the conversation was passed on too often.
        """
        if not calls:
            return
        current, switches = self._current, self._switches
        try:
            await run_tools(
                self._internals,
                calls,
                current.toolbox.registry,
                current.permissions,
                on_result=partial(self._note, current),
                on_end=self._stalls.note,
            )
        finally:  # the session has recorded the handoff, even if the turn ends here
            if switches.last != current.name:
                self._switch_to(switches.last)
                text = f"{current.name} passes the conversation to {switches.last}"
                self._announce_handoff(current.name, switches.last, text)
        if warning := self._stalls.warning:
            self._report.warnings.append(warning)
        switches.check()
        self._stalls.check()

    def _note(
        self, caller: "BoundAgent[DepsT, object]", call: ToolUseBlock, result: ToolResult
    ) -> ToolResult:
        handoff = caller.handoffs.get(call.name)
        if handoff is not None and not result.is_error:
            result = self._switches.note(caller.name, handoff.target, result)
        self._report.note(call, result, self._internals.lineage)
        return result

    def _last_text(self) -> str:
        """Return the model's last text in this turn, for an answer that has none."""
        for message in reversed(self._internals.session.history):
            if message.role == "user" and not message.tool_results:
                break
            if message.role == "assistant" and message.text:
                return message.text
        return ""

    def _context(self) -> RunContext[DepsT]:
        return cast("RunContext[DepsT]", self._state.context())
