"""How many files of the package a real run passes through between a call and its effect.

python benchmarks/files_passed.py

A reader who follows the program has to open these files. A file counts if any of its code runs,
that is, if `sys.setprofile`, in the thread of the event loop, or `threading.setprofile`, in every
other, sees an event of one of its frames (a call, a return, a coroutine that resumes or is
suspended, a call of C from it). All tasks and threads of the process count, whatever they do in
the meantime, and so do the package's `__init__` files. What does not count: files outside of
`greenroom/`, generated code (`__init__` of dataclasses and structs), and what a command's own
processes do.

Each operation runs once, unrecorded, before it is recorded, so imports, caches and threads are
ready. Sessions are in a `FileStore`, the watchdog is off, and no agent has anything else to do.

- input -> loop: from `handle.send_input(…)` until the agent's `async for` has the input.
- chunk -> renderer: from `agent.send(TextDelta(…))` until `ConsoleRenderer` hands the frame that
  shows this text to its terminal. What a terminal does with a frame is not counted: the live one
  (`cli/prompt_terminal.py`, which draws from a thread of prompt_toolkit's) passes through 2 more.
- allowed `Bash true`: from `run_tools(…)` until it returns, in a turn of an agent; a rule allows
  the command.
- message -> disk: from `session.add_message(…)` until `session.save()` returns; the session is
  open.
- interrupt of a running `Bash`: from `handle.interrupt()` until it returns, with the ready-made
  `coder` and a command whose output has begun.
- Agent.run -> first byte: from `agent.run(…)` in a runtime that is open, until the server of the
  model has the first bytes of the request.

It prints for each path the count, the bound, and the files in the order of their first entry. Exits
with 1 where a bound is passed.
"""

import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import trio
import trio.testing

import greenroom
from greenroom import (
    Agent,
    AgentHandle,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    ConsoleRenderer,
    FileStore,
    Message,
    PermissionManager,
    PermissionRule,
    RuntimeLimits,
    TextDelta,
    ToolProgress,
    ToolRegistry,
    coder,
    run_tools,
    stream_reply,
)
from greenroom.cli.terminal import Frame, PersonEvent, Terminal
from greenroom.llm import ModelError, OpenAIProvider
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import Bash

ROOT = f"{Path(greenroom.__file__).parent}{os.sep}"
BOUNDS = {
    "input -> loop": 10,
    "chunk -> renderer": 13,
    "allowed `Bash true`": 44,
    "message -> disk": 11,
    "interrupt of a running `Bash`": 30,
    "Agent.run -> first byte": 55,
}
LIMITS = RuntimeLimits(watchdog=None)
BUSY = "echo begun; sleep 60"
REFUSAL = b"HTTP/1.1 400 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Recorder:
    """Notes the files of the package whose code runs between `start` and `stop`, in all threads."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._is_on = False
        # Before there is any thread: it is for threads that start from here on.
        threading.setprofile(self._note)

    def start(self) -> None:
        self.files = {}
        self._is_on = True
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        self._is_on = False

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if self._is_on and name.startswith(ROOT):
            self.files[name[len(ROOT) :]] = None


@asynccontextmanager
async def runtime_in(folder: str) -> AsyncIterator[AgentRuntime]:
    async with AgentRuntime(store=FileStore(folder), limits=LIMITS) as runtime:
        yield runtime
        await runtime.shutdown_all(grace=0)


async def input_to_loop(recorder: Recorder, folder: str) -> None:
    async def agent(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            recorder.stop()
            async with agent.turn(message):
                pass

    async with runtime_in(folder) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        await handle.ask("warm")
        await trio.testing.wait_all_tasks_blocked()
        recorder.start()
        await handle.send_input("go")
        await trio.testing.wait_all_tasks_blocked()


class WatchedTerminal:
    """A live terminal that stops the recording when a frame shows the text."""

    is_live = True
    echoes = False
    colors = None
    size = (80, 24)

    def __init__(self, recorder: Recorder, text: str) -> None:
        self._recorder = recorder
        self._text = text
        self._send, self.events = trio.open_memory_channel[PersonEvent](1)
        self.shown = trio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Terminal]:
        yield self

    async def show(self, frame: Frame) -> None:
        if self._text in frame.scrollback + frame.live:
            self._recorder.stop()
            self.shown.set()

    def clear_line(self) -> None:
        raise AssertionError("there is no typing here")

    def put_back(self, text: str) -> None:
        raise AssertionError("there is no typing here")

    def adopt(self, options: object) -> None:
        """There is no line to fit."""

    restyle = know = adopt

    def offer(self, kind: str, candidates: object) -> None:
        raise AssertionError("there is no typing here")


async def chunk_to_renderer(recorder: Recorder, folder: str) -> None:
    terminal = WatchedTerminal(recorder, "draw me")

    async def agent(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("warm "))
                await trio.testing.wait_all_tasks_blocked()
                recorder.start()
                await agent.send(TextDelta("draw me"))
                await terminal.shown.wait()

    async with runtime_in(folder) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        nursery.start_soon(ConsoleRenderer(handle, terminal=terminal.open).run)
        await trio.testing.wait_all_tasks_blocked()
        await handle.ask("go")
        await handle.shutdown(grace=0)


async def allowed_command(recorder: Recorder, folder: str) -> None:
    tools = ToolRegistry([Bash()])
    permissions = PermissionManager([PermissionRule.allow_command("true")])
    model = ScriptedProvider(*[call("Bash", command="true")] * 2)

    async def agent(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                reply = await stream_reply(agent, model, tools)
                recorder.start()
                (result,) = await run_tools(agent, reply.tool_uses, tools, permissions)
                recorder.stop()
                assert not result.is_error

    async with runtime_in(folder) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        await handle.ask("warm")
        await handle.ask("go")


async def message_to_disk(recorder: Recorder, folder: str) -> None:
    session = AgentSession.new("agent", store=FileStore(folder))
    await session.open()
    for text in ("warm", "go"):
        message = Message.user(text)
        recorder.start()
        session.add_message(message)
        await session.save()
        recorder.stop()
    await session.close()


async def interrupted_command(recorder: Recorder, folder: str) -> None:
    tools = ToolRegistry([Bash()])
    permissions = PermissionManager([PermissionRule.allow_all()])
    model = ScriptedProvider(*[call("Bash", command=BUSY)] * 2)

    async def interrupt(handle: AgentHandle) -> None:
        async with handle.subscribe() as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, ToolProgress):
                    break
        await trio.testing.wait_all_tasks_blocked(0.2)
        recorder.start()
        report = await handle.interrupt()
        recorder.stop()
        assert report.abandoned == ()

    async with runtime_in(folder) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), coder, model, tools, permissions)
        await interrupt(handle)
        await trio.testing.wait_all_tasks_blocked(0.2)
        await interrupt(handle)


async def run_to_first_byte(recorder: Recorder, folder: str) -> None:
    is_warm = False

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            if is_warm:
                recorder.stop()
            await stream.send_all(
                b"HTTP/1.1 503 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, answer, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        llm = OpenAIProvider("m-1", api_key="k", base_url=f"http://127.0.0.1:{port}")
        agent = Agent(llm, instructions="Be brief.", tools=[])
        async with runtime_in(folder) as runtime:
            for is_warm in (False, True):
                if is_warm:
                    recorder.start()
                with suppress(ModelError):
                    await agent.run("hello", runtime=runtime)
        await llm.aclose()
        nursery.cancel_scope.cancel()


PATHS: dict[str, Callable[[Recorder, str], Awaitable[None]]] = {
    "input -> loop": input_to_loop,
    "chunk -> renderer": chunk_to_renderer,
    "allowed `Bash true`": allowed_command,
    "message -> disk": message_to_disk,
    "interrupt of a running `Bash`": interrupted_command,
    "Agent.run -> first byte": run_to_first_byte,
}


def main() -> int:
    recorder = Recorder()
    passed = 0
    for name, walk in PATHS.items():
        with tempfile.TemporaryDirectory() as folder:
            trio.run(walk, recorder, folder)
        count, bound = len(recorder.files), BOUNDS[name]
        passed += count > bound
        note = ", TOO MANY" if count > bound else ""
        print(f"{name}: {count} files (at most {bound}){note}")
        print(*(f"    {file}" for file in recorder.files), sep="\n")
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main())
