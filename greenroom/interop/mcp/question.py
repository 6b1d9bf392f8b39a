"""A call that is on its way, and the questions that its server asks a person meanwhile."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self, cast

import mcp_types as types
import trio
from pydantic import ValidationError

from greenroom.core import AgentContext, Answer, ToolError, ToolResult, ToolStatus
from greenroom.core._internal import AUTOMATIC_DECIDERS, clip, describe_error, quantity, visible
from greenroom.interop.mcp.tool import MCPTool
from greenroom.runtime._internal import calling_internals

_MAX_QUESTIONS = 8  # of one call that wait to be asked
_MAX_TEXT = 10_000  # characters of a question
_MAX_SHOWN = 1_000_000  # characters of progress
_MAX_NOTE = 1_000

_Reply = trio.MemorySendChannel[types.ElicitResult]


@dataclass(frozen=True)
class Question:
    """What a server asks: for the fields of a form, or that the person opens a page.

    Attributes:
        text: the question.
        fields: a JSON Schema of what the answer holds; None for a page.
        url: the page, or empty.
    """

    text: str
    fields: dict[str, object] | None = None
    url: str = ""

    @classmethod
    def of(cls, params: types.ElicitRequestParams) -> Self:
        """Read the question of a request."""
        text = visible(clip(params.message, _MAX_TEXT))
        if isinstance(params, types.ElicitRequestURLParams):
            return cls(text, url=visible(clip(params.url, _MAX_TEXT)))
        schema = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        return cls(text, fields=cast("dict[str, object]", schema["requestedSchema"]))


class OpenCall:
    """One call: its time, its progress, and the questions of its server.

    The server's messages arrive in a task of the connection, and a person can be asked only from
    within the call: so questions wait here until a task of the call takes them.
    """

    def __init__(self, tool: MCPTool, context: AgentContext, timeout: float) -> None:
        """Begin a call that may take this many seconds, without the time in which it asks."""
        self.tool, self.context = tool, context
        self._timeout = timeout
        self._limit = trio.CancelScope()
        self._room = _MAX_SHOWN
        self._send, self._receive = trio.open_memory_channel[tuple[Question, _Reply]](
            _MAX_QUESTIONS
        )

    async def run(self, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run what makes the call, and answer the server's questions until it ends."""
        result: ToolResult | None = None
        failure: Exception | None = None
        async with self._receive, trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_questions)
            self._limit.deadline = trio.current_time() + self._timeout
            with self._limit:
                try:
                    result = await call()
                except Exception as error:  # noqa: BLE001  (raised below, outside of the nursery)
                    failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if result is None:
            most = quantity(self._timeout, "second")
            text = f"{self.tool.name} was stopped: it took more than {most}."
            return ToolResult.error(text, ToolStatus.TIMEOUT)
        return result

    async def show_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Show how far the call is."""
        share = f"{progress:g}" + (f" of {total:g}" if total else "")
        text = f"{visible(clip(message, _MAX_NOTE))} ({share})\n" if message else f"{share}\n"
        if self._room > 0:
            self._room -= len(text)
            self.context.progress(text)

    async def ask(self, question: Question) -> types.ElicitResult:
        """Have the call's own task ask a person, and wait for the answer."""
        reply, answer = trio.open_memory_channel[types.ElicitResult](1)
        try:
            self._send.send_nowait((question, reply))
            return await answer.receive()
        except (trio.WouldBlock, trio.BrokenResourceError, trio.EndOfChannel):
            return types.ElicitResult(action="cancel")  # too many, or the call is over

    async def _answer_questions(self) -> None:
        async for question, reply in self._receive:
            with reply:
                left = self._limit.deadline - trio.current_time()
                self._limit.deadline = float("inf")
                result = await self._ask_person(question)
                self._limit.deadline = trio.current_time() + left
                reply.send_nowait(result)

    async def _ask_person(self, question: Question) -> types.ElicitResult:
        agent = calling_internals()
        if agent is None:  # a program called the tool itself
            return types.ElicitResult(action="cancel")
        server = self.tool.server
        what = (
            f"Open a page for the MCP server {server}"
            if question.url
            else (f"Answer a question of the MCP server {server}")
        )
        details = "\n\n".join(filter(None, (question.text, question.url)))
        try:
            answer = await agent.request_permission(
                self.tool.name,
                what,
                details=details,
                reason=f"the server asks this while {self.tool.remote_name} runs",
                fields=question.fields,
                tool_use_id=self.context.current_tool_use_id or "",
                digest=f"{self.tool.definition_hash} {details}",
            )
        except ToolError as error:  # its fields are no usable schema
            self.context.progress(f"[a question can't be asked: {describe_error(error)}]\n")
            return types.ElicitResult(action="cancel")
        return _read_answer(answer, question)


def _read_answer(answer: Answer, question: Question) -> types.ElicitResult:
    if not answer.allowed:
        return types.ElicitResult(action="cancel" if answer.by in AUTOMATIC_DECIDERS else "decline")
    if question.fields is None:
        return types.ElicitResult(action="accept")
    content = {**_defaults(question.fields), **(answer.input or {})}
    try:
        return types.ElicitResult.model_validate({"action": "accept", "content": content})
    except ValidationError:  # the form asked for, or began with, what an answer can't hold
        return types.ElicitResult(action="cancel")


def _defaults(fields: dict[str, object]) -> dict[str, object]:
    """Return what a form holds before a person changes it."""
    properties = fields.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {
        name: each["default"]
        for name, each in known.items()
        if isinstance(each, dict) and "default" in each
    }
