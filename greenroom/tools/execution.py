"""Execution: how one call runs behind the gate.

A tool's failure is a result, its time is bounded, and a text that is too long is cut and kept in a
file. A plain function runs in a thread, which can be left behind but not stopped.
"""

import dataclasses
import errno
import logging
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar, TypeVarTuple, Unpack

import trio
from msgspec.structs import replace

from greenroom.core import (
    MAX_ERROR_TEXT,
    AgentContext,
    SandboxReport,
    TextBlock,
    ToolError,
    ToolResult,
    ToolStatus,
    clip,
    conceal,
    describe_error,
    is_a,
    leaves,
    log_error,
    message_of,
    new_id,
    serde,
    valid_unicode,
)
from greenroom.sandbox import Sandbox, describe_sandbox
from greenroom.threads import FileThreads
from greenroom.tools.protocol import Tool

_MAX_LEAVES = 5
_PASSING = (trio.Cancelled, KeyboardInterrupt, GeneratorExit)
"""What ends more than the call; everything else that a tool raises is about the call alone."""

_log = logging.getLogger("greenroom.tools")


class _CheckedTool(Protocol):
    """What is to be run: a tool whose members were checked, with what is checked of its input."""

    @property
    def name(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def tool(self) -> Tool: ...

    def fault(self, input: dict[str, object]) -> str | None: ...  # noqa: A002


async def execute_tool(
    tool: _CheckedTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> ToolResult:
    """Run one call as `ToolRegistry.execute` promises: validated, timed, isolated and capped."""
    try:
        fault = tool.fault(input)
        if fault:
            return ToolResult.error(fault, could_run=False)
        with trio.move_on_after(tool.timeout):
            # Before it is cut: what is left out goes to a file, and half a value is a secret, too.
            result = conceal(await _run(tool, input, context), context)
            return _check_result(tool, await cut_text(result, tool.name, context))
    except BaseException as error:  # noqa: BLE001  (whatever a tool raises is its result)
        return conceal(_make_error_result(tool, error, context), context)
    return ToolResult.error(
        f"{tool.name} was stopped: it did not finish within {tool.timeout:g} seconds.",
        ToolStatus.TIMEOUT,
    )


async def _run(
    tool: _CheckedTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> ToolResult:
    result: object = await tool.tool.execute(input, context)
    if not isinstance(result, ToolResult):
        raise ToolError(f"{tool.name} returned {type(result).__name__}, which is not a ToolResult")
    return result


def _check_result(tool: _CheckedTool, result: ToolResult) -> ToolResult:
    """Make sure that a result can be stored and sent: what it holds is typed, and is Unicode."""
    try:
        return serde.decode(serde.encode(result), ToolResult).with_error_message()
    except serde.InvalidJSONError as error:
        raise ToolError(f"{tool.name} returned a result that can't be used: {error}") from error


def _make_error_result(
    tool: _CheckedTool, error: BaseException, context: AgentContext
) -> ToolResult:
    """Log a failure and make a result of it; a cancel, alone or beside a failure, goes on."""
    found = leaves(error)
    passing = [leaf for leaf in found if issubclass(type(leaf), _PASSING)]
    if is_a(error, ToolError):
        _log.info("tool %s failed: %s", tool.name, conceal(message_of(error), context))
    elif len(passing) < len(found):
        log_error(_log, f"tool {tool.name} raised", error)
    if passing and passing[0] is error:
        raise error
    if passing:
        raise BaseExceptionGroup(f"{tool.name} was stopped", passing) from None
    return ToolResult.error(describe_failure(error), could_run=is_a(error, ToolError))


def describe_failure(error: BaseException) -> str:
    """Say what a tool raised, in words for the model: the first five of a group."""
    found = leaves(error)
    more = f"; and {len(found) - _MAX_LEAVES} more" if len(found) > _MAX_LEAVES else ""
    parts = [
        message_of(leaf) if is_a(leaf, ToolError) else describe_error(leaf)
        for leaf in found[:_MAX_LEAVES]
    ]
    return clip("; ".join(parts), MAX_ERROR_TEXT - len(more)) + more


def add_sandbox_report(
    result: ToolResult, report: SandboxReport | None, sandbox: Sandbox | None
) -> ToolResult:
    """Return a result with the report in its metadata, and in words what the model should know.

    That is what is not held, and after a failure what may have caused it.

    Example:
        >>> report = SandboxReport("read-only", "none", "limits", {}, ("disk",), ("files",), {})
        >>> print(add_sandbox_report(ToolResult.ok("done"), report, Sandbox()).text)
        done
        [NOT HELD by the sandbox here: files]
    """
    if report is None or sandbox is None:
        return result
    lines = []
    if report.lacking:
        lines.append(f"[NOT HELD by the sandbox here: {', '.join(report.lacking)}]")
    if result.is_error:
        user = "" if report.user is None else f", as user {report.user}"
        lines.append(f"[it ran in a sandbox: {describe_sandbox(sandbox)}{user}]")
    words = (TextBlock("\n".join(lines)),) if lines else ()
    facts = {**result.metadata, "sandbox": serde.loads(serde.encode(report))}
    return replace(result, content=(*result.content, *words), metadata=facts)


# ---- Plain functions in threads.

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_threads = FileThreads("tool threads", 40)
"""Those of plain function tools, those left behind included; the number is trio's own default."""


async def run_blocking(
    function: Callable[[AgentContext], T], name: str, context: AgentContext
) -> T:
    """Run a blocking function in a thread and return its result.

    It is given the context as a thread may use it: what it reports is handed to the event loop, and
    the report waits until the loop has it; clean-up scopes belong to async code and are refused.

    A cancel does not wait for the thread. If the function has not begun it never will; if it runs,
    it is reported to `context.abandoned` and keeps its place among the 40 threads until it ends.
    Whatever it reports from then on is dropped; it is not stopped by that.
    """
    work = _Work(function, context)
    try:
        return await trio.to_thread.run_sync(
            work.run, abandon_on_cancel=True, limiter=_threads.limiter
        )
    except trio.Cancelled:
        if work.give_up():
            context.abandoned(f"thread of {name}")
        raise


class _Work(Generic[T]):
    """One function call that either side may be the first to settle: it begins, or never does."""

    def __init__(self, function: Callable[[AgentContext], T], context: AgentContext) -> None:
        self._function = function
        self._context = dataclasses.replace(
            context,
            on_progress=self._from_thread(context.on_progress),
            on_abandon=self._from_thread(context.on_abandon),
            on_cleanup=_no_cleanup,
        )
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._given_up = False
        self._running = False

    def run(self) -> T:
        with self._lock:
            if self._given_up:
                raise RuntimeError("given up before it began")  # it is not seen any more
            self._running = True
        try:
            return self._function(self._context)
        finally:
            with self._lock:
                self._running = False

    def give_up(self) -> bool:
        """Keep the function from beginning; return whether it is running already."""
        with self._lock:
            self._given_up = True
            return self._running

    def _from_thread(self, hook: Callable[[Unpack[Ts]], None]) -> Callable[[Unpack[Ts]], None]:
        """Make a hook callable from any thread; it is dumb once the call has been left behind."""

        def report(*arguments: *Ts) -> None:
            if not self._given_up:
                with suppress(trio.RunFinishedError):  # it left a thread of its own behind
                    trio.from_thread.run_sync(
                        self._receive, hook, *arguments, trio_token=self._token
                    )

        return report

    def _receive(self, hook: Callable[[Unpack[Ts]], None], *arguments: *Ts) -> None:
        if not self._given_up:
            hook(*arguments)


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    raise ToolError(
        "context.cleanup was called in a thread, which no cancel stops",
        hint="clean up without it, or make the tool an async function",
    )


# ---- Results that are too long for the model: cut, and kept whole in a file.

MAX_TEXT = 30_000
"""Characters of text that a model sees of one result; the limit that coding agents have used."""

MAX_FILE = 20_000_000
"""Characters of text that a file keeps of one result; head and tail of what is longer still."""

MAX_FILES = 200
"""Files that a folder keeps; where there would be more, the oldest go."""

MAX_BYTES = 200_000_000
"""Bytes that the files of a folder take together; where it would be more, the oldest go."""

_NAME = re.compile(r"[\w-]+-[0-9a-z]{12}\.txt")


class SpillFolder:
    """A temporary folder for an agent whose context names none; removed with this object."""

    def __init__(self) -> None:
        """Make the folder."""
        self.path = Path(tempfile.mkdtemp(prefix="greenroom-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder and what is in it, now instead of with this object."""
        self._finalizer()


async def cut_text(
    result: ToolResult, tool_name: str, context: AgentContext, limit: int = MAX_TEXT
) -> ToolResult:
    """Cut the text of a result to `limit` characters, in total; images and documents stay.

    The head and the tail remain, and between them the place of the whole text is named: in a file
    under `context.spill_folder`, or where that is empty in a `SpillFolder` among the resources. If
    the file can't be written, the text is cut all the same, and says so. A folder keeps the newest
    200 files, of 200 MB together; the older ones go.
    """
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    if sum(map(len, texts)) + len(texts) - 1 <= limit:
        return result
    whole = "\n".join(texts)
    metadata = dict(result.metadata)
    try:
        folder = _find_folder(
            context
        )  # here and not in the thread, so that two calls get one folder
        path = await trio.to_thread.run_sync(_write, whole, tool_name, folder)
    except OSError as error:
        _log.warning("the long output of %s could not be kept: %s", tool_name, error)
        note = f"they could not be kept in a file: {error.strerror}"
    else:
        metadata["spill_file"] = path
        extent = "the whole text" if len(whole) <= MAX_FILE else "more of its head and tail"
        note = f"{extent} is in {path}"
    others = tuple(block for block in result.content if not isinstance(block, TextBlock))
    text = TextBlock(_keep_ends(whole, limit, note))
    return replace(result, content=(text, *others), metadata=metadata)


def _keep_ends(text: str, limit: int, note: str) -> str:
    """Keep the head and the tail, the head being the longer: it says what the text is."""
    marker = f"\n\n… {len(text):,} characters in all, the middle is left out; {note} …\n\n"
    room = max(limit - len(marker), 2)
    tail = room // 3
    return text[: room - tail] + marker + text[-tail:]


def _write(text: str, tool_name: str, folder: Path) -> str:
    if folder.is_symlink():  # what it leads to is not ours to fill and to tidy
        raise OSError(errno.ELOOP, "the folder for it is a link", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{new_id(tool_name)}.txt"
    kept = text if len(text) <= MAX_FILE else _keep_ends(text, MAX_FILE, "it was too long to keep")
    data = valid_unicode(kept).encode()
    _make_room(folder, len(data))
    path.touch(mode=0o600)  # it may hold what is not for others
    try:
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return str(path)


def _make_room(folder: Path, size: int) -> None:
    """Remove the oldest files until one more, of this size, has room."""
    with os.scandir(folder) as entries:
        ours = [(entry.path, entry.stat()) for entry in entries if _NAME.fullmatch(entry.name)]
    ours.sort(key=lambda file: file[1].st_mtime_ns)
    count, total = len(ours) + 1, sum(stat.st_size for _, stat in ours) + size
    for path, stat in ours:
        if count <= MAX_FILES and total <= MAX_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        count, total = count - 1, total - stat.st_size


def _find_folder(context: AgentContext) -> Path:
    if context.spill_folder:
        return Path(context.spill_folder)
    folder = context.resources.get(SpillFolder)
    if folder is None:
        folder = SpillFolder()
        context.resources.insert(folder)
    return folder.path


# ---- Output that is shown while a call runs.

LIVE_CHARACTERS = 1_000_000
"""Characters that one call shows while it runs; more than a person reads, less than a disk holds."""


class LiveOutput:
    """Shows the first million characters of one call as they come, and says where it ends.

    Example:
        >>> shown = []
        >>> live = LiveOutput(shown.append)
        >>> live.show("half way")
        >>> shown
        ['half way']
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        """Show text with this function, such as `context.progress`."""
        self._show = show
        self._room = LIVE_CHARACTERS

    def show(self, text: str) -> None:
        """Show as much of a text as there is room for."""
        if not text or self._room <= 0:
            return
        self._show(text[: self._room])
        self._room -= len(text)
        if self._room <= 0:
            self._show("\n… the rest of the output is not shown live …\n")
