"""The same workloads by Greenroom, each with what is on by default: permissions, and a store."""

import itertools
import tempfile
import time
from pathlib import Path

import trio
import trio.testing

from benchmarks import sizes
from benchmarks.sample import Meter
from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    Done,
    FileStore,
    InMemoryStore,
    Message,
    PermissionManager,
    PermissionRule,
    RuntimeLimits,
    SessionStore,
    SQLiteStore,
    Subscription,
    TextComplete,
    TextDelta,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.llm import AnthropicProvider, LLMProvider, OpenAIProvider

LIMITS = RuntimeLimits(watchdog=None)


def chat(url: str) -> LLMProvider:
    return OpenAIProvider("m", api_key="k", base_url=f"{url}/v1", env={}, window=200_000)


def anthropic(url: str) -> LLMProvider:
    return AnthropicProvider("m", api_key="k", base_url=url, env={}, window=200_000)


async def run_steps(meter: Meter, llm: LLMProvider, store: SessionStore) -> None:
    moments: list[float] = []

    @tool(category="read")
    async def look(label: str) -> str:
        """Look at something."""
        moments.append(time.perf_counter())
        return label

    tools = ToolRegistry([look])
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    async with AgentRuntime(store, limits=LIMITS) as runtime:
        for number in range(sizes.RUNS + 1):
            if number == 1:
                moments.clear()
                meter.begin()
            handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
            assert (await handle.ask("go")).status == "completed"
            await handle.shutdown()
        meter.end(sizes.RUNS * sizes.STEPS)
    assert len(moments) == sizes.RUNS * sizes.STEPS
    for run in range(sizes.RUNS):
        of_run = moments[run * sizes.STEPS : (run + 1) * sizes.STEPS]
        meter.steps += [b - a for a, b in itertools.pairwise(of_run)]
    await llm.aclose()


async def chat_steps(meter: Meter, url: str) -> None:
    await run_steps(meter, chat(f"{url}/steps-{sizes.STEPS}"), InMemoryStore())


async def anthropic_steps(meter: Meter, url: str) -> None:
    await run_steps(meter, anthropic(f"{url}/steps-{sizes.STEPS}"), InMemoryStore())


async def durable_steps(meter: Meter, url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await run_steps(meter, chat(f"{url}/steps-{sizes.STEPS}"), FileStore(folder))


async def sqlite_steps(meter: Meter, url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder, "sessions.db"))
        await run_steps(meter, chat(f"{url}/steps-{sizes.STEPS}"), store)
        await store.aclose()


async def texts(meter: Meter, llm: LLMProvider, count: int, times: int) -> None:
    """Read the deltas of an agent, as a program that shows them would."""
    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        for number in range(times + 1):
            if number == 1:
                meter.begin()
            session = AgentSession.new("coder")
            handle = runtime.spawn(session, coder, llm, ToolRegistry(), PermissionManager())
            async with handle.subscribe("all") as chunks:
                handle.send_input_nowait("go")
                assert await read_turn(chunks) == count
            await handle.shutdown()
        meter.end(times * count)
    await llm.aclose()


async def read_turn(chunks: Subscription) -> int:
    found = 0
    while batch := await chunks.take():
        for chunk in batch:
            if isinstance(chunk, TextDelta):
                found += 1
            elif isinstance(chunk, Done):
                return found
    return found


async def chat_burst(meter: Meter, url: str) -> None:
    await texts(meter, chat(f"{url}/burst-{sizes.DELTAS}"), sizes.DELTAS, sizes.BURSTS)


async def anthropic_burst(meter: Meter, url: str) -> None:
    await texts(meter, anthropic(f"{url}/burst-{sizes.DELTAS}"), sizes.DELTAS, sizes.BURSTS)


async def chat_paced(meter: Meter, url: str) -> None:
    await texts(meter, chat(f"{url}/paced-{sizes.PACED}"), sizes.PACED, 2)


async def crowd(meter: Meter, url: str, count: int = sizes.CROWD) -> None:
    llm = chat(f"{url}/steps-{sizes.CROWD_STEPS}")

    @tool(category="read")
    async def look(label: str) -> str:
        """Look at something."""
        return label

    async def run() -> None:
        tools = ToolRegistry([look])
        permissions = PermissionManager([PermissionRule.allow_tool("look")])
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        assert (await handle.ask("go")).status == "completed"
        await handle.shutdown()

    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        await run()
        meter.begin()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(run)
        meter.end(count)
    await llm.aclose()


async def large_crowd(meter: Meter, url: str) -> None:
    await crowd(meter, url, 1_000)


async def idle(agent: AgentInternals) -> None:
    async for _ in agent.inputs():
        pass


async def spawn(meter: Meter, _url: str) -> None:
    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        runtime.spawn(AgentSession.new("idle"), idle)
        await trio.testing.wait_all_tasks_blocked()
        meter.begin()
        for _ in range(sizes.AGENTS):
            runtime.spawn(AgentSession.new("idle"), idle)
        await trio.testing.wait_all_tasks_blocked()
        meter.end(sizes.AGENTS)


async def shutdown(meter: Meter, _url: str) -> None:
    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        for _ in range(sizes.AGENTS):
            runtime.spawn(AgentSession.new("idle"), idle)
        await trio.testing.wait_all_tasks_blocked()
        meter.begin()
        await runtime.shutdown_all()
        meter.end(sizes.AGENTS)


async def round_trip(meter: Meter, _url: str) -> None:
    async def answer(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            agent.send_nowait(TextComplete(message.text))

    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("echo"), answer)
        async with handle.subscribe("none") as chunks:
            for number in range(2 * sizes.TRIPS):
                if number == sizes.TRIPS:
                    meter.begin()
                handle.send_input_nowait("hello")
                while not isinstance(await anext(chunks), TextComplete):
                    pass
            meter.end(sizes.TRIPS)


async def ask(meter: Meter, _url: str) -> None:
    async def answer(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.send_nowait(TextComplete(message.text))

    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("echo"), answer)
        for number in range(2 * sizes.TRIPS):
            if number == sizes.TRIPS:
                meter.begin()
            await handle.ask("hello")
        meter.end(sizes.TRIPS)


async def fan_out(meter: Meter, _url: str) -> None:
    async def talk(agent: AgentInternals) -> None:
        async for _ in agent.inputs():
            for _ in range(sizes.CHUNKS):
                await agent.send(chunk)

    async def read(chunks: Subscription) -> None:
        count = 0
        async for each in chunks:
            count += each is chunk
        assert count == sizes.CHUNKS, count

    chunk = TextDelta("x")
    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talk)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for _ in range(sizes.READERS):
                nursery.start_soon(read, handle.subscribe("all"))
            await trio.testing.wait_all_tasks_blocked()
            meter.begin()
            await handle.send_input("go")
            await trio.testing.wait_all_tasks_blocked()
            meter.end(sizes.CHUNKS * sizes.READERS)
            await handle.shutdown()


async def appends(meter: Meter, _url: str, writers: int = 1) -> None:
    async def write(session: AgentSession, count: int) -> None:
        for _ in range(count):
            session.add_message(Message.user(sizes.TEXT))
            await session.save()

    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(folder)
        sessions = [AgentSession.new("coder", store=store) for _ in range(writers)]
        each = max(5, sizes.APPENDS // writers)
        for session in sessions:
            await session.open()
            await write(session, 1)
        meter.begin()
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(write, session, each)
        meter.end(writers * each)
        for session in sessions:
            await session.close()


async def crowded_appends(meter: Meter, url: str) -> None:
    await appends(meter, url, sizes.WRITERS)


async def load(meter: Meter, _url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(folder)
        session = AgentSession.new("coder", store=store)
        await session.open()
        for number in range(sizes.MESSAGES):
            session.add_message(Message.user(sizes.TEXT))
            if number % 100 == 99:
                await session.save(flush=False)
        await session.save()
        await session.close()
        for number in range(4):
            if number == 1:
                meter.begin()
            loaded = await AgentSession.load(session.session_id, store=store)
            assert len(loaded.history) == sizes.MESSAGES
        meter.end(3 * sizes.MESSAGES)
