"""Glob: find files by their names."""

import heapq
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import Effect
from greenroom.sandbox._internal import clean_environment, run_contained
from greenroom.schemas._internal import read_integer
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
    GlobPattern,
    find_ripgrep,
    has_crashed,
    ripgrep_command,
    walk_files,
)
from greenroom.tools.builtin.plain_names import effects_on_disk

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1_000
_MAX_FOUND = 200_000
_SECONDS = 30.0


class Glob:
    """Lists files whose path matches a pattern, the newest first.

    Files that `.gitignore` excludes, symbolic links and the folders of version control are left
    out, and so are, with a note, files that the permission rules keep from it. More than 200,000
    matching files are an error.
    """

    name = "Glob"
    description = (
        "Find files by a path pattern such as **/*.py or src/**/*.{ts,tsx}, newest first. "
        "** stands for any folders; *.py alone matches only directly in the folder. "
        "Files that .gitignore excludes are left out."
    )
    category = "read"
    requires_permission = True
    concurrent = True
    timeout = _SECONDS + 15
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATTERN,
                "description": "The pattern, relative to path.",
            },
            "path": {
                "type": "string",
                "description": "The folder to search. Default: the working directory.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MAX_LIMIT,
                "description": f"How many files to list. Default {_DEFAULT_LIMIT}.",
            },
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }

    def __init__(self, *, use_ripgrep: bool = True) -> None:
        """List with ripgrep if it is installed, unless `use_ripgrep` is False."""
        self._use_ripgrep = use_ripgrep

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the pattern and the folder."""
        return ToolInfo("Find files", f"{input['pattern']} in {input.get('path', '.')}")

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the folder that is read."""
        return effects_on_disk("Glob", "path", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """List in a thread or a process, which ends when the call is cancelled.

        Raises:
            ToolError: no such folder, out of reach, too many files, or it took over 30 seconds.
        """
        path, limit = str(input.get("path", ".")), read_integer(input, "limit", _DEFAULT_LIMIT)
        text = str(input["pattern"])
        base = await in_thread(partial(_folder, path, context))
        relative = _relative(text, base)
        pattern = await in_thread(lambda: GlobPattern(relative))
        screen = await in_thread(partial(Screen, path, context, relative))
        # Each file is judged in the thread that lists them.
        use_ripgrep = self._use_ripgrep and screen.is_open
        program = await in_thread(partial(find_ripgrep, base)) if use_ripgrep else None
        matches = _Matches(pattern)
        with trio.move_on_after(_SECONDS) as time:
            if not program or not await _list_with_ripgrep(program, base, matches, context):
                matches = _Matches(pattern)
                await in_thread(partial(_list, base, matches, screen, context))
            return await in_thread(partial(_result, base, matches, limit, text, screen, context))
        assert time.cancelled_caught  # nothing else leaves the block without a result
        raise ToolError(f"listing {path} took over {_SECONDS:g} s", hint="choose a subfolder")


def _folder(path: str, context: AgentContext) -> Path:
    base = resolve(path, context)
    with os_errors("list", path):
        if base.is_dir():
            return base
        if base.exists():
            raise ToolError(f"{path} is not a folder")
        why = describe_broken_link(path, context)
        raise ToolError(f"there is no folder {path}{why and f': {why}'}")


def _relative(pattern: str, base: Path) -> str:
    """Make a pattern relative to the folder; an absolute one must lie in it."""
    if not os.path.isabs(pattern):
        return pattern.removeprefix("./")
    prefix = f"{str(base).rstrip('/')}/"
    if pattern.startswith(prefix):
        return pattern[len(prefix) :]
    raise ToolError(f"the pattern {pattern} is not in {base}", hint="give the folder as path")


class _Matches:
    """Collects matching paths, up to a limit."""

    def __init__(self, pattern: GlobPattern) -> None:
        self.paths: list[str] = []
        self._pattern = pattern
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take a piece of ripgrep's output, paths that NUL ends."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        for raw in whole:
            self.add(os.fsdecode(raw).removeprefix("./"))

    def add(self, path: str) -> None:
        if len(self.paths) <= _MAX_FOUND and self._pattern.matches(path):
            self.paths.append(path)

    def check(self) -> None:
        if len(self.paths) > _MAX_FOUND:
            raise ToolError(f"more than {_MAX_FOUND} files match", hint="narrow the pattern")


async def _list_with_ripgrep(
    program: str, base: Path, matches: _Matches, context: AgentContext
) -> bool:
    """List with ripgrep; return False if it crashed, so that there may be more."""
    ended = await run_contained(
        ripgrep_command(program, "--files", "--null", "./"),
        cwd=base,
        environment=clean_environment(os.environ),
        on_output=matches.feed,
        timeout=math.inf,
        cleanup=context.cleanup,
    )
    matches.check()
    return not has_crashed(ended)


def _list(base: Path, matches: _Matches, screen: Screen, context: AgentContext) -> None:
    root = Path(os.path.realpath(context.workspace.root))
    for path in filter(screen.admits, walk_files(base, root, trio.from_thread.check_cancelled)):
        matches.add(path)
        matches.check()


def _newest(base: Path, paths: list[str], limit: int) -> list[Path]:
    def age(path: Path) -> tuple[int, str]:
        try:
            return -path.lstat().st_mtime_ns, str(path)
        except OSError:
            return 0, str(path)

    return heapq.nsmallest(limit, (base / path for path in paths), key=age)


def _result(
    base: Path, matches: _Matches, limit: int, pattern: str, screen: Screen, context: AgentContext
) -> ToolResult:
    paths = matches.paths
    cwd = real_cwd(context)
    files = _newest(base, paths, limit)
    facts: dict[str, object] = {"found": len(paths), "shown": len(files)}
    if not files:
        hint = "" if "/" in pattern or "**" in pattern else f"; try **/{pattern} for all folders"
        lines = [f"no file matches {pattern} in {show_path(base, cwd)}{hint}"]
    else:
        lines = [show_path(path, cwd) for path in files]
    if len(paths) > len(files):
        lines.append(
            f"[{len(paths) - len(files)} more files match; narrow the pattern or raise limit]"
        )
    lines += [f"[{note}]" for note in screen.notes]
    return ToolResult.ok("\n".join(lines), **facts)
