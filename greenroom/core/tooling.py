"""What crosses between tools, models and prompts: definitions, requests, results, checkpoints of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec.structs import replace

from greenroom.core.message import Message, ResultContent, TextBlock, ToolResultBlock
from greenroom.core.serde import Wire
from greenroom.core.untrusted import MAX_ERROR_TEXT, clip, valid_unicode


class ToolDefinition(Wire, frozen=True):
    """What a model is told of a tool.

    Attributes:
        name: what it is called here, in rules, chunks and histories; a model may know it by its
            `portable_name`.
        description: what it does.
        parameters: a JSON Schema of its input.
        extra: fields of the provider's own that have no typed place here, such as
            `{"defer_loading": True}`; they are sent to any provider.
    """

    name: str
    description: str
    parameters: dict[str, object]
    extra: dict[str, object] = {}


def portable_name(name: str) -> str:
    """Return a tool's name as models call it: few of their APIs take dots, so each becomes `__`.

    Two names that become the same can't be told apart in a reply; registries and providers refuse
    that.

    Example:
        >>> portable_name("fs.read")
        'fs__read'
    """
    return name.replace(".", "__")


class ToolInfo(Wire, frozen=True):
    """What a person is told of one call before it runs.

    Attributes:
        action: one line, such as "Run a command".
        details: the exact text that will run, be written or be fetched.
        diff: a unified diff where a file would change, else empty.
        claim: what the model itself says of the call, or empty; nothing vouches for it.
    """

    action: str
    details: str = ""
    diff: str = ""
    claim: str = ""


class ToolStatus(StrEnum):
    """How a call ended."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


class ToolResult(Wire, frozen=True):
    r"""What a call gave: content for the model, how it ended, and facts for programs.

    Attributes:
        content: text, images and documents, in order.
        status: how the call ended; everything but success is an error to the model.
        metadata: JSON facts for programs, such as an exit code; the model does not see them.
        error_message: what went wrong, for programs and logs, apart from what the model is told;
            empty on success. A registry fills it in, and cuts it to 2,000 characters.
        could_run: False where the call came to nothing: no such tool, an input that does not fit, a
            crash, a denial. A command that exits with 1 could run.

    Example:
        >>> result = ToolResult.error("no such file\nThe folder has: a.txt, b.txt")
        >>> result.is_error, result.error_message
        (True, 'no such file')
    """

    content: tuple[ResultContent, ...] = ()
    status: ToolStatus = ToolStatus.SUCCESS
    metadata: dict[str, object] = {}
    error_message: str = ""
    could_run: bool = True

    @classmethod
    def ok(cls, text: str, **metadata: object) -> "ToolResult":
        """Make a successful result of a text."""
        return cls((TextBlock(valid_unicode(text)),), ToolStatus.SUCCESS, metadata)

    @classmethod
    def error(
        cls,
        text: str,
        status: ToolStatus = ToolStatus.ERROR,
        *,
        error_message: str = "",
        could_run: bool = True,
        **metadata: object,
    ) -> "ToolResult":
        """Make a failed result that tells the model what went wrong and what to do.

        Its `error_message` is by default the first line of that.
        """
        content = (TextBlock(valid_unicode(text)),)
        made = cls(content, status, metadata, error_message, could_run)
        return made.with_error_message()

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status is not ToolStatus.SUCCESS

    @property
    def text(self) -> str:
        """The result's text, its text blocks joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def with_error_message(self) -> "ToolResult":
        """Return the same result, which if it failed says so in an `error_message` of moderate length."""
        message = self.error_message
        if self.is_error and not message:
            message = self.text.lstrip().partition("\n")[0].rstrip() or str(self.status)
        return replace(self, error_message=clip(valid_unicode(message), MAX_ERROR_TEXT))

    def block(self, tool_use_id: str) -> ToolResultBlock:
        """Make the block that answers the call of this id in the next message."""
        return ToolResultBlock(tool_use_id, self.content, self.is_error)


# ---- What is asked of a model: one request in our words, which each provider puts into its own.


@dataclass(frozen=True)
class NamedTool:
    """The choice of one tool that the model must call."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "any", "none"] | NamedTool
"""Whether the model may, must or must not call a tool, or which one it must call."""


@dataclass(frozen=True)
class OutputSchema:
    """The form that a reply's text must have: one JSON object that fits a JSON Schema.

    Attributes:
        name: letters, digits, `_` and `-`, at most 64; the model sees it.
        schema: a JSON Schema of type object. Each provider adapts it to the keywords that it knows,
            so the reply has to be checked against the whole schema.
    """

    name: str
    schema: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request to a model; nothing is added to it on its way to the wire.

    Attributes:
        messages: the conversation so far, its last message usually the user's.
        system: the system prompt, unchanged; blocks may carry `extra` such as a cache marker.
        tools: the tools that the model may ask for.
        tool_choice: whether it may, must or must not, or which one it must.
        max_tokens: the most that the reply may take; None leaves it to the provider's default.
        temperature: the sampling temperature, where it should not be the model's default.
        top_p: the nucleus to sample from, where it should not be the model's default.
        stop_sequences: texts at which the reply stops.
        thinking: how many tokens the model may think for; 0 turns thinking off, None says nothing.
        options: fields of the provider's own request body; they have the last word.
        cache: whether the provider may mark what its cache should keep; it does so by default,
            except where the request brings marks of its own.
        output: the form that the reply must have, for providers that can enforce one;
            `generate_structured` knows which can.
        conversation: names the conversation that the request belongs to, such as a session's id, so
            that a provider can bring its requests to where its beginning is cached; may be empty.

    Example:
        >>> request = ModelRequest(messages=[Message.user("hello")], system="Be brief.")
        >>> request.tool_choice
        'auto'
    """

    messages: Sequence[Message]
    system: str | Sequence[TextBlock] = ""
    tools: Sequence[ToolDefinition] = ()
    tool_choice: ToolChoice = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: Sequence[str] = ()
    thinking: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    cache: bool = True
    output: OutputSchema | None = None
    conversation: str = ""


# ---- Checkpoints: what became of files while tools ran, as values; their contents lie elsewhere.


class FileState(Wire, frozen=True):
    """How one path was at one moment.

    Attributes:
        kind: nothing there, a regular file, a symbolic link, or something else.
        mode: permission bits of a file.
        size: bytes of a file.
        digest: SHA-256 of a file's content in hex, or empty where it was not read.
        target: where a link points.
        problem: why it can't be told apart from others, or put back; else empty.

    Example:
        >>> FileState("absent").same(FileState("absent"))
        True
    """

    kind: Literal["absent", "file", "link", "other"]
    mode: int = 0
    size: int = 0
    digest: str = ""
    target: str = ""
    problem: str = ""

    def same(self, other: "FileState") -> bool:
        """Whether both are known to be alike; times do not count, and what was not read is not."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            mine, theirs = (self.digest, self.mode), (other.digest, other.mode)
            return bool(self.digest) and mine == theirs
        return (self.target, self.problem) == (other.target, other.problem)


class FileChange(Wire, frozen=True):
    """One path before calls ran and after them.

    Attributes:
        path: relative to the workspace's root, with `/`.
        before: how it was before the first of the calls.
        after: what the calls left; None while they run, and for ever if the process died then.
    """

    path: str
    before: FileState
    after: FileState | None = None


class Checkpoint(Wire, frozen=True):
    """What the calls of one reply did to files; recorded when they start, and again when they ended.

    Attributes:
        id: the same in both records; the later one counts.
        root: the workspace's real path.
        tool_use_ids: the calls.
        changes: the files that they change.
        gaps: what is not known of their changes, a sentence each.
    """

    id: str
    root: str
    tool_use_ids: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    gaps: tuple[str, ...] = ()


# ---- What a sandbox holds on this machine, and what it does not, as a value that travels.

SandboxPart: TypeAlias = Literal[
    "files",
    "attributes",
    "protected",
    "hidden",
    "network",
    "services",
    "signals",
    "syscalls",
    "memory",
    "cpu",
    "file_size",
    "processes",
    "disk",
]
"""One thing that a sandbox can hold.

- files: nothing is created, written, renamed or removed outside of what may be written.
- attributes: nor are modes, owners and times changed there.
- protected: names in the workspace that make programs run elsewhere, such as `.git`, stay as they
  are, also those that don't exist.
- hidden: what must not be read is not.
- network: no address is reached.
- services: no program outside is asked over a Unix socket to do it instead.
- signals: no process outside is signalled.
- syscalls: the system calls that sandboxes are broken with are refused.
- memory, cpu, file_size, processes: the limits.
- disk: all that is written together is bounded.
"""

SandboxTier: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "limits"]
"""How commands are held: in namespaces, by Landlock, by macOS, or by limits alone."""


class SandboxReport(Wire, frozen=True):
    """What holds a command of one policy on this machine, found by trying it.

    Attributes:
        mode: the policy's mode, "workspace-write" or "read-only".
        network: the policy's network, "none" or "all".
        tier: how commands are held.
        enforced: by what each part is held.
        missing: the parts that nothing holds, whether the policy asks for them or not.
        lacking: those of them that the policy asks for.
        why: why each missing part is.
        user: the id of the user that runs the command, where that is not the one that asks for it.
        as_root: why root runs it although it should be that user.

    Example:
        >>> print(SandboxReport("read-only", "none", "limits", missing=("files",), lacking=("files",)))
        read-only, network none (limits); NOT HELD: files
    """

    mode: str
    network: str
    tier: SandboxTier
    enforced: dict[SandboxPart, str] = {}
    missing: tuple[SandboxPart, ...] = ()
    lacking: tuple[SandboxPart, ...] = ()
    why: dict[SandboxPart, str] = {}
    user: int | None = None
    as_root: str = ""

    def __str__(self) -> str:
        user = "" if self.user is None else f", as user {self.user}"
        user = f", as root: {self.as_root}" if self.as_root else user
        held = f"{self.mode}, network {self.network} ({self.tier}{user})"
        return f"{held}; NOT HELD: {', '.join(self.lacking)}" if self.lacking else held
