"""A model behind a socket in this process, which takes no task, no thread and no pass of its own.

It reads a request and writes the answer, whole, just before the event loop waits for its sockets:
so each wait of the client is one wait, in the same order each time, and what is counted is the
client's.
"""

import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson
import trio

from greenroom.llm import AnthropicProvider, LLMProvider, OpenAIProvider

Answer = Callable[[int], bytes]
"""From how many assistant messages a request has to the body of its answer."""

URL = "http://127.0.0.1:9/v1"
ANTHROPIC, OPENAI = "claude-sonnet-4-5", "gpt-4o-mini"


def make_model(dialect: str) -> LLMProvider:
    """Return the provider of a dialect, "anthropic" or "openai", whose server this is."""
    if dialect == "anthropic":
        return AnthropicProvider(ANTHROPIC, api_key="none-needed", base_url=URL, window=200_000)
    return OpenAIProvider(OPENAI, api_key="none-needed", base_url=URL, window=200_000)


def call_answer(dialect: str, number: int) -> bytes:
    """Return the stream of a reply with one call of `look`, as the vendor sends it."""
    pieces = ['{"label"', ': "step ', f'{number}"}}']
    identity = f"call_{number:06}"
    if dialect == "anthropic":
        block = {"type": "tool_use", "id": identity, "name": "look", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return anthropic_events(block, deltas, "tool_use")
    function = {"name": "look", "arguments": ""}
    begun = {"index": 0, "id": identity, "type": "function", "function": function}
    rest = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas = [{"tool_calls": [call]} for call in (begun, *rest)]
    return openai_events(deltas, "tool_calls")


def text_answer(dialect: str, count: int) -> bytes:
    """Return the stream of a reply of so many pieces of text."""
    if dialect == "anthropic":
        deltas = [{"type": "text_delta", "text": f"word{n} "} for n in range(count)]
        return anthropic_events({"type": "text", "text": ""}, deltas, "end_turn")
    return openai_events([{"content": f"word{n} "} for n in range(count)], "stop")


def anthropic_events(
    block: dict[str, object], deltas: list[dict[str, object]], reason: str
) -> bytes:
    usage = {"input_tokens": 1200, "output_tokens": 1, "cache_read_input_tokens": 1000}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": ANTHROPIC}
    begun = {**message, "content": [], "stop_reason": None, "usage": usage}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 30},
        },
        {"type": "message_stop"},
    ]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), orjson.dumps(event))
        for event in events
    )


def openai_events(deltas: list[dict[str, object]], reason: str) -> bytes:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": OPENAI}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    opening = {"role": "assistant", "content": ""}
    usage = {"prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230}
    chunks: list[dict[str, object]] = [
        {**base, "choices": [{"index": 0, "delta": opening, "finish_reason": None}]},
        *({**base, "choices": [choice]} for choice in choices),
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**base, "choices": [], "usage": usage},
    ]
    lines = [b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks]
    return b"".join((*lines, b"data: [DONE]\n\n"))


class Server(trio.abc.Instrument):
    """Answers what is sent to it, before the loop waits."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._sockets: list[socket.socket] = []
        self._read: dict[socket.socket, bytearray] = {}

    async def connect(self, *_args: object, **_named: object) -> trio.SocketStream:
        """Stand for `trio.open_tcp_stream`."""
        client, server = socket.socketpair()
        server.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        self._sockets.append(server)
        self._read[server] = bytearray()
        return trio.SocketStream(trio.socket.from_stdlib_socket(client))

    def before_io_wait(self, timeout: float) -> None:
        watched = sys.getprofile()
        sys.setprofile(None)
        for each in self._sockets:
            self._serve(each)
        sys.setprofile(watched)

    def _serve(self, each: socket.socket) -> None:
        received = self._read[each]
        try:
            while data := each.recv(1 << 20):
                received += data
        except BlockingIOError:
            pass
        head, found, body = bytes(received).partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        received.clear()
        messages = orjson.loads(body)["messages"]
        answer = self.answer(sum(message["role"] == "assistant" for message in messages))
        each.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b"
            % (len(answer), answer)
        )

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@asynccontextmanager
async def served(dialect: str, answer: Answer) -> AsyncIterator[LLMProvider]:
    """Give the block a model of a dialect whose server answers so."""
    server, model, real = Server(answer), make_model(dialect), trio.open_tcp_stream
    trio.open_tcp_stream = server.connect  # type: ignore[assignment]
    trio.lowlevel.add_instrument(server)
    try:
        yield model
    finally:
        await model.aclose()
        trio.open_tcp_stream = real
        trio.lowlevel.remove_instrument(server)
        server.close()
