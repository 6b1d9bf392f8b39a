"""A model's server for benchmarks, in a process of its own, with no delay that is not asked for.

python -m benchmarks.model_server

It prints its port. The first part of a path is what it plays, whatever the dialect behind it:

- `/steps-20/…` asks for a call of the tool `look` until there are 20 results, and then answers;
- `/burst-2000/…` sends 2,000 deltas as fast as they are taken;
- `/paced-500/…` sends 500 deltas, one a millisecond.

Replies are streams of server-sent events, each a chunk of HTTP, or JSON where no stream is wanted.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WORD = "token "
PAUSE = 0.001


def chat_events(deltas: list[dict[str, object]], reason: str, read: int) -> list[bytes]:
    shared = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks: list[dict[str, object]] = [
        shared | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append(shared | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {"prompt_tokens": read, "completion_tokens": 10, "total_tokens": read + 10}
    chunks.append(shared | {"choices": [], "usage": usage})
    return [b"data: " + encode(chunk) + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def chat_text(count: int, read: int) -> list[bytes]:
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    return chat_events([*deltas, *[{"content": WORD}] * count], "stop", read)


def chat_call(number: int, read: int) -> list[bytes]:
    function = {"name": "look", "arguments": json.dumps({"label": str(number)})}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": None}]
    return chat_events([*deltas, {"tool_calls": [call]}], "tool_calls", read)


def chat_whole(message: dict[str, object], reason: str) -> bytes:
    return encode(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
        }
    )


def anthropic_events(
    block: dict[str, object], deltas: list[object], reason: str, read: int
) -> list[bytes]:
    usage = {"input_tokens": read, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    events: list[tuple[str, dict[str, object]]] = [
        ("message_start", {"message": message | {"stop_reason": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": block}),
        *[("content_block_delta", {"index": 0, "delta": delta}) for delta in deltas],
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    ]
    return [
        b"event: %s\ndata: %s\n\n" % (kind.encode(), encode({"type": kind} | fields))
        for kind, fields in events
    ]


def anthropic_text(count: int, read: int) -> list[bytes]:
    delta = {"type": "text_delta", "text": WORD}
    return anthropic_events({"type": "text", "text": ""}, [delta] * count, "end_turn", read)


def anthropic_call(number: int, read: int) -> list[bytes]:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps({"label": str(number)})}
    return anthropic_events(block, [delta], "tool_use", read)


def anthropic_whole(block: dict[str, object], reason: str) -> bytes:
    return encode(
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }
    )


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def events_for(path: str, body: bytes) -> list[bytes]:
    """Return the events of a streamed reply."""
    kind, _, number = path.split("/")[1].partition("-")
    is_chat, read = path.endswith("/chat/completions"), tokens_in(body)
    if kind != "steps":
        return (chat_text if is_chat else anthropic_text)(int(number), read)
    done = results_in(body)
    if done < int(number):
        return (chat_call if is_chat else anthropic_call)(done, read)
    return (chat_text if is_chat else anthropic_text)(1, read)


def whole_for(path: str, body: bytes) -> bytes:
    """Return a reply that is not streamed."""
    is_chat = path.endswith("/chat/completions")
    kind, _, number = path.split("/")[1].partition("-")
    done = results_in(body)
    arguments = {"label": str(done)}
    if kind == "steps" and done < int(number):
        if is_chat:
            function = {"name": "look", "arguments": json.dumps(arguments)}
            call = {"id": f"call_{done}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            return chat_whole(message, "tool_calls")
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": "look", "input": arguments}
        return anthropic_whole(block, "tool_use")
    if is_chat:
        return chat_whole({"role": "assistant", "content": WORD}, "stop")
    return anthropic_whole({"type": "text", "text": WORD}, "end_turn")


def tokens_in(body: bytes) -> int:
    """Say about how many tokens a request has: it grows with the conversation, as vendors' does."""
    return len(body) // 4


def results_in(body: bytes) -> int:
    """Count the results of tools in a request of either dialect."""
    squeezed = body.replace(b'": "', b'":"')
    return squeezed.count(b'"role":"tool"') + squeezed.count(b'"type":"tool_result"')


HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"request-id: r1\r\n\r\n"
)
JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: r1\r\n"
    b"content-length: %d\r\n\r\n"
)


def answer(connection: socket.socket, path: str, body: bytes) -> None:
    if b'"stream":true' not in body.replace(b'": ', b'":'):
        whole = whole_for(path, body)
        connection.sendall(JSON_HEAD % len(whole) + whole)
        return
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events_for(path, body)]
    if not path.startswith("/paced-"):
        connection.sendall(HEAD + b"".join(chunks) + b"0\r\n\r\n")
        return
    connection.sendall(HEAD)
    begin = time.monotonic()
    for number, chunk in enumerate(chunks):
        time.sleep(max(0.0, begin + number * PAUSE - time.monotonic()))
        connection.sendall(chunk)
    connection.sendall(b"0\r\n\r\n")


def serve(connection: socket.socket) -> None:
    with connection, suppress(OSError):  # the client may leave at any time
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        while data := connection.recv(1 << 20):
            received += data
            while b"\r\n\r\n" in received:
                head, _, rest = received.partition(b"\r\n\r\n")
                line, *fields = head.decode().split("\r\n")
                lengths = [each for each in fields if each.lower().startswith("content-length:")]
                length = int(lengths[0].split(":")[1]) if lengths else 0
                while len(rest) < length and (data := connection.recv(1 << 20)):
                    rest += data
                received = rest[length:]
                answer(connection, line.split(" ")[1], rest[:length])


@contextmanager
def model_server() -> Iterator[str]:
    """Run the server in a process of its own; gives its address."""
    command = [sys.executable, "-m", "benchmarks.model_server"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
