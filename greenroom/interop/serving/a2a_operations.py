"""The operations of A2A, whatever binding has brought them.

Each takes a `Call` and its parameters, and returns what the protocol calls its response, or the
stream that is. A client reaches its own tasks only, which belong to the name of its token: the
context `ID` is the session `NAME:ID`.
"""

import hashlib
from datetime import datetime

import trio

from greenroom.core._internal import InvalidSessionIdError, new_id
from greenroom.interop import a2a_wire as wire
from greenroom.interop.serving.a2a_content import content_of
from greenroom.interop.serving.a2a_faults import Fault, TaskRefusedError, invalid
from greenroom.interop.serving.a2a_questions import mark_of, read_answer
from greenroom.interop.serving.a2a_restore import restore_task
from greenroom.interop.serving.a2a_stream import TaskStream, show_task
from greenroom.interop.serving.a2a_tasks import PREFIX, ServedTask, TaskBook, TaskView, write_time
from greenroom.interop.serving.asgi import ClientGoneError, end_with_client
from greenroom.interop.serving.calls import Call, with_traceparent
from greenroom.interop.serving.refusals import not_found
from greenroom.interop.serving.served_sessions import Known, ServedSessions
from greenroom.runtime._internal import interrupt_input

_GRACE = 2.0  # seconds for a turn that is cancelled to clean up
_DEPTH = "remotes"  # what `remote` counts agents by that forward to each other
_PATIENCE = 5.0  # seconds for a cancelled task to end
_MOST_BYTES = 8 << 20  # of what was said, in one page of tasks
_NO_MORE = "the task has ended: begin another one in its context, without its id"


def book_of(sessions: ServedSessions) -> TaskBook:
    """Return the tasks of a server.

    Raises:
        RequestRefusedError: it does not speak the protocol.
    """
    if sessions.tasks is None:
        raise not_found("this server has no A2A", "start it with a2a=True (--a2a)")
    return sessions.tasks


async def send_message(
    sessions: ServedSessions, call: Call, params: wire.SendMessage
) -> dict[str, object]:
    """Begin a task with a message, or answer one; wait until it is the client's turn again."""
    task, view, _ = await _take(sessions, call, params)
    if not params.configuration.return_immediately:
        await _wait_turn(call, task)
        view = task.look()
    length = params.configuration.history_length
    return {"task": await show_task(sessions, task, view, length)}


async def stream_message(
    sessions: ServedSessions, call: Call, params: wire.SendMessage
) -> TaskStream:
    """Begin a task with a message, or answer one; stream what follows."""
    task, view, known = await _take(sessions, call, params)
    length = params.configuration.history_length
    return TaskStream(
        sessions, known, call, task, view, ends_at_question=True, history_length=length
    )


async def get_task(sessions: ServedSessions, call: Call, params: wire.GetTask) -> wire.Task:
    """Return a task as it is."""
    task = await _find(sessions, call, params.id)
    await sessions.find(task.session_id, call.caller)  # so that its question waits for an answer
    return await show_task(sessions, task, task.look(), params.history_length)


async def list_tasks(
    sessions: ServedSessions, call: Call, params: wire.ListTasks
) -> dict[str, object]:
    """Return the client's tasks, those first whose state changed last, in pages."""
    after = _read_time(params.status_timestamp_after)
    fitting = [
        each
        for each in book_of(sessions).list(call.caller.name)
        if params.context_id in ("", each.context_id)
        and params.status in (wire.State.UNSPECIFIED, each.state)
        and each.status.timestamp >= after
    ]
    start = _read_place(params.page_token)
    left = [each for each in fitting if start is None or each.stamp < start]
    page, size = list[ServedTask](), 0
    for each in left[: params.page_size]:
        size += each.size
        if page and size > _MOST_BYTES:
            break
        page.append(each)
    shown = [
        await show_task(
            sessions,
            each,
            each.look(),
            params.history_length,
            with_artifacts=params.include_artifacts,
        )
        for each in page
    ]
    return {
        "tasks": shown,
        "nextPageToken": str(page[-1].stamp) if len(page) < len(left) else "",
        "pageSize": params.page_size,
        "totalSize": len(fitting),
    }


def _read_place(token: str) -> int | None:
    if not token:
        return None
    if not (token.isascii() and token.isdecimal() and len(token) < 20):
        raise invalid("pageToken", "a page token is the nextPageToken of the page before")
    return int(token)


def _read_time(text: str) -> str:
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid("statusTimestampAfter", "it is not a time of ISO 8601") from error
    if moment.utcoffset():
        raise invalid("statusTimestampAfter", "a time is one of UTC, and ends in Z")
    return write_time(moment)


async def cancel_task(sessions: ServedSessions, call: Call, params: wire.NameTask) -> wire.Task:
    """Interrupt the turn of a task, or withdraw its input if that still waits for its turn."""
    task = await _find(sessions, call, params.id)
    if task.state.is_final:
        raise TaskRefusedError(Fault.TASK_NOT_CANCELABLE, "the task has ended already")
    known = await sessions.find(task.session_id, call.caller)
    if task.is_suspended:
        await _drop_question(sessions, call, task, known)
    else:  # its input may be on its way to an agent that is only starting
        await sessions.interrupt_input(known, task.input_id, "now", _GRACE)
    if task.state is wire.State.SUBMITTED:  # it will have no turn
        book_of(sessions).end(task, wire.State.CANCELED)
    with trio.move_on_after(_PATIENCE):
        while not task.state.is_final:
            await task.wait_change()
    return await show_task(sessions, task, task.look())


async def _drop_question(
    sessions: ServedSessions, call: Call, task: ServedTask, known: Known
) -> None:
    """End a turn that is suspended: it is resumed, and its call denied."""
    assert task.request is not None
    async with sessions.serve(known.session_id).lock:
        request = await sessions.find_request(known, task.request.request_id)
        async with sessions.resume_for(known, request) as handle:
            await handle.respond_permission(
                request.request_id,
                "deny",
                message="the client has cancelled the task",
                by=call.caller.name,
            )
            task.is_canceled = True  # however the turn ends that is left
            await interrupt_input(handle, task.input_id, grace=_GRACE)


async def subscribe(sessions: ServedSessions, call: Call, params: wire.NameTask) -> TaskStream:
    """Stream what becomes of a task from now on, until it has ended."""
    task = await _find(sessions, call, params.id)
    if task.state.is_final:
        raise TaskRefusedError(Fault.UNSUPPORTED_OPERATION, _NO_MORE)
    known = await sessions.find(task.session_id, call.caller)
    return TaskStream(sessions, known, call, task, task.look(), ends_at_question=False)


async def refuse_push(sessions: ServedSessions, call: Call, params: wire.Nothing) -> object:
    """Refuse: this server sends no requests to addresses that clients name."""
    await trio.lowlevel.checkpoint()
    raise TaskRefusedError(
        Fault.PUSH_NOTIFICATION_NOT_SUPPORTED, "there are no push notifications: subscribe, or ask"
    )


async def _find(sessions: ServedSessions, call: Call, task_id: str) -> ServedTask:
    return await restore_task(sessions, book_of(sessions), call.caller, task_id)


async def _take(
    sessions: ServedSessions, call: Call, params: wire.SendMessage
) -> tuple[ServedTask, TaskView, Known]:
    """Take a message; return its task, and how that was when it was taken."""
    message = params.message
    if message.role != "ROLE_USER":
        raise invalid("message.role", "a client speaks as ROLE_USER")
    if params.configuration.task_push_notification_config is not None:
        await refuse_push(sessions, call, wire.Nothing())
    if not message.task_id:
        return await _begin(sessions, call, message)
    task = await _find(sessions, call, message.task_id)
    if message.context_id not in ("", task.context_id):
        raise invalid("message.contextId", "it is not the context of this task")
    if task.state.is_final:
        raise TaskRefusedError(Fault.UNSUPPORTED_OPERATION, _NO_MORE)
    if task.state is not wire.State.INPUT_REQUIRED:
        raise TaskRefusedError(
            Fault.UNSUPPORTED_OPERATION,
            "the task asks nothing now: wait, or begin another one in its context",
        )
    known = await sessions.find(task.session_id, call.caller)
    await _answer(sessions, call, task, known, message)
    return task, task.look(), known


async def _begin(
    sessions: ServedSessions, call: Call, message: wire.Message
) -> tuple[ServedTask, TaskView, Known]:
    """Begin a task: the same message again, in the same context, is the same task."""
    book, content = book_of(sessions), content_of(message)
    context_id = message.context_id or new_id("c")
    known = await _open_context(sessions, call, context_id)
    input_id = f"{PREFIX}{hashlib.sha256(message.message_id.encode()).hexdigest()[:24]}"
    task_id = f"{context_id}.{input_id}"
    task = book.find(task_id, call.caller.name)
    is_new = task is None
    if task is None:
        task = ServedTask(
            task_id, context_id, call.caller.name, known.session_id, input_id, len(call.body)
        )
        told = wire.Message(
            message.message_id, message.role, message.parts, context_id, task_id, message.metadata
        )
        task.history.append(told)
        book.open(task)
    view = task.look()
    try:
        _, is_taken = await sessions.send_input(
            known,
            content,
            input_id=input_id,
            sender="",
            metadata=with_traceparent(_metadata_of(message), call.request),
        )
    except BaseException:
        if is_new and sessions.serve(known.session_id).find_receipt(input_id) is None:
            book.drop(task)
        raise
    if is_new and not is_taken:  # by a server before this one
        book.drop(task)
        task, is_new = await _find(sessions, call, task_id), False
    return task, view if is_new else task.look(), known


def _metadata_of(message: wire.Message) -> dict[str, object]:
    """Return what an agent is told of a message: its id, and how many agents forward it."""
    told: dict[str, object] = {"a2a.message": message.message_id}
    depth = message.metadata.get(_DEPTH)
    return {**told, _DEPTH: depth} if isinstance(depth, int) else told


async def _open_context(sessions: ServedSessions, call: Call, context_id: str) -> Known:
    """Return the session of a context, and make it if this is its first message."""
    agent = call.names.get("agent") or next(iter(sessions.agents))
    session_id = f"{call.caller.name}:{context_id}"
    try:
        known, _ = await sessions.open(agent, {}, call.caller, session_id)
    except InvalidSessionIdError as error:
        raise invalid("message.contextId", "such an id is not usable: leave it out") from error
    if known.agent_type != agent:
        raise invalid("message.contextId", f"it is one of the agent {known.agent_type!r}")
    return known


async def _answer(
    sessions: ServedSessions, call: Call, task: ServedTask, known: Known, message: wire.Message
) -> None:
    """Answer the question of a task: the one that its client was shown, and no other."""
    assert task.request is not None
    given = read_answer(task.request, message)
    async with sessions.serve(known.session_id).lock:
        request = await sessions.find_request(known, task.request.request_id)
        if (given.question or task.told) != mark_of(request):
            raise TaskRefusedError(
                Fault.UNSUPPORTED_OPERATION,
                "the task asks something else by now: look at it again, and answer that",
            )
        async with sessions.resume_for(known, request) as handle:
            is_accepted = await handle.respond_permission(
                request.request_id,
                given.decision.value,
                remember="session" if given.remember else None,
                message=given.message,
                input=given.input,
                by=call.caller.name,
            )
            if not is_accepted:
                raise TaskRefusedError(
                    Fault.UNSUPPORTED_OPERATION, "the question is answered already"
                )
            told = wire.Message(
                message.message_id, message.role, message.parts, task.context_id, task.id
            )
            book_of(sessions).grow(task, told, len(call.body))
            if task.request is not None and task.request.request_id == request.request_id:
                book_of(sessions).work(task)


async def _wait_turn(call: Call, task: ServedTask) -> None:
    """Wait until it is the client's turn: the task has ended, or asks something.

    Raises:
        ClientGoneError: the client has left; the task goes on.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_with_client, call.receive, nursery.cancel_scope)
        while not task.is_waiting:
            await task.wait_change()
        nursery.cancel_scope.cancel()
    if not task.is_waiting:
        raise ClientGoneError
