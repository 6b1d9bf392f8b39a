"""One call of a client: judged, run and answered, and what is asked and shown meanwhile.

Each call is an agent of its own, whose one turn runs one tool, so that rules, gates, records and
budgets hold as for a model's calls. In the newer era of the protocol a question ends the request,
and the answer comes with another one: so the call lives in the server, not in a request.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import mcp_types as types
import trio

from greenroom.agents import run_tools
from greenroom.agents._internal import Toolbox, attend
from greenroom.core import (
    AgentContext,
    Answer,
    Message,
    OutputChunk,
    PermissionRequest,
    RuleDecision,
    SubAgentOutput,
    ToolProgress,
    ToolResult,
    ToolStart,
    ToolStatus,
    ToolUseBlock,
    UserInput,
)
from greenroom.core._internal import as_blocks, new_id
from greenroom.interop.mcp.form import Form
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

Show: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows the client a line of progress."""

PATIENCE = 300.0
"""Seconds that a call waits for the request that brings the answer to its question."""

_GRACE = 2.0  # seconds for a call that is given up to clean up
_MOST_LINE = 1_000  # characters of progress that are sent at once


class Client:
    """What the calls of one client share: the folder they work in, and what their tools remember.

    It is an agent that only stays, so that commands left running belong to somebody.
    """

    def __init__(self, runtime: AgentRuntime, by: str) -> None:
        """Start the agent of a client whose person is recorded by this name."""
        self.by = by
        self._context: AgentContext | None = None
        self._is_ready = trio.Event()
        session = AgentSession.new("mcp-client", store=InMemoryStore())
        self.handle = runtime.spawn(session, self._stay, unattended="deny")

    async def _stay(self, agent: AgentInternals) -> None:
        self._context = agent.context
        self._is_ready.set()
        async for _ in agent.inputs():
            pass  # the ends of commands that were left running: tools ask for them

    @asynccontextmanager
    async def lend(self, context: AgentContext) -> AsyncIterator[None]:
        """Let the context of a call have what is shared, while the block is open.

        The runtime ends what a context holds along with its agent, which here is not to end.
        """
        await self._is_ready.wait()
        shared = self._context
        assert shared is not None
        own = {name: getattr(context, name) for name in _SHARED}
        for name in _SHARED:
            setattr(context, name, getattr(shared, name))
        try:
            yield
        finally:
            for name, value in own.items():
                setattr(context, name, value)


_SHARED = ("workspace", "resources", "files", "spill_folder", "on_background")
"""What a call's context has of its client's."""


class Question:
    """A question that a call waits for.

    Attributes:
        form: what is asked.
        scope: cancelled when the client no longer waits for the answer.
    """

    def __init__(self, form: Form) -> None:
        """Ask this."""
        self.form = form
        self.scope = trio.CancelScope()
        self._is_answered = trio.Event()
        self._answer: Answer | None = None

    def answer(self, result: types.ElicitResult | None, by: str) -> bool:
        """Answer it with what a client sent; return whether that was an answer to it."""
        self._answer = None if result is None else self.form.read(result, by)
        if self._answer is None:
            return False
        self._is_answered.set()
        return True

    @property
    def is_answered(self) -> bool:
        """Whether it has its answer."""
        return self._is_answered.is_set()

    async def wait(self) -> Answer:
        """Wait for the answer."""
        try:
            await self._is_answered.wait()
        finally:
            self.scope.cancel()
        assert self._answer is not None
        return self._answer


class ServedCall:
    """One call, from its first request to its result.

    Attributes:
        client: whose call it is.
        name: the tool.
        input: the call's input.
        show: shows its progress to the request that waits for it.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        input: dict[str, object],  # noqa: A002
        ahead: Mapping[str, types.ElicitResult],
        *,
        may_ask: bool,
    ) -> None:
        """Take a call; `ahead` has answers that came with it, by the names of the questions."""
        self.client, self.name, self.input = client, name, input
        self.show: Show | None = None
        self._ahead, self._may_ask = ahead, may_ask
        self._scope = trio.CancelScope()
        self._question: Question | None = None
        self._result: ToolResult | None = None
        self._is_over = False
        self._changed = trio.Event()
        self._asking = trio.Lock()

    def cancel(self) -> None:
        """Give it up; what it has started is ended."""
        self._scope.cancel()

    def wait_at_most(self, seconds: float) -> None:
        """Give it up after so many seconds, unless this is called again."""
        self._scope.deadline = trio.current_time() + seconds

    async def next(self) -> Question | ToolResult:
        """Wait for a question that is open, or for the result."""
        while self.question is None and not self._is_over:
            await self._changed.wait()
        return self.question or self._result or _NO_RESULT

    @property
    def question(self) -> Question | None:
        """The question that waits for its answer, if there is one."""
        found = self._question
        return None if found is None or found.is_answered else found

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def run(
        self, runtime: AgentRuntime, tools: Toolbox, permissions: PermissionManager | None
    ) -> None:
        """Run it as an agent, until it ends or is given up."""
        session = AgentSession.new("mcp", store=InMemoryStore())
        with self._scope:
            handle = runtime.spawn(
                session, self._work, tools, permissions, unattended="deny", name="mcp"
            )
            try:
                await self._follow(handle)
            finally:
                with trio.CancelScope(shield=True):
                    await _end(handle)

    def end(self) -> None:
        """Let whoever waits for it know that it has ended."""
        self._is_over = True
        self._change()

    async def _follow(self, handle: AgentHandle) -> None:
        """Show what the agent does, and answer what it asks, until it has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show_progress, handle)
            if self._may_ask:
                async with attend(handle, self._decide):
                    await handle.wait()
            else:
                await handle.wait()

    async def _work(
        self, agent: AgentInternals, tools: Toolbox, permissions: PermissionManager | None
    ) -> None:
        """Make the call in a turn, as if a model had asked for it."""
        call = ToolUseBlock(new_id("call"), self.name, self.input)
        message = UserInput(as_blocks(f"A client calls {self.name}."))
        async with self.client.lend(agent.context), agent.turn(message):
            rules = tools.permissions(permissions, agent.context)
            agent.session.add_message(Message.assistant((call,)))
            await run_tools(agent, (call,), tools.registry, rules, on_result=self._keep)

    def _keep(self, _: ToolUseBlock, result: ToolResult) -> ToolResult:
        self._result = result
        return result

    async def _show_progress(self, handle: AgentHandle) -> None:
        async with handle.subscribe("all") as chunks:
            async for chunk in chunks:
                if self.show is not None and (text := _read_progress(chunk)):
                    await self.show(text)

    async def _decide(self, request: PermissionRequest) -> Answer:
        """Ask the person at the client."""
        form = Form.of(request)
        if form is None:
            return Answer(RuleDecision.DENY, message="a client can't be asked this")
        async with self._asking:
            question = Question(form)
            ahead = self._ahead.get(form.key) if form.may_be_answered_ahead else None
            if not question.answer(ahead, self.client.by):
                self._question = question
                self._change()
            try:
                return await question.wait()
            finally:
                self._question = None


_NO_RESULT = ToolResult.error("The call ended without a result.", ToolStatus.INTERRUPTED)


async def _end(handle: AgentHandle) -> None:
    """End the agent of a call, and what it was doing, within a time of its own."""
    await handle.interrupt("now", _GRACE)
    await handle.shutdown(_GRACE)


def _read_progress(chunk: OutputChunk) -> str:
    """Return what a chunk says of the progress of a call, perhaps nothing."""
    if isinstance(chunk, ToolProgress):
        return chunk.output.rstrip("\n")[-_MOST_LINE:]
    depth = 0
    while isinstance(chunk, SubAgentOutput):
        chunk, depth = chunk.chunk, depth + 1
    if depth and isinstance(chunk, ToolStart) and chunk.info is not None:
        return chunk.info.action[:_MOST_LINE]
    return ""
