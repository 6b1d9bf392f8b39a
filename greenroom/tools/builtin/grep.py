"""Grep: search the contents of files."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec
import trio

from greenroom.core import AgentContext, ConfigurationError, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import BoundedPattern, Effect, compile_later, serde
from greenroom.fs._internal import read_beginning
from greenroom.sandbox._internal import Exit, clean_environment, run_contained
from greenroom.schemas._internal import read_integer
from greenroom.tools.builtin import searcher
from greenroom.tools.builtin.file_access import (
    Screen,
    describe_broken_link,
    in_thread,
    os_errors,
    real_cwd,
    resolve,
    show_path,
)
from greenroom.tools.builtin.file_tree import (
    MAX_PATTERN,
    FileFilter,
    find_ripgrep,
    has_crashed,
    ripgrep_command,
    walk_files,
)
from greenroom.tools.builtin.grep_rows import GrepRows
from greenroom.tools.builtin.plain_names import effects_on_disk

_DEFAULT_LIMIT = 250
_MAX_LIMIT = 5_000
_MAX_CONTEXT = 50


def _context_lines(where: str) -> dict[str, object]:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": _MAX_CONTEXT,
        "description": f"Lines to show {where} each match, for content.",
    }


GREP_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "description": "The regular expression, matched within each line.",
        },
        "path": {
            "type": "string",
            "description": "The file or folder to search. Default: the working directory.",
        },
        "glob": {
            "type": "string",
            "maxLength": MAX_PATTERN,
            "description": "Only files like this, such as *.js or src/**/*.{ts,tsx}; !*.min.js for "
            "all but those.",
        },
        "type": {"type": "string", "description": "Only files of this type: py, js, rust, go, …"},
        "output_mode": {
            "enum": ["content", "files_with_matches", "count"],
            "description": "What to return. Default files_with_matches.",
        },
        "-A": _context_lines("after"),
        "-B": _context_lines("before"),
        "-C": _context_lines("around"),
        "context": _context_lines("around"),
        "-n": {"type": "boolean", "description": "Show line numbers in content. Default true."},
        "-i": {"type": "boolean", "description": "Ignore case. Default false."},
        "case_insensitive": {"type": "boolean", "description": "The same as -i."},
        "multiline": {
            "type": "boolean",
            "description": "Let the expression span lines, and . match a line end. Default false.",
        },
        "head_limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MAX_LIMIT,
            "description": f"How many lines or files to return. Default {_DEFAULT_LIMIT}.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}
"""The JSON Schema of Grep's input."""


_NAMED_RETURN = compile_later(r"(?<!\\)(?:\\\\)*\\(?:r|x0?[dD]|x\{0*[dD]\}|u\{?0*[dD]\b)")
# A set in brackets is one token, and so is an escape with its number or name.
_TOKEN = compile_later(
    r"\\(?:[pPxu]\{[^}]*\}|x..|u....|.)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|.", re.DOTALL
)
_NAMED_END = compile_later(r"\\(?:n|x0[aA]|u000[aA]|[xu]\{0*[aA]\})")
_FLAGS = compile_later(r"\(\?[a-zA-Z]*[-sxR]")


class GrepQuery(msgspec.Struct, frozen=True):
    """One search: the input of a call, under names of our own."""

    pattern: str
    path: str
    glob: str
    type: str
    mode: str
    before: int
    after: int
    numbers: bool
    ignore_case: bool
    multiline: bool
    limit: int

    @classmethod
    def of(cls, data: dict[str, object]) -> "GrepQuery":
        """Read a valid input."""
        around = read_integer(data, "-C", read_integer(data, "context", 0))
        mode = str(data.get("output_mode", "files_with_matches"))
        in_context = mode == "content"
        return cls(
            pattern=str(data["pattern"]),
            path=str(data.get("path", ".")),
            glob=str(data.get("glob", "")),
            type=str(data.get("type", "")),
            mode=mode,
            before=read_integer(data, "-B", around) if in_context else 0,
            after=read_integer(data, "-A", around) if in_context else 0,
            numbers=bool(data.get("-n", True)),
            ignore_case=bool(data.get("-i") or data.get("case_insensitive")),
            multiline=bool(data.get("multiline")),
            limit=read_integer(data, "head_limit", _DEFAULT_LIMIT),
        )

    @property
    def names_returns(self) -> bool:
        r"""Whether the expression is about carriage returns, so that `\r\n` is no line end.

        One that only excludes them, as `[^\r\n]` does, is not.
        """
        wanted = _TOKEN.sub(lambda token: "" if token[0][:2] == "[^" else token[0], self.pattern)
        return "\r" in wanted or _NAMED_RETURN.search(wanted) is not None

    @property
    def spanning_pattern(self) -> str:
        r"""The expression, in which `\r\n` is matched by all that matches `\n`."""
        if not self.multiline or self.names_returns or _FLAGS.search(self.pattern):
            return self.pattern
        return _TOKEN.sub(lambda token: _span(token[0]), self.pattern)

    def ripgrep_arguments(self) -> list[str]:
        """Write the search as arguments of ripgrep."""
        arguments = ["--line-number", "--no-context-separator"]
        if self.mode == "content":
            arguments.append("--column")
        if self.mode == "count":
            arguments = ["--count"]
        elif self.mode == "files_with_matches":
            arguments.append("--max-count=1")
        if self.before or self.after:
            arguments += [f"--before-context={self.before}", f"--after-context={self.after}"]
        if self.ignore_case:
            arguments.append("--ignore-case")
        if self.multiline:
            arguments += ["--multiline", "--multiline-dotall"]
        if not self.names_returns:
            arguments.append("--crlf")
        return [*arguments, f"--regexp={self.spanning_pattern}", "--"]

    def searcher_options(self) -> dict[str, object]:
        """Write the search as options of `searcher`."""
        return {
            "pattern": self.pattern,
            "returns": self.names_returns,
            "columns": self.mode == "content",
            "ignore_case": self.ignore_case,
            "multiline": self.multiline,
            "before": self.before,
            "after": self.after,
            "count": self.mode == "count",
            "max_count": 1 if self.mode == "files_with_matches" else 0,
        }


def _span(part: str) -> str:
    import regex

    try:
        found = _NAMED_END.fullmatch(part) or regex.fullmatch(part, "\n", regex.DOTALL)
    except regex.error:  # half of something, such as a bracket
        return part
    if not found:
        return part
    if part != ".":  # which takes both signs anyway
        part = rf"[{part}&&[^\r]]"
    return rf"(?:\r\n|{part})"


_ESCAPE = "escape special characters such as ( [ { . with \\"
_SECONDS = 30.0
# Well below the limit for the arguments of a program on any system.
_BATCH_BYTES = 200_000


class Grep:
    """Searches files for a regular expression, with ripgrep or, if that is missing, with Python.

    Both give the same rows in the same order. The syntax is that of the engine: Rust's for ripgrep,
    else Python's. Either runs as a process of its own, which ends with the call. If ripgrep
    crashes, Python searches. Files that `.gitignore` excludes, binary files, symbolic links and the
    folders of version control are left out, and so are, with a note, files that the permission
    rules keep from it: no engine opens them.
    """

    name = "Grep"
    description = (
        "Search file contents by a regular expression. output_mode: files_with_matches (default), "
        "content (matching lines with numbers, and context by -A, -B, -C) or count. "
        "Filter files by glob or type. "
        "Files that .gitignore excludes and binary files are left out."
    )
    category = "read"
    requires_permission = True
    concurrent = True
    timeout = _SECONDS + 15
    parameters = GREP_PARAMETERS

    def __init__(self, *, use_ripgrep: bool = True) -> None:
        """Search with ripgrep if it is installed, unless `use_ripgrep` is False."""
        self._use_ripgrep = use_ripgrep

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the expression and the path."""
        return ToolInfo("Search files", f"{input['pattern']} in {input.get('path', '.')}")

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file or folder that is read."""
        return effects_on_disk("Grep", "path", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Search; the process ends when the call is cancelled, and at the latest after 30 seconds.

        Raises:
            ToolError: no such path, out of reach, not a regular expression, an unknown type, the
                engine crashed, or it took too long and found nothing.
        """
        query = GrepQuery.of(input)
        target = await in_thread(partial(_target, query.path, context))
        file_filter = await in_thread(partial(FileFilter, query.glob, query.type))
        find = partial(find_ripgrep, target.folder)
        program = await in_thread(find) if self._use_ripgrep else None
        for engine in dict.fromkeys((program, None)):
            with suppress(_CrashedError):
                return await _search(query, target, file_filter, engine, context)
        raise ToolError("the search engine failed", hint="try another pattern or a smaller path")


async def _search(
    query: GrepQuery,
    target: "_Target",
    file_filter: FileFilter,
    program: str | None,
    context: AgentContext,
) -> ToolResult:
    """Search with ripgrep, or without it if there is no program."""
    screen = await in_thread(partial(Screen, query.path, context, query.glob))
    rows = GrepRows(
        query.mode,
        limit=query.limit,
        wants=file_filter.matches if target.is_folder else lambda _: True,
        show=lambda path: show_path(target.folder / path, target.cwd),
        numbers=query.numbers,
        separate=bool(query.before or query.after),
        columns=True,
    )
    search = _Search(query, target, file_filter, screen, rows, context)
    late = await (search.with_ripgrep(program) if program else search.with_python())
    return _result(rows, query, screen.notes, late=late)


class _CrashedError(Exception):
    """An engine ended before its time, so what it has not printed says nothing."""


class _Target(msgspec.Struct, frozen=True):
    """The folder that the engine starts in, and the path that it searches there."""

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
            why = describe_broken_link(path, context)
            raise ToolError(f"there is no file or folder {path}{why and f': {why}'}")
    return _Target(real.parent, f"./{real.name}", False, root, cwd)


class _Search(msgspec.Struct, frozen=True):
    query: GrepQuery
    target: _Target
    filter: FileFilter
    screen: Screen
    rows: GrepRows
    context: AgentContext

    async def with_ripgrep(self, program: str) -> bool:
        names = self.filter.names if self.target.is_folder else []
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
        )
        if self.target.is_folder and not self.screen.is_open:
            # Given the folder, it would read what it must not show. A file that it is given by name
            # it would search even if it is binary.
            return await self._run_on_files(command, only_text=True)
        return await self._run([[*command, self.target.name]])

    async def with_python(self) -> bool:
        await in_thread(partial(_check_pattern, self.query.pattern))
        engine = find_spec("regex")
        assert engine is not None
        assert engine.origin is not None
        folder = str(Path(engine.origin).parent.parent)
        options = {"library": folder, **self.query.searcher_options()}
        command = [sys.executable, "-I", "-S", "-W", "ignore", searcher.__file__]
        command.append(serde.dumps(options).decode())
        return await self._run_on_files(command)

    async def _run_on_files(self, command: list[str], *, only_text: bool = False) -> bool:
        """Run a command on the files of the search, which it is given by name."""
        with trio.move_on_after(_SECONDS) as time:
            files = await in_thread(lambda: list(self._files(only_text)))
        if time.cancelled_caught:
            return True
        return await self._run([*command, *batch] for batch in _batches(files))

    def _files(self, only_text: bool) -> Iterator[str]:
        folder = self.target.folder
        if not self.target.is_folder:
            return iter([self.target.name])
        found = walk_files(folder, self.target.root, trio.from_thread.check_cancelled)
        return (
            f"./{path}"
            for path in found
            if self.screen.admits(path)
            and self.filter.matches(path)
            and not (only_text and _is_binary(folder / path))
        )

    async def _run(self, commands: "Iterator[list[str]] | list[list[str]]") -> bool:
        """Run the commands in turn until there are enough rows; return whether time ran out."""
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
        # Our own engine ends with 1 only if something was raised there.
        if has_crashed(ended) or (ended.code == 1 and searcher.__file__ in command):
            raise _CrashedError
        if ended.code == 2 and not self.rows.notes:
            self.rows.notes.append("some files or folders could not be read")
        elif ended.code == 2 and not self.rows.lines:
            why = "\n".join(self.rows.notes)
            raise ToolError(why, hint=_ESCAPE)
        return ended


def _check_pattern(text: str) -> None:
    """Refuse what our own engine can't hold, before a process takes the memory for it."""
    try:
        BoundedPattern(text)
    except ConfigurationError as error:
        raise ToolError(f"regex parse error: {error.message}", hint=error.hint or _ESCAPE) from None


def _is_binary(path: Path) -> bool:
    try:
        return not searcher.is_text(read_beginning(path, searcher.SNIFFED_BYTES))
    except OSError:  # the engine says so
        return False


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


def _result(rows: GrepRows, query: GrepQuery, left_out: Sequence[str], *, late: bool) -> ToolResult:
    slow = (
        f"the search was stopped after {_SECONDS:g} s; choose a smaller path or a simpler pattern"
    )
    if late and not rows.lines:
        raise ToolError(slow)
    notes = [slow] if late else []
    if rows.full:
        notes.append(f"there is more than these {query.limit}; narrow the search or set head_limit")
    notes += [*left_out, *rows.notes]
    lines = [*(rows.lines or ["no matches found"]), *(f"[{note}]" for note in notes)]
    return ToolResult.ok("\n".join(lines), files=rows.files, lines=len(rows.lines), more=rows.full)
