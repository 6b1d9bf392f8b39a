"""Where the tasks of a run stand: their checkpoints, and cancels that one of them has swallowed."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import FrameType

import trio
from trio.lowlevel import Task
from trio.testing import MockClock

from greenroom.testing.fuzz.surroundings import is_user_code

_MAX_CHECKPOINTS = 200_000  # of one run; an agent that goes on for longer runs in a circle
_MAX_SWALLOWED = 1_000  # cancels of one task; one that swallows more does not end by itself
_NURSERY_END = "_nested_child_finished"  # trio's function in which a nursery's block waits
_FRAMES = 4
_TRIO = os.path.dirname(trio.__file__)


def is_virtual() -> bool:
    """Whether the clock of this run jumps."""
    return isinstance(trio.lowlevel.current_clock(), MockClock)


class Checkpoints(trio.abc.Instrument):
    """Follows every task that an agent has started, in whatever nursery it lives.

    A checkpoint has two sides, and a cancel differs between them: where a task begins to wait, the
    cancel wakes it; where a woken task is about to go on, it has what it waited for, and the cancel
    comes at its next checkpoint. Trio calls an instrument on both sides, between the steps of
    tasks, where another task could run as well.
    """

    def __init__(
        self,
        at: int,
        then: Callable[[], None],
        run_scope: trio.CancelScope,
        is_calling: Callable[[], bool],
    ) -> None:
        """Call `then` at the side of this number; cancel `run_scope` when they do not end."""
        self._at = at
        self._on_reached = then
        self.run_scope = run_scope
        """The scope of the whole run."""
        self._is_calling = is_calling
        self._is_adopting = False
        self._alive: dict[Task, None] = {}
        self.count = 0
        """The sides passed so far."""
        self.during_calls: list[int] = []
        """Those of them that were passed while a call of a tool ran."""
        self.way: list[tuple[bool, str]] = []
        """The places passed in the user's code, each with whether a call ran; of the control.

        On a real clock they are never quite the same, and not kept.
        """
        self.swallowed = SwallowedCancels()
        self.where = ""
        """Where the task of interest stood; empty until the number is reached."""
        self.error: BaseException | None = None
        """An error in an instrument's method, which can't raise."""

    @property
    def alive(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended, each with its place."""
        return tuple(f"{task.name} ({place_of(task)})" for task in self._alive)

    @contextmanager
    def adopt(self) -> Iterator[None]:
        """Take the task that is spawned in this block for the agent's."""
        self._is_adopting = True
        try:
            yield
        finally:
            self._is_adopting = False

    def task_spawned(self, task: Task) -> None:
        """Follow it if the agent, or a task of the agent, has spawned it."""
        if self._is_adopting or trio.lowlevel.current_task() in self._alive:
            self._alive[task] = None

    def task_exited(self, task: Task) -> None:
        """Stop following it."""
        self._alive.pop(task, None)
        self.swallowed.forget(task)

    def before_task_step(self, task: Task) -> None:
        """The task has been woken, and is about to go on."""
        if task in self._alive:
            if self.where:
                self.swallowed.before_step(task)
            self._pass(task, "about to go on")

    def after_task_step(self, task: Task) -> None:
        """The task begins to wait."""
        if task in self._alive:
            if self.where:
                self.swallowed.after_step(task)
            self._pass(task, "waiting")

    def before_io_wait(self, timeout: float) -> None:
        """Where all was cancelled and still waits, and nothing can happen: open the shields."""
        if self.run_scope.cancel_called and is_virtual():
            statistics = trio.lowlevel.current_statistics()
            if not statistics.tasks_runnable and statistics.seconds_to_next_deadline == float(
                "inf"
            ):
                for each in gc.get_objects():
                    if isinstance(each, trio.CancelScope):
                        each.shield = False

    def _pass(self, task: Task, side: str) -> None:
        self.count += 1
        is_calling = self._is_calling()
        if is_calling:
            self.during_calls.append(self.count)
        if not self._at and is_virtual() and lines_of(task, is_user_code):
            self.way.append((is_calling, place_of(task)))
        try:
            if self.count == self._at:
                self.where = f"{task.name}, {side} in {place_of(task)}"
                others = (
                    each
                    for each in self._alive
                    if each is not task and lines_of(each, is_user_code)
                )
                self.where += "".join(f"; {each.name} in {place_of(each)}" for each in others)
                self._on_reached()
            elif self.count == _MAX_CHECKPOINTS:
                self.run_scope.cancel()
        except BaseException as error:  # noqa: BLE001 (trio would log it; the trial raises it)
            self.error = error


def place_of(task: Task) -> str:
    """Name the innermost lines that a task is at: of the user's code, else of any but trio's."""
    lines = lines_of(task, is_user_code) or lines_of(task, lambda file: not file.startswith(_TRIO))
    return " < ".join(reversed(lines[-_FRAMES:])) or "trio"


def lines_of(task: Task, choose: Callable[[str], bool]) -> list[str]:
    """Name the lines of the chosen files that a task is at, the innermost last."""
    return [
        f"{os.path.relpath(file)}:{line} {frame.f_code.co_name}"
        for frame, line in task.iter_await_frames()
        if choose(file := frame.f_code.co_filename)
    ]


@dataclass(frozen=True)
class _Cancel:
    """A cancel that came to a task in the user's code.

    Attributes:
        place: where, in words.
        scopes: all that the task was in; of those that are cancelled the outermost catches it.
        wait: what the user's code awaited there, of a library or of trio.
    """

    place: str
    scopes: tuple[trio.CancelScope, ...]
    wait: object

    def is_open_in(self, task: Task) -> bool:
        """Whether the task is still in a scope that is cancelled."""
        return any(each.cancel_called for each in _scopes(task) if each in self.scopes)

    @property
    def is_caught(self) -> bool:
        """Whether a scope has caught it, as it should."""
        return any(each.cancelled_caught for each in self.scopes)


class SwallowedCancels:
    """Finds tasks that go on although a cancel came to them in the user's code.

    Such a task waits again while what was cancelled is still open, or has left it without that a
    scope has caught the cancel, and no exception is on its way up its stack. While it is still in
    the library that the user's code awaits, it may be on its way out. trio tells instruments
    neither what a task wakes with nor which scopes it is in, so this looks at what is not public;
    in a trio that has it otherwise nothing is found.
    """

    def __init__(self) -> None:
        """Find nothing yet."""
        self._cancelled: dict[Task, _Cancel] = {}
        self._counts: dict[Task, int] = {}
        self._deliveries: dict[Task, int] = {}
        self.found: list[str] = []
        """Where it was, in words."""

    def before_step(self, task: Task) -> None:
        """Note that the task wakes with a cancel."""
        if not isinstance(_error(task), trio.Cancelled):
            return
        user = next((each for each in _nearby(task) if lines_of(each, is_user_code)), None)
        if user is not None:
            cancel = _Cancel(place_of(user), tuple(_scopes(task)), _wait_of(user))
            self._cancelled.setdefault(task, cancel)
        self._deliveries[task] = self._deliveries.get(task, 0) + 1
        if self._deliveries[task] > _MAX_SWALLOWED:
            self.found.append(f"in {place_of(task)}, which went on to wait there again")
            _end(task)

    def after_step(self, task: Task) -> None:
        """See whether the task, which waits again, is on its way out."""
        cancel = self._cancelled.get(task)
        if cancel is None or any(each is cancel.wait for each in _awaitables(task)):
            return
        is_open = cancel.is_open_in(task)
        if is_open and not _is_cancelled(task):
            return  # it cleans up behind a shield
        if not cancel.is_caught and not _is_unwinding(task):
            self._counts[task] = self._counts.get(task, 0) + 1
            if self._counts[task] == 1:
                self.found.append(f"in {cancel.place}, which went on to {place_of(task)}")
        if not is_open or task in self._counts:
            del self._cancelled[task]

    def forget(self, task: Task) -> None:
        """Drop a task that has ended; its cancel goes to the task that waits for its nursery."""
        cancel = self._cancelled.pop(task, None)
        self._counts.pop(task, None)
        self._deliveries.pop(task, None)
        parent = task.parent_nursery.parent_task if task.parent_nursery else None
        if cancel and parent and cancel.is_open_in(parent) and _waits_for_children(parent):
            self._cancelled.setdefault(parent, replace(cancel, wait=_wait_of(parent)))


def _nearby(task: Task) -> Iterator[Task]:
    """Return the task and the one that has started it, as for a bare `trio.sleep`."""
    yield task
    if task.parent_nursery:
        yield task.parent_nursery.parent_task


def _waits_for_children(task: Task) -> bool:
    return any(frame.f_code.co_name == _NURSERY_END for frame, _ in task.iter_await_frames())


def _error(task: Task) -> BaseException | None:
    """Return what the task is about to be woken with, if that is an exception."""
    sent = getattr(task, "_next_send", None)
    error: object = getattr(sent, "error", None)
    return error if isinstance(error, BaseException) else None


def _scopes(task: Task) -> Iterator[trio.CancelScope]:
    """Return the scopes that the task is in, the innermost first."""
    status = getattr(task, "_cancel_status", None)
    while status is not None:
        yield status._scope
        status = status.parent


def _is_cancelled(task: Task) -> bool:
    """Whether the next wait of the task is cancelled, as no shield is in between."""
    status = getattr(task, "_cancel_status", None)
    return status is not None and bool(status.effectively_cancelled)


def _is_unwinding(task: Task) -> bool:
    """Whether an exception is being handled somewhere on the stack of the task."""
    # A suspended frame refers to what it holds and handles.
    return any(
        isinstance(held, BaseException)
        for each in _awaitables(task)
        for held in gc.get_referents(each)
    )


def _wait_of(task: Task) -> object:
    """Return what the innermost code of the user's awaits, of a library or of trio."""
    waits: object = None
    chain = [*_awaitables(task), None]
    for outer, inner in pairwise(chain):
        frame = _frame_of(outer)
        if frame is not None and is_user_code(frame.f_code.co_filename):
            waits = inner
    return waits


def _awaitables(task: Task) -> Iterator[object]:
    """Yield the coroutine of the task, what it awaits, what that awaits, and so on."""
    awaited: object = task.coro
    while awaited is not None:
        yield awaited
        for attribute in ("cr_await", "gi_yieldfrom", "ag_await"):
            if hasattr(awaited, attribute):
                awaited = getattr(awaited, attribute)
                break
        else:
            held = gc.get_referents(awaited)
            awaited = next((each for each in held if hasattr(each, "ag_await")), None)  # of `asend`


def _frame_of(awaitable: object) -> FrameType | None:
    for attribute in ("cr_frame", "gi_frame", "ag_frame"):
        frame: object = getattr(awaitable, attribute, None)
        if isinstance(frame, FrameType):
            return frame
    return None


def _end(task: Task) -> None:
    """End a task that swallows each cancel: for trio it has raised, and its code goes on no more.

    Without this the run, and with it the test, would never end.
    """

    def stop(_: object) -> object:
        raise RuntimeError("the sweep has ended a task that swallows each cancel")

    task._next_send_fn = stop
