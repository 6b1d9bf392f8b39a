"""Grep: search the contents of files."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from greenroom.core import (
    AgentContext,
    Effect,
    ToolError,
    ToolInfo,
    ToolResult,
    serde,
    usual_effects,
)
from greenroom.tools.builtin import searcher
from greenroom.tools.builtin.environment import clean_environment
from greenroom.tools.builtin.file_filter import FileFilter
from greenroom.tools.builtin.file_tree import walk_files
from greenroom.tools.builtin.grep_rows import GrepRows
from greenroom.tools.builtin.grep_schema import GREP_PARAMETERS, GrepQuery
from greenroom.tools.builtin.paths import os_errors, real_cwd, resolve, shown
from greenroom.tools.builtin.ripgrep import find_ripgrep, ripgrep_command
from greenroom.tools.file_threads import in_thread
from greenroom.tools.process.process import Exit, run_contained

_SECONDS = 30.0
# Well below what one program may be given as arguments on any system.
_BATCH_BYTES = 200_000


class Grep:
    """Searches files for a regular expression, with ripgrep or, where that is missing, with Python.

    Both give the same rows in the same order. The expressions are those of the engine: Rust's for
    ripgrep, Python's otherwise. Either runs as a process of its own, which ends with the call. What
    `.gitignore` excludes, binary files, symbolic links and the folders of version control are left
    out.
    """

    name = "Grep"
    description = (
        "Search file contents by a regular expression. output_mode: files_with_matches (default), "
        "content (matching lines with numbers, and context by -A, -B, -C) or count. Filter files by "
        "glob or type. Files that .gitignore excludes and binary files are left out."
    )
    category = "read"
    requires_permission = True
    concurrent = True
    timeout = _SECONDS + 15
    parameters = GREP_PARAMETERS

    def __init__(self, *, use_ripgrep: bool = True) -> None:
        """Search with ripgrep where it is installed, unless told not to."""
        self._use_ripgrep = use_ripgrep

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the expression and where it is searched."""
        return ToolInfo("Search files", f"{input['pattern']} in {input.get('path', '.')}")

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file or folder that is read."""
        return usual_effects("Grep", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Search; the process ends when the call is cancelled, and at the latest after 30 seconds.

        Raises:
            ToolError: no such path, out of reach, no regular expression, an unknown type, or it took
                too long and found nothing.
        """
        query = GrepQuery.of(input)
        target = await in_thread(partial(_target, query.path, context))
        wanted = await in_thread(partial(FileFilter, query.glob, query.type))
        rows = GrepRows(
            query.mode,
            limit=query.limit,
            wants=wanted.matches if target.is_folder else lambda _: True,
            show=lambda path: shown(target.folder / path, target.cwd),
            numbers=query.numbers,
            separate=bool(query.before or query.after),
        )
        search = _Search(query, target, wanted, rows, context)
        find = partial(find_ripgrep, target.folder)
        program = await in_thread(find) if self._use_ripgrep else None
        late = await (search.with_ripgrep(program) if program else search.with_python())
        return _result(rows, query, late=late)


@dataclass(frozen=True)
class _Target:
    """The folder that the engine starts in, and what it searches there."""

    folder: Path
    name: str
    is_folder: bool
    root: Path
    cwd: Path


def _target(path: str, context: AgentContext) -> _Target:
    real = resolve(path, context)
    root, cwd = Path(os.path.realpath(context.workspace.root)), real_cwd(context)
    with os_errors("search", path):
        if real.is_dir():
            return _Target(real, "./", True, root, cwd)
        if not real.is_file():
            raise ToolError(f"there is no file or folder {path}")
    return _Target(real.parent, f"./{real.name}", False, root, cwd)


@dataclass(frozen=True)
class _Search:
    query: GrepQuery
    target: _Target
    wanted: FileFilter
    rows: GrepRows
    context: AgentContext

    async def with_ripgrep(self, program: str) -> bool:
        names = self.wanted.names if self.target.is_folder else []
        types = [f"--type-add=wanted:{name}" for name in names]
        command = ripgrep_command(
            program,
            "--null",
            "--with-filename",
            "--no-heading",
            "--sort=path",
            *types,
            *(["--type=wanted"] if types else []),
            *self.query.ripgrep_arguments(),
            self.target.name,
        )
        return await self._run([command])

    async def with_python(self) -> bool:
        with trio.move_on_after(_SECONDS) as time:
            files = await in_thread(lambda: list(self._files(trio.from_thread.check_cancelled)))
        if time.cancelled_caught:
            return True
        options = serde.dumps(self.query.searcher_options()).decode()
        command = [sys.executable, "-I", "-S", "-W", "ignore", searcher.__file__, options]
        return await self._run([*command, *batch] for batch in _batches(files))

    def _files(self, check: Callable[[], None]) -> Iterator[str]:
        if not self.target.is_folder:
            return iter([self.target.name])
        found = walk_files(self.target.folder, self.target.root, check)
        return (f"./{path}" for path in found if self.wanted.matches(path))

    async def _run(self, commands: "Iterator[list[str]] | list[list[str]]") -> bool:
        """Run the commands one after the other until there is enough; whether it took too long."""
        deadline = trio.current_time() + _SECONDS
        with trio.CancelScope() as enough:

            def take(data: bytes) -> None:
                self.rows.feed(data)
                if self.rows.full:
                    enough.cancel()

            for command in commands:
                ended = await self._run_one(command, take, deadline - trio.current_time())
                if ended.timed_out:
                    return True
        return False

    async def _run_one(
        self, command: list[str], take: Callable[[bytes], None], seconds: float
    ) -> Exit:
        ended = await run_contained(
            command,
            cwd=self.target.folder,
            environment=clean_environment(os.environ),
            on_output=take,
            timeout=max(seconds, 0),
            cleanup=self.context.cleanup,
        )
        if ended.code == 2 and not self.rows.notes:
            self.rows.notes.append("some files or folders could not be read")
        elif ended.code == 2 and not self.rows.lines:
            why = "\n".join(self.rows.notes)
            raise ToolError(why, hint="escape special characters such as ( [ { . with \\")
        return ended


def _batches(files: list[str]) -> Iterator[list[str]]:
    """Split the files into pieces that fit on a command line."""
    batch: list[str] = []
    size = 0
    for file in files:
        batch.append(file)
        size += len(os.fsencode(file)) + 16
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _result(rows: GrepRows, query: GrepQuery, *, late: bool) -> ToolResult:
    slow = (
        f"the search was stopped after {_SECONDS:g} s; choose a smaller path or a simpler pattern"
    )
    if late and not rows.lines:
        raise ToolError(slow)
    notes = [slow] if late else []
    if rows.full:
        notes.append(f"there is more than these {query.limit}; narrow the search or set head_limit")
    notes += rows.notes
    lines = [*(rows.lines or ["no matches found"]), *(f"[{note}]" for note in notes)]
    return ToolResult.ok("\n".join(lines), files=rows.files, lines=len(rows.lines), more=rows.full)
