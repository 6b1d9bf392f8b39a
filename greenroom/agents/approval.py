"""Approval by a function: it is asked what a person would be asked, each question in a task of its own."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from greenroom.core import (
    Answer,
    Lagged,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
    SubAgentOutput,
)
from greenroom.runtime import AgentHandle, Subscription

Decide = Callable[[PermissionRequest], Awaitable[bool | Answer]]
"""Decides about a request; it may take its time, and is cancelled where the request is withdrawn."""


@asynccontextmanager
async def attend(handle: AgentHandle, decide: Decide) -> AsyncIterator[None]:
    """Let a function answer the requests of an agent, and of those below it, while the block is open.

    What the function raises cancels the block, and is raised from it.
    """
    chunks = handle.subscribe("all", answers=True)
    try:
        async with chunks, trio.open_nursery() as nursery:
            nursery.start_soon(_Attendant(handle, decide, nursery).read, chunks)
            yield
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__


def as_answer(given: object) -> Answer:
    """Take what a program says to a request as an answer.

    Raises:
        TypeError: it says neither yes nor no.
    """
    match given:
        case Answer():
            return given
        case True | "allow":
            return Answer(RuleDecision.ALLOW, by="user")
        case False | "deny":
            return Answer(RuleDecision.DENY, by="user")
        case _:
            pass
    raise TypeError(f"an answer is True, False, 'allow', 'deny' or an Answer, not {given!r}")


async def respond(handle: AgentHandle, request_id: str, answer: Answer) -> None:
    """Give an agent an answer; it makes no difference where another one came first."""
    await handle.respond_permission(
        request_id,
        answer.decision,
        remember=answer.remember,
        message=answer.message,
        input=answer.input,
        by=answer.by or "user",
    )


class _Attendant:
    """The tasks that answer for one agent."""

    def __init__(self, handle: AgentHandle, decide: Decide, nursery: trio.Nursery) -> None:
        self._handle = handle
        self._decide = decide
        self._nursery = nursery
        self._open: dict[str, trio.CancelScope] = {}

    async def read(self, chunks: Subscription) -> None:
        """Begin to answer what is asked, and stop where the question is gone."""
        async for chunk in chunks:
            match _innermost(chunk):
                case PermissionRequest() as request:
                    self._begin(request)
                case PermissionResponse(request_id=request_id) if request_id in self._open:
                    self._open[request_id].cancel()
                case Lagged():
                    for request in await self._handle.pending():
                        self._begin(request)
                case _:
                    pass

    def _begin(self, request: PermissionRequest) -> None:
        if request.request_id not in self._open:
            self._open[request.request_id] = trio.CancelScope()
            self._nursery.start_soon(self._answer, request)

    async def _answer(self, request: PermissionRequest) -> None:
        try:
            with self._open[request.request_id]:
                found = self._decide(request)
                if not inspect.isawaitable(found):
                    raise TypeError(f"approve= is an async function: it returned {found!r}")
                answer = as_answer(await found)
                await respond(self._handle, request.request_id, answer)
        finally:
            del self._open[request.request_id]


def _innermost(chunk: OutputChunk) -> OutputChunk:
    """Return what an agent said, at whatever depth below the one that is read."""
    while isinstance(chunk, SubAgentOutput):
        chunk = chunk.chunk
    return chunk
