"""The order of the calls of one reply: side by side, but in turn where their effects may touch.

`Reach` says what a call may touch, and `Reach.delays` is the one rule: which calls wait for it.
`CallOrder` runs the calls by it.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Self

import msgspec
import trio

from greenroom.core import AgentContext, Contact, ReadPath, WritePath
from greenroom.tools.execution import RegisteredTool
from greenroom.tools.own_context import run_in_own_context


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may touch, as far as the order of calls depends on it; by default nothing.

    Attributes:
        reads: the real paths of files that it reads, or of folders in which it reads.
        writes: the real paths of files that it writes.
        any_file: whether it may read and write any file, as a command may.
        is_alone: whether it runs beside no other call but those that only read files.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    any_file: bool = False
    is_alone: bool = False

    @classmethod
    def of(cls, tool: RegisteredTool, input: dict[str, object], context: AgentContext) -> Self:  # noqa: A002
        """Find what a call may touch: what the tool states, or anything unless it is concurrent.

        Example:
            >>> from greenroom.tools.builtin.read import Read
            >>> from greenroom.tools.function_tool import tool
            >>> @tool(concurrent=False)
            ... async def tidy() -> None: ...
            >>> context = AgentContext(session_id="s-1", agent_type="demo")
            >>> Reach.of(RegisteredTool.of(tidy), {}, context).is_alone
            True
            >>> Reach.of(RegisteredTool.of(Read()), {"file_path": "/a"}, context).reads
            ('/a',)
        """
        effects = tool.effects(input, context)
        reads = _real_paths((each.path for each in effects if isinstance(each, ReadPath)), context)
        writes = _real_paths(
            (each.path for each in effects if isinstance(each, WritePath)), context
        )
        if tool.concurrent:
            return cls(reads=reads, writes=writes)
        rest = [each for each in effects if not isinstance(each, ReadPath | WritePath | Contact)]
        stated = bool(reads or writes)
        return cls(reads=reads, writes=writes, any_file=bool(rest), is_alone=not (rest or stated))

    @property
    def only_reads(self) -> bool:
        """Whether it reads files, and touches nothing else."""
        return bool(self.reads) and not (self.writes or self.any_file or self.is_alone)

    @property
    def only_files(self) -> bool:
        """Whether it touches the files that it states, and nothing else."""
        return bool(self.reads or self.writes) and not (self.any_file or self.is_alone)

    def delays(self, later: "Reach") -> bool:
        """Whether a later call has to wait until this one has ended.

        A call that only reads files waits for those who say that they write them, and for no other.

        Example:
            >>> command, edit = Reach(any_file=True), Reach(writes=("/a/b",))
            >>> command.delays(Reach(reads=("/a",))), edit.delays(Reach(reads=("/a",)))
            (False, True)
        """
        if later.only_reads:
            return _overlap(self.writes, later.reads)
        if self.is_alone or later.is_alone:
            return True
        if self.any_file or later.any_file:
            return self._uses_files and later._uses_files
        return _overlap(self.writes, (*later.reads, *later.writes)) or _overlap(
            self.reads, later.writes
        )

    @property
    def _uses_files(self) -> bool:
        return self.any_file or bool(self.reads or self.writes)


def _real_paths(paths: Iterable[str], context: AgentContext) -> tuple[str, ...]:
    def find() -> Iterator[str]:
        for path in paths:
            try:
                yield os.path.realpath(context.workspace.absolute(path))
            except (OSError, ValueError, RuntimeError):
                continue  # not a path, such as one with a NUL: the tool says so

    return tuple(find())


def _overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether one of these paths is one of the others, or in it, or around it."""
    return any(
        PurePath(one).is_relative_to(other) or PurePath(other).is_relative_to(one)
        for one in some
        for other in others
    )


class CallOrder:
    """Runs calls side by side, each once it is allowed and those before it no longer delay it.

    Calls that may run begin in their order. One that touches something else once it is allowed
    waits also for later calls that have begun.

    Args:
        reaches: what each call may touch.
        limit: how many run at a time; at least one does.
    """

    def __init__(self, reaches: Sequence[Reach], limit: int) -> None:
        """Allow none of them yet."""
        self._reaches = list(reaches)
        self._limit = max(limit, 1)
        self._waiting = list(range(len(self._reaches)))
        self._allowed: set[int] = set()
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._ready: deque[int] = deque()
        self._news = trio.Event()
        self._quiet = trio.Event()
        self._one_ended = trio.Event()

    @property
    def running(self) -> Sequence[int]:
        """The calls that have begun and have not ended, in order."""
        return sorted(self._begun - self._ended)

    def allow(self, index: int, reach: Reach) -> None:
        """Let a call run in its turn; what it may touch is known better now."""
        self._reaches[index] = reach
        self._allowed.add(index)
        self._quiet = trio.Event()
        self._news.set()

    async def wait_quiet(self) -> None:
        """Wait until no call runs, and none can begin before another one is allowed."""
        await self._quiet.wait()

    async def wait_for_writes(self, index: int) -> None:
        """Wait for the allowed calls before this one that write its files, and nothing but files.

        They take a moment. One that itself waits for a longer call is not waited for.
        """
        while self._find_writes(index):
            ended = self._one_ended
            await ended.wait()

    def _find_writes(self, index: int) -> list[int]:
        """Return the calls before this one that write its files, and run now or at once."""
        mine = self._reaches[index]
        has_room = len(self.running) < self._limit
        before = [each for each in range(index) if each not in self._ended]
        quick = list[int]()
        for each in before:
            reach = self._reaches[each]
            holding_up = [
                other for other in before if other < each and self._reaches[other].delays(reach)
            ]
            begins = each in self._begun or (has_room and {*holding_up} <= {*quick})
            if each in self._allowed and reach.only_files and begins:
                quick.append(each)
        return [each for each in quick if self._reaches[each].delays(mine)]

    async def run(
        self,
        run: Callable[[int], Awaitable[None]],
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Run every call; return when the last one has ended.

        Args:
            run: runs the call of this index.
            prepare: is called before calls begin of which some were allowed since it last was.
        """
        if len(self._reaches) == 1:
            await self._begin_all(None, run, prepare)
            return
        async with trio.open_nursery() as nursery:
            await self._begin_all(nursery, run, prepare)

    async def _begin_all(
        self,
        nursery: trio.Nursery | None,
        run: Callable[[int], Awaitable[None]],
        prepare: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """Let every call begin in its turn; without a nursery, run the only one in this task."""
        prepared: set[int] = set()
        while self._waiting:
            self._news = trio.Event()
            if prepare is not None and not self._allowed <= prepared:
                prepared = set(self._allowed)
                await prepare()
            for index in self._find_ready(prepared if prepare else self._allowed):
                self._waiting.remove(index)
                self._begun.add(index)
                self._ready.append(index)
                if nursery is not None:
                    nursery.start_soon(self._run_next, run, name="a tool call")
                else:
                    await run_in_own_context(self._run_next(run))
            if not self.running:
                self._quiet.set()
            if self._waiting:
                await self._news.wait()

    async def _run_next(self, run: Callable[[int], Awaitable[None]]) -> None:
        # Trio starts tasks in any order, so each takes the first call that is ready.
        index = self._ready.popleft()
        try:
            await run(index)
        finally:
            self._ended.add(index)
            self._news.set()
            self._one_ended.set()
            self._one_ended = trio.Event()

    def _find_ready(self, allowed: set[int]) -> Iterator[int]:
        """Yield the calls that may begin now, as far as there is room."""
        for index in tuple(self._waiting):
            if len(self._begun) - len(self._ended) >= self._limit:
                return
            mine = self._reaches[index]
            before = {*range(index), *self._begun} - self._ended
            if index in allowed and not any(self._reaches[each].delays(mine) for each in before):
                yield index
