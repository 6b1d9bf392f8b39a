"""One agent on a host: what its mailbox has for it, and what becomes of that.

Theory of operation
===================

The host takes one input at a time, gives it to the agent, and marks it as done once its turn has
ended and is saved. An input that an earlier host had taken comes first again, and the conversation
says what became of it: if it is unknown there, no turn has begun with it, and it is given to the
agent as if it were new. If its turn has ended, it is marked as done. If its turn was cut off, it is
never given again: the turn goes on from the history, is given up, or waits for a person to say. An
input that had three hosts end is set aside, whatever the conversation says.

An open question keeps its turn open for as long as the host is there. When the host gives the agent
away, the turn is suspended at the question, which is a turn that was cut off: the next host asks.

Whatever is written here names the epoch in which the host has the agent. Once another host has it,
that is refused, as are the writes of the session: then the agent is killed, and nothing is said.
"""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from itertools import takewhile
from typing import Literal

import trio

from greenroom.core import (
    Done,
    GreenroomError,
    SessionError,
    SessionNotFoundError,
    StopReason,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import EndStatus, InvalidJSONError, Used, clip, log_error, serde
from greenroom.distributed import directory, mailbox
from greenroom.distributed.agent_types import AgentSpec, AgentType
from greenroom.distributed.database import Database
from greenroom.distributed.outcomes import UNREAD, write_outcome
from greenroom.runtime import AgentHandle, AgentNotRunningError, AgentRuntime, Outcome, TurnResult
from greenroom.runtime._internal import find_result, takes_input
from greenroom.session import AgentSession
from greenroom.session._internal import Connection

logger = logging.getLogger("greenroom.distributed")

MOST_ENDS = 3
"""How many hosts may end with an input before it is set aside."""

_HELPLESS = (SessionError, InvalidJSONError)
_LONGEST = 2_000  # characters of an error
_NO_ERROR = "the turn failed; the conversation does not say why, and the mailbox no longer does"
_MOST_CLOSED = 100  # inputs
_END = 5.0  # seconds for an agent that is killed


class AgentLostError(Exception):
    """The agent is another host's now."""


class HostedAgent:
    """Runs one agent that is placed on a host, until it ends or is another host's.

    Attributes:
        epoch: the epoch in which the host has it.
        problem: why the host can't run it, once that has failed.
    """

    def __init__(
        self,
        database: Database,
        runtime: AgentRuntime,
        types: dict[str, AgentType],
        host: int,
        session_id: str,
        epoch: int,
    ) -> None:
        """Name the agent; `run` runs it."""
        self._database = database
        self._runtime = runtime
        self._types = types
        self._place = directory.Place(host, session_id, epoch)
        self._session_id = session_id
        self.epoch = epoch
        self.problem: SessionError | InvalidJSONError | None = None
        self._scope = trio.CancelScope()
        self._woken = trio.Event()
        self._done = trio.Event()
        self._closed = deque[str](maxlen=_MOST_CLOSED)  # inputs that were done here
        self._is_moving = False
        self._failure: AgentLostError | GreenroomError | None = None
        self._handle: AgentHandle | None = None
        self._session: AgentSession | None = None  # what it has opened
        self._spec = AgentSpec("unknown")
        self._in_hand: mailbox.Taken | None = None  # what was given to the agent

    def wake(self) -> None:
        """Say that its mailbox may have something new."""
        self._woken.set()

    async def wait_done(self, input_id: str) -> None:
        """Wait until something comes of an input, or the agent is no longer here."""
        if input_id not in self._closed:  # else it was done before the question came
            await self._done.wait()

    def lose(self) -> None:
        """End it at once: it is another host's."""
        self._is_moving = True
        self._scope.cancel()

    async def run(self) -> None:
        """Run it; whatever becomes of it is on record, or another host's matter."""
        try:
            with self._scope:
                await self._run()
        except AgentLostError:
            self._is_moving = True
        except _HELPLESS as error:
            # The database is away, the session is held, or what is stored is of a newer version:
            # another look, another host.
            self.problem = error
            await self._stop()
            await self._release(is_unreadable=isinstance(error, InvalidJSONError))
        finally:
            self._tell_done()
            with trio.CancelScope(shield=True):
                await self._stop()

    def _tell_done(self) -> None:
        self._done.set()
        self._done = trio.Event()

    async def _stop(self) -> None:
        """End the agent, so that its session is free for another host, or for this one again."""
        session, self._session = self._session, None
        with trio.move_on_after(_END):
            if self._handle is not None:
                self._handle.kill()
                await self._handle.wait()
            if session is not None:  # an agent that is killed before it starts does not close it
                with suppress(SessionError):  # it is released nevertheless
                    await session.close()

    async def move(self, grace: float) -> None:
        """Let the open turn end within its grace, and give the agent to another host."""
        self._is_moving = True
        if self._handle is not None:
            await self._handle.shutdown(grace)
        self._scope.cancel()
        await self._release()

    async def _release(self, *, is_unreadable: bool = False) -> None:
        """Give the agent away; if that fails, the host's end does it."""
        self._is_moving = True

        def release(connection: Connection) -> None:
            if is_unreadable:  # else it would move from host to host for ever
                mailbox.count_end(connection, self._place)
            directory.release_agent(connection, self._place)

        try:
            await self._database.run(release)
        except SessionError as error:
            log_error(logger, f"the agent of {self._session_id} could not be given away", error)

    async def _run(self) -> None:
        placed = await self._database.run(lambda each: directory.read_agent(each, self._session_id))
        if placed is None or placed.epoch != self.epoch:
            raise AgentLostError
        self._spec = placed.read_spec()
        try:
            function = self._types[self._spec.type].start(self._spec)
        except Exception as error:  # noqa: BLE001 (of the type's own code, recorded)
            await self._end(Outcome(EndStatus.CRASHED, error=error))
            return
        session, taken = await self._take_over()
        input_id = "" if taken is None else taken.input_id
        goes_on = session.has_input(input_id) and session.cut_off == input_id
        used = None if self._spec.budget is None else await read_tree_used(session)
        self._handle = handle = self._runtime.spawn(
            session,
            function,
            unattended="suspend" if self._spec.unattended == "ask" else "deny",
            budget=self._spec.make_budget(used),
            name=self._spec.type,
        )
        outcome = Outcome(EndStatus.KILLED)
        # Before it has asked anything: questions wait for an answer, whoever comes and goes.
        seat = handle.attend() if self._spec.unattended == "ask" else nullcontext()
        async with seat, trio.open_nursery() as nursery:
            nursery.start_soon(self._guard, nursery, session, handle, taken, goes_on)
            outcome = await handle.wait()
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        if not self._is_moving:
            await self._finish_last(session, handle)
            await self._end(outcome)

    async def _guard(
        self,
        nursery: trio.Nursery,
        session: AgentSession,
        handle: AgentHandle,
        taken: mailbox.Taken | None,
        goes_on: bool,
    ) -> None:
        """Serve the agent; what goes wrong ends it, and is not a group of errors."""
        try:
            await self._serve(session, handle, taken, goes_on=goes_on)
        except (AgentLostError, *_HELPLESS) as error:
            self._failure = error
            handle.kill()
            nursery.cancel_scope.cancel()

    # ---------------------------------------------------------- what an earlier host has left

    async def _take_over(self) -> tuple[AgentSession, mailbox.Taken | None]:
        """Settle what there is, and take the session; from then on an earlier host writes no more.

        What it wrote in between is settled too: it may have begun the turn, or ended it.
        """
        while True:
            session, taken = await self._settle()
            self._session = session
            before = None if taken is None else (session.has_input(taken.input_id), session.cut_off)
            await session.open()
            if taken is None or before == (session.has_input(taken.input_id), session.cut_off):
                return session, taken
            await session.close()

    async def _settle(self) -> tuple[AgentSession, mailbox.Taken | None]:
        """Settle what the conversation already has; return it, and the input to begin with."""
        session = await self._load("stop")
        while (taken := await self._take()) is not None:
            is_begun = session.has_input(taken.input_id)
            if taken.ends >= MOST_ENDS:
                await self._set_aside(taken)
            elif not is_begun:
                return session, taken
            elif session.cut_off != taken.input_id:
                await self._finish(taken, self._recall(session, taken.input_id))
            elif (verdict := await self._judge(taken)) == "continue":
                return await self._load("continue"), taken
            elif verdict == "stop":
                await self._finish(
                    taken, _make_failure("the turn was cut off by the end of its host", "")
                )
        return session, None

    async def _load(self, on_cut_off: Literal["stop", "continue"]) -> AgentSession:
        store = self._runtime.store
        assert store is not None
        if not await store.exists(self._session_id):
            return AgentSession.new(self._spec.type, session_id=self._session_id, store=store)
        return await AgentSession.load(
            self._session_id,
            store=store,
            keep_open=on_cut_off == "continue",
            on_cut_off=on_cut_off,
        )

    def _recall(self, session: AgentSession, input_id: str) -> TurnResult:
        """Return what is on record of a turn that has ended."""
        status = TurnStatus(
            session.conversation.transcript.ends.get(input_id, TurnStatus.COMPLETED)
        )
        ids = [message.id for message in session.history]
        start = ids.index(input_id) if input_id in ids else len(ids)
        turn = takewhile(
            lambda each: each.role == "assistant" or each.tool_results, session.history[start + 1 :]
        )
        replies = [each for each in turn if each.role == "assistant"]
        text = replies[-1].text if replies else ""
        error = _NO_ERROR if status is TurnStatus.FAILED else ""
        return TurnResult(status, text, StopReason.END_TURN if replies else None, error=error)

    async def _judge(self, taken: mailbox.Taken) -> Literal["continue", "stop", "again"]:
        """Say what becomes of a turn that was cut off; a person may have to be waited for."""
        choice = self._spec.when_moved
        if choice != "ask":
            return choice
        if taken.word is not None:
            return "continue" if taken.word == "allow" else "stop"
        self._woken = trio.Event()
        await self._write(lambda each: mailbox.ask_about(each, self._place, taken.number))
        await self._woken.wait()
        return "again"

    # ------------------------------------------------------------------------- what is new

    async def _serve(
        self,
        session: AgentSession,
        handle: AgentHandle,
        taken: mailbox.Taken | None,
        *,
        goes_on: bool,
    ) -> None:
        """Give the agent one input after another, once a turn has ended that goes on."""
        if taken is not None and goes_on:
            self._in_hand = taken
            result = await self._follow(handle, taken.input_id)
            await self._finish_turn(handle, taken, result, session)
            self._in_hand = taken = None
        while True:
            if taken is None:
                taken = await self._take()
            if taken is None:
                await self._woken.wait()
                self._woken = trio.Event()
            elif taken.ends >= MOST_ENDS:
                await self._set_aside(taken)
                taken = None
            elif session.has_input(taken.input_id):  # which the mailbox has forgotten meanwhile
                await self._finish(taken, self._recall(session, taken.input_id))
                taken = None
            else:
                self._in_hand = taken
                result = await self._ask(handle, taken)
                await self._finish_turn(handle, taken, result, session)
                self._in_hand = taken = None

    async def _ask(self, handle: AgentHandle, taken: mailbox.Taken) -> TurnResult:
        letter = taken.read()
        try:
            return await handle.ask(
                letter.content,
                sender=letter.sender,
                metadata=letter.metadata,
                id=taken.input_id,
            )
        except AgentNotRunningError:
            await trio.sleep_forever()  # its end is recorded beside this, and cancels it
            raise
        except (TurnError, ValueError) as error:
            return _make_failure(str(error), type(error).__name__)

    async def _follow(self, handle: AgentHandle, input_id: str) -> TurnResult:
        """Wait for the end of a turn that goes on."""
        async with handle.subscribe("all") as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Done) and input_id in chunk.inputs:
                    return await handle.answer(input_id)
        await trio.sleep_forever()
        raise AssertionError

    # ------------------------------------------------------------------------ on record

    async def _take(self) -> mailbox.Taken | None:
        taken = await self._database.run(lambda each: mailbox.take_input(each, self._place))
        if taken == "lost":
            raise AgentLostError
        return taken

    async def _finish(
        self, taken: mailbox.Taken, result: TurnResult, session: AgentSession | None = None
    ) -> None:
        """Mark an input as done, once its turn is saved."""
        if session is not None and session.statistics().unsaved:
            await session.save()
        written = serde.encode(result)
        await self._write(
            lambda each: mailbox.finish_input(each, self._place, taken.number, written),
            taken.input_id,
        )

    async def _finish_turn(
        self,
        handle: AgentHandle,
        taken: mailbox.Taken,
        result: TurnResult,
        session: AgentSession,
    ) -> None:
        """Mark the input of a turn as done, unless the turn was suspended by the agent's end."""
        if result.status is TurnStatus.WAITING and not takes_input(handle):
            await trio.sleep_forever()  # the next host goes on with it, or its end is its answer
        await self._finish(taken, result, session)

    async def _finish_last(self, session: AgentSession, handle: AgentHandle) -> None:
        """Mark the last input as done, if its turn has ended, and the agent right after it."""
        taken = self._in_hand
        result = None if taken is None else find_result(handle, taken.input_id)
        if taken is not None and result is not None and result.status is not TurnStatus.WAITING:
            await self._finish(taken, result, session)

    async def _set_aside(self, taken: mailbox.Taken) -> None:
        problem = (
            f"{taken.ends} hosts have ended with this input, or can't read it: it is set aside"
        )
        logger.error("%s: %s (%s)", self._session_id, problem, taken.input_id)
        written = serde.encode(_make_failure(problem, ""))
        await self._write(
            lambda each: mailbox.set_aside(each, self._place, taken.number, written),
            taken.input_id,
        )

    async def _write(self, work: Callable[[Connection], bool], closes: str = "") -> None:
        if not await self._database.run(work):
            raise AgentLostError
        if closes:
            self._closed.append(closes)
        self._tell_done()

    async def _end(self, outcome: Outcome) -> None:
        written = write_outcome(outcome)
        await self._database.run(
            lambda each: directory.end_agent(each, self._place, written, UNREAD)
        )


def _make_failure(problem: str, kind: str) -> TurnResult:
    return TurnResult(TurnStatus.FAILED, error=clip(problem, _LONGEST), kind=kind)


async def read_tree_used(session: AgentSession) -> Used:
    """Return the recorded usage of a session and all sessions below it, detached subagents' too.

    Their histories are read from its store. A missing one, such as that of a subagent that never
    said anything, counts as nothing.

    Raises:
        SessionCorruptError: one of them is damaged.
        SessionStorageError: one of them can't be read.
    """
    used, below, seen = session.used, list(session.child_session_ids), {session.session_id}
    while below:
        id_ = below.pop()
        if id_ not in seen:
            seen.add(id_)
            with suppress(SessionNotFoundError):
                child = await AgentSession.load(id_, store=session.store)
                used += child.used
                below += child.child_session_ids
    return used
