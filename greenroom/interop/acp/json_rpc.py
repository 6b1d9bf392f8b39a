"""JSON-RPC 2.0, a message on each line: both sides ask, both sides answer.

Theory of operation
===================

`Peer.run` reads lines one by one. A request starts a task, which runs up to its first checkpoint
before the next line is read: so what it notes down at once is in the order of the lines. Whatever
is written goes through one bounded channel to one task, so a cancel never tears a line, and the
order of writing is the order of sending. The end of the input, or of the output, ends `run`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import trio

from greenroom.core import GreenroomError
from greenroom.core._internal import InvalidJSONError, clip, describe_error, log_error, serde
from greenroom.interop.line_reader import (
    MAX_MESSAGE,
    LineReader,
    find_answered,
    find_asked,
    load_line,
)

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, CANCELLED, NOT_FOUND = -32603, -32800, -32002

MAX_OPEN = 256
"""Requests of one side that may wait for an answer, and notifications that are being obeyed.

A further request is refused, and a further notification left alone.
"""

_MAX_WRITTEN = 64  # lines that wait to be written
_LAST_WORDS = 2.0  # seconds for what waits to be written at the end
_HEAVY = 1 << 18  # bytes of a line that is read in a thread
_MAX_TEXT = 2_000  # characters of an error
_CANCEL = "$/cancel_request"

Id: TypeAlias = int | str | None

_log = logging.getLogger("greenroom.interop")


class RPCError(Exception):
    """A request is refused, by us or by the other side; it becomes, or was, a reply.

    Attributes:
        code: the code of JSON-RPC, or of the protocol on it.
        message: what is wrong.
        data: facts about it, or None.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        """Keep what the reply says."""
        super().__init__(message)
        self.code = code
        self.message = clip(message, _MAX_TEXT)
        self.data = data


@dataclass(frozen=True)
class Reply:
    """The result of a request, and what follows it.

    Attributes:
        result: the result.
        then: called once the result is on its way.
    """

    result: object
    then: Callable[[], Awaitable[None]]


class Handler(Protocol):
    """What the other side may call."""

    async def answer(self, method: str, params: object) -> object:
        """Return the result of a request, alone or in a `Reply`.

        Raises:
            RPCError: it is refused.
        """

    async def note(self, method: str, params: object) -> None:
        """Take a notification, which has no answer."""


class Peer:
    """One side of a connection.

    Args:
        receive: returns the next bytes; nothing at the end.
        send: writes bytes.
        handler: what the other side may call.
    """

    def __init__(
        self,
        receive: Callable[[], Awaitable[bytes]],
        send: Callable[[bytes], Awaitable[None]],
        handler: Handler,
    ) -> None:
        self._receive, self._send_all, self._handler = receive, send, handler
        self._out, self._outgoing = trio.open_memory_channel[bytes](_MAX_WRITTEN)
        self._waiting: dict[int, _Reply] = {}  # our requests
        self._running: dict[int | str, trio.CancelScope] = {}  # theirs
        self._last_id = self._note_count = 0
        self._reading = trio.CancelScope()

    def stop(self) -> None:
        """End `run` as the end of the input does."""
        self._reading.cancel()

    async def run(self, at_end: Callable[[], Awaitable[None]]) -> None:
        """Read and answer until the input ends; then `at_end`, and what is left is cancelled.

        Raises:
            OSError: the output can't be written; the same happens before.
        """
        failure: OSError | None = None
        async with trio.open_nursery() as writing:

            async def write() -> None:
                nonlocal failure
                try:
                    async with self._outgoing:
                        async for line in self._outgoing:
                            await self._send_all(line)
                except OSError as error:
                    failure = error
                    self.stop()

            writing.start_soon(write)
            async with trio.open_nursery() as answering:
                with self._reading:
                    await self._read(answering)
                await at_end()
                answering.cancel_scope.cancel()
            for each in self._waiting.values():
                each.refuse("the connection has ended")
            self._out.close()
            writing.cancel_scope.deadline = trio.current_time() + _LAST_WORDS
        if failure is not None:
            raise failure

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """Ask the other side, and return its result; a cancel takes the request back.

        Raises:
            RPCError: it refuses, or too many requests wait for an answer, or it is gone.
        """
        if len(self._waiting) >= MAX_OPEN:
            raise RPCError(INTERNAL_ERROR, f"{MAX_OPEN} requests wait for an answer already")
        self._last_id += 1
        id_, reply = self._last_id, _Reply()
        self._waiting[id_] = reply
        is_sent = False
        try:
            is_sent = await self._write({"id": id_, "method": method, "params": params})
            if not is_sent:
                reply.refuse("the connection has ended")
            await reply.has_come.wait()
        finally:
            del self._waiting[id_]
            if is_sent and not reply.has_come.is_set():
                self._take_back(id_)
        if reply.error is not None:
            raise reply.error
        return reply.result

    def _take_back(self, id_: int) -> None:
        line = _encode({"method": _CANCEL, "params": {"requestId": id_}})
        try:
            self._out.send_nowait(line)
        except (trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            _log.debug("the request %d was not taken back", id_)  # its answer is ignored

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell the other side something; it waits for room among the lines that are unwritten.

        Once the connection has ended, it does nothing, since the rest will end as well.
        """
        await self._write({"method": method, "params": params})

    async def _write(self, message: Mapping[str, object]) -> bool:
        """Write a message; return whether there is still a connection."""
        try:
            await self._out.send(_encode(message))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return False
        return True

    async def _refuse(self, id_: Id, error: RPCError) -> None:
        fault: dict[str, object] = {"code": error.code, "message": error.message}
        if error.data is not None:
            fault["data"] = error.data
        await self._write({"id": id_, "error": fault})

    async def _read(self, nursery: trio.Nursery) -> None:
        reader = LineReader()
        while data := await self._receive_some():
            for line in reader.feed(data):
                if line is None:
                    await self._refuse_long(reader)
                elif line.strip():
                    await self._take(line, nursery)

    async def _refuse_long(self, reader: LineReader) -> None:
        """Refuse a line that was too long; an answer is refused to whoever waits for it."""
        fault = f"a line has more than {MAX_MESSAGE >> 20} MB"
        id_ = reader.skipped_id
        if not reader.skipped_answer:
            await self._refuse(id_, RPCError(INVALID_REQUEST, fault))
        elif isinstance(id_, int) and id_ in self._waiting:
            self._waiting[id_].refuse(fault)

    async def _refuse_unreadable(self, line: bytes, fault: str) -> None:
        """Refuse a line that is not JSON, and fail the request that it was to answer, if any."""
        answered = find_answered(line)
        if isinstance(answered, int) and answered in self._waiting:
            self._waiting[answered].refuse(f"the answer can't be read: {fault}")
        elif answered is None:
            id_ = find_asked(line)
            usable = None if id_ in self._running else id_  # whose own answer is still to come
            await self._refuse(usable, RPCError(PARSE_ERROR, fault))

    async def _receive_some(self) -> bytes:
        try:
            return await self._receive()
        except OSError as error:
            _log.warning("the input can't be read: %s", error)
            return b""

    async def _take(self, line: bytes, nursery: trio.Nursery) -> None:
        """Take one line: a request, a notification, or the answer to a request of ours."""
        try:
            heavy = len(line) > _HEAVY
            read = trio.to_thread.run_sync(load_line, line) if heavy else None
            message = load_line(line) if read is None else await read
        except InvalidJSONError as error:
            await self._refuse_unreadable(line, error.message)
            return
        id_ = message.get("id") if isinstance(message, dict) else None
        if isinstance(id_, bool) or not isinstance(id_, int | str | None):
            id_ = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            await self._refuse(id_, RPCError(INVALID_REQUEST, "not a message of JSON-RPC 2.0"))
            return
        method = message.get("method")
        is_reply = "result" in message or "error" in message or id_ in self._waiting
        if "method" not in message and is_reply:
            self._take_reply(id_, message)
        elif not isinstance(method, str):
            await self._refuse(id_, RPCError(INVALID_REQUEST, "the message has no method"))
        elif "id" not in message:
            await nursery.start(self._note, method, message.get("params"))
        elif id_ is None or id_ in self._running:
            await self._refuse(id_, RPCError(INVALID_REQUEST, "the id is not usable, or in use"))
        elif len(self._running) >= MAX_OPEN:
            fault = f"{MAX_OPEN} requests wait for an answer already"
            await self._refuse(id_, RPCError(INVALID_REQUEST, fault))
        else:
            await nursery.start(self._answer, id_, method, message.get("params"))

    def _take_reply(self, id_: Id, message: Mapping[str, object]) -> None:
        reply = self._waiting.get(id_) if isinstance(id_, int) else None
        if reply is None:
            _log.debug("an answer to no open request: %r", id_)
        elif (error := message.get("error")) is not None:
            reply.refuse(error)
        else:
            reply.accept(message.get("result"))  # which some leave out where it is null

    async def _answer(
        self, id_: int | str, method: str, params: object, task_status: trio.TaskStatus[None]
    ) -> None:
        """Answer a request; a request to cancel it is answered as such."""
        found: object = None
        with trio.CancelScope() as scope:
            self._running[id_] = scope
            task_status.started()
            try:
                found = await self._call(method, params)
            except RPCError as error:
                await self._refuse(id_, error)
            else:
                result = found.result if isinstance(found, Reply) else found
                await self._write({"id": id_, "result": result})
            finally:
                del self._running[id_]
        if scope.cancelled_caught:
            await self._refuse(id_, RPCError(CANCELLED, "the request was cancelled"))
        elif isinstance(found, Reply):  # which is answered, so a cancel comes too late
            await found.then()

    async def _call(self, method: str, params: object) -> object:
        try:
            return await self._handler.answer(method, params)
        except RPCError:
            raise
        except GreenroomError as error:
            kind = {"kind": type(error).__name__, "hint": error.hint}
            raise RPCError(INTERNAL_ERROR, error.message, kind) from error
        except Exception as error:
            # A fault of ours ends this request, not the conversations beside it.
            log_error(_log, f"{method} failed", error)
            raise RPCError(INTERNAL_ERROR, describe_error(error)) from error

    async def _note(self, method: str, params: object, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        if method == _CANCEL:
            asked = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(asked, int | str) and asked in self._running:
                self._running[asked].cancel()
            return
        if self._note_count >= MAX_OPEN:
            _log.warning(
                "the notification %s was left alone: there are too many", clip(method, 100)
            )
            return
        self._note_count += 1
        try:
            await self._handler.note(method, params)
        except (RPCError, GreenroomError) as error:
            _log.warning("the notification %s was not obeyed: %s", clip(method, 100), error)
        except Exception as error:  # noqa: BLE001 (as for a request: the others go on)
            log_error(_log, f"the notification {clip(method, 100)} was not obeyed", error)
        finally:
            self._note_count -= 1


class _Reply:
    """What comes of a request of ours."""

    def __init__(self) -> None:
        self.has_come = trio.Event()
        self.result: object = None
        self.error: RPCError | None = None

    def accept(self, result: object) -> None:
        self.result = result
        self.has_come.set()

    def refuse(self, fault: object) -> None:
        found = fault if isinstance(fault, dict) else {"message": fault}
        code = found.get("code")
        self.error = RPCError(
            code if isinstance(code, int) else INTERNAL_ERROR, str(found.get("message", ""))
        )
        self.has_come.set()


def _encode(message: Mapping[str, object]) -> bytes:
    return serde.dumps({"jsonrpc": "2.0", **message}) + b"\n"
