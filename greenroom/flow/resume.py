"""Find out what work that was cut off left behind, ask a person where that is in doubt, and go on.

Work is cut off when the process is killed or its turn interrupted. A call is on record before it
starts, so the session of the work shows what may have had an effect:

    a result        it is taken
    nothing, words  the work is done, or goes on, unasked
    a doubt         a call had started and has no result; or the work keeps no record of what it
                    does, such as an agent without a model. A person is asked about each such call

The answer to a doubt is one of three. *Allow*: it did not run, so run it. *Deny* with the input
`{"result": value}`: it ran, and this was its result; None if nobody knows. *Deny*: leave the work
out. The answers mend a copy of the conversation: a call that ran gets its result, one that did not
run is left open and is the first thing that the next agent does. That agent never has to guess.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Never, Protocol, TypeAlias, runtime_checkable

import msgspec
import trio
from msgspec import UNSET

from greenroom.agents import Runnable
from greenroom.agents._internal import (
    CUT_OFF,
    GO_ON,
    ask_in_doubt,
    copy_session,
    find_lives,
    is_answered,
    last_reply,
    mend_calls,
    read_stated_result,
    to_json_value,
)
from greenroom.core import (
    Answer,
    BudgetExceededError,
    ContentBlock,
    Done,
    Error,
    Resume,
    SessionNotFoundError,
    StopReason,
    ToolUseBlock,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import (
    AUTOMATIC_DECIDERS,
    RUNTIME,
    ConversationInput,
    describe_error,
    freeze_fields,
    strip_partials,
)
from greenroom.flow.references import read_value
from greenroom.flow.unit import WORKFLOW_STEP, Start
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult
from greenroom.runtime._internal import try_ask
from greenroom.session import AgentSession, SessionCorruptError
from greenroom.session._internal import is_stand_in, may_have_run

FLOW_RECORDS = ("plan.step", WORKFLOW_STEP)
"""The kinds of records of agents that know themselves how far they are."""

Content: TypeAlias = str | Iterable[ContentBlock]
"""The input of an agent: a text, or content blocks."""


@dataclass(frozen=True)
class Trace:
    """What a piece of work that was cut off left behind.

    Attributes:
        kind: "nothing" if it can be repeated safely, "result" if it ended, or "unsure".
        session: the conversation to continue, if any.
        result: its result, if any.
        error: its error, if it failed.
        doubt: what may have happened.
        calls: the calls in the conversation that may have run.
    """

    kind: Literal["nothing", "result", "unsure"]
    session: AgentSession | None = None
    result: object = None
    error: str = ""
    doubt: str = ""
    calls: tuple[ToolUseBlock, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self, "result")


NOTHING = Trace("nothing")

Inspect: TypeAlias = Callable[[AgentSession], Trace]
"""Finds out what a session shows, such as `trace_call`."""


async def find_trace(session_id: str, parent: AgentSession, inspect: Inspect) -> Trace:
    """Find out what a piece of work that was cut off left behind, by its session.

    Args:
        session_id: the session in which it ran.
        parent: the session of the agent whose work it is.
        inspect: returns what a session shows; it gets an empty session if none was stored.

    Raises:
        SessionError: the store can't be read.
    """
    try:
        session = await AgentSession.load(session_id, store=parent.store)
    except SessionNotFoundError:
        # A call is stored before it starts; what an agent does before its first model call is not.
        return replace(inspect(AgentSession.new("unstored", session_id=session_id)), session=None)
    except SessionCorruptError:
        return Trace("unsure", doubt="its session is damaged")
    if session.parent_session_id not in find_lives(parent):
        return Trace("unsure", doubt="it ran in another session, of which this is a fork")
    return inspect(session)


def trace_call(session: AgentSession) -> Trace:
    """Find out what became of the only call in a session."""
    reply, results = last_reply(session)
    calls = reply.tool_uses if reply else ()
    if not calls or not results:
        return NOTHING
    result, name = results[-1], calls[-1].name
    if may_have_run(result):
        return Trace("unsure", session, doubt=f"the call of {name} had started")
    if is_stand_in(result):
        return Trace("nothing", session)
    if result.is_error:
        return Trace("result", error=result.text)
    return Trace("result", result=read_value(result.text))


def trace_worker(session: AgentSession, member: Runnable[Never, object] | None = None) -> Trace:
    """Find out what became of an agent, of which nothing but its session may be known.

    A `Runnable` does nothing before it uses a model or a member, and knows its own answers.
    """
    reply, results = last_reply(session)
    if doubtful := {each.tool_use_id for each in results if may_have_run(each)}:
        calls = tuple(call for call in (reply.tool_uses if reply else ()) if call.id in doubtful)
        if member and calls and all(map(member.continues, calls)):
            return Trace("nothing", session)
        if member:
            calls = tuple(call for call in calls if not member.continues(call))
        names = ", ".join(call.name for call in calls) or "a tool"
        return Trace("unsure", session, doubt=f"the call of {names} had started", calls=calls)
    if member and (answer := member.read_answer(session)) is not UNSET:
        return Trace("result", session, to_json_value(answer))
    if reply and is_answered(session) and reply.stop_reason is not StopReason.MAX_TOKENS:
        return Trace("result", session, read_value(reply.text) if is_flow(session) else reply.text)
    if member or session.model or is_flow(session):
        return Trace("nothing", session)
    return Trace("unsure", session, doubt="its agent had begun")


def find_input(session: AgentSession, message: ConversationInput) -> ConversationInput:
    """Return an input; if it says no more than to go on, what was asked before instead."""
    if isinstance(message, Resume):
        message = UserInput((), message.id)
    elif not isinstance(message, UserInput) or (message.sender, message.text) != (RUNTIME, GO_ON):
        return message
    for each in reversed(session.history):
        if each.role == "user" and each.content and each.sender != RUNTIME:
            return msgspec.structs.replace(message, content=each.content, sender=each.sender)
    return message


def is_flow(session: AgentSession) -> bool:
    """Whether a session belongs to a plan or a workflow, which continues by its own records."""
    return any(session.last_record(kind) is not None for kind in FLOW_RECORDS)


@runtime_checkable
class Inspectable(Protocol):
    """An agent function that knows better than `trace_worker` what a session of it shows."""

    def inspect(self, session: AgentSession) -> Trace:
        """Find out what became of an agent that ran this function."""


def find_inspection(member: object) -> Inspect:
    """Return the function that inspects the sessions of an agent function."""
    inner = strip_partials(member)
    if isinstance(inner, Inspectable):
        return inner.inspect
    return partial(trace_worker, member=inner) if isinstance(inner, Runnable) else trace_worker


answers_ahead: ContextVar[Callable[[], Answer | None]] = ContextVar(
    "greenroom_flow_answers", default=lambda: None
)
"""Returns, once, an answer that was given in advance for all that is run here."""


class Settlement(NamedTuple):
    """What a person says about work in doubt.

    Attributes:
        refusal: the answer that leaves the work out, or by which nobody has answered.
        result: the result of the work, if it ran; else `msgspec.UNSET`.
        results: the results of calls in its conversation that ran, by the calls' ids.
    """

    refusal: Answer | None = None
    result: object = UNSET
    results: Mapping[str, object] = {}

    @property
    def is_unanswered(self) -> bool:
        """Whether no person has answered, but may do so later."""
        return self.refusal is not None and self.refusal.by in AUTOMATIC_DECIDERS


@dataclass(frozen=True)
class Doubt:
    """A piece of work that may have had an effect, and the questions about it.

    Attributes:
        action: what would be done, such as "Run the subtask flight again".
        about: what the work is, for people: its goal or its item.
        tool_name: the tool of the work, or a word for the kind of work.
        input: the arguments of the work.
        start: its last start.
        doubt: why it may have had its effect, in a sentence.
        calls: the calls in doubt; if there are none, the question is about all of the work.
        reason: why a person is asked.
    """

    action: str
    about: str
    tool_name: str
    input: dict[str, object]
    start: Start
    doubt: str
    calls: tuple[ToolUseBlock, ...] = ()
    reason: str = CUT_OFF

    async def settle(self, agent: AgentInternals) -> Settlement:
        """Ask whoever answers for an agent about each call in doubt, or else about all the work."""
        if not self.calls:
            answer = await self._ask(agent, self.tool_name, self.input)
            return Settlement(_refusal(answer), read_stated_result(answer))
        results: dict[str, object] = {}
        for call in self.calls:
            answer = await self._ask(agent, call.name, dict(call.input))
            if refusal := _refusal(answer):
                return Settlement(refusal)
            if (result := read_stated_result(answer)) is not UNSET:
                results[call.id] = result
        return Settlement(results=results)

    async def _ask(
        self,
        agent: AgentInternals,
        tool_name: str,
        input: dict[str, object],  # noqa: A002 (as in the request)
    ) -> Answer:
        """Ask one question, unless the answer was given ahead."""
        await trio.lowlevel.checkpoint()
        if given := answers_ahead.get()():
            return given
        details = "\n".join(filter(None, (self.about, self.doubt, str(self.start))))
        return await ask_in_doubt(
            agent, tool_name, input, action=self.action, details=details, reason=self.reason
        )


def _refusal(answer: Answer) -> Answer | None:
    """Return an answer that leaves the work out, or by which nobody has answered."""
    return None if answer.allowed or read_stated_result(answer) is not UNSET else answer


def describe_cut(doubt: str) -> str:
    """Say that work was cut off, and what may have happened."""
    return f"It was cut off, and {doubt}: it may have had its effect already."


_TAKE_OVER = "Take this over: go on where the work has stopped, and do nothing twice."


async def ask_to_continue(
    handle: AgentHandle,
    session: AgentSession,
    content: Content,
    *,
    error: str = "",
    sender: str = "",
    metadata: Mapping[str, object] | None = None,
) -> TurnResult:
    """Give an agent its work, or have it continue the work in its session; return its answer.

    An agent whose calls were left open makes them first, without an input.

    Args:
        handle: the agent.
        session: its session, new or from `reopen`.
        content: the work.
        error: why an earlier agent has failed, if it has.
        sender: who gives the work.
        metadata: JSON facts for the agent's function.
    """
    if session.unstarted:
        return await _wait_for_turn(handle, session)
    has_begun = session.model and any(each.role == "assistant" for each in session.history)
    if has_begun or is_flow(session):
        content, sender = GO_ON, RUNTIME
        if error and not is_flow(session):
            content = f"{_TAKE_OVER} It had stopped with: {error}"
    return await try_ask(handle, content, sender=sender, metadata=metadata)


async def _wait_for_turn(handle: AgentHandle, session: AgentSession) -> TurnResult:
    """Return the result of a turn that begins without an input."""
    kind = ""
    async for chunk in handle.stream():
        match chunk:
            case Error():
                kind = kind or chunk.kind
            case Done(_, status, reason, usage, error, value):
                texts = (each.text for each in reversed(session.history) if each.role != "user")
                return TurnResult(status, next(texts, ""), reason, usage, error, value, kind)
            case _:
                pass
    outcome = await handle.wait()
    problem = describe_error(outcome.error) if outcome.error else f"it has {outcome.status}"
    return TurnResult(TurnStatus.FAILED, error=problem, kind=type(outcome.error).__name__)


def check_budget(agent: AgentInternals, result: TurnResult) -> None:
    """End the work of an agent if a member has stopped since a budget of that agent is spent.

    Raises:
        BudgetExceededError: it has.
    """
    if result.kind == BudgetExceededError.__name__ and not agent.has_budget:
        raise BudgetExceededError(result.error)


async def reopen(
    session: AgentSession, parent: AgentSession, results: Mapping[str, object] = {}
) -> AgentSession:
    """Copy the session of an agent that was cut off, for the agent that continues it.

    Calls of its last reply that have no result stay open, so the next agent begins with them; those
    that have run get these results.

    Raises:
        SessionError: it can't be saved.
    """
    fork = await copy_session(session, parent)
    mend_calls(fork, results)
    await fork.save()
    return fork
