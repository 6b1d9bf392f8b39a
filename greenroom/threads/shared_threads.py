"""Work in threads: on files, in crowds, and on values that are too large for the event loop.

`FileThreads` are a limit on how many threads work at once. `SharedThreads` take short work that
comes in crowds, such as the statements of many sessions. `run_heavy` takes work whose time depends
on a value that others made.
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Literal, NamedTuple, TypeVar, cast

import trio
from msgspec import Struct
from msgspec.structs import astuple

T = TypeVar("T")


class FileThreads:
    """Runs blocking work in threads, up to a limit; further work waits its turn.

    Work begins in the order in which it was asked for. It may be created before trio runs, and used
    in several runs: each has its own limit.

    Example:
        >>> threads = FileThreads("example", 2)
        >>> trio.run(threads.run, lambda: sum(range(10)))
        45
    """

    def __init__(self, name: str, most: int) -> None:
        """Set the limiter's name and how many threads may work at once."""
        self._most = most
        # A limiter belongs to one run of trio.
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(name)

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """The limiter for this run of trio."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._most)
            self._limiter.set(limiter)
            return limiter

    async def run(self, work: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
        """Run this work in a thread, to its end even if cancelled, unless that abandons it.

        Work that takes long may call `trio.from_thread.check_cancelled`.
        """
        limiter = cast(
            "trio.CapacityLimiter", _PromptLimiter(self.limiter)
        )  # trio asks for its methods
        return await trio.to_thread.run_sync(
            work, abandon_on_cancel=abandon_on_cancel, limiter=limiter
        )


class _PromptLimiter(NamedTuple):
    """A limiter without trio's pass of the event loop before a thread for which there is room.

    Trio runs the tasks of a pass in any order, and threads would begin in any order after it.
    """

    limiter: trio.CapacityLimiter

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        try:
            self.limiter.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            await self.limiter.acquire_on_behalf_of(borrower)

    def release_on_behalf_of(self, borrower: object) -> None:
        self.limiter.release_on_behalf_of(borrower)


class ThreadFigures(NamedTuple):
    """How much work is in threads, and how much waits for one; `threads` may work at once."""

    working: int
    waiting: int
    threads: int


_crews: trio.lowlevel.RunVar["list[_Crew]"] = trio.lowlevel.RunVar("crews")


def count_working() -> int:
    """Count the threads of all `SharedThreads` that work now, in this run of trio."""
    return sum(crew.figures().working for crew in _crews.get([]))


class SharedThreads:
    """Runs blocking work in threads, up to a limit, and goes on in them with the work that waits.

    A thread that has done its work takes the next at once, without asking the event loop for it,
    and one pass of the loop takes in all results that are there. So a crowd costs a fraction of
    what `FileThreads` take. It may be created before trio runs, and used in several runs: each has
    its own limit. The work can't call `trio.from_thread`. A run of trio keeps a small record of
    each that it has used until it ends: make one for a store, and not one for a statement.

    Example:
        >>> threads = SharedThreads("example", 2)
        >>> trio.run(threads.run, lambda: sum(range(10)))
        45
    """

    def __init__(self, name: str, most: int) -> None:
        """Set the threads' name, and how many may work at once."""
        self._name = name
        self._most = most
        # Results go back to the run of trio that asked.
        self._crew: trio.lowlevel.RunVar[_Crew] = trio.lowlevel.RunVar(name)

    async def run(self, work: Callable[[], T]) -> T:
        """Run this work in a thread, to its end even if cancelled.

        Raises:
            trio.Cancelled: before the work has begun.
        """
        return cast("T", await self._get_crew().run(work))

    def figures(self) -> ThreadFigures:
        """Return how much runs and waits in this run of trio."""
        return self._get_crew().figures()

    def _get_crew(self) -> "_Crew":
        try:
            return self._crew.get()
        except LookupError:
            crew = _Crew(self._name, self._most)
            self._crew.set(crew)
            _crews.set([*_crews.get([]), crew])
            return crew


class _Job:
    """Work of one task, and what came of it."""

    __slots__ = ("_context", "_error", "_result", "_work", "task")

    def __init__(self, work: Callable[[], object]) -> None:
        self.task = trio.lowlevel.current_task()
        self._work = work
        self._context = contextvars.copy_context()
        self._result: object = None
        self._error: BaseException | None = None

    def do(self) -> None:
        try:
            self._result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 -- it is raised in the task
            self._error = error

    def unwrap(self) -> object:
        error, self._error = self._error, None  # a traceback that leads here would be a cycle
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error


class _Crew:
    """The threads of one run of trio, and the work for them, first come, first served."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._token = trio.lowlevel.current_trio_token()
        self._guard = threading.Lock()  # of the two below, which belong together
        self._waiting = deque[_Job]()
        self._threads = 0
        self._done = deque[_Job]()

    def figures(self) -> ThreadFigures:
        with self._guard:
            return ThreadFigures(self._threads, len(self._waiting), self._most)

    # A job whose task is gone must not be left behind.
    @trio.lowlevel.enable_ki_protection
    async def run(self, work: Callable[[], object]) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(work)
        with self._guard:
            is_free = self._threads < self._most
            if is_free:
                self._threads += 1
            else:
                self._waiting.append(job)
        if is_free:
            self._start_thread(job)

        def abort(_: object) -> trio.lowlevel.Abort:
            has_begun = is_free or not self._withdraw(job)
            return trio.lowlevel.Abort.FAILED if has_begun else trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return job.unwrap()

    def _start_thread(self, job: _Job) -> None:
        try:
            trio.lowlevel.start_thread_soon(partial(self._serve, job), lambda _: None, self._name)
        except BaseException:
            with self._guard:
                self._threads -= 1
            raise

    def _withdraw(self, job: _Job) -> bool:
        """Take back work that waits; say whether it did."""
        with self._guard:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            return True

    def _serve(self, first: _Job) -> None:
        """Do this, and then what waits until nothing does; called in a thread."""
        job: _Job | None = first
        while job is not None:
            job.do()
            self._done.append(job)
            self._token.run_sync_soon(self._take_in, idempotent=True)
            job = self._next()

    def _next(self) -> _Job | None:
        with self._guard:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None

    def _take_in(self) -> None:
        """Wake the tasks whose work is done."""
        while self._done:
            trio.lowlevel.reschedule(self._done.popleft().task)


_LARGE = 100_000  # characters, items and attributes together; to convert them takes about 1 ms

_TEXTS = (str, bytes, bytearray)
_ATOMS = (int, float, type(None))
_SEQUENCES = (list, tuple, set, frozenset)
_SIZED = frozenset({"text", "sequence", "mapping"})


@lru_cache(256)
def _sort(kind: type) -> Literal["text", "atom", "sequence", "struct", "mapping", "object"]:
    """Tell what to count of a value of this kind; each kind is looked at once."""
    if issubclass(kind, _TEXTS):
        return "text"
    if issubclass(kind, _ATOMS):
        return "atom"
    if issubclass(kind, _SEQUENCES):
        return "sequence"
    if issubclass(kind, Struct):
        return "struct"
    return "mapping" if issubclass(kind, Mapping) else "object"


async def run_heavy(work: Callable[[], T], value: object) -> T:
    """Do work on a value: here, or in a thread if it is so large that it would hold up the loop.

    A cancel waits for the end of the work.

    Example:
        >>> trio.run(run_heavy, lambda: "a".upper(), "a")
        'A'
    """
    return await trio.to_thread.run_sync(work) if is_large(value) else work()


def is_large(value: object, most: int = _LARGE) -> bool:
    """Whether a value has more than `most` characters and items; it looks at no more of them.

    Example:
        >>> is_large(["a" * 50_000]), is_large({"rows": [[0] * 60_000] * 2})
        (False, True)
    """
    room, todo = most, [value]
    while todo and room >= 0:
        each = todo.pop()
        kind = _sort(type(each))  # type: ignore[arg-type]  # which mypy does not know to be hashable
        held = cast("Mapping[object, object]", each)
        room -= len(held) if kind in _SIZED else 1
        if kind == "struct":
            todo += astuple(cast("Struct", each))
        elif kind == "sequence":
            todo += held if room >= 0 else ()
        elif kind == "mapping":
            todo += (*held, *held.values()) if room >= 0 else ()
        elif kind == "object":
            names = tuple(getattr(each, "__dict__", ()))
            room -= len(names)
            todo += [getattr(each, name, None) for name in names]
    return room < 0
