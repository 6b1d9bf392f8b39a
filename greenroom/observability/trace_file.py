"""Traces in files: a file of lines beside each session, and reading it back.

A line is the beginning or the end of a span, so that what was cut off by a kill is there as open.
Messages, instructions and tools, where they may leave, are lines of their own: each is written
once, and the spans that hold it name its number. So a file grows with the conversation, and yet
holds every request in full.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from greenroom.core import AgentContext
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.observability import semconv as names
from greenroom.observability.line_files import BackgroundWriter, LineFile, OpenFiles
from greenroom.observability.spans import NO_SCOPE, Span
from greenroom.session._internal import folder_name

FILE_NAME = "trace.jsonl"
_WHOLE = (names.SYSTEM, names.TOOL_DEFINITIONS)
_LISTS = (names.INPUT_MESSAGES, names.OUTPUT_MESSAGES)
_REFERENCE = "$value"
_MOST_SEEN = 4_096  # values of a file that are known without being encoded again


class _Known:
    """The values that a file has already: each has a number there.

    Numbers of two processes differ, which may write to one file.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._seen: dict[int, tuple[object, int]] = {}  # by identity
        self._numbers: dict[bytes, int] = {}  # by a hash of the text

    def take(self, value: object) -> tuple[int, list[object]]:
        """Return a value's number, and the line that says it if it is new."""
        seen = self._seen.get(id(value))
        if seen is not None and seen[0] is value:
            return seen[1], []
        digest = hashlib.blake2b(serde.encode(value), digest_size=16).digest()
        number = self._numbers.get(digest)
        lines: list[object] = []
        if number is None:
            number = self._numbers[digest] = self._first + len(self._numbers)
            lines.append({"type": "value", "number": number, "value": value})
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[id(value)] = value, number
        return number, lines

    def let_go(self) -> None:
        """Keep no value any more, only which ones the file has."""
        self._seen.clear()


class TraceFile:
    """A sink that writes `trace.jsonl` beside each session, for `read_trace` and `greenroom trace`.

    Use it as `async with TraceFile() as file`, around the runtime. A thread writes; what it can't
    keep up with, and what a full disk refuses, is dropped, counted and said in the file. Neither
    stops an agent.

    Args:
        folder: where traces of sessions without a folder of their own go, one folder for each; by
            default nowhere.
        keep: lines of one session that are kept; older ones are dropped.
        max_bytes: bytes, likewise.

    Example:
        ```python
        async with TraceFile() as file:
            async with AgentRuntime(store, instruments=[Tracer(file)]) as runtime:
                ...
        ```
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        keep: int = 10_000,
        max_bytes: int = 64 << 20,
    ) -> None:
        self._folder = str(folder) if folder is not None else ""
        self._writer = BackgroundWriter("TraceFile")
        self._files = OpenFiles(keep, max_bytes, self._let_go)
        self._known: WeakKeyDictionary[LineFile, _Known] = WeakKeyDictionary()
        self._missed: dict[str, int] = {}  # spans that found no room, by session

    async def __aenter__(self) -> Self:
        await self._writer.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._writer.__aexit__(kind, error, trace)
        self._files.close()

    @property
    def dropped(self) -> int:
        """How many lines found no room on their way to the thread."""
        return self._writer.dropped

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Write the beginning of a span."""
        self._put("begin", span, agent)

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """Write its end."""
        self._put("end", span, agent)

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Do nothing."""
        return NO_SCOPE

    def _put(self, type_: str, span: Span, agent: AgentContext | None) -> None:
        missed = self._missed.pop(span.session_id, 0)
        if not self._writer.put(partial(self._write, type_, span, agent, missed)):
            self._missed[span.session_id] = missed + 1

    def _write(self, type_: str, span: Span, agent: AgentContext | None, missed: int) -> None:
        folder = (agent.session_folder if agent else "") or self._find_folder(span)
        if not folder:
            return
        file = self._files.find(os.path.join(folder, FILE_NAME))
        lines: list[object] = [{"type": "lost", "lines": missed}] * bool(missed)
        if file.is_full:
            gone = file.rotate()
            lines += [{"type": "dropped", "lines": gone}] * bool(gone)
            self._known.pop(file, None)
        known = self._known.setdefault(file, _Known(os.getpid() << 32))
        written = {"type": type_, "span": _refer(span, known, lines)}
        if not file.write(*lines, written):
            del self._known[file]  # it lacks the values, too

    def _let_go(self, file: LineFile) -> None:
        """Keep no conversation of a file that is closed."""
        if known := self._known.get(file):
            known.let_go()

    def _find_folder(self, span: Span) -> str:
        if not self._folder or not span.session_id:
            return ""
        return os.path.join(self._folder, folder_name(span.session_id))


def _refer(span: Span, known: _Known, lines: list[object]) -> Span:
    """Return the span with numbers in place of its long values; adds the lines of new ones."""
    attributes = dict(span.attributes)
    for name in _WHOLE:
        if name in attributes:
            number, new = known.take(attributes[name])
            attributes[name] = {_REFERENCE: number}
            lines += new
    for name in _LISTS:
        if name in attributes:
            numbers = []
            for message in cast("Sequence[object]", attributes[name]):
                number, new = known.take(message)
                numbers.append({_REFERENCE: number})
                lines += new
            attributes[name] = numbers
    return replace(span, attributes=attributes)


def read_trace_file(folder: str | Path) -> tuple[list[Span], int]:
    """Read the spans in a session's folder, each once, in the order of their beginnings.

    A span without an end is open. Lines that a kill has torn are left out.

    Returns:
        The spans, and how many lines were dropped or lost before they could be written.

    Raises:
        OSError: the file can't be read.
        FileNotFoundError: there is no trace.
    """
    if not str(folder):
        raise FileNotFoundError("a session without a folder has no trace")
    return read_spans(_read_lines(Path(folder)))


def write_spans(spans: Iterable[Span]) -> list[object]:
    """Return the lines of ended or open spans, for `read_spans`."""
    known, lines = _Known(), list[object]()
    for span in spans:
        written = _refer(span, known, lines)
        lines.append({"type": "end", "span": written})
    return lines


def read_spans(lines: Iterable[Mapping[str, object]]) -> tuple[list[Span], int]:
    """Read spans from lines; returns what `read_trace_file` does."""
    values: dict[object, object] = {}
    spans: dict[str, Span] = {}
    missing = 0
    for line in lines:
        match line:
            case {"type": "value", "number": int() as number, "value": value}:
                values[number] = value
            case {"type": "begin" | "end", "span": dict() as span}:
                if found := _read_span(span, values):
                    spans[found.span_id] = found
            case {"type": "lost" | "dropped", "lines": int() as count}:
                missing += count
            case _:
                pass  # of a newer version
    return list(spans.values()), missing


def _read_lines(folder: Path) -> Iterable[Mapping[str, object]]:
    with ExitStack() as stack:
        files = list[BinaryIO]()
        # The newer first, since it may become the older one before it is read. One may be all there
        # is: the disk had no room for another, or that is just being made.
        for name in (FILE_NAME, "trace.1.jsonl"):
            with suppress(FileNotFoundError):
                files.append(stack.enter_context((folder / name).open("rb")))
        if not files:
            raise FileNotFoundError(f"{folder} has no trace")
        if os.path.sameopenfile(files[0].fileno(), files[-1].fileno()):
            del files[1:]  # it has become the older one between the two
        for line in chain.from_iterable(reversed(files)):
            try:
                value = serde.loads(line)
            except InvalidJSONError:
                continue  # torn by a kill, or by the end of the disk
            if isinstance(value, dict):
                yield value


def _read_span(span: dict[str, object], values: Mapping[object, object]) -> Span | None:
    """Read a span, with what its numbers stand for; None if it makes no sense."""
    attributes = span.get("attributes")
    if isinstance(attributes, dict):
        for name in attributes.keys() & {*_WHOLE, *_LISTS}:
            value = attributes[name]
            is_list = name in _LISTS and isinstance(value, list)
            found = [_follow(each, values) for each in value] if is_list else _follow(value, values)
            attributes[name] = found
    try:
        return serde.convert(span, Span)
    except msgspec.ValidationError:
        return None


def _follow(value: object, values: Mapping[object, object]) -> object:
    """Put back what a number stands for."""
    if isinstance(value, dict) and value.keys() == {_REFERENCE}:
        number = value[_REFERENCE]
        return values.get(number) if isinstance(number, int) else None
    return value
