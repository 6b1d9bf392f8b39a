"""The steps of an `Agent`: what each model call is given, and how its tool calls are judged and run."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, cast

import trio
from msgspec import UNSET

from greenroom.agents.agent_result import RunReport
from greenroom.agents.answer import TextAnswer, TypedAnswer
from greenroom.agents.caller import (
    calling,
    current_report,
    join_chain,
    reporting_to,
)
from greenroom.agents.guarded_stream import GuardedStream
from greenroom.agents.guards import Guards, note_unseen, rejected
from greenroom.agents.models import find_model
from greenroom.agents.progress import Progress
from greenroom.agents.reply import stream_reply
from greenroom.agents.run_context import RunContext, RunState
from greenroom.agents.tool_calls import run_tools
from greenroom.agents.toolbox import Toolbox, check_tools
from greenroom.core import (
    BudgetExceededError,
    ContentBlock,
    ConversationInput,
    Custom,
    GreenroomError,
    GuardError,
    Message,
    Resume,
    StopReason,
    ToolResult,
    ToolUseBlock,
    UserInput,
    leaves,
)
from greenroom.llm import EstimatedCounter, ModelStream
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals, Turn

if TYPE_CHECKING:
    from greenroom.agents.agent import Agent

__all__ = ["Steps"]

T = TypeVar("T")
DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")

_USED_UP = "the agent's steps are used up"


class _Limits(TypedDict, total=False):
    seconds: float
    tokens: int
    cost: float
    model_calls: int
    tool_calls: int
    concurrency: int


class Steps(Generic[DepsT, OutputT]):
    """One life of an `Agent`: the parts that its loop is made of."""

    def __init__(
        self,
        agent: "Agent[DepsT, OutputT]",
        internals: AgentInternals,
        deps: DepsT,
        report: RunReport,
    ) -> None:
        """Bind a configuration to an agent that runs.

        Raises:
            ConfigurationError: its model can't be opened; or too many agents run inside of each other.
        """
        is_subagent = internals.context.parent_session_id is not None
        join_chain(agent, is_subagent=is_subagent)
        self._agent = agent
        self._internals = internals
        self._report_above = current_report() if is_subagent else None
        self._llm = find_model(agent.llm, internals.context.resources)
        self._state = RunState(internals, deps)
        internals.context.resources.insert(self._state)
        self._report = report
        self._report.above = self._report_above
        self._guards = Guards(agent.guards, self._context)
        self._tools = agent.toolbox
        self._permissions = self._tools.permissions(agent.permissions, internals.context)
        self._given: tuple[object, ...] | None = None
        self._progress = Progress()
        self._answer = self._new_answer()
        self._budget: Budget | None = None
        self._counter = EstimatedCounter()
        self.value: object = UNSET
        """What the turn comes to."""

    def _new_answer(self) -> "TextAnswer | TypedAnswer[OutputT]":
        output = self._agent.output
        if output is None:
            return TextAnswer()
        return TypedAnswer(output, self._llm, self._agent.output_retries)

    @contextmanager
    def turn(self, turn: Turn) -> Iterator[None]:
        """Begin with the first step of a turn, and write down what ends it."""
        self._state.step = 0
        self._progress = Progress()
        self._answer = self._new_answer()
        report, budget = self._report, self._agent.budget
        try:
            with calling(self._internals, self._permissions), reporting_to(report):
                with self._internals.budget(**_limits(budget)) if budget else nullcontext() as own:
                    self._budget = own
                    yield
        except BaseException as error:
            found = leaves(error)
            report.error = next((e for e in found if isinstance(e, GreenroomError)), None)
            if isinstance(report.error, GuardError):
                text = report.error.message
                self._internals.send_nowait(Custom("guard.tripped", {"reason": text}, text))
            report.has_crashed = any(not _ends_a_turn(each) for each in found)
            raise
        finally:
            report.steps = turn.steps
            self._report = RunReport(self._report_above)  # a run is about one turn

    async def begin(self, message: ConversationInput) -> None:
        """Let the guards look at the input; or go on with the calls that an earlier life has left open."""
        if isinstance(message, Resume):
            await self._refresh_tools()
            await self.run_tools(message.calls)
        elif self.looks_at_input:
            await self._take(message)

    @property
    def looks_at_input(self) -> bool:
        """Whether it is here that an input joins the conversation, once the guards have seen it."""
        return bool(self._guards.of("input"))

    async def _take(self, message: ConversationInput) -> None:
        sender = message.sender if isinstance(message, UserInput) else ""
        said, session = tuple[ContentBlock, ...](message.content), self._internals.session
        is_seen = False
        try:
            await self._guards.judge_unseen(session)
            said, is_seen = await self._guards.judge_input(message), True
        except GuardError as error:
            said, is_seen = rejected(error), True
            raise
        finally:  # an interrupt takes no message away
            session.add_message(Message.user(said, id=message.id, sender=sender))
            if not is_seen:
                note_unseen(session, message.id)

    async def reply(self) -> Sequence[ToolUseBlock] | None:
        """Ask the model; return the calls that it wants to be run, or None where it has answered.

        At the last step no more tools can be called.

        Raises:
            ModelOutputError: what it answers does not fit the `output_type`.
        """
        self._state.step += 1
        await self._refresh_tools()
        system = await self._value(self._agent.instructions)
        self._check_tokens(system)
        has_tools = bool(self._tools.registry.list_tools())
        is_last = self._state.step >= self._agent.max_steps
        reply = await stream_reply(
            self._internals,
            self._llm,
            self._tools.registry if has_tools else None,
            system=system,
            tool_choice=self._answer.choice(has_tools=has_tools, is_last=is_last),
            output=self._answer.schema,
            answer_tool=self._answer.tool,
            watch=self._watch(is_last=is_last),
        )
        is_pause = reply.stop_reason is StopReason.PAUSE
        cut_short = is_last and (has_tools or is_pause)
        self._report.is_truncated = cut_short or reply.stop_reason is StopReason.MAX_TOKENS
        if not is_last and (is_pause or not self._answer.is_in(reply)):
            return reply.tool_uses
        return self._read(reply, is_last=is_last)

    def _watch(self, *, is_last: bool) -> Callable[[ModelStream], ModelStream] | None:
        if not self._agent.guards:
            return None
        return partial(GuardedStream, guards=self._guards, is_last=is_last)

    def _read(self, reply: Message, *, is_last: bool) -> Sequence[ToolUseBlock] | None:
        """Take the answer of a reply; where it does not fit, there is nothing to run but to ask again."""
        self.value, told = self._answer.read(reply, is_last=is_last)
        if told is not None:
            self._internals.session.add_message(told)
        self._internals.session.pair_tool_uses(_USED_UP)
        if self.value is UNSET:
            return ()
        if self.value == "" and not self._guards.of("output"):  # these have not seen that one
            self.value = self._last_text()
        self._report.output = self.value
        return None

    def _check_tokens(self, system: str) -> None:
        """Refuse a request that, by a rough estimate, goes beyond the turn's budget.

        Raises:
            BudgetExceededError: it would.
        """
        left = self._budget.left.get("tokens") if self._budget else None
        if left is None:
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

        Raises:
            NoProgressError: they do not.
        """
        if calls:
            await run_tools(
                self._internals,
                calls,
                self._tools.registry,
                self._permissions,
                on_result=self._note,
            )
            if warning := self._progress.warning:
                self._report.warnings.append(warning)
            self._progress.check()

    def _note(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        self._report.note(call, result, self._internals.lineage)
        return self._progress.note(call, result)

    def _last_text(self) -> str:
        """Return what the model has said last in this turn, where its last reply has no text."""
        for message in reversed(self._internals.session.history):
            if message.role == "user" and not message.tool_results:
                break
            if message.role == "assistant" and message.text:
                return message.text
        return ""

    async def _refresh_tools(self) -> None:
        """Ask which tools there are at this step, where that is for a function to say."""
        tools = self._agent.tools
        if not callable(tools):
            return
        given: tuple[object, ...] = tuple(await self._value(tools))
        if given != self._given:
            self._given, self._tools = given, Toolbox.of(given)
            check_tools(given, self._agent.deps_type)
            context = self._internals.context
            self._permissions = self._tools.permissions(self._agent.permissions, context)

    def _context(self) -> RunContext[DepsT]:
        return cast("RunContext[DepsT]", self._state.context())

    async def _value(self, given: "T | Callable[[RunContext[DepsT]], T | Awaitable[T]]") -> T:
        """Return a value of the configuration, or what its function says of it now."""
        if not callable(given):
            return given
        value = given(self._context())
        return await value if inspect.isawaitable(value) else value


def _limits(budget: Budget) -> _Limits:
    """Return the limits of a budget, of which each turn makes one of its own."""
    return cast("_Limits", budget.statistics().limits)


def _ends_a_turn(error: BaseException) -> bool:
    """Whether an error ends a turn, and not the agent."""
    return isinstance(error, GreenroomError | trio.Cancelled)
