"""What an event loop is running at a moment, seen from another thread by its frames."""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

import trio

from greenroom.core import visible
from greenroom.runtime.caller import actor_of

_FRAMES = 30  # of a stack, its innermost ones

# Where code lies that is not the user's: the standard library, installed packages, this one.
_INSTALLED = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
_NOT_THEIRS = (
    *_INSTALLED,
    *map(os.path.realpath, _INSTALLED),
    str(Path(__file__).parents[2]),
    "<frozen ",
)


class LoopView:
    """A look at the event loop of the thread that makes it; made inside of a task.

    The loop calls everything that can block it: the tasks, and what trio calls between them. Two
    looks at the same call within one pass of the loop are looks at one uninterrupted step.
    """

    def __init__(self, thread: int) -> None:
        """Find the loop of this thread, the caller's: its frame lies right below that of the task which runs now."""
        self._thread = thread
        self._root = trio.lowlevel.current_root_task()
        own = _frame_of(trio.lowlevel.current_task())
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not own:
            frame = frame.f_back
        self._loop = frame.f_back if frame is not None else None

    def stack(self) -> list[FrameType]:
        """Return what the loop has called, from there inwards; empty where it runs only itself."""
        found: list[FrameType] = []
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._loop:
            found.append(frame)
            frame = frame.f_back
        return found[::-1]

    def describe(self, stack: list[FrameType]) -> tuple[str, str, str]:
        """Say who is running, in which call of the user's code, and the whole stack."""
        who = self._who(stack[0])  # first: the loop may be about to go on
        where = next((frame for frame in reversed(stack) if _is_theirs(frame)), stack[-1])
        call = f"{where.f_code.co_qualname} ({where.f_code.co_filename}:{where.f_lineno})"
        lines = traceback.StackSummary.extract(
            ((frame, frame.f_lineno) for frame in stack), limit=-_FRAMES
        ).format()
        return who, visible(call), visible("".join(lines)).rstrip()

    def _who(self, outermost: FrameType) -> str:
        waiting = [self._root] if self._root is not None else []
        while waiting:
            task = waiting.pop()
            if _frame_of(task) is outermost:
                return _name(task)
            for nursery in tuple(task.child_nurseries):
                # None yet where trio is just making it.
                waiting += getattr(nursery, "child_tasks", ())
        return "no task"


def _frame_of(task: trio.lowlevel.Task) -> object:
    return getattr(task.coro, "cr_frame", None)


def _name(task: trio.lowlevel.Task) -> str:
    actor = actor_of(task)
    if actor is None:
        return visible(f"the task {task.name!r} of no agent")
    path = "/".join(actor.lineage())
    return visible(f"the agent {path} ({actor.session.session_id}), task {task.name!r}")


def _is_theirs(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_NOT_THEIRS)
