"""Tasks as they go over the wire: whole, or as a stream of what changes."""

from collections.abc import Callable

import trio
from msgspec import UNSET

from greenroom.core._internal import serde
from greenroom.interop import a2a_wire as wire
from greenroom.interop.serving.a2a_content import MOST_BYTES, read_artifact
from greenroom.interop.serving.a2a_tasks import Change, ServedTask, TaskView, shown_mark
from greenroom.interop.serving.asgi import end_with_client, send_head
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.served_sessions import Known, ServedSessions

_BEAT = b": still there\n\n"
_HEAD = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"))


async def show_task(
    sessions: ServedSessions,
    task: ServedTask,
    view: TaskView,
    history_length: int | None = None,
    *,
    with_artifacts: bool = True,
) -> wire.Task:
    """Return a task as the protocol has it."""
    artifacts, room = list[wire.Artifact](), MOST_BYTES
    for each in view.artifacts if with_artifacts else ():
        artifact, size = await read_artifact(sessions.store, task.session_id, each, room)
        artifacts.append(artifact)
        room -= size
    history = view.history if history_length is None else view.history[-history_length:]
    if view.status is task.status:
        task.told = shown_mark(task)
    return wire.Task(
        task.id,
        view.status,
        task.context_id,
        tuple(artifacts) if artifacts else UNSET,
        () if history_length == 0 else history,
    )


class TaskStream:
    """A stream of one client: the task as it is, and then its changes.

    Attributes:
        has_begun: whether its head is sent, after which nothing can be refused.
    """

    def __init__(
        self,
        sessions: ServedSessions,
        known: Known,
        call: Call,
        task: ServedTask,
        view: TaskView,
        *,
        ends_at_question: bool,
        history_length: int | None = None,
    ) -> None:
        """Begin with a task as it was at a moment."""
        self._sessions, self._known, self._call = sessions, known, call
        self._task, self._view = task, view
        self._ends_at_question = ends_at_question
        self._history_length = history_length
        self.has_begun = False

    async def send(self, wrap: Callable[[wire.Event], object]) -> None:
        """Send it, until the task has ended, or asks something if that is an end as well."""
        with self._sessions.open_stream(self._known, self._call.caller) as scope:
            first = await show_task(self._sessions, self._task, self._view, self._history_length)
            self.has_begun = True
            await send_head(self._call.send, 200, _HEAD)
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(end_with_client, self._call.receive, scope)
                    await self._write(wrap(wire.Event(task=first)))
                    await self._follow(wrap)
                    nursery.cancel_scope.cancel()
            await self._call.send({"type": "http.response.body", "body": b""})

    async def _follow(self, wrap: Callable[[wire.Event], object]) -> None:
        task, place, state = self._task, self._view.place, self._view.status.state
        while not self._is_end(state):
            changes, place = task.read(place)
            for each in changes:
                await self._write(wrap(await self._describe(each)))
                state = each.state if isinstance(each, wire.Status) else state
                if self._is_end(state):
                    return
            if not changes:
                with trio.move_on_after(self._sessions.limits.heartbeat) as scope:
                    await task.wait_change()
                if scope.cancelled_caught:
                    await self._send(_BEAT)

    def _is_end(self, state: wire.State) -> bool:
        is_question = state is wire.State.INPUT_REQUIRED and self._ends_at_question
        return state.is_final or is_question

    async def _describe(self, change: Change) -> wire.Event:
        task = self._task
        if isinstance(change, wire.Status):
            if change is task.status:
                task.told = shown_mark(task)
            return wire.Event(status_update=wire.StatusUpdate(task.id, task.context_id, change))
        made, _ = await read_artifact(self._sessions.store, task.session_id, change, MOST_BYTES)
        return wire.Event(
            artifact_update=wire.ArtifactUpdate(
                task.id,
                task.context_id,
                made,
                append=change.start > 0,
                last_chunk=change.artifact.complete,
            )
        )

    async def _write(self, value: object) -> None:
        await self._send(b"data: %b\n\n" % serde.encode(value))

    async def _send(self, data: bytes) -> None:
        await self._call.send({"type": "http.response.body", "body": data, "more_body": True})
