"""Questions of an agent: the tool `AskPerson`, and `attend`, which lets a function answer.

The function is asked what a person would be asked, each question in a task of its own.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import trio

from greenroom.core import (
    AgentContext,
    Answer,
    Lagged,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
    SubAgentOutput,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
)
from greenroom.core._internal import AUTOMATIC_DECIDERS, clip
from greenroom.runtime import AgentHandle, AgentInternals, Subscription

_MOST = 30_000  # characters of an answer


class AskPerson:
    """Ask the person a question in words, and wait for the answer.

    It is asked like a permission, before any call of the reply runs: as a `PermissionRequest` with
    `options`, in the terminal or wherever `handle.respond_permission` is called. The answer is
    "allow" with the person's words as its message; without words it means yes. So the question
    survives the process, an interrupt withdraws it, and a late answer is not accepted. If nobody
    can answer, at the time-out, or if a rule denies the tool, the call is denied and the model gets
    the reason.

    Args:
        timeout: seconds to wait for an answer; `math.inf` waits forever.

    Example:
        ```python
        tools = ToolRegistry([*builtin_tools(), AskPerson()])
        # … and when a request with `options` arrives:
        await handle.respond_permission(request.request_id, "allow", message="the blue one")
        ```
    """

    name = "AskPerson"
    category = "person"
    description = (
        "Ask the user a question that only they can answer, such as which of several ways they"
        " want, and wait. Give options where a few answers are likely; the user may answer in other"
        " words. Do not ask what you can find out yourself, and do not ask for passwords or keys."
    )
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4000,
                "description": "The whole question: the user may not remember what came before.",
            },
            "options": {
                "type": "array",
                "maxItems": 9,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "description": "Likely answers, the one that you would choose first.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    }
    requires_permission = False  # to ask is to do nothing; a rule may deny it

    def __init__(self, timeout: float = 300.0) -> None:
        if not timeout > 0:
            raise ToolError(f"the time-out is {timeout!r}", hint="give seconds, more than 0")
        self._patience = timeout

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the question, and its numbered options."""
        options = [f"{number}. {each}" for number, each in enumerate(_options(input), 1)]
        return ToolInfo("Answer a question", "\n".join([str(input["question"]), *options]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Refuse: only `run_tools` asks questions, for it knows the agent.

        Raises:
            ToolError: always.
        """
        raise ToolError("there is no one to ask here", hint="run the calls with run_tools")

    async def ask(
        self,
        agent: AgentInternals,
        input: dict[str, object],  # noqa: A002
        tool_use_id: str,
        digest: str,
    ) -> Answer:
        """Ask for one call; the answer is bound to the digest, like the answer to a permission."""
        info = self.info(input)
        return await agent.request_permission(
            self.name,
            info.action,
            details=info.details,
            input=input,
            options=_options(input),
            digest=digest,
            tool_use_id=tool_use_id,
            timeout=self._patience,
        )

    def result(self, input: dict[str, object], answer: Answer) -> ToolResult:  # noqa: A002
        """Return the result for the model; a number stands for the option with that number."""
        words = clip(answer.message.strip(), _MOST)
        if answer.allowed:
            options = _options(input)
            number = int(words) if words.isascii() and words.isdigit() and len(words) == 1 else 0
            return ToolResult.ok(
                options[number - 1] if 0 < number <= len(options) else words or "yes"
            )
        is_named_person = answer.by not in AUTOMATIC_DECIDERS and not words
        if answer.by == "user" or is_named_person:
            text = f"The user does not want to answer. {words}".rstrip()
        else:
            text = f"There is no answer: {words or answer.by}."
        return ToolResult.error(text, ToolStatus.DENIED)


def _options(input: dict[str, object]) -> tuple[str, ...]:  # noqa: A002
    """Return the options of an input that has been validated."""
    return tuple(cast("list[str]", input.get("options", [])))


Decide = Callable[[PermissionRequest], Awaitable[bool | Answer]]
"""Decides about a request; it may wait, and is cancelled if the request is withdrawn."""


@asynccontextmanager
async def attend(handle: AgentHandle, decide: Decide) -> AsyncIterator[None]:
    """Let a function answer the requests of an agent and its subagents while the block is open.

    An exception of the function cancels the block, and is raised from it.
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
    """Convert what a program returns for a request to an answer.

    Raises:
        TypeError: it is neither a yes nor a no.
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
    """Give an agent an answer; it has no effect if another one came first."""
    await handle.respond_permission(
        request_id,
        answer.decision,
        remember=answer.remember,
        message=answer.message,
        input=answer.input,
        by=answer.by or "user",
        prefix=answer.prefix,
    )


class _Attendant:
    """The tasks that answer the requests of one agent."""

    def __init__(self, handle: AgentHandle, decide: Decide, nursery: trio.Nursery) -> None:
        self._handle = handle
        self._decide = decide
        self._nursery = nursery
        self._open: dict[str, trio.CancelScope] = {}

    async def read(self, chunks: Subscription) -> None:
        """Start an answer for each request, and cancel it if the request is gone."""
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
                decision = self._decide(request)
                if not inspect.isawaitable(decision):
                    raise TypeError(f"approve= must be an async function: it returned {decision!r}")
                answer = as_answer(await decision)
                await respond(self._handle, request.request_id, answer)
        finally:
            del self._open[request.request_id]


def _innermost(chunk: OutputChunk) -> OutputChunk:
    """Return the chunk itself, taken out of the `SubAgentOutput`s around it."""
    while isinstance(chunk, SubAgentOutput):
        chunk = chunk.chunk
    return chunk
