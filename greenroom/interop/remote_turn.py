"""One turn of an agent elsewhere: the input goes there, and what comes back is told here.

Theory of operation
===================

A turn is one request: it sends its input under an id, with the position where the last turn has
stopped, and is answered with the stream of the far turn until that ends. If it breaks, the same
request is sent again with the position that was reached. The input is taken once, and the stream
goes on where it was: nothing is told twice, and what is lost is told as `Lagged`.

If the server was started again meanwhile, the stream begins with how the session is now. An input
that was not kept there is new to it; one that was, and has no turn any more, has its result in the
conversation, or was cut off.

A question of the far agent, or of one below it, is asked here with what it says of its machine, and
the answer goes back.

An interrupt here stops the far turn of this input and no other, an input on its way too; meanwhile
the stream is read on, so what the far turn says of its end is told. If the server can't be reached
within the grace, the report names the far turn as abandoned, and the next turn begins with stopping
it.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from typing import TypeVarTuple, Unpack

import trio
from msgspec import UNSET

from greenroom.core import (
    AgentCrashError,
    AgentExit,
    AgentState,
    Custom,
    Done,
    Error,
    Exited,
    GreenroomError,
    Lagged,
    Message,
    NetworkError,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    Resume,
    StateChange,
    StopReason,
    SubAgentOutput,
    SubAgentResult,
    TurnError,
    TurnStart,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import InvalidJSONError, StateKind, find_error, serde
from greenroom.interop.far_session import Far, FarEvents, FarNow
from greenroom.interop.remote_depth import count_remotes
from greenroom.interop.remote_server import Patience, RemoteError, read_chunk
from greenroom.llm import SSEEvent
from greenroom.runtime import AgentInternals, TurnResult
from greenroom.runtime._internal import Turn, bound_mailbox, report_abandoned

Ts = TypeVarTuple("Ts")

CONNECTION = "remote.connection"
"""The kind of the chunks that say that a server can't be reached, or is reached again."""

_GRACE = 10.0  # seconds for an interrupt to reach the far agent, and to come back
_FAR_GRACE = 2.0  # for a far turn that ends after its step
_WAY = 0.25  # of them for the way there and back
_MOST_GRACE = 60.0  # that a server takes
_ENDED = 5.0  # seconds for the result of a turn that was stopped
_WAITS = 30  # seconds in one request for a result
_ENDS = 0.2  # seconds for a stream to end behind its turn
_SILENT = 1.0  # seconds without a server until it is said
_MOST_WAITING = 16  # inputs, while the server can't be reached
_LONGEST_POSITION = 40
_SHOWN = (StateKind.PROCESSING, StateKind.EXECUTING_TOOL, StateKind.WAITING_FOR_SUBAGENT)
_OF_THE_FAR_TURN = (TurnStart, Restarted)  # this agent has its own
_UNFINISHED = (StopReason.INTERRUPTED, StopReason.PAUSE, StopReason.MALFORMED_CALL)


class FarTurn:
    """One turn: the input goes there, and what comes back is told here."""

    def __init__(
        self,
        internals: AgentInternals,
        far: Far,
        turn: Turn,
        message: UserInput,
        *,
        joins: bool = False,
    ) -> None:
        """Answer this input, in this turn; `joins` if its turn is open there already."""
        self._internals, self._far, self._turn, self._message = internals, far, turn, message
        self._scope = trio.CancelScope()
        self._depth = 1
        self._input_id = ""  # under which the far agent has it
        self._has_begun = self._is_over = self._is_stopping = self._is_passed_on = False
        self._joins = self._is_sent = joins
        self._error = Error("")
        self._failure: GreenroomError | None = None
        self._result: TurnResult | None = None  # where the conversation has it, and no turn
        self._asked = dict[str, trio.CancelScope]()  # the questions that are open here
        self._away = _Away(internals, far.host)

    async def run(self) -> None:
        """Do the turn.

        Raises:
            GreenroomError: the far turn failed, or could not be done.
        """
        self._depth = count_remotes(self._internals)
        await self._far.find()
        await self._stop_earlier()
        self._input_id = self._message.id
        if not self._joins:
            self._input_id = await self._far.begin_input(self._message)
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._guard, self._answer, nursery)
        finally:
            if not self._is_over and self._failure is None and self._is_sent:
                await self._stop()
            self._away.end()
        if self._failure is not None:
            raise self._failure
        await self._finish()

    async def _answer(self, nursery: trio.Nursery) -> None:
        if self._joins or self._input_id != self._message.id:
            await self._rejoin(nursery)
        if not self._is_over:
            await self._follow(nursery)
        nursery.cancel_scope.cancel()

    async def _guard(self, function: Callable[[Unpack[Ts]], Awaitable[None]], *args: *Ts) -> None:
        """Do a part of the turn; one that fails ends it, and its error is the turn's."""
        try:
            await function(*args)
        except GreenroomError as error:
            self._failure = self._failure or error
            self._scope.cancel()

    async def _follow(self, nursery: trio.Nursery) -> None:
        """Read the stream of the far turn until it is over, from connection to connection.

        Each begins with the input under its id, which is taken once.
        """
        patience, self._is_sent = Patience(self._far.host), True
        while True:
            try:
                async with self._open_stream(patience) as stream:
                    while events := await stream.take():
                        patience.heard()
                        await self._away.end_said()
                        for event in events:
                            await self._take(event, nursery)
                        self._pass_on_order(nursery)
                        if self._is_over:
                            await self._end_stream(stream, nursery)
                            return
                reason = "its stream has ended"
            except NetworkError as error:
                reason = error.message
            await patience.wait(reason, self._away.note)

    def _open_stream(self, patience: Patience) -> AbstractAsyncContextManager[FarEvents]:
        if self._joins:
            return self._far.open_stream(patience.seen)
        return self._far.open_turn(self._message, self._input_id, self._depth, patience.seen)

    def _pass_on_order(self, nursery: trio.Nursery) -> None:
        """Let the far turn end after its step too, once this one is to."""
        is_ordered = self._turn.interruption.is_ordered and not self._is_stopping
        if is_ordered and self._has_begun and not self._is_passed_on:
            self._is_passed_on = True
            nursery.start_soon(self._order_end)

    async def _order_end(self) -> None:
        with suppress(GreenroomError):  # it may take longer than a request; the stream tells
            await self._far.interrupt(self._input_id, "after_step", _FAR_GRACE)

    async def _end_stream(self, stream: FarEvents, nursery: trio.Nursery) -> None:
        """Read to the end, so that the connection is used again, if that comes at once."""
        if stream.goes_on:
            return
        with trio.move_on_after(_ENDS), suppress(NetworkError):
            while events := await stream.take():
                for event in events:
                    await self._take(event, nursery)

    async def _rejoin(self, nursery: trio.Nursery) -> None:
        """Find out what has become of an input that was sent before, perhaps in an earlier life."""
        self._is_sent = True
        await self._look_at_result(nursery)
        if self._is_over and not self._joins:
            await self._internals.send(Lagged(None))

    async def _take(self, event: SSEEvent, nursery: trio.Nursery) -> None:
        """Take one event of the stream.

        Raises:
            RemoteError: it is not ours.
        """
        try:
            await self._take_data(event.name, event.data.encode(), nursery)
        except InvalidJSONError as error:
            raise RemoteError(f"{self._far.host} sends an event that is not ours") from error
        if len(event.id) > _LONGEST_POSITION:
            raise RemoteError(f"{self._far.host} sends what is not a position")
        self._far.position = event.id or self._far.position

    async def _take_data(self, name: str, data: bytes, nursery: trio.Nursery) -> None:
        if name == "result":
            await self._take_result(serde.decode(data, TurnResult))
        elif self._is_over:
            return
        elif name == "gap":
            missed = serde.decode(data, dict[str, int | None]).get("missed")
            if self._has_begun:
                await self._internals.send(Lagged(missed))
        elif name == "snapshot":
            await self._catch_up(data, nursery)
        elif not name and (chunk := read_chunk(data)) is not None:
            await self._tell(chunk, nursery)

    async def _take_result(self, result: TurnResult) -> None:
        """Take the result, which is all that comes of a turn whose agent has ended."""
        self._result = result
        if not self._is_over and result.status is not TurnStatus.WAITING:
            self._is_over = True
            await self._internals.send(Lagged(None))

    async def _tell(self, chunk: OutputChunk, nursery: trio.Nursery) -> None:
        """Tell a chunk of the far agent here, unless this agent has one of its own for it."""
        if isinstance(chunk, Done) and self._input_id in (chunk.input_id, *chunk.inputs):
            # One that waits for an answer goes on, in a later life of its agent.
            self._is_over = chunk.status is not TurnStatus.WAITING
        elif isinstance(chunk, TurnStart) and chunk.input_id == self._input_id:
            self._has_begun = True
        elif not self._has_begun:
            return  # it is of a turn before, or of somebody else
        elif isinstance(chunk, Exited):
            await self._take_exit(chunk)
        elif isinstance(chunk, Error):
            self._error = chunk
        elif isinstance(chunk, StateChange):
            if chunk.state.kind in _SHOWN:
                self._internals.set_state(chunk.state)
        elif isinstance(inner := _unwrap(chunk), PermissionRequest):
            self._start_question(inner, nursery)
        elif isinstance(inner, PermissionResponse):
            self._withdraw(inner.request_id)
        elif not isinstance(chunk, (*_OF_THE_FAR_TURN, Done)):
            await self._internals.send(chunk)

    async def _take_exit(self, chunk: Exited) -> None:
        """Take the end of the far agent: a suspended turn goes on in its next life.

        Raises:
            GreenroomError: it has crashed, or was ended in the middle of the turn.
        """
        if (await self._far.read()).pending:
            return
        if self._error.message:
            raise _make_error(self._error)
        raise RemoteError(f"the agent at {self._far.host} has ended: {chunk.error}")

    def _start_question(self, request: PermissionRequest, nursery: trio.Nursery) -> None:
        if request.request_id not in self._asked and not self._is_stopping:
            self._asked[request.request_id] = trio.CancelScope()
            nursery.start_soon(self._guard, self._ask, request)

    def _withdraw(self, request_id: str) -> None:
        """Ask no more: somebody has answered there, or the question is withdrawn."""
        if scope := self._asked.pop(request_id, None):
            scope.cancel()

    async def _ask(self, request: PermissionRequest) -> None:
        """Ask the people here, and pass their answer on."""
        with self._asked[request.request_id]:
            answer = await self._internals.request_permission(
                of=request, host=await self._far.place_of(request)
            )
            self._asked.pop(request.request_id, None)  # what follows says so itself
            if answer.by == "shutdown":
                return  # undecided: the interrupt that follows withdraws it
            await self._far.respond(request, answer)

    async def _catch_up(self, data: bytes, nursery: trio.Nursery) -> None:
        """Find out what became of the turn while chunks were lost.

        Raises:
            RemoteError: it was cut off by the end of its agent.
        """
        now = serde.decode(data, FarNow)
        self._has_begun |= any(each.id == self._input_id for each in now.messages)
        if not self._has_begun:
            return
        for request in now.pending:
            self._start_question(request, nursery)
        if not now.pending:
            await self._look_at_result(nursery)

    async def _look_at_result(self, nursery: trio.Nursery) -> None:
        """Find out whether the far turn is over, and has a result.

        Raises:
            RemoteError: it was cut off by the end of its agent.
        """
        try:
            told = await self._far.read_result(self._input_id)
        except RemoteError as error:
            if error.status != 404:
                raise
        else:
            self._is_over = told is not None and told.status is not TurnStatus.WAITING
            return
        now = await self._far.read()
        if now.pending:  # it was suspended, and an answer lets it go on
            self._has_begun = True
            for request in now.pending:
                self._start_question(request, nursery)
            return
        if not any(each.id == self._input_id for each in now.messages):
            return  # it has not come there
        self._result = _find_result(now.messages, self._input_id)
        self._is_over = self._result is not None
        if not self._is_over:
            self._far.end_input(is_completed=False)
            raise RemoteError(
                f"the turn at {self._far.host} was cut off by the end of its agent",
                hint="its conversation is kept: ask it to go on",
            )

    async def _stop_earlier(self) -> None:
        """Stop the far turn that an earlier interrupt could not reach."""
        if self._far.unstopped:
            await self._far.interrupt(self._far.unstopped, "now", 0.0)
            self._far.unstopped = ""

    async def _stop(self) -> None:
        """Stop the far turn, and tell what it says of its end."""
        self._is_stopping, is_stopped = True, False
        with self._internals.cleanup(_GRACE) as scope:
            grace = max(0.0, min(_MOST_GRACE, scope.deadline - trio.current_time() - _WAY))
            async with trio.open_nursery() as nursery:
                if self._has_begun:
                    nursery.start_soon(self._follow_end, nursery)
                is_stopped = await self._try_interrupt(grace)
                if not self._has_begun or not is_stopped:
                    nursery.cancel_scope.cancel()
            if self._is_over:
                await self._take_reply()
        if is_stopped:
            self._far.end_input(is_completed=False)
        else:
            self._far.unstopped = self._input_id
            report_abandoned(self._internals, f"the turn at {self._far.host}")

    async def _take_reply(self) -> None:
        """Give the turn what the far one has said until it was stopped."""
        with suppress(GreenroomError):
            if told := await self._far.read_result(self._input_id, _ENDED):
                self._turn.set_reply(told)

    async def _follow_end(self, nursery: trio.Nursery) -> None:
        """Tell the rest of a turn that is being stopped, as far as the server can be reached."""
        with suppress(GreenroomError):
            await self._follow(nursery)

    async def _try_interrupt(self, grace: float) -> bool:
        """Interrupt the far turn; return whether nothing of it is left."""
        try:
            report = await self._far.interrupt(self._input_id, "now", grace)
        except GreenroomError:
            return False
        for each in report.abandoned:
            report_abandoned(self._internals, f"{each} at {self._far.host}")
        return not report.abandoned

    async def _finish(self) -> None:
        """Give the turn the result of the far one.

        Raises:
            GreenroomError: that has failed, as its error says.
        """
        told = self._result or await self._far.read_result(self._input_id, _WAITS)
        if told is None:
            raise RemoteError(f"{self._far.host} says that the turn has ended, and has no result")
        self._turn.set_reply(told)
        self._far.end_input(is_completed=told.status is TurnStatus.COMPLETED)
        if told.status is TurnStatus.COMPLETED:
            if told.value is not UNSET:
                self._turn.set_result(told.value)
        elif told.status is TurnStatus.FAILED:
            error = Error(self._error.message or told.error, told.kind, self._error.hint)
            raise _make_error(error)
        else:
            if self._is_passed_on:
                await self._internals.step()  # here the interrupt of this turn takes effect
            raise RemoteError(f"the turn at {self._far.host} ended there: {told.status}")


async def forward_inputs(
    internals: AgentInternals,
    message: UserInput | Resume | SubAgentResult | AgentExit,
    run_turn: Callable[[Turn, UserInput], Awaitable[None]],
) -> None:
    """Open the turn of what has come to a forwarding agent, and let it be done.

    Raises:
        TurnError: it is no input.
    """
    turn = internals.turn(message, append=False)
    turn.shows_text = True
    async with turn:
        if not isinstance(message, UserInput):
            raise TurnError(
                "a turn of an agent elsewhere is not gone on with",
                hint="send the input again under its id: it is taken once",
            )
        await run_turn(turn, message)


class _Away:
    """Says that the server can't be reached, and bounds what waits for it meanwhile."""

    def __init__(self, internals: AgentInternals, host: str) -> None:
        self._internals = internals
        self._host = host
        self._before = internals.state
        self._bounds = ExitStack()
        self.is_said = False

    def note(self, seconds: float) -> None:
        """Say so, once it is for longer than a moment."""
        if self.is_said or seconds < _SILENT:
            return
        self.is_said, self._before = True, self._internals.state
        self._bounds.enter_context(bound_mailbox(self._internals, _MOST_WAITING))
        self._internals.set_state(AgentState.processing(f"waiting for {self._host}"))
        text = f"the connection to {self._host} is broken; it is tried again"
        self._internals.send_nowait(Custom(CONNECTION, {"host": self._host, "lost": True}, text))

    async def end_said(self) -> None:
        """Say that the server is reached again."""
        if not self.is_said:
            return
        self.end()
        if self._before.kind in _SHOWN:
            self._internals.set_state(self._before)
        text = f"connected to {self._host} again"
        await self._internals.send(Custom(CONNECTION, {"host": self._host, "lost": False}, text))

    def end(self) -> None:
        """Let as many inputs wait again as usual."""
        self.is_said = False
        self._bounds.close()


def _find_result(messages: tuple[Message, ...], input_id: str) -> TurnResult | None:
    """Return the result of a turn that is in the conversation whole, though no turn is known."""
    at = next((at for at, each in enumerate(messages) if each.id == input_id), len(messages))
    last: Message | None = None
    for each in messages[at + 1 :]:
        if each.role == "user" and not each.tool_results:
            break
        last = each
    if last is None or last.role != "assistant" or last.tool_uses:
        return None
    if last.stop_reason in _UNFINISHED:
        return None
    return TurnResult(TurnStatus.COMPLETED, last.text, last.stop_reason)


def _unwrap(chunk: OutputChunk) -> OutputChunk:
    while isinstance(chunk, SubAgentOutput):
        chunk = chunk.chunk
    return chunk


def _make_error(told: Error) -> GreenroomError:
    """Make the error of a far turn: of its own class, where that is one of ours."""
    kind = find_error(told.kind)
    if kind is None or issubclass(kind, AgentCrashError):  # no other program ends an agent here
        return RemoteError(told.message, hint=told.hint)
    error = kind.__new__(kind)  # whatever else its class wants to be told
    GreenroomError.__init__(error, told.message, hint=told.hint)
    return error
