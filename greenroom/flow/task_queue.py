"""`TaskQueue`: requests to one agent, in the order of their priority and within their deadlines."""

import itertools
import math
from dataclasses import dataclass, field

import trio

from greenroom.core import ConfigurationError, MailboxFullError, utc_now
from greenroom.core._internal import new_id, serde
from greenroom.flow.agent_message import AgentMessage, TaskRequest, TaskResponse
from greenroom.flow.errors import TeamError
from greenroom.flow.graph import is_count
from greenroom.flow.talk import read_output
from greenroom.runtime import AgentHandle
from greenroom.runtime._internal import try_ask


@dataclass(order=True)
class _Place:
    """A place in the queue; those with the highest priority and the nearest deadline come first."""

    rank: int
    end: float
    number: int
    ready: trio.Event = field(default_factory=trio.Event, compare=False)


class TaskQueue:
    """Sends requests to an agent one after the other, the most urgent first.

    Those that wait are ordered by priority, then by deadline, then by arrival. A request that is
    running is not interrupted by a more urgent one, only by its own deadline.

    Args:
        handle: the agent.
        max_waiting: how many requests may wait.

    Raises:
        ConfigurationError: `max_waiting` is below 1.

    Example:
        ```python
        desk = TaskQueue(runtime.spawn(AgentSession.new("writer"), writer))
        due = utc_now() + timedelta(minutes=5)
        reply = await desk.request(TaskRequest("t1", "Write.", priority=2, deadline=due))
        print(reply.payload.status, reply.payload.result)
        ```
    """

    def __init__(self, handle: AgentHandle, *, max_waiting: int = 100) -> None:
        if not is_count(max_waiting):
            raise ConfigurationError(
                f"max_waiting is {max_waiting!r}", hint="give a number above 0"
            )
        self._handle = handle
        self._max_waiting = max_waiting
        self._waiting: list[_Place] = []
        self._numbers = itertools.count()
        self._is_busy = False

    async def request(
        self, task: TaskRequest, *, sender: str = "", correlation_id: str = ""
    ) -> AgentMessage:
        """Send a request, and return the reply, whose `result` is the agent's.

        The agent gets an `AgentMessage`, as from a topic; the result or the text of its turn is the
        reply. If the turn does not complete, or not before the deadline, its `payload` has the
        status "failed" and the reason as the result; a late turn is interrupted, and a late request
        not sent. Cancelling this takes a request that waits out of the queue, but ends no turn.

        Args:
            task: the request.
            sender: who asks.
            correlation_id: the same in the request and the reply; by default a new one.

        Raises:
            MailboxFullError: too many requests wait.
            ValueError: the sender's name is invalid.
            SelfWaitError: the agent waits for this very reply.
        """
        if len(self._waiting) >= self._max_waiting:
            raise MailboxFullError(f"{self._max_waiting} requests wait for {self._handle.name}")
        id_ = correlation_id or new_id("task")
        message = AgentMessage(sender, self._handle.name, content=task, correlation_id=id_)
        place = _Place(-task.priority, _find_end(task), next(self._numbers))
        self._waiting.append(place)
        self._admit_next()
        try:
            with trio.move_on_at(place.end):
                await place.ready.wait()
            is_time = place.ready.is_set() and trio.current_time() < place.end
            response = await self._ask(message, task, place.end) if is_time else _make_late(task)
            return message.reply(response)
        finally:
            if place.ready.is_set():
                self._is_busy = False
            else:
                self._waiting.remove(place)
            self._admit_next()

    def _admit_next(self) -> None:
        """Let the first request go, unless another one is running."""
        if self._waiting and not self._is_busy:
            self._is_busy = True
            place = min(self._waiting)
            self._waiting.remove(place)
            place.ready.set()

    async def _ask(self, message: AgentMessage, task: TaskRequest, end: float) -> TaskResponse:
        timeout = None if end == math.inf else max(0.0, end - trio.current_time())
        result = await try_ask(
            self._handle,
            message.text,
            timeout,
            sender=message.sender,
            metadata={"message": serde.loads(serde.encode(message))},
        )
        try:
            return TaskResponse(task.task_id, read_output(result, self._handle.name))
        except TeamError as error:
            if trio.current_time() >= end:
                return _make_late(task)
            return TaskResponse(task.task_id, error.message, "failed")


def _find_end(task: TaskRequest) -> float:
    """Return trio's time at the deadline of a task."""
    if task.deadline is None:
        return math.inf
    return trio.current_time() + (task.deadline - utc_now()).total_seconds()


def _make_late(task: TaskRequest) -> TaskResponse:
    return TaskResponse(task.task_id, f"it was not done by {task.deadline}", "failed")
