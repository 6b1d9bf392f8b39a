"""The least that each workload can take: httpx, trio and orjson by hand, with nothing around."""

import os
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import orjson
import trio
import trio.testing

from benchmarks.sample import Meter
from benchmarks.sizes import (
    AGENTS,
    APPENDS,
    BURST,
    BURSTS,
    CHUNKS,
    CROWD,
    CROWD_STEPS,
    DELTAS,
    MESSAGES,
    PACED,
    READERS,
    RUNS,
    STEPS,
    TEXT,
    TRIPS,
    WRITERS,
)

TOOL = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
}


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=60)


async def events(
    http: httpx.AsyncClient, url: str, body: dict[str, object]
) -> AsyncIterator[dict[str, object]]:
    """Post a request, and yield the events of its reply, split by hand."""
    content = orjson.dumps(body | {"stream": True})
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    async with http.stream("POST", url, content=content, headers=headers) as reply:
        rest = b""
        async for piece in reply.aiter_raw():
            *found, rest = (rest + piece).split(b"\n\n")
            for event in found:
                data = event[event.index(b"data: ") + 6 :]
                if data != b"[DONE]":
                    yield orjson.loads(data)


async def chat_run(http: httpx.AsyncClient, url: str, after_step: object = None) -> int:
    """Ask for tools until there is an answer; return how many steps that took."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": TOOL}}]
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    steps = 0
    while True:
        text, calls = "", []
        body = {"model": "m", "messages": messages, "tools": tools}
        async for event in events(http, f"{url}/v1/chat/completions", body):
            for choice in event["choices"]:  # type: ignore[attr-defined]
                text += choice["delta"].get("content") or ""
                calls += choice["delta"].get("tool_calls") or []
        messages.append({"role": "assistant", "content": text or None, "tool_calls": calls})
        if not calls:
            return steps
        for call in calls:
            arguments = orjson.loads(call["function"]["arguments"])
            messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": arguments["label"]}
            )
        steps += 1
        if after_step is not None:
            await after_step(orjson.dumps(messages[-2:]) + b"\n")  # type: ignore[operator]


async def anthropic_run(http: httpx.AsyncClient, url: str) -> int:
    tools = [{"name": "look", "input_schema": TOOL}]
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    steps = 0
    while True:
        blocks: list[dict[str, object]] = []
        body = {"model": "m", "max_tokens": 1000, "messages": messages, "tools": tools}
        async for event in events(http, f"{url}/v1/messages", body):
            if event["type"] == "content_block_start":
                blocks.append(dict(event["content_block"], json=""))  # type: ignore[call-overload]
            elif event["type"] == "content_block_delta":
                delta: dict[str, str] = event["delta"]  # type: ignore[assignment]
                if delta["type"] == "text_delta":
                    blocks[-1]["text"] = str(blocks[-1]["text"]) + delta["text"]
                else:
                    blocks[-1]["json"] = str(blocks[-1]["json"]) + delta["partial_json"]
        results = []
        for block in blocks:
            text = str(block.pop("json"))
            if block["type"] == "tool_use":
                block["input"] = orjson.loads(text)
                results.append(
                    {
                        "type": "tool_result",
                        "tool_use_id": block["id"],
                        "content": block["input"]["label"],
                    }
                )
        messages.append({"role": "assistant", "content": blocks})
        if not results:
            return steps
        messages.append({"role": "user", "content": results})
        steps += 1


async def chat_steps(meter: Meter, url: str) -> None:
    await steps(meter, url, chat_run)


async def anthropic_steps(meter: Meter, url: str) -> None:
    await steps(meter, url, anthropic_run)


async def steps(meter: Meter, url: str, run: object) -> None:
    async with client() as http:
        for number in range(RUNS + 1):
            if number == 1:
                meter.begin()
            assert await run(http, f"{url}/steps-{STEPS}") == STEPS  # type: ignore[operator]
        meter.end(RUNS * STEPS)


async def durable_steps(meter: Meter, url: str) -> None:
    """The same with one append and one sync in a thread for each step."""
    with tempfile.TemporaryDirectory() as folder:
        fd = os.open(f"{folder}/history", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def append(line: bytes) -> None:
            os.write(fd, line)
            os.fdatasync(fd)

        async def keep(line: bytes) -> None:
            await trio.to_thread.run_sync(append, line)

        await steps(meter, url, partial(chat_run, after_step=keep))
        os.close(fd)


async def chat_burst(meter: Meter, url: str) -> None:
    await texts(meter, f"{url}/burst-{DELTAS}/v1/chat/completions", DELTAS, BURSTS)


async def anthropic_burst(meter: Meter, url: str) -> None:
    await texts(meter, f"{url}/burst-{DELTAS}/v1/messages", DELTAS, BURSTS)


async def chat_paced(meter: Meter, url: str) -> None:
    await texts(meter, f"{url}/paced-{PACED}/v1/chat/completions", PACED, 2)


async def texts(meter: Meter, url: str, count: int, times: int) -> None:
    async with client() as http:
        for number in range(times + 1):
            if number == 1:
                meter.begin()
            found = 0
            async for event in events(http, url, {"model": "m"}):
                if "choices" in event:
                    choices: list[dict[str, dict[str, str]]] = event["choices"]  # type: ignore[assignment]
                    found += bool(choices and choices[0]["delta"].get("content"))
                else:
                    found += event["type"] == "content_block_delta"
            assert found == count, found
        meter.end(times * count)


async def crowd(meter: Meter, url: str, count: int = CROWD) -> None:
    """Runs at once, by one client, as httpx's documentation has it."""
    async with client() as http:
        assert await chat_run(http, f"{url}/steps-{CROWD_STEPS}") == CROWD_STEPS
        meter.begin()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(chat_run, http, f"{url}/steps-{CROWD_STEPS}")
        meter.end(count)


async def spawn(meter: Meter, _url: str) -> None:
    """Tasks with two memory channels each."""
    await spawned(meter, is_end=False)


async def shutdown(meter: Meter, _url: str) -> None:
    await spawned(meter, is_end=True)


async def spawned(meter: Meter, *, is_end: bool) -> None:
    async def task(channel: trio.MemoryReceiveChannel[int]) -> None:
        async for _ in channel:
            pass

    async with trio.open_nursery() as nursery:
        ends = []
        if not is_end:
            meter.begin()
        for _ in range(AGENTS):
            send, receive = trio.open_memory_channel[int](64)
            ends.append((send, trio.open_memory_channel[int](64)))
            nursery.start_soon(task, receive)
        await trio.testing.wait_all_tasks_blocked()
        if not is_end:
            meter.end(AGENTS)
        else:
            meter.begin()
        for send, _ in ends:
            send.close()
    if is_end:
        meter.end(AGENTS)


async def round_trip(meter: Meter, _url: str) -> None:
    async def echo(inputs: trio.MemoryReceiveChannel[str]) -> None:
        async for each in inputs:
            await outputs.send(each)

    to, inputs = trio.open_memory_channel[str](64)
    outputs, back = trio.open_memory_channel[str](64)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo, inputs)
        for number in range(2 * TRIPS):
            if number == TRIPS:
                meter.begin()
            await to.send("hello")
            await back.receive()
        meter.end(TRIPS)
        to.close()


async def fan_out(meter: Meter, _url: str, *, waits: bool = True) -> None:
    """One memory channel for each reader, in bursts."""

    async def read(channel: trio.MemoryReceiveChannel[str]) -> None:
        async for _ in channel:
            pass

    async with trio.open_nursery() as nursery:
        ends = []
        for _ in range(READERS):
            send, receive = trio.open_memory_channel[str](BURST)
            ends.append(send)
            nursery.start_soon(read, receive)
        meter.begin()
        for number in range(CHUNKS):
            for end in ends:
                if waits:
                    await end.send("x")
                else:
                    end.send_nowait("x")
            if number % BURST == BURST - 1:
                await trio.testing.wait_all_tasks_blocked()
        for end in ends:
            end.close()
    meter.end(CHUNKS * READERS)


async def fan_out_nowait(meter: Meter, url: str) -> None:
    await fan_out(meter, url, waits=False)


async def appends(meter: Meter, _url: str, writers: int = 1) -> None:
    """A line and a sync, in a thread, for each message."""
    limiter = trio.CapacityLimiter(32)

    def append(fd: int, line: bytes) -> None:
        os.write(fd, line)
        os.fdatasync(fd)

    async def write(fd: int, count: int) -> None:
        for _ in range(count):
            line = orjson.dumps({"e": [{"role": "user", "content": TEXT}]}) + b"\n"
            await trio.to_thread.run_sync(append, fd, line, limiter=limiter)

    with tempfile.TemporaryDirectory() as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [os.open(f"{folder}/{number}", flags) for number in range(writers)]
        each = max(5, APPENDS // writers)
        for fd in files:
            await write(fd, 1)
        meter.begin()
        async with trio.open_nursery() as nursery:
            for fd in files:
                nursery.start_soon(write, fd, each)
        meter.end(writers * each)
        for fd in files:
            os.close(fd)


async def crowded_appends(meter: Meter, url: str) -> None:
    await appends(meter, url, WRITERS)


async def load(meter: Meter, _url: str) -> None:
    """Read lines of the same messages, and decode each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.jsonl")
        block = {"type": "text", "text": TEXT}
        entry = {"type": "message", "message": {"role": "user", "content": [block]}}
        line = orjson.dumps({"n": 1, "e": [entry], "crc": "00000000"}) + b"\n"
        path.write_bytes(line * MESSAGES)  # noqa: ASYNC240

        def read() -> list[bytes]:
            return path.read_bytes().splitlines()

        for number in range(4):
            if number == 1:
                meter.begin()
            found = [orjson.loads(each) for each in read()]
            assert len(found) == MESSAGES
        meter.end(3 * MESSAGES)
