"""Checks on the way into a tool and out of it: does the input satisfy the schema, is the result too long.

What is wrong with an input is said in words that a model can act on. A text that is too long is
cut, and kept whole in a file.
"""

import errno
import logging
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    SandboxReport,
    TextBlock,
    ToolError,
    ToolResult,
    clip,
    new_id,
    serde,
    valid_unicode,
)
from greenroom.sandbox import Sandbox, describe_sandbox

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from referencing import Resource

_log = logging.getLogger("greenroom.tools")

_MAX_FAULTS = 5
_MAX_VALUE = 120
_MAX_MESSAGE = 600


class InputValidator:
    """A compiled JSON Schema (2020-12) of one tool's input.

    Example:
        >>> validator = InputValidator("Add", {"type": "object", "required": ["a"]})
        >>> print(validator.fault({}))
        Add was not run: its input does not fit.
        - the parameter 'a' is missing
    """

    def __init__(self, name: str, schema: Mapping[str, object]) -> None:
        """Check and compile the schema of the tool of this name.

        Raises:
            ToolError: it is not a valid schema, is not of type object, is nested too deeply, or
                points to a schema that is not part of it; the message says where.
        """
        import referencing
        from jsonschema import Draft202012Validator

        self._name = name
        try:
            _check(name, schema)
        except RecursionError:
            raise ToolError(f"tool {name}: the schema is nested too deeply") from None
        # An empty registry: a schema never makes us fetch another one.
        self._validator: Draft202012Validator = Draft202012Validator(
            schema, registry=referencing.Registry()
        )

    def fault(self, input: object) -> str | None:  # noqa: A002
        """Return what is wrong with an input, at most five faults, or None where it fits."""
        try:
            lines = self._faults(input)
        except RecursionError:
            lines = ["- the input, or the schema that it has to fit, is nested too deeply"]
        if not lines:
            return None
        return "\n".join([f"{self._name} was not run: its input does not fit.", *lines])

    def _faults(self, value: object) -> list[str]:
        errors = sorted(self._errors(value), key=lambda error: list(map(str, error.absolute_path)))
        # Several missing parameters are one fault.
        lines = list(dict.fromkeys(f"- {_explain(error)}" for error in errors))
        if len(lines) > _MAX_FAULTS:
            lines[_MAX_FAULTS:] = [f"- and {len(lines) - _MAX_FAULTS} more"]
        return lines

    def _errors(self, value: object) -> Iterator["ValidationError"]:
        from jsonschema.exceptions import best_match

        for error in self._validator.iter_errors(value):
            # Of the branches of an anyOf or oneOf, tell the one that the input comes nearest to.
            yield best_match([error]) or error


def _check(name: str, schema: Mapping[str, object]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolError(
            f"tool {name}: the schema is broken at {_write_path(error.absolute_path)}: "
            f"{_shorten(error.message)}"
        ) from None
    if schema.get("type") != "object":
        raise ToolError(
            f"tool {name}: the schema is not of type object",
            hint='give {"type": "object", "properties": {…}}',
        )
    _check_references(name, schema)


def _check_references(name: str, schema: Mapping[str, object]) -> None:
    """Resolve every reference once, so that a dangling one is found now and not in a call."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", root).resolver()
    for reference in _references(root):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ToolError(
                f"tool {name}: the schema points to {reference!r}, which it does not hold",
                hint="put the schema that it points to under $defs",
            ) from None


def _references(root: "Resource[object]") -> Iterator[str]:
    for contents in _subschemas(root):
        if isinstance(contents, Mapping):
            found = (contents.get("$ref"), contents.get("$dynamicRef"))
            yield from (reference for reference in found if isinstance(reference, str))


def _subschemas(resource: "Resource[object]") -> Iterator[object]:
    yield resource.contents
    for part in resource.subresources():
        yield from _subschemas(part)


def _explain(error: "ValidationError") -> str:
    explain = _EXPLANATIONS.get(str(error.validator))
    reason = explain(error) if explain else _shorten(error.message)
    place = _write_path(error.absolute_path)
    return valid_unicode(f"{place}: {reason}" if error.absolute_path else reason)


def _explain_missing(error: "ValidationError") -> str:
    required = cast("list[str]", error.validator_value)
    missing = [name for name in required if name not in cast("dict[str, object]", error.instance)]
    return _name_parameters(missing) + (" is missing" if len(missing) == 1 else " are missing")


def _explain_unexpected(error: "ValidationError") -> str:
    known = cast("dict[str, object]", cast("dict[str, object]", error.schema).get("properties", {}))
    extra = [name for name in cast("dict[str, object]", error.instance) if name not in known]
    allowed = ", ".join(known) or "none"
    verb = "does" if len(extra) == 1 else "do"
    return f"{_name_parameters(extra)} {verb} not exist; there are: {allowed}"


def _name_parameters(names: list[str]) -> str:
    quoted = ", ".join(repr(_shorten(name)) for name in names[:_MAX_FAULTS])
    return f"the parameter {quoted}" if len(names) == 1 else f"the parameters {quoted}"


def _explain_type(error: "ValidationError") -> str:
    expected = error.validator_value
    names = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
    return f"expected {names}, got {_name_type(error.instance)} {_write_value(error.instance)}".rstrip()


def _explain_enum(error: "ValidationError") -> str:
    allowed = ", ".join(map(repr, cast("list[object]", error.validator_value)))
    return f"expected one of {_shorten(allowed)}, got {_write_value(error.instance)}"


_EXPLANATIONS: dict[str, Callable[["ValidationError"], str]] = {
    "required": _explain_missing,
    "additionalProperties": _explain_unexpected,
    "type": _explain_type,
    "enum": _explain_enum,
}


def _name_type(value: object) -> str:
    """Name the type of a value as JSON Schema does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _write_value(value: object) -> str:
    return "" if value is None else clip(repr(value), _MAX_VALUE)


def _shorten(text: str) -> str:
    return clip(text, _MAX_MESSAGE)


def _write_path(parts: object) -> str:
    """Write the way to a value as `todos[0].status`; the value itself is `input`."""
    path = ""
    for part in cast("list[str | int]", parts):
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "input"


def integer(data: Mapping[str, object], name: str, default: int) -> int:
    """Return the integer of this name; to JSON Schema, 3.0 is one as well.

    Example:
        >>> integer({"limit": 3.0}, "limit", 10), integer({}, "limit", 10)
        (3, 10)
    """
    value = data.get(name, default)
    return int(value) if isinstance(value, int | float) else default


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
