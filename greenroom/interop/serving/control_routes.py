"""What the routes for operators and admins do: speak, answer, interrupt, end, fork, remove."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from greenroom.core import DocumentBlock, ImageBlock, TextBlock, ToolResult
from greenroom.core._internal import Remember, check_sender
from greenroom.interop.serving.asgi import Reply, json_reply
from greenroom.interop.serving.calls import Call, with_traceparent
from greenroom.interop.serving.read_routes import describe_outcome
from greenroom.interop.serving.refusals import RequestRefusedError, bad_request, conflict, forbidden
from greenroom.interop.serving.served_sessions import OWNER, Known, ServedSessions
from greenroom.interop.serving.tokens import Role
from greenroom.runtime import AgentHandle
from greenroom.session import AgentSession

_MOST_GRACE = 60.0
_FIRST = "i-of-the-new-session"  # the id of an input that comes along with a session's
_RESERVED = {
    OWNER,
    "archived",
    "forked_from",
    "headless",
    "workspace",
    "imported_from",
    "continues",
}

Content: TypeAlias = str | tuple[TextBlock | ImageBlock | DocumentBlock, ...]
"""What a person says: a text, or blocks of text, pictures and documents."""

Grace: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_MOST_GRACE)]
"""Seconds to clean up."""


class NewSession(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /api/sessions`."""

    agent: str
    input: Content | None = None
    metadata: dict[str, object] = {}
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None


class NewInput(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/input`."""

    content: Content
    id: str | None = None
    metadata: dict[str, object] = {}
    sender: str = ""


class Interruption(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/interrupt`."""

    mode: Literal["now", "after_step"] = "now"
    grace: Grace = 2.0
    input: str | None = None


class GivenAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/permissions/REQUEST`."""

    decision: Literal["allow", "deny"]
    digest: str
    remember: Remember | None = None
    message: str | None = None
    input: dict[str, object] | None = None
    prefix: bool = False


class GivenCredential(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/credentials/NAME`."""

    value: Annotated[str, msgspec.Meta(min_length=1)]


class ForkPoint(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/fork`."""

    at: Annotated[int, msgspec.Meta(ge=0)] | None = None


class GivenResult(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/tool-results/CALL`."""

    content: str
    is_error: bool = False


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST …/shutdown`."""

    grace: Grace = 5.0


async def create_session(sessions: ServedSessions, call: Call) -> Reply:
    """Make a session, NAME:ID if an id is given, and send it an input if there is one.

    The same id again makes no other session: it is the same one, and the same input is sent once.
    """
    given = call.read(NewSession)
    reserved = sorted(_RESERVED & given.metadata.keys())
    if reserved:
        raise bad_request(f"the metadata may not set {', '.join(reserved)}")
    if given.input is not None:
        _check_content(given.input)
    known, is_new = await _open_session(sessions, given, call)
    reply: dict[str, object] = {"id": known.session_id}
    if given.input is not None:
        # A request that is sent again may find the session made, and the input lost.
        input_id = None if given.id is None else _FIRST
        metadata = with_traceparent({}, call.request)
        reply["input_id"], _ = await sessions.send_input(
            known, given.input, input_id=input_id, sender="", metadata=metadata
        )
    return json_reply(reply, 201 if is_new else 200)


async def _open_session(
    sessions: ServedSessions, given: NewSession, call: Call
) -> tuple[Known, bool]:
    """Return a session, and whether it was made for this call."""
    if given.id is None:
        made = await sessions.create(given.agent, given.metadata, call.caller)
        return await sessions.find(made.session_id, call.caller), True
    session_id = f"{call.caller.name}:{given.id}"
    known, is_new = await sessions.open(given.agent, given.metadata, call.caller, session_id)
    if known.agent_type != given.agent:
        raise conflict(f"the session {session_id!r} has another agent: {known.agent_type}")
    return known, is_new


async def send_input(sessions: ServedSessions, call: Call) -> Reply:
    """Send the agent an input; the same id again changes nothing."""
    _, input_id, is_new = await take_input(sessions, call)
    return json_reply({"input_id": input_id}, 202 if is_new else 200)


async def take_input(sessions: ServedSessions, call: Call) -> tuple[Known, str, bool]:
    """Take an input; return the session that it is for, its id, and whether it was new."""
    known = await sessions.find(call.session_id, call.caller)
    given = call.read(NewInput)
    _check_content(given.content)
    if given.sender:
        try:
            check_sender(given.sender)
        except ValueError as error:
            raise bad_request(str(error)) from error
    metadata = with_traceparent(given.metadata, call.request)
    input_id, is_new = await sessions.send_input(
        known, given.content, input_id=given.id, sender=given.sender, metadata=metadata
    )
    return known, input_id, is_new


def _check_content(content: Content) -> None:
    if not content or (isinstance(content, str) and not content.strip()):
        raise bad_request("the input is empty")


async def interrupt(sessions: ServedSessions, call: Call) -> Reply:
    """Stop the turn in hand, or that of an input, and say what was stopped, when it is true."""
    given = call.read(Interruption)
    if given.input is not None:
        known = await sessions.find(call.session_id, call.caller)
        order = given.input, given.mode, given.grace
        return json_reply(await sessions.interrupt_input(known, *order))
    handle = await _require_running(sessions, call)
    return json_reply(await handle.interrupt(given.mode, given.grace))


async def answer(sessions: ServedSessions, call: Call) -> Reply:
    """Answer a question; the first answer counts, and a turn that was suspended goes on."""
    known = await sessions.find(call.session_id, call.caller)
    given = call.read(GivenAnswer)
    if given.remember in ("project", "always") and call.caller.role is not Role.ADMIN:
        raise forbidden(
            "an answer from elsewhere is remembered for the session only", "remember: session"
        )
    async with sessions.serve(known.session_id).lock:
        request = await sessions.find_request(known, call.names["request"])
        if given.digest != request.digest:
            raise conflict(
                "the digest is not that of the question: the call has changed",
                "read `pending` again, and look at what would run now",
            )
        async with sessions.resume_for(known, request) as handle:
            is_accepted = await handle.respond_permission(
                request.request_id,
                given.decision,
                remember=given.remember,
                message=given.message,
                input=given.input,
                by=call.caller.name,
                prefix=given.prefix,
            )
    if not is_accepted:
        raise conflict("the question is answered already")
    return json_reply({"accepted": True})


async def give_credential(sessions: ServedSessions, call: Call) -> Reply:
    """Give the session's agents a credential, which only memory keeps."""
    handle = await _require_running(sessions, call)
    await handle.give_credential(call.names["name"], call.read(GivenCredential).value)
    return json_reply({"given": True})


async def send_result(sessions: ServedSessions, call: Call) -> Reply:
    """Hand in the result of a tool that the client runs."""
    handle = await _require_running(sessions, call)
    given = call.read(GivenResult)
    result = (ToolResult.error if given.is_error else ToolResult.ok)(given.content)
    await handle.send_tool_result(call.names["call"], result)
    return json_reply({"taken": True}, 202)


async def fork(sessions: ServedSessions, call: Call) -> Reply:
    """Make a session that begins as this one does."""
    known = await sessions.find(call.session_id, call.caller)
    session = await sessions.load(known.session_id)
    forked = await session.fork(call.read(ForkPoint).at)
    if forked.get_metadata(OWNER) is None:
        forked.set_metadata(OWNER, call.caller.name)
        await forked.save()
    return json_reply({"id": forked.session_id}, 201)


async def shut_down(sessions: ServedSessions, call: Call) -> Reply:
    """End the session's agent, and say how it ended; the session stays."""
    handle = await _require_running(sessions, call)
    await handle.shutdown(call.read(Ending).grace)
    return json_reply(describe_outcome(await handle.wait()))


async def remove(sessions: ServedSessions, call: Call) -> Reply:
    """Remove a session for good, with those of its subagents."""
    known = await sessions.find(call.session_id, call.caller)
    async with sessions.serve(known.session_id).lock:
        handle = sessions.runtime.get(known.session_id)
        if handle is not None:
            await handle.shutdown(_GRACE)
        await AgentSession.delete(known.session_id, store=sessions.store, children=True)
    return Reply(204)


_GRACE = 5.0  # seconds for an agent whose session is removed


async def _require_running(sessions: ServedSessions, call: Call) -> AgentHandle:
    known: Known = await sessions.find(call.session_id, call.caller)
    handle = sessions.runtime.get(known.session_id)
    if handle is None:
        raise RequestRefusedError(
            409,
            "no agent of this session is running",
            kind="not_running",
            hint="an input starts it",
        )
    return handle
