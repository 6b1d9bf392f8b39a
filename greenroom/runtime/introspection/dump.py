"""The dump: the tree of a runtime and the stacks of its agents, for who wonders why nothing happens."""

import logging
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from greenroom.core import ConfigurationError, visible
from greenroom.runtime.caller import actor_of
from greenroom.runtime.introspection.snapshot import take_tree

if TYPE_CHECKING:
    import trio

    from greenroom.runtime.actor import Actor
    from greenroom.runtime.registry import Registry

_AGENTS = 1000  # agents in the tree
_FRAMES = 30  # of one stack, its innermost ones
_CHARACTERS = 1_000_000  # of all stacks together: beyond it, agents are counted only

logger = logging.getLogger("greenroom.runtime")


class DumpFile(Protocol):
    """What a dump is written to: an open text file, or anything with these two methods."""

    def write(self, text: str, /) -> object:
        """Take the text."""

    def flush(self) -> object:
        """Pass it on."""


def write_dump(
    registry: "Registry", file: DumpFile | None, interrupted: FrameType | None = None
) -> None:
    """Write the tree and the stacks; `interrupted` is what the loop's thread runs, where known."""
    file = file or sys.stderr
    parts = [str(take_tree(registry, _AGENTS)), *describe_stacks(registry)]
    if interrupted is not None:
        stack = traceback.extract_stack(interrupted, limit=_FRAMES).format()
        parts.append("The event loop's thread is here:\n" + visible("".join(stack)))
    file.write("\n\n".join(part.rstrip() for part in parts) + "\n")
    file.flush()


@contextmanager
def dump_on_signal(registry: "Registry", number: int, file: DumpFile | None) -> Iterator[None]:
    """Write the dump whenever the signal comes; the former handler comes back with the end."""

    def handle(_: int, frame: FrameType | None) -> None:
        # It runs between any two bytecodes: nothing may be raised into what it interrupts.
        try:
            write_dump(registry, file, frame)
        except Exception:
            logger.exception("the dump could not be written")

    try:
        before = signal.signal(number, handle)
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"the signal {number} can't be handled here: {error}",
            hint="run the runtime in the process's main thread, and take a signal such as SIGUSR1",
        ) from error
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if before is None else before)


def describe_stacks(registry: "Registry") -> Iterator[str]:
    """Describe where each task of each agent waits, as far as there is room."""
    room = _CHARACTERS
    for index, actor in enumerate(registry):
        if room <= 0:
            yield f"… the stacks of {len(registry) - index} agents left out"
            return
        for task in _tasks(actor):
            text = _describe(actor, task)
            room -= len(text)
            yield text


def _tasks(actor: "Actor") -> "Iterator[trio.lowlevel.Task]":
    """Find the agent's own task and those that it has started, its subagents' left out."""
    waiting = [actor.task] if actor.task is not None else []
    while waiting:
        task = waiting.pop()
        if actor_of(task) is not actor:
            continue
        yield task
        for nursery in task.child_nurseries:
            # A signal may come while trio is making a nursery, which then has no tasks to ask for.
            waiting += getattr(nursery, "child_tasks", ())


def _describe(actor: "Actor", task: "trio.lowlevel.Task") -> str:
    path = "/".join(actor.lineage())
    head = visible(f"{path} ({actor.session.session_id}), task {task.name!r}:")
    stack = traceback.StackSummary.extract(task.iter_await_frames(), limit=-_FRAMES)
    return f"{head}\n" + visible("".join(stack.format()))
