"""The checkpoints of an agent's tasks: counted, and at one of them something is done.

A checkpoint has two sides, and a cancel means something else on each: a task begins to wait (the
cancel wakes it), and a task that was woken is about to go on (what it waited for has come, and the
cancel waits for its next checkpoint). trio tells an instrument of both, between the steps of tasks:
what is done there is just what another task could do that runs at this moment.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio
from trio.lowlevel import Task

__all__ = ["Checkpoints"]

_MAX = 200_000  # of one run; an agent that goes on for longer runs in a circle
_FRAMES = 4
_TRIO = os.path.dirname(trio.__file__)


class Checkpoints(trio.abc.Instrument):
    """Follows every task that an agent has started, in whatever nursery it lives."""

    def __init__(
        self, at: int | None, then: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        """At the side of this number call `then`; when there is no end of them, `give_up`."""
        self._at = at
        self._then = then
        self._give_up = give_up
        self._adopting = False
        self._alive: dict[Task, None] = {}
        self.count = 0
        """The sides passed so far."""
        self.where = ""
        """Where the task of interest stood; empty until the number is reached."""
        self.error: BaseException | None = None
        """What went wrong in here, where nobody can raise."""

    @property
    def alive(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended, each with its place."""
        return tuple(f"{task.name} ({_place(task)})" for task in self._alive)

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Take the task that is spawned in this block for the agent's."""
        self._adopting = True
        try:
            yield
        finally:
            self._adopting = False

    # -- what trio tells ------------------------------------------------------------------------

    def task_spawned(self, task: Task) -> None:
        """Follow it if the agent, or a task of the agent, has spawned it."""
        if self._adopting or trio.lowlevel.current_task() in self._alive:
            self._alive[task] = None

    def task_exited(self, task: Task) -> None:
        """It is gone."""
        self._alive.pop(task, None)

    def before_task_step(self, task: Task) -> None:
        """The task has been woken, and is about to go on."""
        if task in self._alive:
            self._pass(task, "about to go on")

    def after_task_step(self, task: Task) -> None:
        """The task begins to wait."""
        if task in self._alive:
            self._pass(task, "waiting")

    def _pass(self, task: Task, side: str) -> None:
        self.count += 1
        try:
            if self.count == self._at:
                self.where = f"{task.name}, {side} in {_place(task)}"
                self._then()
            elif self.count == _MAX:
                self._give_up()
        except BaseException as error:  # noqa: BLE001 (trio would log it; the trial raises it)
            self.error = error


def _place(task: Task) -> str:
    """Name the innermost lines that a task stands in, leaving trio's own out."""
    lines = [
        f"{os.path.basename(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}"
        for frame, line in task.iter_await_frames()
        if not frame.f_code.co_filename.startswith(_TRIO)
    ]
    return " < ".join(reversed(lines[-_FRAMES:])) or "trio"
