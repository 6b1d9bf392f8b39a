"""What a step of an agent costs when its history is long: the model call, and all around it.

python benchmarks/long_history.py [messages]

The floor is the same request by bare httpx on trio, its bytes ready, to the same server, which runs
in a process of its own and answers with one word. A step is a user's message, `stream_reply` and
its save; the history is in memory, then in files. The longest piece is what one step holds up other
tasks for.

Exits with 1 where a bound is broken.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import trio

from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    FileStore,
    InMemoryStore,
    Message,
    SessionStore,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    stream_reply,
)
from greenroom.llm import AnthropicProvider, ModelRequest

MESSAGES = 10_000
STEPS = 30
MAX_RATIO = 3.0  # times the request by bare httpx
MAX_PIECE = 0.005  # seconds, from the second step on

SERVER = """
import json, socket, threading

def sse(kind, **fields):
    return f"event: {kind}\\ndata: {json.dumps({'type': kind, **fields})}\\n\\n"

REPLY = (
    sse("message_start", message={"id": "m", "model": "m", "usage": {"input_tokens": 1}})
    + sse("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + sse("content_block_delta", index=0, delta={"type": "text_delta", "text": "Yes."})
    + sse("content_block_stop", index=0)
    + sse("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1})
    + sse("message_stop")
).encode()
FIELDS = f"content-type: text/event-stream\\r\\ncontent-length: {len(REPLY)}"
HEAD = f"HTTP/1.1 200 OK\\r\\n{FIELDS}\\r\\n\\r\\n"

def serve(connection):
    received, buffer = b"", bytearray(1 << 20)
    while data := connection.recv(65536):
        received += data
        head, end, rest = received.partition(b"\\r\\n\\r\\n")
        if not end:
            continue
        fields = dict(line.lower().split(b": ") for line in head.split(b"\\r\\n")[1:])
        missing = int(fields[b"content-length"]) - len(rest)
        while missing > 0:
            missing -= connection.recv_into(buffer, min(missing, len(buffer)))
        connection.sendall(HEAD.encode() + REPLY)
        received = b""

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@contextmanager
def model_server():
    """Run the server; gives its address."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def history(messages: int) -> list[Message]:
    """A conversation with calls of tools: four messages in a round."""
    made = []
    for number in range(messages // 4):
        call = ToolUseBlock(f"call_{number % 7}", "Read", {"file_path": f"src/module_{number}.py"})
        lines = "\n".join(f"{line}: value = compute({number})" for line in range(10))
        made += [
            Message.user(f"What does module {number} do, and who calls it?"),
            Message.assistant([TextBlock("I read it."), call]),
            Message.user([ToolResultBlock(call.id, (TextBlock(lines),))]),
            Message.assistant(f"It computes {number}, and nobody calls it. " * 3),
        ]
    return made


class Pieces(trio.abc.Instrument):
    """Measures how long tasks run without yielding: their own time, not the machine's."""

    def __init__(self) -> None:
        self.longest = self._begin = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begin = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._begin)


async def timed(work: Callable[[], Awaitable[object]], pieces: Pieces) -> tuple[float, float]:
    """Return the seconds that some work took, and its longest piece."""
    await trio.lowlevel.checkpoint()  # what precedes is not its piece
    pieces.longest = 0.0
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin, pieces.longest


async def measure(
    url: str, store: SessionStore, messages: int
) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds of each step, its longest piece, and the seconds of the floor."""
    pieces = Pieces()
    llm = AnthropicProvider("m", api_key="k", base_url=url, env={})
    steps: list[float] = []
    longest: list[float] = []
    floors: list[float] = []

    async def step(agent: AgentInternals) -> None:
        agent.session.add_message(Message.user("And is that so?"))
        await stream_reply(agent, llm)

    async def works(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message), httpx.AsyncClient(trust_env=False) as client:
                request = ModelRequest(messages=agent.session.history)
                body = await trio.to_thread.run_sync(llm.encode, request)
                floor = partial(client.post, url, content=json.dumps(body).encode())
                for _ in range(STEPS):
                    seconds, piece = await timed(partial(step, agent), pieces)
                    steps.append(seconds)
                    longest.append(piece)
                    floors.append((await timed(floor, pieces))[0])

    session = AgentSession.new("bench", store=store)
    for message in history(messages):
        session.add_message(message)
    async with AgentRuntime(store=store) as runtime:
        trio.lowlevel.add_instrument(pieces)
        await runtime.spawn(session, works).ask("Go.")
    await llm.aclose()
    return steps, longest, floors


def main() -> int:
    """Measure both stores, and say whether the bounds hold."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    broken = 0
    with model_server() as url, tempfile.TemporaryDirectory() as folder:
        stores = {"memory": InMemoryStore(), "files": FileStore(Path(folder))}
        for name, store in stores.items():
            steps, longest, floors = trio.run(measure, url, store, messages)
            floor = statistics.median(floors)
            ratio = statistics.median(steps[1:]) / floor
            piece = statistics.median(longest[1:])
            print(
                f"{messages:,} messages in {name}: "
                f"a step takes {ratio:.2f} x {floor * 1000:.1f} ms, "
                f"the first {steps[0] / floor:.1f}; the longest piece {piece * 1000:.1f} ms, "
                f"at the worst {max(longest[1:]) * 1000:.1f}, in the first {longest[0] * 1000:.1f}"
            )
            broken |= ratio > MAX_RATIO or piece > MAX_PIECE
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
