"""Frames: what crosses between us and a worker process, as JSON of a stated length.

We send one `CallFrame` for each call. The worker answers with one `BegunFrame`, any number of
`ProgressFrame` and `AbandonedFrame`, and one `EndedFrame`. Nothing of it can run code: no pickle.
"""

from collections.abc import Iterator
from typing import TypeAlias

from greenroom.core import AgentContext, ToolError, ToolResult, Wire, serde
from greenroom.tools.isolation.function_reference import FunctionReference
from greenroom.tools.isolation.process_limits import ProcessLimits

MAX_BYTES = 16 << 20
"""The longest frame: more than any model reads, little enough to decode beside an event loop."""

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
        """Take them out of a context."""
        return cls(
            session_id=context.session_id,
            agent_type=context.agent_type,
            name=context.name,
            description=context.description,
            parent_session_id=context.parent_session_id,
            parent_tool_use_id=context.parent_tool_use_id,
            current_turn=context.current_turn,
            current_tool_use_id=context.current_tool_use_id,
            metadata=context.metadata,
            root=str(context.workspace.root),
            cwd=str(context.workspace.cwd),
            spill_folder=context.spill_folder,
        )


class CallFrame(Wire, frozen=True, tag="call"):
    """Call this function with this input.

    Attributes:
        tool: the tool's name.
        function: where the function is.
        input: what the model sent; it satisfies the tool's schema.
        context: of the call.
        limits: of the call.
        path: where modules are looked for, our `sys.path`.
        folder: our working directory, or empty where it is gone.
    """

    tool: str
    function: FunctionReference
    input: dict[str, object]
    context: ContextFields
    limits: ProcessLimits
    path: tuple[str, ...]
    folder: str


class BegunFrame(Wire, frozen=True, tag="begun"):
    """The call has arrived, and begins."""


class ProgressFrame(Wire, frozen=True, tag="progress"):
    """Told to `context.progress`."""

    text: str


class AbandonedFrame(Wire, frozen=True, tag="abandoned"):
    """Told to `context.abandoned`."""

    what: str


class EndedFrame(Wire, frozen=True, tag="ended"):
    """The function has returned, or raised.

    Attributes:
        result: what it returned, or None where it raised.
        error: what it raised, in words for the model.
        traceback: where it raised that, for the log; empty for a `ToolError`.
        metadata: what it changed in the context's metadata.
        removed: the keys that it took out of them.
        is_reusable: whether nothing of the call is left, so that the worker can take another one.
    """

    result: ToolResult | None = None
    error: str = ""
    traceback: str = ""
    metadata: dict[str, object] = {}
    removed: tuple[str, ...] = ()
    is_reusable: bool = True


Answer: TypeAlias = BegunFrame | ProgressFrame | AbandonedFrame | EndedFrame
"""What a worker sends."""


class _Envelope(Wire, frozen=True):
    answer: Answer


def answer_in(data: bytes) -> Answer:
    """Decode what a worker has sent.

    Raises:
        InvalidJSONError: it is no answer.
    """
    return serde.decode(b'{"answer":%b}' % data, _Envelope).answer


def pack(frame: Wire) -> bytes:
    """Encode a frame, its length first.

    Raises:
        ToolError: it is longer than a frame may be.
        InvalidJSONError: it holds something that JSON can't express.
    """
    data = serde.encode(frame)
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"{len(data)} bytes are too many for a tool in its own process; {MAX_BYTES} is the limit",
            hint="write them to a file, and pass its path",
        )
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class FrameBuffer:
    """Cuts what has arrived into frames.

    Example:
        >>> buffer = FrameBuffer()
        >>> data = pack(ProgressFrame("half way"))
        >>> list(buffer.feed(data[:7])), list(buffer.feed(data[7:]))
        ([], [b'{"type":"progress","text":"half way"}'])
        >>> buffer.is_empty
        True
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._data = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for its rest."""
        return not self._data

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add what has arrived, and iterate over the frames that it completes.

        Raises:
            ToolError: a frame would be too long, so this is none.
        """
        self._data += data
        while len(self._data) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._data[:_LENGTH_BYTES], "big")
            if end > _LENGTH_BYTES + MAX_BYTES:
                raise ToolError("what has arrived is no frame")
            if len(self._data) < end:
                return
            frame = bytes(self._data[_LENGTH_BYTES:end])
            del self._data[:end]
            yield frame
