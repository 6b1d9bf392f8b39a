"""Frames: the messages between us and a worker process, as JSON after its length.

We send one `CallFrame` for each call, with the place of its function, its input and its limits. The
worker answers with one `BegunFrame`, any number of `ProgressFrame` and `AbandonedFrame`, and one
`EndedFrame`. Nothing in a frame can run code; there is no pickle.
"""

import functools
import math
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeAlias

from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.core._internal import Wire, serde
from greenroom.sandbox._internal import ProcessLimits

_MEGABYTE = 1 << 20


@contextmanager
def impose(limits: ProcessLimits) -> Iterator[None]:
    """Apply the limits to this process inside the block."""
    with _lower(resource.RLIMIT_CPU, _cpu_limit(limits.cpu_seconds)):
        with _lower(resource.RLIMIT_AS, memory_limit(limits.memory_megabytes)):
            yield


def _cpu_limit(seconds: int | None) -> int | None:
    if seconds is None:
        return None
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return math.ceil(usage.ru_utime + usage.ru_stime) + seconds


def memory_limit(megabytes: int | None) -> int | None:
    """Return the bytes of address space that this process may have from now on."""
    return None if megabytes is None else _address_space() + megabytes * _MEGABYTE


@contextmanager
def _lower(which: int, limit: int | None) -> Iterator[None]:
    """Lower a limit of this process, and restore it at the end."""
    before, most = resource.getrlimit(which)
    if limit is None or 0 <= before <= limit:
        yield
        return
    resource.setrlimit(which, (limit, most))
    try:
        yield
    finally:
        resource.setrlimit(which, (before, most))


def _address_space() -> int:
    """Return the bytes of address space of this process; 0 if the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return 0
    return pages * resource.getpagesize()


P = ParamSpec("P")

SCRIPT_NAME = "__mp_main__"
"""The name under which a script is loaded again, as in the standard multiprocessing."""

_GUARD = re.compile(r"^if\b.*__name__", re.MULTILINE)

_loading: set[str] = set()
_workers: set[int] = set()


def become_worker() -> None:
    """Mark this process as one that runs tools for another."""
    _workers.add(os.getpid())


def is_worker() -> bool:
    """Whether this process runs tools for another one, with `isolation="process"`."""
    return os.getpid() in _workers


def is_loading_script() -> bool:
    """Whether this process is loading a script in search of a function."""
    return bool(_loading)


class FunctionReference(Wire, frozen=True):
    """The place where another process finds a function: by module and name, as an import does.

    Attributes:
        module: the name of its module.
        qualname: its qualified name there.
        script: the path of its program, if that was run as a script.
        file: the path of its module, if an import by name does not find it: test runners and
            plug-in loaders load files that are not on the import path.
    """

    module: str
    qualname: str
    script: str = ""
    file: str = ""

    @classmethod
    def of(cls, function: Callable[P, object], tool: str) -> "FunctionReference":
        """Return the place of a function.

        Raises:
            ToolError: another process can't find it.
        """
        if "<" in function.__qualname__ or getattr(function, "__self__", None) is not None:
            raise ToolError(
                f"tool {tool}: another process can't find {function.__qualname__}",
                hint="define the function at the top of a module, with a name of its own",
            )
        if function.__module__ != "__main__":
            return cls(function.__module__, function.__qualname__, file=_file(function.__module__))
        main = sys.modules["__main__"]
        spec = main.__spec__
        if spec is not None and spec.name != "__main__":
            return cls(spec.name, function.__qualname__)  # it was run as `python -m …`
        return cls("__main__", function.__qualname__, _script(main, tool))

    def check(self, function: Callable[P, object], tool: object) -> None:
        """Check that in this process the tool, or its function, is in this place.

        Raises:
            ToolError: something else is there, which another process would call instead.
        """
        found = _look_up(sys.modules.get(function.__module__), self.qualname)
        if found is not tool and found is not function:
            raise ToolError(
                f"{function.__module__}.{self.qualname} is not the function of {tool!r}, "
                "so another process can't find it",
                hint="give it a name of its own at the top of the module",
            )

    def load(self) -> object:
        """Import the object in this place.

        Raises:
            ToolError: the place is empty.
        """
        module = _load_script(self.script) if self.script else _import(self.module, self.file)
        found = _look_up(module, self.qualname)
        if found is None:
            raise ToolError(
                f"another process that loads {self.script or self.module} finds no {self.qualname}",
                hint="define it at the top of the module, under no condition",
            )
        return found


def _look_up(module: object, qualname: str) -> object:
    return functools.reduce(
        lambda found, name: getattr(found, name, None), qualname.split("."), module
    )


def _script(main: ModuleType, tool: str) -> str:
    """Return the path of the running script, if it can be loaded without running again."""
    path = Path(getattr(main, "__file__", None) or "")
    if not path.is_file():
        raise ToolError(
            f"tool {tool}: another process can't find a function of an interactive session",
            hint="put it into a module, and import it from there",
        )
    if not _GUARD.search(path.read_text(encoding="utf-8", errors="replace")):
        raise ToolError(
            f"tool {tool}: another process that loads {path.name} would run all of it",
            hint='put what starts the program under `if __name__ == "__main__":`',
        )
    return str(path.absolute())


def _file(module: str) -> str:
    path = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(path).absolute()) if path else ""


def _import(name: str, file: str) -> ModuleType:
    """Import a module by its name, or else from its file."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        # Only if this module, or a package above it, is missing: not one that it imports.
        if not file or not f"{name}.".startswith(f"{missing.name}."):
            raise
    module = _module(name, file)
    sys.modules[name] = module
    try:
        _execute(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module(name: str, file: str) -> ModuleType:
    spec = spec_from_file_location(name, file, loader=SourceFileLoader(name, file))
    assert spec is not None  # the loader is given
    return module_from_spec(spec)


def _execute(module: ModuleType) -> None:
    assert module.__spec__ is not None  # `_module` has made it
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


def _load_script(script: str) -> ModuleType:
    """Load a script as a module of another name, so its guarded part does not run."""
    # The standard multiprocessing gives that name to the main module when it imports it.
    loaded = sys.modules.get(SCRIPT_NAME)
    if loaded is not None and getattr(loaded, "__file__", None) == script:
        return loaded
    module = _module(SCRIPT_NAME, script)
    own = sys.modules["__main__"]
    # Before it runs: dataclasses and pydantic look up their module while a class is made.
    sys.modules["__main__"] = sys.modules[SCRIPT_NAME] = module
    _loading.add(script)
    try:
        _execute(module)
    except BaseException:
        sys.modules["__main__"] = own
        del sys.modules[SCRIPT_NAME]
        raise
    finally:
        _loading.discard(script)
    return module


MAX_BYTES = 16 << 20
"""The longest frame: more than any model reads, but quick to decode on an event loop."""

_LENGTH_BYTES = 4


class ContextFields(Wire, frozen=True):
    """The part of an `AgentContext` that means the same in another process."""

    session_id: str
    agent_type: str
    name: str
    description: str
    parent_session_id: str | None
    parent_tool_use_id: str | None
    current_turn: int
    current_tool_use_id: str | None
    metadata: dict[str, object]
    root: str
    cwd: str
    spill_folder: str

    @classmethod
    def of(cls, context: AgentContext) -> "ContextFields":
        """Copy them from a context."""
        same = {name: getattr(context, name) for name in SAME_FIELDS}
        return cls(root=str(context.workspace.root), cwd=str(context.workspace.cwd), **same)


SAME_FIELDS = tuple(name for name in ContextFields.__struct_fields__ if name not in ("root", "cwd"))
"""The fields that a context has under the same name."""


class CallFrame(Wire, frozen=True, tag="call"):
    """Call this function with this input.

    Attributes:
        tool: the tool's name.
        function: the place of the function.
        input: the model's input; it satisfies the tool's schema.
        context: of the call.
        limits: of the call.
        path: our `sys.path`.
        folder: our working directory, or empty if it is gone.
    """

    tool: str
    function: FunctionReference
    input: dict[str, object]
    context: ContextFields
    limits: ProcessLimits
    path: tuple[str, ...]
    folder: str


class BegunFrame(Wire, frozen=True, tag="begun"):
    """The call has arrived and begins."""


class ProgressFrame(Wire, frozen=True, tag="progress"):
    """A text for `context.progress`."""

    text: str


class AbandonedFrame(Wire, frozen=True, tag="abandoned"):
    """A name for `context.report_abandoned`."""

    what: str


class EndedFrame(Wire, frozen=True, tag="ended"):
    """The function has returned, or raised.

    Attributes:
        result: its result, or None if it raised.
        error: its exception, in words for the model.
        traceback: the traceback of that, for the log; empty for a `ToolError`.
        is_crash: whether it was an `AgentCrashError`.
        metadata: the values that it changed in the context's metadata.
        removed_keys: the keys that it removed there.
        is_reusable: whether nothing of the call is left, so the worker can take another one.
    """

    result: ToolResult | None = None
    error: str = ""
    traceback: str = ""
    is_crash: bool = False
    metadata: dict[str, object] = {}
    removed_keys: tuple[str, ...] = ()
    is_reusable: bool = True


WorkerFrame: TypeAlias = BegunFrame | ProgressFrame | AbandonedFrame | EndedFrame
"""A frame that a worker sends."""


class _Envelope(Wire, frozen=True):
    frame: WorkerFrame


def decode_worker_frame(data: bytes) -> WorkerFrame:
    """Decode a frame of a worker.

    Raises:
        InvalidJSONError: it is not one.
    """
    return serde.decode(b'{"frame":%b}' % data, _Envelope).frame


def pack(frame: Wire) -> bytes:
    """Encode a frame, its length first.

    Raises:
        ToolError: it is longer than a frame may be.
        InvalidJSONError: it holds something that JSON can't express.
    """
    data = serde.encode(frame)
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"{len(data)} bytes are too many for a tool in its own process; "
            f"{MAX_BYTES} is the limit",
            hint="write them to a file, and pass its path",
        )
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class FrameBuffer:
    """Splits arriving bytes into frames.

    Example:
        >>> buffer = FrameBuffer()
        >>> data = pack(ProgressFrame("half way"))
        >>> list(buffer.feed(data[:7])), list(buffer.feed(data[7:]))
        ([], [b'{"type":"progress","text":"half way"}'])
        >>> buffer.is_empty
        True
    """

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether no part of a frame waits for its rest."""
        return not self._data

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add arriving bytes, and iterate over the frames that they complete.

        Raises:
            ToolError: the length is impossible, so this is not a frame.
        """
        self._data += data
        while len(self._data) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._data[:_LENGTH_BYTES], "big")
            if end > _LENGTH_BYTES + MAX_BYTES:
                raise ToolError("what has arrived is not a frame")
            if len(self._data) < end:
                return
            frame = bytes(self._data[_LENGTH_BYTES:end])
            del self._data[:end]
            yield frame
