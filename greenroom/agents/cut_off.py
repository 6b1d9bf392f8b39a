"""Go on after a kill: calls that may have run, and agents that tools were running.

A call is on record before it starts, so one without a result may have had its effect.
`reopen_calls` opens such calls of the last reply again, and `settle_calls` asks a person about each
of them before it is run: it did not run, it ran with this result, or it is left out.

An agent that a tool runs is never in doubt itself: `NestedRuns` gives its session an id that
follows from the call, so the same call finds the session again and goes on with it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec
from msgspec import UNSET

from greenroom.core import (
    Answer,
    ContentBlock,
    Message,
    SessionNotFoundError,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import AUTOMATIC_DECIDERS, as_blocks, compile_later, serde
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession, SessionCorruptError
from greenroom.session._internal import answer_calls, is_stand_in, may_have_run
from greenroom.tools import ToolRegistry

_FOLLOWS = compile_later(r"s-[0-9a-f]{24}-\d+")  # the id of a session that `NestedRuns` opened
_CONTINUES = "continues"
"""The key of a session's metadata that lists the sessions which it continues."""

_DOUBTS = "agent.doubts"
_COPIES = "agent.copies"
_UNKNOWN = "It has run, but its result is not known."
_LEFT_OUT = "It was cut off and may have had its effect; a person left it out."
_CUT = "It was cut off in the middle, so it may have had its effect already."
CUT_OFF = "it was cut off in the middle"
"""Why a person is asked about such work."""

CHOICES = (
    "Allow it if it did not run. If it ran, deny it and give its result, or null if you don't know"
    " it. Deny it without a result to leave it out."
)
"""What a person may answer about work that was cut off."""


def last_reply(session: AgentSession) -> tuple[Message | None, tuple[ToolResultBlock, ...]]:
    """Return the last reply, and the results of its calls."""
    results: list[ToolResultBlock] = []
    for message in reversed(session.history):
        if message.role == "assistant":
            return message, tuple(results)
        results[:0] = message.tool_results
    return None, ()


def mend_calls(session: AgentSession, results: Mapping[str, object] = {}) -> tuple[str, ...]:
    """Replace what stands in for results of the last reply: by a result, or by nothing.

    Returns:
        The ids of the calls that are open now and may have run.
    """
    reply, given = last_reply(session)
    stand_ins = [each for each in given if is_stand_in(each)]
    if reply is None or not stand_ins:
        return ()
    real = [each for each in given if each not in stand_ins]
    real += (result_block(id_, value) for id_, value in results.items())
    until = session.history.index(reply) + 1
    conversation = session.conversation
    message = (Message.user(real),) if real else ()
    conversation.rewrite((*session.history[:until], *message))
    conversation.keep_open = True
    open_again = [each for each in stand_ins if each.tool_use_id not in results]
    conversation.note_not_started(each.tool_use_id for each in open_again)
    return tuple(each.tool_use_id for each in open_again if may_have_run(each))


def result_block(id_: str, value: object) -> ToolResultBlock:
    """Return the result that a person gives for a call; None if it is not known."""
    text = _UNKNOWN if value is None else serde.to_text(value)
    return ToolResultBlock(id_, (TextBlock(text),))


def reopen_calls(session: AgentSession) -> None:
    """Open the calls of the last reply that were cut off again; some of them may have run.

    Which ones is on record, so that they are asked about even if this process ends before.
    """
    reply, given = last_reply(session)
    if reply is None or not any(is_stand_in(each) for each in given):
        return
    after = session.history[session.history.index(reply) + 1 :]
    if any(len(each.tool_results) != len(tuple(each.content)) for each in after):
        return  # the conversation has gone on since
    doubts = mend_calls(session)
    session.add_record(_DOUBTS, [*_find_doubts(session), *doubts])


def _find_doubts(session: AgentSession) -> tuple[str, ...]:
    """Return the ids of the open calls that may have run."""
    record = session.last_record(_DOUBTS)
    ids = record if isinstance(record, list) else []
    return tuple(call.id for call in session.unstarted if call.id in ids)


def continues(tools: ToolRegistry, call: ToolUseBlock) -> bool:
    """Whether a call that was cut off goes on when it is made again, so no question is needed."""
    tool = tools.get(call.name)
    return tool is not None and bool(getattr(tool.tool, "continues", False))


async def settle_calls(
    agent: AgentInternals, calls: Sequence[ToolUseBlock], tools: ToolRegistry
) -> tuple[ToolUseBlock, ...]:
    """Ask a person about each of these calls that may have run; return those to run.

    The others get the result that the person gave, or one that says that they are left out.
    """
    session = agent.session
    doubts = list(_find_doubts(session))
    to_run: list[ToolUseBlock] = []
    for call in calls:
        if call.id in doubts and not (
            continues(tools, call) and not await _ran_elsewhere(session, call)
        ):
            answer = await _ask(agent, call)
            if (block := _result_by(answer, call)) is not None:
                session.add_message(Message.user((block,)))
                continue
        to_run.append(call)
    if doubts:
        session.add_record(_DOUBTS, [])
    return tuple(to_run)


async def _ran_elsewhere(session: AgentSession, call: ToolUseBlock) -> bool:
    """Whether a call began in a session whose id does not follow from it, as in old records."""
    if session.store is None:
        return False
    for each in await session.store.list_all():  # the parent's own list may lack the last one
        is_its = (each.parent_session_id, each.parent_tool_use_id) == (session.session_id, call.id)
        if is_its and not _FOLLOWS.fullmatch(each.session_id):
            return True
    return False


def _count_starts(session: AgentSession, id_: str) -> int:
    """Return how often a call in doubt has been started: so often it came to be in doubt."""
    records = [each if isinstance(each, list) else [] for each in session.records(_DOUBTS)]
    return sum(id_ in now and id_ not in before for before, now in pairwise([[], *records]))


def _describe_time(session: AgentSession, call: ToolUseBlock) -> str:
    """Say when the model asked for a call, which is when it was started first."""
    asked = next((each for each in reversed(session.history) if call in each.tool_uses), None)
    return f" at {asked.created_at:%Y-%m-%d %H:%M:%S} UTC" if asked and asked.created_at else ""


async def _ask(agent: AgentInternals, call: ToolUseBlock) -> Answer:
    digest = hashlib.sha256(serde.encode([call.name, dict(call.input)])).hexdigest()
    count = _count_starts(agent.session, call.id)
    often = "once" if count < 2 else f"{count} times, the first time"
    started = f"It was started {often}{_describe_time(agent.session, call)}."
    return await ask_in_doubt(
        agent,
        call.name,
        dict(call.input),
        action=f"Run {call.name} again",
        details=f"{_CUT}\n{started}",
        digest=f"doubt:{digest}",
        tool_use_id=call.id,
    )


async def ask_in_doubt(
    agent: AgentInternals,
    tool_name: str,
    input: dict[str, object],  # noqa: A002 (as in the request)
    *,
    action: str,
    details: str,
    reason: str = CUT_OFF,
    digest: str = "",
    tool_use_id: str = "",
) -> Answer:
    """Ask a person about work that may have had its effect; `CHOICES` are added to the details."""
    return await agent.request_permission(
        tool_name,
        action,
        details=f"{details}\n{CHOICES}",
        input=input,
        reason=reason,
        digest=digest,
        tool_use_id=tool_use_id,
        may_have_run=True,
    )


def read_stated_result(answer: Answer) -> object:
    """Return the result that an answer states, or `msgspec.UNSET` if it says nothing about it."""
    return UNSET if answer.allowed or answer.input is None else answer.input.get("result", UNSET)


def _result_by(answer: Answer, call: ToolUseBlock) -> ToolResultBlock | None:
    """Return the result of a call by a person's answer; None if it is to run."""
    if answer.allowed:
        return None
    if (result := read_stated_result(answer)) is not UNSET:
        return result_block(call.id, result)
    if answer.by in AUTOMATIC_DECIDERS:  # no person has answered
        return answer_calls((call.id,), (call.id,), "interrupted", {}).tool_results[0]
    return ToolResultBlock(call.id, (TextBlock(answer.message or _LEFT_OUT),), is_error=True)


def is_answered(session: AgentSession) -> bool:
    """Whether the last message of a session is a complete reply."""
    last = session.history[-1] if session.history else Message.user("")
    unfinished = (StopReason.INTERRUPTED, StopReason.PAUSE, StopReason.MALFORMED_CALL)
    is_complete = not last.tool_uses and last.stop_reason not in unfinished
    return last.role == "assistant" and is_complete


def find_lives(session: AgentSession) -> set[str]:
    """Return the ids of a session and of those that it continues after they were cut off."""
    lives = {session.session_id}
    if session.parent_session_id is not None and session.forked_from is not None:
        lives.add(session.forked_from.session_id)
        earlier = session.get_metadata(_CONTINUES)
        lives.update(map(str, earlier if isinstance(earlier, list) else ()))
    return lives


async def copy_session(session: AgentSession, parent: AgentSession) -> AgentSession:
    """Copy the session of an agent that was cut off, for the one that continues it under a parent.

    Raises:
        SessionError: it can't be saved.
    """
    copy = await session.fork()  # each agent has a session of its own
    copy.description.set_parent(parent.session_id, None)
    earlier = session.get_metadata(_CONTINUES)
    lives = [*(earlier if isinstance(earlier, list) else ()), session.session_id]
    copy.set_metadata(_CONTINUES, lives)
    return copy


def name_call(session: AgentSession, id_: str) -> tuple[str, ...]:
    """Return the ids of the last reply and of a call in it; nothing if they are not unique."""
    reply, _ = last_reply(session)
    ids = [each.id for each in reply.tool_uses] if reply and reply.id else []
    return (reply.id, id_) if reply and ids.count(id_) == 1 else ()


class NestedRuns(msgspec.Struct, frozen=True):
    """The agents that a piece of work runs, such as a tool call, by ids that follow from it.

    Attributes:
        session: the session of the agent whose work it is.
        source: ids that tell it from other work of the session; if there are none, each agent
            begins a new session.
    """

    session: AgentSession
    source: tuple[str, ...]
    _count: Counter[str] = msgspec.field(default_factory=Counter)

    async def open(self, name: str, content: str | Iterable[ContentBlock]) -> AgentSession:
        """Return the session of the next run with this input: a new one, or the one cut off.

        Raises:
            SessionError: the store can't be read.
        """
        store = self.session.store
        if not self.source or "" in self.source:  # messages of old files have no id
            return AgentSession.new(name, store=store)
        source = serde.encode([*self.source, name, as_blocks(content)])
        key = hashlib.sha256(source).hexdigest()[:24]
        first_id = f"s-{key}-{self._count[key]}"
        self._count[key] += 1
        copies = self.session.last_record(_COPIES)
        copies = copies if isinstance(copies, dict) else {}
        session_id = str(copies.get(first_id, first_id))
        try:
            found = await AgentSession.load(session_id, store=store, keep_open=True)
        except SessionNotFoundError:
            return AgentSession.new(name, session_id=session_id, store=store)
        except SessionCorruptError:
            return AgentSession.new(name, store=store)
        if found.parent_session_id not in find_lives(self.session):
            return AgentSession.new(name, store=store)  # of the conversation that this one forks
        if found.parent_session_id != self.session.session_id:  # the caller goes on as a copy
            found = await copy_session(found, self.session)
            await found.save()  # before the caller's session refers to it
            self.session.add_record(_COPIES, {**copies, first_id: found.session_id})
            await self.session.save()
        return found
