"""The two bindings of A2A 1.0: JSON-RPC at `/a2a`, and HTTP+JSON below `/a2a/v1`.

Both read a request, call the same operations, and tell the result or the refusal in their own form.
What follows `/a2a` may be the name of an agent; without one it is the first that is served.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import trio

from greenroom.core._internal import InvalidJSONError, clip, log_error, serde
from greenroom.interop import a2a_wire as wire
from greenroom.interop.serving import a2a_operations as operations
from greenroom.interop.serving.a2a_card import make_card
from greenroom.interop.serving.a2a_faults import Fault, TaskRefusedError, fault_of, invalid
from greenroom.interop.serving.a2a_stream import TaskStream
from greenroom.interop.serving.asgi import ClientGoneError, Reply, json_reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.route import Route
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.interop.serving.tokens import Role

logger = logging.getLogger("greenroom.serving")

P = TypeVar("P", bound=msgspec.Struct)

_NUMBERS = {"historyLength", "pageSize"}  # of a query
_MEDIA_TYPES = {"application/json", wire.MEDIA_TYPE}


async def show_card(
    sessions: ServedSessions, call: Call, params: wire.Nothing
) -> dict[str, object]:
    """Return the card of an agent."""
    await trio.lowlevel.checkpoint()
    names = tuple(sessions.agents)
    name = call.names.get("agent") or names[0]
    return make_card(
        call.request,
        name,
        sessions.find_agent(name),
        is_first=name == names[0],
        changes=sessions.card,
    )


@dataclass(frozen=True)
class _Operation(Generic[P]):
    """What a method does, and the form of its parameters."""

    run: Callable[[ServedSessions, Call, P], Awaitable[object]]
    kind: type[P]

    async def answer(self, sessions: ServedSessions, call: Call, params: object) -> object:
        """Return what it returns, or its stream.

        Raises:
            TaskRefusedError: the parameters don't fit, or it refuses.
        """
        operations.book_of(sessions)
        _check_version(call)
        try:
            read = wire.read(params, self.kind)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$")
            raise invalid(place.strip(".`") or "params", clip(what, 500)) from error
        return await self.run(sessions, call, read)


_METHODS: Mapping[str, _Operation] = {  # type: ignore[type-arg]  # each has parameters of its own
    "SendMessage": _Operation(operations.send_message, wire.SendMessage),
    "SendStreamingMessage": _Operation(operations.stream_message, wire.SendMessage),
    "GetTask": _Operation(operations.get_task, wire.GetTask),
    "ListTasks": _Operation(operations.list_tasks, wire.ListTasks),
    "CancelTask": _Operation(operations.cancel_task, wire.NameTask),
    "SubscribeToTask": _Operation(operations.subscribe, wire.NameTask),
    "GetExtendedAgentCard": _Operation(show_card, wire.Nothing),
    "CreateTaskPushNotificationConfig": _Operation(operations.refuse_push, wire.Nothing),
    "GetTaskPushNotificationConfig": _Operation(operations.refuse_push, wire.Nothing),
    "ListTaskPushNotificationConfigs": _Operation(operations.refuse_push, wire.Nothing),
    "DeleteTaskPushNotificationConfig": _Operation(operations.refuse_push, wire.Nothing),
}


def _find(method: str) -> _Operation:  # type: ignore[type-arg]
    if method not in _METHODS:
        raise TaskRefusedError(Fault.METHOD_NOT_FOUND, f"there is no method {method[:100]!r}")
    return _METHODS[method]


async def answer_rpc(sessions: ServedSessions, call: Call) -> Reply | None:
    """Answer a request of A2A in JSON-RPC: whole, or as a stream of server-sent events."""
    operations.book_of(sessions)
    id_: object = None
    found: object = None
    try:
        message = _read_request(call)
        id_ = message["id"]
        operation = _find(str(message["method"]))
        found = await operation.answer(sessions, call, message.get("params"))
        if isinstance(found, TaskStream):
            await found.send(lambda event: {"jsonrpc": "2.0", "id": id_, "result": event})
            return None
        return json_reply({"jsonrpc": "2.0", "id": id_, "result": found})
    except ClientGoneError:
        raise
    except Exception as error:  # noqa: BLE001 (told to the client, and logged)
        fault = _describe_fault(call, error, found)
        return json_reply({"jsonrpc": "2.0", "id": id_, "error": fault.as_rpc()})


def _read_request(call: Call) -> dict[str, object]:
    """Read a request of JSON-RPC 2.0.

    Raises:
        TaskRefusedError: it is not one.
    """
    _check_media_type(call)
    try:
        message = serde.loads(call.body)
    except InvalidJSONError as error:
        raise TaskRefusedError(Fault.PARSE, error.message) from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise TaskRefusedError(Fault.INVALID_REQUEST, "the body is one request of JSON-RPC 2.0")
    id_ = message.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise TaskRefusedError(Fault.INVALID_REQUEST, "a request has an id, a text or a number")
    if not isinstance(message.get("method"), str):
        raise TaskRefusedError(Fault.INVALID_REQUEST, "a request has a method")
    return {**message}


def _describe_fault(call: Call, error: Exception, found: object) -> TaskRefusedError:
    """Return the refusal that tells of an error; raise it again where a stream has begun."""
    if isinstance(found, TaskStream) and found.has_begun:
        raise error
    fault = fault_of(error)
    if fault.fault is Fault.INTERNAL and fault.status == 500:
        log_error(logger, f"a request of {call.request.method} failed", error)
    return fault


def _check_media_type(call: Call) -> None:
    media_type = call.request.header("content-type").partition(";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES:
        raise TaskRefusedError(
            Fault.CONTENT_TYPE_NOT_SUPPORTED, "a request is sent as application/json"
        )


def _check_version(call: Call) -> None:
    """Refuse what is not of our version; a client that names none speaks 0.3."""
    given = call.request.header("a2a-version") or call.request.query.get("A2A-Version", "")
    if ".".join(given.strip().split(".")[:2]) != wire.VERSION:
        raise TaskRefusedError(
            Fault.VERSION_NOT_SUPPORTED, f"this agent speaks the A2A-Version {wire.VERSION}"
        )


async def _answer_http(
    sessions: ServedSessions, call: Call, method: str, params: object
) -> Reply | None:
    """Answer a request of the binding of HTTP and JSON."""
    operations.book_of(sessions)
    found: object = None
    try:
        found = await _METHODS[method].answer(sessions, call, params)
        if isinstance(found, TaskStream):
            await found.send(lambda event: event)
            return None
        return json_reply(found)
    except ClientGoneError:
        raise
    except Exception as error:  # noqa: BLE001 (told to the client, and logged)
        fault = _describe_fault(call, error, found)
        return json_reply(fault.as_http(), fault.status)


async def post_message(sessions: ServedSessions, call: Call) -> Reply | None:
    """Begin a task of A2A, or answer one: `message:send` or `message:stream`."""
    operations.book_of(sessions)
    methods = {"message:send": "SendMessage", "message:stream": "SendStreamingMessage"}
    try:
        _find(methods.get(call.names["verb"], ""))
        _check_media_type(call)
        params = serde.loads(call.body)
    except InvalidJSONError as error:
        fault = TaskRefusedError(Fault.PARSE, error.message)
        return json_reply(fault.as_http(), fault.status)
    except TaskRefusedError as fault:
        return json_reply(fault.as_http(), fault.status)
    return await _answer_http(sessions, call, methods[call.names["verb"]], params)


async def get_tasks(sessions: ServedSessions, call: Call) -> Reply | None:
    """List the client's tasks of A2A."""
    return await _answer_http(sessions, call, "ListTasks", _query_of(call))


async def get_task(sessions: ServedSessions, call: Call) -> Reply | None:
    """Show a task of A2A; `ID:subscribe` streams what becomes of it."""
    task_id, _, verb = call.names["task"].rpartition(":")
    if verb == "subscribe":
        return await _answer_http(sessions, call, "SubscribeToTask", {"id": task_id})
    params = {**_query_of(call), "id": call.names["task"]}
    return await _answer_http(sessions, call, "GetTask", params)


async def post_task(sessions: ServedSessions, call: Call) -> Reply | None:
    """Cancel a task of A2A, by `ID:cancel`, or stream what becomes of it, by `ID:subscribe`."""
    operations.book_of(sessions)
    task_id, _, verb = call.names["task"].rpartition(":")
    methods = {"cancel": "CancelTask", "subscribe": "SubscribeToTask"}
    if verb not in methods:
        fault = TaskRefusedError(Fault.METHOD_NOT_FOUND, "post to ID:cancel or ID:subscribe")
        return json_reply(fault.as_http(), fault.status)
    return await _answer_http(sessions, call, methods[verb], {"id": task_id})


async def get_extended_card(sessions: ServedSessions, call: Call) -> Reply | None:
    """Show the card of an agent to a client that may use it."""
    return await _answer_http(sessions, call, "GetExtendedAgentCard", None)


async def refuse_push(sessions: ServedSessions, call: Call) -> Reply | None:
    """Refuse push notifications: this server sends no requests to addresses of clients."""
    return await _answer_http(sessions, call, "ListTaskPushNotificationConfigs", None)


def _query_of(call: Call) -> dict[str, object]:
    """Return the parameters in a query, those that are numbers or truths as such."""
    found: dict[str, object] = {}
    for key, text in call.request.query.items():
        if key in _NUMBERS and text.isascii() and text.isdecimal() and len(text) < 12:
            found[key] = int(text)
        elif key == "includeArtifacts":
            found[key] = text == "true"
        else:
            found[key] = text
    return found


_PUSH = "/tasks/{task}/pushNotificationConfigs"


def _make_routes(base: str) -> tuple[Route, ...]:
    v1 = f"{base}/v1"
    return (
        Route("POST", base, Role.OPERATOR, answer_rpc),
        Route("POST", f"{v1}/{{verb}}", Role.OPERATOR, post_message),
        Route("GET", f"{v1}/tasks", Role.OPERATOR, get_tasks),
        Route("GET", f"{v1}/tasks/{{task}}", Role.OPERATOR, get_task),
        Route("POST", f"{v1}/tasks/{{task}}", Role.OPERATOR, post_task),
        Route("GET", f"{v1}/extendedAgentCard", Role.OPERATOR, get_extended_card),
        *(Route(each, f"{v1}{_PUSH}", Role.OPERATOR, refuse_push) for each in ("GET", "POST")),
        *(
            Route(each, f"{v1}{_PUSH}/{{config}}", Role.OPERATOR, refuse_push)
            for each in ("GET", "DELETE")
        ),
    )


ROUTES = (*_make_routes("/a2a"), *_make_routes("/a2a/{agent}"))
"""The routes of A2A: of the first agent, and of each by its name."""
