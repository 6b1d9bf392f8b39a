"""The tasks of A2A: what an agent's hooks tell becomes their states, their questions and results.

Theory of operation
===================

A context of the protocol is a session, and a task is the turn that takes one input. The `TaskBook`
is an instrument of the runtime: each chunk of an agent goes to the open tasks of its session, and
to no other. Three kinds change a task: the start of its turn, a question, with its answer, and an
artifact; then the end of the turn does. All other chunks stop here, so nothing of how the agent
works ever reaches a client.

A task keeps its changes in order, up to a bound, and each stream reads them at its own pace. The
book keeps the newest tasks, in memory: what it has forgotten, `a2a_restore` reads from the record
of the session.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec
import trio

from greenroom.core import (
    AgentContext,
    Custom,
    Done,
    Exited,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import new_id, serde, unix_milliseconds
from greenroom.interop.a2a_wire import Message, Part, State, Status
from greenroom.interop.serving.a2a_faults import Fault, TaskRefusedError
from greenroom.interop.serving.a2a_questions import describe_question, mark_of
from greenroom.runtime import AgentRuntime, TurnResult
from greenroom.runtime._internal import find_result, take_snapshot
from greenroom.session._internal import ARTIFACT, Artifact

logger = logging.getLogger("greenroom.serving")

PREFIX = "a-"
"""What the ids of the inputs begin with that are tasks."""

_MOST_TASKS = 2_000
_MOST_OPEN = 500  # of one owner, so that others have room
_MOST_BYTES = 64 << 20  # of what was said in the tasks that are kept
_MOST_CHANGES = 1_000  # of one task that a slow stream may still read
_JOINED = "input.joined"
_TOLD = (TurnStart, Custom, PermissionRequest, PermissionResponse)
_ENDS = {
    TurnStatus.COMPLETED: State.COMPLETED,
    TurnStatus.INTERRUPTED: State.CANCELED,
    TurnStatus.FAILED: State.FAILED,
}


@dataclass(frozen=True)
class Made:
    """A version of an artifact was written, or more of it.

    Attributes:
        artifact: the artifact.
        start: the bytes that were told before, which this goes on from.
        url: where the content is, if it is not kept here.
    """

    artifact: Artifact
    start: int = 0
    url: str = ""


Change = Status | Made
"""What a stream tells of a task after its beginning."""


@dataclass(frozen=True)
class TaskView:
    """A task at one moment.

    Attributes:
        status: its state.
        artifacts: what it has made, the newest version of each.
        history: what was said in it.
        place: where the changes go on.
    """

    status: Status
    artifacts: tuple[Made, ...]
    history: tuple[Message, ...]
    place: int


@dataclass(eq=False)
class ServedTask:
    """One task.

    Attributes:
        id: its id in the protocol.
        context_id: its context's.
        owner: the name of the token that began it.
        session_id: the session that its turn is in.
        input_id: the input that its turn takes.
        size: bytes of what was said in it.
        stamp: rises with each change of a state, in all tasks of a book.
        told: the mark of the question that a client has been shown last.
        is_canceled: whether a client has cancelled it while its turn was suspended.
        is_suspended: whether its turn is suspended at a question, and no agent works on it.
    """

    id: str
    context_id: str
    owner: str
    session_id: str
    input_id: str
    size: int = 0
    stamp: int = 0
    told: str = ""
    is_canceled: bool = False
    is_suspended: bool = False
    history: list[Message] = field(default_factory=list)
    status: Status = field(default_factory=lambda: Status(State.SUBMITTED, timestamp=now()))
    request: PermissionRequest | None = None  # the question that is in view
    _questions: dict[str, PermissionRequest] = field(default_factory=dict)
    _artifacts: dict[str, Made] = field(default_factory=dict)
    _changes: list[Change] = field(default_factory=list)
    _dropped: int = 0
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def state(self) -> State:
        """Its state now."""
        return self.status.state

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: it has ended, or asks something."""
        return self.state.is_final or self.state is State.INPUT_REQUIRED

    def look(self) -> TaskView:
        """Return it as it is now."""
        place = self._dropped + len(self._changes)
        return TaskView(self.status, tuple(self._artifacts.values()), tuple(self.history), place)

    def read(self, place: int) -> tuple[tuple[Change, ...], int]:
        """Return the changes from a place on, and the place behind them; none, if none came."""
        found = tuple(self._changes[max(0, place - self._dropped) :])
        return found, self._dropped + len(self._changes)

    async def wait_change(self) -> None:
        """Wait until something changes."""
        await self._changed.wait()

    def add(self, change: Change) -> None:
        """Note a change, and wake who waits for one."""
        if isinstance(change, Status):
            self.status = change
        self._changes.append(change)
        surplus = len(self._changes) - _MOST_CHANGES
        if surplus > 0:
            del self._changes[:surplus]
            self._dropped += surplus
        self._changed.set()
        self._changed = trio.Event()

    def say(self, *parts: Part) -> Message | None:
        """Let the agent say something, which is then part of the task's history."""
        if not parts:
            return None
        message = Message(new_id("m"), "ROLE_AGENT", parts, self.context_id, self.id)
        self.size += sum(len(each.text) for each in parts if isinstance(each.text, str))
        self.history.append(message)
        return message

    def make(self, data: object) -> None:
        """Note an artifact, of which a chunk tells; one that makes no sense is left out."""
        try:
            made = _read_made(data)
        except msgspec.ValidationError as error:
            logger.warning("an artifact is not told to clients of A2A: %s", error)
            return
        now, before = made.artifact, self._artifacts.get(made.artifact.name)
        self._artifacts[now.name] = made
        if before is not None and now.file and before.artifact.file == now.file:
            made = replace(made, start=min(before.artifact.size, now.size))
        self.add(made)

    def restore(self, artifact: Artifact) -> None:
        """Note an artifact that the record of the session has."""
        self._artifacts[artifact.name] = Made(artifact)

    def ask(self, request: PermissionRequest) -> bool:
        """Note a question; return whether it is the one in view."""
        self._questions[request.request_id] = request
        return len(self._questions) == 1

    def close(self, request_id: str) -> PermissionRequest | None:
        """Note that a question is decided; return the next one."""
        self._questions.pop(request_id, None)
        return next(iter(self._questions.values()), None)


class TaskBook:
    """The tasks of a server, and an instrument that hears what becomes of them."""

    def __init__(self, runtime: AgentRuntime) -> None:
        """Hear what the agents of a runtime do."""
        self._runtime = runtime
        self._tasks = OrderedDict[str, ServedTask]()
        self._open = dict[str, list[ServedTask]]()  # by session
        self._stamp = self._size = 0
        runtime.instruments.add(self)

    def open(self, task: ServedTask) -> None:
        """Keep a task, and follow it; of those that have ended, the oldest may be forgotten.

        Raises:
            TaskRefusedError: too many have not ended, of all owners or of this one.
        """
        own = sum(
            each.owner == task.owner for each in self._tasks.values() if not each.state.is_final
        )
        if own >= _MOST_OPEN and not task.state.is_final:
            raise TaskRefusedError(Fault.INTERNAL, "too many of your tasks are open", status=503)
        if not self._make_room():
            raise TaskRefusedError(Fault.INTERNAL, "too many tasks are open", status=503)
        self._tasks[task.id] = task
        self._size += task.size
        if not task.state.is_final:
            self._open.setdefault(task.session_id, []).append(task)
        self._number(task)

    def _make_room(self) -> bool:
        """Forget the oldest tasks that have ended, as far as need be; return whether it helps."""
        while len(self._tasks) >= _MOST_TASKS or self._size > _MOST_BYTES:
            oldest = next((each for each in self._tasks.values() if each.state.is_final), None)
            if oldest is None:
                return False
            self._forget(oldest)
        return True

    def drop(self, task: ServedTask) -> None:
        """Forget a task whose message was refused; who waits for it is told."""
        self.end(task, State.REJECTED)
        self._forget(task)

    def _forget(self, task: ServedTask) -> None:
        if self._tasks.pop(task.id, None) is not None:  # it may have been forgotten already
            self._size -= task.size

    def find(self, task_id: str, owner: str) -> ServedTask | None:
        """Return a task of an owner; somebody else's does not exist."""
        task = self._tasks.get(task_id)
        return task if task is not None and task.owner == owner else None

    def list(self, owner: str) -> Iterator[ServedTask]:
        """Return the tasks of an owner, those first whose state changed last."""
        own = [each for each in self._tasks.values() if each.owner == owner]
        return iter(sorted(own, key=lambda each: each.stamp, reverse=True))

    def grow(self, task: ServedTask, message: Message, size: int) -> None:
        """Keep one more message of a client; without room it is in the conversation alone."""
        if not self._make_room() and self._size > _MOST_BYTES:
            return
        task.history.append(message)
        task.size += size
        self._size += size

    def work(self, task: ServedTask) -> None:
        """Note that the agent works on a task."""
        task.is_suspended = False
        self._enter(task, State.WORKING)

    def end(self, task: ServedTask, state: State, text: str = "") -> None:
        """Note how a task has ended."""
        if task.state.is_final:
            return
        message = self._say(task, *((Part(text),) if text else ()))
        self._enter(task, State.CANCELED if task.is_canceled else state, message)
        self._finish(task)

    def _finish(self, task: ServedTask) -> None:
        left = [each for each in self._open.get(task.session_id, ()) if each is not task]
        if left:
            self._open[task.session_id] = left
        else:
            self._open.pop(task.session_id, None)

    def _enter(self, task: ServedTask, state: State, message: Message | None = None) -> None:
        if task.state.is_final or (task.state is state and message is None):
            return
        self._number(task)
        task.add(Status(state, message, now()))

    def _number(self, task: ServedTask) -> None:
        self._stamp += 1
        task.stamp = self._stamp

    def _ask(self, task: ServedTask, request: PermissionRequest) -> None:
        task.request = request
        self._enter(task, State.INPUT_REQUIRED, self._say(task, *describe_question(request)))

    def _say(self, task: ServedTask, *parts: Part) -> Message | None:
        before = task.size
        message = task.say(*parts)
        self._size += task.size - before
        return message

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """Tell the open tasks of a session what its agent does."""
        if not self._open or not isinstance(chunk, _TOLD):
            return
        if isinstance(chunk, PermissionRequest | PermissionResponse):
            self._take_question(self._root_of(agent.session_id), chunk)
            return
        is_artifact = isinstance(chunk, Custom) and chunk.kind == ARTIFACT
        for task in self._open.get(agent.session_id, ()):
            if _is_start(chunk, task.input_id):
                self.work(task)
            elif is_artifact and task.state is not State.SUBMITTED:
                assert isinstance(chunk, Custom)
                task.make(msgspec.to_builtins(chunk.data))

    def _root_of(self, session_id: str) -> str:
        while (handle := self._runtime.get(session_id)) is not None and handle.parent:
            session_id = handle.parent.session_id
        return session_id

    def _take_question(
        self, session_id: str, chunk: PermissionRequest | PermissionResponse
    ) -> None:
        """A question is one of the task whose turn is open: of several, the first."""
        running = (each for each in self._open.get(session_id, ()) if each.state != State.SUBMITTED)
        task = next(running, None)
        if task is None:
            return
        if isinstance(chunk, PermissionRequest):
            if task.ask(chunk):
                self._ask(task, chunk)
            return
        following = task.close(chunk.request_id)
        if following is None:
            self.work(task)
        elif following is not task.request:
            self._ask(task, following)

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """Note the results of the tasks that a turn has answered."""
        for task in tuple(self._open.get(agent.session_id, ())):
            if task.input_id not in (end.input_id, *end.inputs):
                continue
            handle = self._runtime.get(agent.session_id)
            if end.status is not TurnStatus.WAITING:
                result = None if handle is None else find_result(handle, task.input_id)
                self.end(task, _ENDS[end.status], _text_of(result, end))
                continue
            # The answer resumes the turn, whenever it comes. Nobody has seen it yet perhaps.
            open_now = () if handle is None else take_snapshot(handle).pending
            if open_now and (task.state, task.request) != (State.INPUT_REQUIRED, open_now[0]):
                self._ask(task, open_now[0])
            task.is_suspended = bool(open_now)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Note the end of tasks whose turn will never come; a suspended one waits on."""
        for task in tuple(self._open.get(agent.session_id, ())):
            if not task.is_suspended:
                self.end(task, State.FAILED, "the agent has ended")


def now() -> str:
    """Return the present time, as the protocol writes it."""
    seconds, milliseconds = divmod(unix_milliseconds(), 1000)
    return write_time(datetime.fromtimestamp(seconds, UTC).replace(microsecond=milliseconds * 1000))


def write_time(moment: datetime) -> str:
    """Write a time in UTC with its milliseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def shown_mark(task: ServedTask) -> str:
    """Return what tells the question that a task shows from any other; empty without one."""
    is_asking = task.state is State.INPUT_REQUIRED and task.request is not None
    return mark_of(task.request) if is_asking and task.request is not None else ""


class _Link(msgspec.Struct):
    name: str
    url: str
    media_type: str = ""


def _read_made(data: object) -> Made:
    """Read what a chunk tells of an artifact: one that is kept, or a link to one elsewhere."""
    if isinstance(data, dict) and "url" in data:
        link = serde.convert(data, _Link)
        return Made(Artifact(link.name, 1, link.media_type, 0, complete=True, file=""), 0, link.url)
    return Made(serde.convert(data, Artifact))


def _is_start(chunk: OutputChunk, input_id: str) -> bool:
    """Whether the turn of an input begins, or goes on with it."""
    if isinstance(chunk, Custom):
        return chunk.kind == _JOINED and chunk.data.get("input_id") == input_id
    return isinstance(chunk, TurnStart) and chunk.input_id == input_id


def _text_of(result: TurnResult | None, end: Done) -> str:
    if end.status is TurnStatus.FAILED:
        return end.error
    return "" if result is None else result.text
