"""The stream of a session's chunks, as server-sent events.

Theory of operation
===================

A stream is one subscription after another: to the agent of the session, then to the next one that
is started for it; meanwhile it waits. Each chunk is `data:` without an event name, and its `id:` is
the position behind it, EPOCH.SEQ, with which a client that was cut off goes on. What a reader has
lost can't be sent again: because it was too slow (`event: gap` with the number), or because its
position is of another epoch, from before this agent was started (`gap` with null). Then follows
`event: snapshot`, the body of `GET /api/sessions/ID`, and the chunks from its position on.

Beside the chunks, without an id: `event: tree`, the agents of the session as they are now, and
`event: sessions`, which of the caller's sessions have changed. Both come at most four times a
second, so they are a look, not a record.

The stream of a turn is one request for an input and all that comes of it: chunks alone, until the
turn that took the input has ended, and `event: result` with how. It may be asked for again with the
same id and the position where it broke. If the turn has ended by then, the result is the last event
as well, though the chunk that says so is behind that position, or lost: the agent that had the turn
knows how it ended, else the record of the session.

A stream that has nothing to send sends a comment at times, so that both sides notice a connection
that is gone. A client that reads nothing blocks its own stream only: the bound of a write is in the
listener, below the server's own code.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import trio

from greenroom.core import Done, Lagged, OutputChunk, TurnStatus
from greenroom.core._internal import serde
from greenroom.interop.serving.asgi import end_with_client, send_head
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.control_routes import take_input
from greenroom.interop.serving.read_routes import snapshot_of, write_position
from greenroom.interop.serving.refusals import bad_request
from greenroom.interop.serving.served_sessions import Known, ServedSessions
from greenroom.interop.serving.turn_end import find_end
from greenroom.runtime import AgentHandle, Subscription, TurnResult
from greenroom.runtime._internal import take_branch

_LONGEST = 40  # characters of a position
_PAUSE = 0.25  # seconds between two looks at the tree
_MOST_AGENTS = 200  # of a tree
_BEAT = b": still there\n\n"
_FIRST = b"retry: 1000\n\n"
_HEAD = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"))

Position = tuple[int, int]


async def stream_chunks(sessions: ServedSessions, call: Call) -> None:
    """Send a session's chunks as they are published, and a snapshot for what a reader has lost."""
    known = await sessions.find(call.request.query.get("session", ""), call.caller)
    position = _read_position(call)
    await _send_stream(_Stream(sessions, known, call), position)


async def stream_turn(sessions: ServedSessions, call: Call) -> None:
    """Send the agent an input, and the chunks of its turn to the end, and then its result."""
    position = _read_position(call)
    known, input_id, is_new = await take_input(sessions, call)
    await _send_stream(_Stream(sessions, known, call, input_id, is_new=is_new), position)


async def _send_stream(stream: "_Stream", position: Position | None) -> None:
    call = stream.call
    with stream.open() as scope:
        await send_head(call.send, 200, _HEAD)
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end_with_client, call.receive, scope)
                if not stream.until:
                    nursery.start_soon(stream.run_news)
                await stream.run(position)
                nursery.cancel_scope.cancel()
        await call.send({"type": "http.response.body", "body": b""})


def _read_position(call: Call) -> Position | None:
    """Return where a client wants to go on; None if it comes for the first time."""
    text = call.request.query.get("after") or call.request.header("last-event-id")
    if not text:
        return None
    epoch, _, seq = text.partition(".")
    is_number = text.isascii() and epoch.isdecimal() and seq.isdecimal()
    if len(text) > _LONGEST or not is_number:
        raise bad_request("a position is EPOCH.SEQ, the id of an event")
    return int(epoch), int(seq)


class _Stream:
    """One client's stream of one session; `until` is the input whose turn it ends with, if any."""

    def __init__(
        self,
        sessions: ServedSessions,
        known: Known,
        call: Call,
        until: str = "",
        *,
        is_new: bool = False,
    ) -> None:
        self._sessions = sessions
        self._known = known
        self.call = call
        self.until = until
        self._is_over = False
        self._may_be_behind = not is_new  # the end of the turn, when an agent is followed
        self._served = sessions.serve(known.session_id)
        self._lock = trio.Lock()  # an event goes out whole

    def open(self) -> AbstractContextManager[trio.CancelScope]:
        """Count it as open for a block; the scope ends it."""
        return self._sessions.open_stream(self._known, self.call.caller)

    async def run(self, position: Position | None) -> None:
        """Send chunks from a position on; None is the beginning of the agent's."""
        if not self.until:
            await self._write(_FIRST)
        is_behind = position is not None
        # Before the first look the turn may have ended, and its agent: that has all the chunks.
        ended = self._served.handle if self.until else None
        while not self._is_over:
            handle, ended = self._sessions.runtime.get(self._known.session_id) or ended, None
            if handle is not None:
                position = await self._follow(handle, position)
                is_behind = False
            elif is_behind:
                position, is_behind = await self._send_gap(None), False
            elif not await self._has_ended(self._served.handle):
                # From here on whatever agent is started is read from its first chunk.
                with trio.move_on_after(self._sessions.limits.heartbeat) as scope:
                    await self._served.wait_spawned()
                if scope.cancelled_caught:
                    await self._write(_BEAT)

    async def run_news(self) -> None:
        """Send the tree of the session, and which sessions change, as long as there is a stream."""
        known, caller = self._known, self.call.caller
        with self._sessions.open_news(known, caller) as news:
            changed, are_more = {known.root}, False
            while True:
                if known.root in changed:
                    await self._write(b"event: tree\ndata: %b\n\n" % self._encode_tree())
                told = {"changed": sorted(changed), "more": are_more}
                await self._write(b"event: sessions\ndata: %b\n\n" % serde.encode(told))
                await trio.sleep(_PAUSE)
                changed, are_more = await news.take()

    def _encode_tree(self) -> bytes:
        handle = self._sessions.runtime.get(self._known.root)
        node = None if handle is None else take_branch(handle, _MOST_AGENTS)
        return serde.encode({"tree": node})

    async def _follow(self, handle: AgentHandle, position: Position | None) -> Position | None:
        """Send the chunks of an agent until it ends, or some are lost; return where to go on."""
        result = await self._find_end(handle) if self._may_be_behind else None
        self._may_be_behind = True
        now = handle.subscribe("none").position  # behind the turn's end, if there is a result
        async with handle.subscribe(position or (now[0], 0)) as chunks:
            while True:
                before = chunks.position
                if result is not None and before >= now:  # the turn's end is behind the position
                    await self._end(result)
                    return before
                with trio.move_on_after(self._sessions.limits.heartbeat) as scope:
                    batch = await chunks.take()
                if scope.cancelled_caught:
                    await self._write(_BEAT)
                    result = await self._find_end(handle)
                    now = handle.subscribe("none").position
                elif not batch:
                    await handle.wait()  # from then on it is no longer the session's
                    return chunks.position
                elif _is_gap(before, chunks, batch):
                    assert isinstance(batch[0], Lagged)
                    return await self._send_gap(batch[0].missed)
                else:
                    data = self._encode(batch, chunks.position)
                    if self.until and any(map(self._is_last, batch)):
                        await self._end(await handle.answer(self.until), data)
                        return chunks.position
                    await self._write(data)

    async def _find_end(self, handle: AgentHandle | None) -> TurnResult | None:
        """Return how the turn has ended that the stream is of, if it has."""
        if not self.until:
            return None
        return await find_end(self._sessions, self._known, handle, self.until)

    async def _has_ended(self, handle: AgentHandle | None) -> bool:
        """Look whether the turn has ended, and say how if it has."""
        result = await self._find_end(handle)
        if result is not None:
            await self._end(result)
        return result is not None

    async def _end(self, result: TurnResult, data: bytes = b"") -> None:
        """Send the last event of the stream of a turn, behind these chunks."""
        self._is_over = True
        await self._write(data + b"event: result\ndata: %b\n\n" % serde.encode(result))

    def _is_last(self, chunk: OutputChunk) -> bool:
        """Whether the turn has ended with which the stream does; a suspended one goes on."""
        if not isinstance(chunk, Done) or chunk.status is TurnStatus.WAITING:
            return False
        return self.until in (chunk.input_id, *chunk.inputs)

    async def _send_gap(self, missed: int | None) -> Position | None:
        """Say how many chunks are lost, and how the session is now; return where that goes on."""
        snapshot = await snapshot_of(self._sessions, self._known)
        place = snapshot["position"]
        mark = f"id: {place}\n".encode() if place else b""
        gap = serde.encode({"missed": missed})
        body = serde.encode(snapshot)
        await self._write(
            b"event: gap\ndata: %b\n\nevent: snapshot\n%bdata: %b\n\n" % (gap, mark, body)
        )
        if not isinstance(place, str):
            return None
        epoch, _, seq = place.partition(".")
        return int(epoch), int(seq)

    def _encode(self, batch: Sequence[OutputChunk], position: Position) -> bytes:
        """Encode chunks, of which the last is before this position; each once for all readers."""
        epoch, end = position
        known, parts = self._served.encoded, []
        for seq, chunk in enumerate(batch, end - len(batch) + 1):
            event = known.find((epoch, seq))
            if event is None:
                event = b"id: %b\ndata: %b\n\n" % (
                    write_position((epoch, seq)).encode(),
                    serde.encode(chunk),
                )
                if self._served.streams > 1:
                    known.keep((epoch, seq), event)
            parts.append(event)
        return b"".join(parts)

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            await self.call.send({"type": "http.response.body", "body": data, "more_body": True})


def _is_gap(before: Position, chunks: Subscription, batch: Sequence[OutputChunk]) -> bool:
    """Whether the first of these says that chunks are lost, and is none of the agent's own."""
    first = batch[0]
    if not isinstance(first, Lagged):
        return False
    return first.missed is None or chunks.position[1] - before[1] != len(batch)
