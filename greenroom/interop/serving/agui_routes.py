"""`POST /ag-ui`: one run of a client of AG-UI.

Theory of operation
===================

The client's thread is the session `NAME:THREAD`, made with its first run. Clients send their whole
conversation each time; ours is the session's, so of what they send only what is new counts: the
person's last message, results of tools that the client runs, and answers to questions (`resume`).

A run ends where it is the client's turn: at the end of ours, at calls that the client runs, or at a
question. The agent waits meanwhile, and the next run goes on from where the last one stopped. A new
message instead of results or answers interrupts the turn that waits for them. A client that goes
away stops nothing; a run without anything new follows the turn that is open.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import trio

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    OutputChunk,
    PermissionRequest,
    TextBlock,
    ToolEnd,
    ToolError,
    ToolResult,
    ToolStart,
    TurnStart,
)
from greenroom.core._internal import StateKind, serde
from greenroom.interop.serving.agui_events import Event, RunEvents
from greenroom.interop.serving.asgi import end_with_client, send_head
from greenroom.interop.serving.calls import Call, with_traceparent
from greenroom.interop.serving.client_tools import (
    ClientToolDefinition,
    add_client_tools,
    find_clash,
)
from greenroom.interop.serving.refusals import bad_request, conflict, not_found
from greenroom.interop.serving.served_session import ClientThread
from greenroom.interop.serving.served_sessions import Known, ServedSessions
from greenroom.runtime import AgentHandle
from greenroom.runtime._internal import take_snapshot, user_input

_MOST_TOOLS = 64
_GRACE = 2.0  # seconds for a turn that a new message interrupts
_TOGETHER = 0.02  # seconds in which calls and questions of one reply are told in one run
_BEAT = b": still there\n\n"
_HEAD = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"))
_ANSWER = {
    "type": "object",
    "required": ["decision"],
    "properties": {
        "decision": {"enum": ["allow", "deny"]},
        "message": {"type": "string"},
        "remember": {"const": "session"},
    },
}

Position = tuple[int, int]
_Content: TypeAlias = str | tuple[ContentBlock, ...]


class _Source(msgspec.Struct):
    type: str
    value: str = ""
    mimeType: str = ""  # noqa: N815 (the protocol's name)


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    source: _Source | None = None


class _Message(msgspec.Struct):
    id: str
    role: str
    content: str | list[_Part] | dict[str, object] | None = None
    toolCallId: str = ""  # noqa: N815
    error: str | None = None


class _Answer(msgspec.Struct):
    decision: Literal["allow", "deny"]
    message: str | None = None
    remember: Literal["session"] | None = None
    input: dict[str, object] | None = None


class _Resume(msgspec.Struct):
    interruptId: str  # noqa: N815
    status: Literal["resolved", "cancelled"]
    payload: _Answer | None = None


class RunAgentInput(msgspec.Struct):
    """The body of `POST /ag-ui`; what the protocol has besides is not used."""

    threadId: str  # noqa: N815
    runId: str  # noqa: N815
    messages: list[_Message]
    tools: list[ClientToolDefinition] | None = None
    resume: list[_Resume] | None = None


async def run_agent(sessions: ServedSessions, call: Call) -> None:
    """Take what is new of a client of AG-UI, and send the events of the run that follows."""
    if not sessions.serves_agui:
        raise not_found("this server has no AG-UI", "start it with ag_ui=True (--ag-ui)")
    given = call.read(RunAgentInput)
    known = await _open_session(sessions, call, given)
    thread = sessions.serve(known.session_id).thread
    if thread.is_running:
        raise conflict("a run of this thread is open", "wait for its end, or close it")
    thread.is_running = True
    try:
        run = _Run(sessions, known, thread, call, given)
        await run.take_input()
        await run.send_events()
    finally:
        thread.is_running = False


async def _open_session(sessions: ServedSessions, call: Call, given: RunAgentInput) -> Known:
    """Return the session of a thread, and make it if this is its first run."""
    agent = call.names.get("agent") or next(iter(sessions.agents))
    if not given.threadId:
        raise bad_request("the thread has no id")
    session_id = f"{call.caller.name}:{given.threadId}"
    known, _ = await sessions.open(agent, {}, call.caller, session_id)
    if known.agent_type != agent:
        raise conflict(f"this thread is one of the agent {known.agent_type!r}")
    return known


class _Run:
    """One run: what it brings, and the events of what follows."""

    def __init__(
        self,
        sessions: ServedSessions,
        known: Known,
        thread: ClientThread,
        call: Call,
        given: RunAgentInput,
    ) -> None:
        self._sessions, self._known, self._call = sessions, known, call
        self._thread, self._given = thread, given
        self._events = RunEvents(given.threadId, given.runId, thread.answered)
        self._input_id = ""  # of the turn that is told; empty for the one that is open
        self._start: Position | None = thread.position

    async def take_input(self) -> None:
        """Take the tools, and whatever is new; a message that can't be taken changes nothing."""
        message = await self._find_message()
        content = None if message is None else _content_of(message)
        self._take_tools()
        calls = self._thread.calls
        found = {each.toolCallId: each for each in self._given.messages if each.toolCallId in calls}
        results = found.values()  # of several results of a call, the last
        for resume in self._given.resume or ():
            await self._answer(resume)
        handle = self._sessions.runtime.get(self._known.session_id)
        for each in results:
            await self._give_result(handle, each)
        if message is not None and content is not None:
            await self._say(handle, message, content)
        elif not (results or self._given.resume or _is_busy(handle)):
            raise bad_request(
                "nothing is new: no message, no result of a tool, and no answer",
                "a message has an id of its own",
            )

    def _take_tools(self) -> None:
        definitions = self._given.tools or []
        agent = self._sessions.find_agent(self._known.agent_type)
        if definitions and add_client_tools(agent, self._thread.tools) is None:
            raise conflict(f"the agent {self._known.agent_type!r} takes no tools of a client")
        if len(definitions) > _MOST_TOOLS:
            raise bad_request(f"a client brings at most {_MOST_TOOLS} tools")
        if name := find_clash(agent, definitions):
            raise bad_request(f"the agent has a tool of the name {name!r} itself")
        try:
            self._thread.tools.set(definitions)
        except ToolError as error:
            raise bad_request(error.message, error.hint) from error

    async def _find_message(self) -> _Message | None:
        """Return what a person says last, unless the session has it."""
        said = [each for each in self._given.messages if each.role == "user"]
        if not said:
            return None
        last = said[-1]
        served = self._sessions.serve(self._known.session_id)
        if served.find_receipt(last.id) is not None:
            return None
        session = await self._sessions.load(self._known.session_id)
        return None if session.has_input(last.id) else last

    async def _answer(self, resume: _Resume) -> None:
        """Answer a question, whose id in the protocol also says what it was about."""
        async with self._sessions.serve(self._known.session_id).lock:
            request_id, _, mark = resume.interruptId.partition(".")
            request = await self._sessions.find_request(self._known, request_id)
            if mark != _mark(request):
                raise conflict("the question has changed since it was asked")
            given = resume.payload or _Answer("deny", "the client has cancelled it")
            if resume.status == "cancelled":
                given = _Answer("deny", given.message)
            async with self._sessions.resume_for(self._known, request) as handle:
                now = take_snapshot(handle).position
                if self._start is None or self._start[0] != now[0]:
                    self._start = now  # what follows may be there before it is read
                is_accepted = await handle.respond_permission(
                    request_id,
                    given.decision,
                    remember=given.remember,
                    message=given.message,
                    input=given.input,
                    by=self._call.caller.name,
                )
        if not is_accepted:
            raise conflict("the question is answered already")

    async def _give_result(self, handle: AgentHandle | None, message: _Message) -> None:
        if handle is None:
            raise conflict("the call does not wait any more: its agent has ended")
        call = self._thread.calls.pop(message.toolCallId)
        text = message.error or _text_of(message)
        result = (ToolResult.error if message.error else ToolResult.ok)(text)
        self._thread.answered.add(call)
        await handle.send_tool_result(call, result)

    async def _say(self, handle: AgentHandle | None, message: _Message, content: _Content) -> None:
        """Send what a person says; a turn that waits for the client does so no more."""
        if handle is not None and await self._is_clients_turn(handle):
            await handle.interrupt(grace=_GRACE)
        self._thread.calls.clear()
        self._thread.answered.clear()
        place = None if handle is None else take_snapshot(handle).position
        self._input_id, _ = await self._sessions.send_input(
            self._known,
            content,
            input_id=message.id or None,
            sender="",
            metadata=with_traceparent({}, self._call.request),
        )
        self._start = place

    async def _is_clients_turn(self, handle: AgentHandle) -> bool:
        return bool(self._thread.calls or await handle.pending())

    async def send_events(self) -> None:
        """Send the events of the run."""
        handle = self._sessions.runtime.get(self._known.session_id)
        with self._sessions.open_stream(self._known, self._call.caller) as scope:
            await send_head(self._call.send, 200, _HEAD)
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(end_with_client, self._call.receive, scope)
                    await self._write(self._events.begin())
                    if handle is None:
                        await self._write(self._events.fail("the agent has ended", "Exited"))
                    else:
                        await self._follow(handle)
                    nursery.cancel_scope.cancel()
            await self._call.send({"type": "http.response.body", "body": b""})

    async def _follow(self, handle: AgentHandle) -> None:
        """Tell what the agent does until it is the client's turn."""
        now = handle.subscribe("none").position
        start = self._start
        if start is None or start[0] != now[0]:
            start = (now[0], 0) if self._input_id or self._start else now
        has_begun = not self._input_id
        async with handle.subscribe(start) as chunks:
            while not self._events.is_over:
                is_clients_turn = await self._is_clients_turn(handle)
                patience = _TOGETHER if is_clients_turn else self._sessions.limits.heartbeat
                with trio.move_on_after(patience) as scope:
                    batch = await chunks.take()
                if scope.cancelled_caught and is_clients_turn:
                    await self._write(await self._pause(handle))
                    break
                if scope.cancelled_caught:
                    await self._send(_BEAT)
                    continue
                events, count = list[Event](), 0
                for chunk in batch:
                    count += 1
                    has_begun = has_begun or _begins(chunk, self._input_id)
                    events += self._tell(chunk) if has_begun else []
                    if self._events.is_over:
                        break
                if not batch:
                    events += self._events.fail("the agent has ended", "Exited")
                epoch, seq = chunks.position
                self._thread.position = epoch, seq - len(batch) + count
                await self._write(events)

    def _tell(self, chunk: OutputChunk) -> list[Event]:
        events = self._events.add(chunk)
        if isinstance(chunk, ToolStart) and self._thread.tools.has(chunk.name):
            self._thread.calls[self._events.call_id(chunk.id)] = chunk.id
        elif isinstance(chunk, ToolEnd):
            self._thread.answered.discard(chunk.id)
            for known in [key for key, id_ in self._thread.calls.items() if id_ == chunk.id]:
                del self._thread.calls[known]
        return events

    async def _pause(self, handle: AgentHandle) -> list[Event]:
        """End the run, since it goes on with what the client does."""
        if questions := await handle.pending():
            return self._events.wait_answers([_describe_question(each) for each in questions])
        return self._events.wait_results(tuple(self._thread.calls.values()))

    async def _write(self, events: Sequence[Event]) -> None:
        await self._send(b"".join(b"data: %b\n\n" % serde.encode(each) for each in events))

    async def _send(self, data: bytes) -> None:
        if data:
            event = {"type": "http.response.body", "body": data, "more_body": True}
            await self._call.send(event)


def _is_busy(handle: AgentHandle | None) -> bool:
    return handle is not None and handle.state.kind is not StateKind.IDLE


def _begins(chunk: OutputChunk, input_id: str) -> bool:
    """Whether the turn that takes an input begins, or goes on with it."""
    if isinstance(chunk, TurnStart):
        return chunk.input_id == input_id
    data = getattr(chunk, "data", None)
    return isinstance(data, dict) and data.get("input_id") == input_id


def _describe_question(request: PermissionRequest) -> Event:
    """Describe a question as an interrupt of the protocol."""
    lines = (request.action, request.details, request.diff, *request.warnings)
    schema = dict(_ANSWER)
    if request.fields is not None:
        schema["properties"] = {**_ANSWER["properties"], "input": request.fields}  # type: ignore[dict-item]
    return {
        "id": f"{request.request_id}.{_mark(request)}",
        "reason": "permission",
        "message": "\n".join(filter(None, lines)),
        "responseSchema": schema,
        "metadata": {"request": request},
    }


def _mark(request: PermissionRequest) -> str:
    """Return what tells a question from a later one under its id, of a call that has changed."""
    return hashlib.sha256(request.digest.encode()).hexdigest()[:16]


def _text_of(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = message.content if isinstance(message.content, list) else []
    return "\n".join(each.text for each in parts if each.type == "text")


def _content_of(message: _Message) -> _Content:
    """Return what a person says; nothing is fetched from anywhere.

    Raises:
        RequestRefusedError: there is nothing, or something that agents don't take.
    """
    content: _Content = ""
    if isinstance(message.content, str):
        content = message.content.strip() and message.content
    elif isinstance(message.content, list):
        content = tuple(map(_block_of, message.content))
    if not content:
        raise bad_request("the message is empty")
    try:
        user_input(content, id=message.id or None)
    except ValueError as error:
        raise bad_request(str(error)) from error
    return content


def _block_of(part: _Part) -> ContentBlock:
    source = part.source
    if part.type == "text":
        return TextBlock(part.text)
    if source is not None and source.type == "data":
        if part.type == "image":
            return ImageBlock(source.mimeType, source.value)
        if part.type == "document":
            return DocumentBlock(source.mimeType, source.value)
    raise bad_request(
        f"a part of the type {part.type!r} can't be taken",
        "send texts, and pictures and documents with their bytes",
    )
