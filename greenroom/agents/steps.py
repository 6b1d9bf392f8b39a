"""The steps of an `Agent`: one life of it, from turn to turn, whichever agent has the conversation.

What belongs to the agent that makes a step, such as its model and its tools, is its `Speaker`. What
spans the turn is here: the agent that was run, its budget and its steps, the report, and who
speaks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from msgspec import UNSET
from msgspec.structs import replace

from greenroom.agents.agent_result import RunReport
from greenroom.agents.bound_agent import BoundAgent
from greenroom.agents.handoff import Switches, Team, find_holder
from greenroom.agents.run_context import RunContext, RunState
from greenroom.agents.tool_calls import check_depth, find_caller, report_to, run_tools
from greenroom.core import (
    BudgetExceededError,
    ContentBlock,
    ConversationInput,
    Custom,
    GuardError,
    Message,
    NoProgressError,
    Resume,
    StopReason,
    TextBlock,
    ToolResult,
    ToolUseBlock,
)
from greenroom.llm import EstimatedCounter
from greenroom.runtime import AgentInternals, Turn

if TYPE_CHECKING:
    from greenroom.resilience import Budget

# -- progress: a turn in which the same call comes again and again, or no call can run, is ended
# ----

_WARN_AT, _END_AT = 2, 5
"""So many times the same call with the same result, and no other between."""

_FAILURES = 3
"""So many calls in a row that could not run."""


class StallDetector:
    """Looks at the results of one turn's calls, in the order in which they come."""

    def __init__(self) -> None:
        """Begin without any."""
        self._last: tuple[str, object, object] | None = None
        self._same = 0
        self._failed = 0
        # How many of either the model has seen, as it has those of the replies before.
        self._seen_same = 0
        self._seen_failed = 0

    def note(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        """Take a result into account; where the call is the same as before, it says so."""
        this = (call.name, call.raw_input if call.invalid else call.input, result.content)
        if this == self._last:
            self._same += 1
        else:
            self._last, self._same, self._seen_same = this, 1, 0
        if result.could_run:
            self._failed = self._seen_failed = 0
        else:
            self._failed += 1
        if self._same < _WARN_AT:
            return result
        note = TextBlock(
            f"[This is call {self._same} of the same kind in a row, and its result is the same as"
            " before. Do something else, or say what stands in the way.]"
        )
        return replace(result, content=(*result.content, note))

    @property
    def warning(self) -> str:
        """What to say of the last call: that it is the one before once more; empty where it is not."""
        name = self._last[0] if self._last else ""
        return f"{name} was called {self._same} times in a row" if self._same >= _WARN_AT else ""

    def check(self) -> None:
        """End the turn if it leads nowhere; called after the calls of each reply.

        The calls of a single reply are no reason: the model has not seen yet what came of them.

        Raises:
            NoProgressError: it does.
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


# -- the steps
# --------------------------------------------------------------------------------------

DepsT = TypeVar("DepsT")

_USED_UP = "the agent's steps are used up"


class Steps(Generic[DepsT]):
    """One life of an `Agent`, with the agents to which it hands off: the parts that its loop is made of."""

    def __init__(
        self, team: Team[DepsT], internals: AgentInternals, deps: DepsT, report: RunReport
    ) -> None:
        """Bind configurations to an agent that runs.

        Raises:
            ConfigurationError: a model can't be opened; or too many agents run inside of each
                other.
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
        self._budget: Budget | None = None
        self._counter = EstimatedCounter()
        self.value: object = UNSET
        """The output of the turn."""

    def find_current(self) -> "BoundAgent[DepsT, object]":
        """Return the agent that has the conversation, as the session says; called before each turn."""
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
        """Begin with the first step of a turn, and write down what ends it."""
        self._state.step = 0
        self._stalls = StallDetector()
        report, budget = self._report, self._agent.budget
        if self._missing_holder:
            text = f"{self._missing_holder} had the conversation and is not here: {self._agent.name} goes on"
            report.warnings.append(text)
            self._tell_of_handoff(self._missing_holder, self._agent.name, text)
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
            self._report = RunReport(report.above)  # a run is about one turn

    async def begin(self, message: ConversationInput) -> None:
        """Let the guards look at the input; or go on with the calls that an earlier life has left open."""
        if isinstance(message, Resume):
            await self._current.refresh_tools()
            await self.run_tools(message.calls)
            return
        said: Sequence[ContentBlock] = message.content
        if self._current.looks_at_input:
            said = await self._current.take(message)
        await self._current.remind(said)

    async def reply(self) -> Sequence[ToolUseBlock] | None:
        """Ask the model; return the calls that it wants to be run, or None where it has answered.

        At the last step no more tools can be called.

        Raises:
            ModelOutputError: what it answers does not fit the `output_type`.
        """
        self._state.step += 1
        current, is_last = self._current, self._state.step >= self._agent.max_steps
        await current.refresh_tools()
        system = await current.instructions()
        self._check_tokens(system)
        reply = await current.reply(system, is_last=is_last)
        is_pause = reply.stop_reason is StopReason.PAUSE
        cut_short = is_last and (current.has_tools or is_pause)
        self._report.is_truncated = cut_short or reply.stop_reason is StopReason.MAX_TOKENS
        if not is_last and (is_pause or not current.answer.is_in(reply)):
            return reply.tool_uses
        return self._read(reply, is_last=is_last)

    def _read(self, reply: Message, *, is_last: bool) -> Sequence[ToolUseBlock] | None:
        """Take the answer of a reply; where it does not fit, there is nothing to run but to ask again."""
        self.value, told = self._current.answer.read(reply, is_last=is_last)
        if told is not None:
            self._internals.session.add_message(told)
        self._internals.session.conversation.pair_tool_uses(_USED_UP)
        if self.value is UNSET:
            return ()
        if self.value == "" and not self._current.looks_at_output:  # they have not seen that one
            self.value = self._last_text()
        self._report.output = self.value
        return None

    def _tell_of_handoff(self, giver: str, taker: str, text: str) -> None:
        self._internals.send_nowait(Custom("handoff", {"from": giver, "to": taker}, text))

    def _check_tokens(self, system: str) -> None:
        """Refuse a request that, by a rough estimate, goes beyond the turn's budget.

        Raises:
            BudgetExceededError: it would.
        """
        limits = self._budget.remaining if self._budget else {}
        left = min(limits.get("tokens", inf), limits.get("input_tokens", inf))
        if left == inf:
            return
        estimate = self._counter.count([Message.user(system), *self._internals.session.history])
        if estimate > left:
            raise BudgetExceededError(
                f"the budget of {self._agent.name} has {left:g} tokens left, and the next request takes"
                f" about {estimate:.0f}",
                hint="raise the budget, or begin a new session",
            )

    async def run_tools(self, calls: Sequence[ToolUseBlock]) -> None:
        """Run the calls of a reply, and see whether they lead anywhere.

        Where one of them passes the conversation on, the next step is made by the agent that got
        it.

        Raises:
            NoProgressError: they do not.
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
            )
        finally:  # what the session says counts, even if the turn ends here
            if switches.last != current.name:
                self._switch_to(switches.last)
                text = f"{current.name} passes the conversation to {switches.last}"
                self._tell_of_handoff(current.name, switches.last, text)
        if warning := self._stalls.warning:
            self._report.warnings.append(warning)
        switches.check()
        self._stalls.check()

    def _note(
        self, asker: "BoundAgent[DepsT, object]", call: ToolUseBlock, result: ToolResult
    ) -> ToolResult:
        handoff = asker.handoffs.get(call.name)
        if handoff is not None and not result.is_error:
            result = self._switches.note(asker.name, handoff.target, result)
        self._report.note(call, result, self._internals.lineage)
        return self._stalls.note(call, result)

    def _last_text(self) -> str:
        """Return what the model has said last in this turn, where its last reply has no text."""
        for message in reversed(self._internals.session.history):
            if message.role == "user" and not message.tool_results:
                break
            if message.role == "assistant" and message.text:
                return message.text
        return ""

    def _context(self) -> RunContext[DepsT]:
        return cast("RunContext[DepsT]", self._state.context())
