"""Anything at any moment: whatever is done to a family of agents, the books balance at the end."""

import contextlib
import random

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from greenroom.core import (
    AgentNotRunningError,
    Done,
    Error,
    Exited,
    MailboxFullError,
    Message,
    ModelError,
    PermissionRequest,
    PermissionResponse,
    SubAgentOutput,
    TextDelta,
    ToolEnd,
    ToolStart,
    ToolUseBlock,
    TurnError,
    TurnStart,
    TurnStatus,
)
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, MemoryStore

LIMITS = RuntimeLimits(mailbox=3, subagents=3, ring_chunks=100_000, ring_bytes=10**9)


class Chaos:
    """Agents that do anything, and people who do anything to them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.handles = []
        self.sent = {}
        self.calls = 0

    async def agent(self, agent, depth):
        self.handles.append(self.runtime.get(agent.session.session_id))
        steer = self.random.random() < 0.3
        async for message in agent.inputs():
            async with agent.turn(message, steer=steer):
                for _ in range(self.random.randrange(4)):
                    await self.step(agent, depth)

    async def step(self, agent, depth):
        await agent.step()
        await agent.send(TextDelta("x"))
        self.calls += 1
        call = ToolUseBlock(f"t{self.calls}", "Tool")
        match self.random.randrange(9):
            case 0:
                agent.session.add_message(Message.assistant([call]))
                await agent.send(ToolStart(call.id, "Tool"))
                await self.nap()
            case 1:
                await agent.request_permission("Tool", "run", timeout=self.random.random())
            case 2 | 3 if depth:
                child = agent.spawn(AgentSession.new("child"), self.agent, depth - 1)
                if self.random.random() < 0.5:
                    await child.ask("from the parent")
                else:
                    await child.send_input("from the parent")
                if self.random.random() < 0.3:
                    await child.shutdown(self.random.random())
            case 4:
                raise ModelError("down")
            case 5 if self.random.random() < 0.1:
                raise ValueError("bug")
            case 6:
                try:
                    await self.nap()
                finally:
                    with agent.cleanup(0.5):
                        await self.nap()
            case _:
                await self.nap()

    async def nap(self):
        await trio.sleep(self.random.random())

    async def person(self, root):
        for _ in range(15):
            await self.nap()
            handle = self.random.choice(self.handles or [root])
            with contextlib.suppress(AgentNotRunningError, MailboxFullError, TurnError):
                await self.meddle(handle)

    async def meddle(self, handle):
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.note(handle, await handle.send_input("hello"))
            case 3:
                self.note(handle, handle.send_input_nowait("hello"))
            case 4 | 5:
                with trio.move_on_after(self.random.random() * 3):
                    await handle.ask("hello")
            case 6:
                await handle.interrupt(grace=self.random.random())
            case 7:
                await handle.interrupt("after_step", grace=self.random.random())
            case 8:
                handle.interrupt_nowait()
            case 9:
                for request in await handle.pending():
                    await handle.respond_permission(request.request_id, "allow")
            case 10 if self.random.random() < 0.2:
                await handle.shutdown(self.random.random())
            case 11 if self.random.random() < 0.2:
                handle.kill()

    def note(self, handle, receipt):
        self.sent.setdefault(handle.session_id, []).append(receipt.input_id)

    async def run(self):
        with trio.fail_after(10_000):
            async with AgentRuntime(store=MemoryStore(), limits=LIMITS) as self.runtime:
                root = self.runtime.spawn(AgentSession.new("root"), self.agent, 2)
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        nursery.start_soon(self.person, root)
            for handle in self.handles:
                await self.audit(handle)

    async def audit(self, handle):
        outcome = await handle.wait()
        chunks = [chunk async for chunk in handle.subscribe("all")]
        mine = [chunk for chunk in chunks if not isinstance(chunk, SubAgentOutput)]
        assert isinstance(mine[-1], Exited)
        assert sum(isinstance(chunk, Exited) for chunk in mine) == 1
        turns = [chunk for chunk in mine if isinstance(chunk, (TurnStart, Done))]
        for start, done in zip(turns[::2], turns[1::2], strict=True):
            assert (type(start), type(done)) == (TurnStart, Done)
            assert start.input_id == done.input_id
        assert [c.id for c in mine if isinstance(c, ToolStart)] == [
            c.id for c in mine if isinstance(c, ToolEnd)
        ]
        asked = [c.request_id for c in mine if isinstance(c, PermissionRequest)]
        answered = [c.request_id for c in mine if isinstance(c, PermissionResponse)]
        assert sorted(asked) == sorted(answered)
        failed = sum(isinstance(c, Done) and c.status is TurnStatus.FAILED for c in mine)
        assert sum(isinstance(c, Error) for c in mine) == failed
        self.audit_history(await handle.history())
        # Each input has begun a turn, has joined one, or is reported: the texts are counted.
        taken = sum(m.text.startswith(("hello", "from the")) for m in await handle.history())
        undelivered = {message.id for message in outcome.undelivered}
        begun = {chunk.input_id for chunk in mine if isinstance(chunk, TurnStart)}
        sent = set(self.sent.get(handle.session_id, ()))
        joined = sent - begun - undelivered
        assert not begun & undelivered
        assert len(joined) <= taken

    @staticmethod
    def audit_history(history):
        open_calls = []
        for message in history:
            if message.role == "assistant":
                open_calls += [call.id for call in message.tool_uses]
            for result in message.tool_results:
                open_calls.remove(result.tool_use_id)
        assert open_calls == []


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_whatever_happens_the_books_balance(seed):
    trio.run(Chaos(seed).run, clock=MockClock(autojump_threshold=0))
