"""Values of tool calls that cross packages: definitions, requests, results, changes of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from greenroom.core.frozen import EMPTY, freeze_fields, valid_unicode
from greenroom.core.message import Message, ResultContent, TextBlock, ToolResultBlock, hold_blocks
from greenroom.core.serde import Wire
from greenroom.core.untrusted import MAX_ERROR_TEXT, clip


class ToolDefinition(Wire, frozen=True):
    """The description of a tool for a model.

    Attributes:
        name: its name here, in rules, chunks and histories; models may get its `portable_name`.
        description: what it does.
        parameters: a JSON Schema of its input.
        extra: a provider's fields that have no typed place here, such as
            `{"defer_loading": True}`; they are sent to any provider.
        output_schema: a JSON Schema of its results, for protocols that take one, or None.
    """

    name: str
    description: str
    parameters: dict[str, object]
    extra: dict[str, object] = EMPTY
    output_schema: dict[str, object] | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "parameters", "extra", "output_schema")


def portable_name(name: str) -> str:
    """Return a tool's name as models call it: few of their APIs take dots, so each becomes `__`.

    Registries and providers refuse two tools whose names become the same.

    Example:
        >>> portable_name("fs.read")
        'fs__read'
    """
    return name.replace(".", "__")


class ToolInfo(Wire, frozen=True):
    """The description of one call for a person, before it runs.

    Attributes:
        action: one line, such as "Run a command".
        details: the exact text that will run, be written or be fetched.
        diff: a unified diff if a file would change, else empty.
        claim: the model's own description of the call, unverified, or empty.
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


_SUCCESS = ToolStatus.SUCCESS  # a name of its own: members of an enum are slow to get on 3.11
_MEASURED = frozenset({"execution_ms", "validation_ms", "version", "error"})
_ERRORS = {
    ToolStatus.ERROR: "ToolError",
    ToolStatus.TIMEOUT: "TimeoutError",
    ToolStatus.DENIED: "PermissionError",
    ToolStatus.INTERRUPTED: "Cancelled",
}


class ToolResult(Wire, frozen=True):  # noqa: PLW1641 (its metadata are a dict)
    r"""The result of a call: content for the model, how it ended, and facts for programs.

    Attributes:
        content: text, images and documents, in order.
        status: how the call ended; everything but success is an error to the model.
        metadata: JSON facts for programs, such as an exit code; the model does not see them. If the
            tool raised an exception, its class is under "raised". The registry adds what it has
            measured: "execution_ms" and "validation_ms", milliseconds; the tool's "version", if it
            has one; and of a failure "error", the class of the exception, else "ToolError",
            "TimeoutError", "PermissionError" if it was denied, "Cancelled", "InvalidInputError" or
            "UnknownToolError". Results compare without these four.
        error_message: what went wrong, for programs and logs, besides the text for the model; empty
            on success. A registry fills it in, and cuts it to 2,000 characters.
        could_run: False if the call came to nothing: an unknown tool, an invalid input, a crash, a
            denial. A command that exits with 1 could run.

    Example:
        >>> result = ToolResult.error("no such file\nThe folder has: a.txt, b.txt")
        >>> result.is_error, result.error_message
        (True, 'no such file')
    """

    content: tuple[ResultContent, ...] = ()
    status: ToolStatus = ToolStatus.SUCCESS
    metadata: dict[str, object] = EMPTY
    error_message: str = ""
    could_run: bool = True

    def __post_init__(self) -> None:
        hold_blocks(self, self.content)
        if self.metadata is not EMPTY:
            freeze_fields(self, "metadata")

    @classmethod
    def ok(cls, text: str, **metadata: object) -> "ToolResult":
        """Make a successful result of a text.

        Raises:
            TypeError: it is something else.
        """
        if not isinstance(text, str):
            raise TypeError(f"a result is a text, not {text!r:.200}: return the value itself")
        return cls((TextBlock(valid_unicode(text)),), _SUCCESS, metadata)

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
        """Make a failed result, whose text tells the model what went wrong and what to do.

        Its `error_message` is by default the first line of the text.
        """
        content = (TextBlock(valid_unicode(text)),)
        result = cls(content, status, metadata, error_message, could_run)
        return result.with_error_message()

    def __eq__(self, other: object) -> bool:
        """Whether the other is the same result, apart from what was measured."""
        if not isinstance(other, ToolResult):
            return NotImplemented
        mine, others = (
            (each.content, each.status, each.error_message, each.could_run, each.facts)
            for each in (self, other)
        )
        return mine == others

    @property
    def facts(self) -> dict[str, object]:
        """The metadata that the tool has given, without what was measured."""
        return {key: each for key, each in self.metadata.items() if key not in _MEASURED}

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status is not _SUCCESS

    @property
    def text(self) -> str:
        """The result's text, its text blocks joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def with_error_message(self) -> "ToolResult":
        """Return the same result; a failed one gets an `error_message` of bounded length.

        It gets an "error" in its metadata as well, unless it has one.
        """
        if self.is_error and "error" not in self.metadata:
            return replace(
                self, metadata={**self.metadata, "error": _ERRORS[self.status]}
            ).with_error_message()
        message = self.error_message
        if self.is_error and not message:
            message = self.text.lstrip().partition("\n")[0].rstrip() or str(self.status)
        message = clip(valid_unicode(message), MAX_ERROR_TEXT)
        return self if message == self.error_message else replace(self, error_message=message)

    def block(self, tool_use_id: str) -> ToolResultBlock:
        """Make the block that answers the call of this id in the next message."""
        return ToolResultBlock(tool_use_id, self.content, self.is_error)


class Approval(msgspec.Struct, frozen=True):
    """What has allowed a tool call to run.

    Attributes:
        by: "rules", "user", or the name of the person who answered.
        rule: the id of the rule that allowed it or let a person be asked, or empty.
        digest: binds it to tool, input, folder, words and resolved paths.
        decision: allow.
    """

    by: str = "rules"
    rule: str = ""
    digest: str = ""
    decision: Literal["allow"] = "allow"


class ToolRun(msgspec.Struct, frozen=True):
    """A valid call whose tool is about to run.

    Attributes:
        id: the call's id, or empty outside of any call.
        name: the tool.
        input: the input that it runs with.
        by_client: whether the client runs it.
        approval: what has allowed it; None if nothing has judged it, as in a loop of its own.
    """

    id: str
    name: str
    input: dict[str, object]
    by_client: bool = False
    approval: Approval | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "input")

    @property
    def decision(self) -> Literal["allow", ""]:
        """That it is allowed; empty if nothing has judged it."""
        return self.approval.decision if self.approval else ""

    @property
    def rule(self) -> str:
        """The id of the rule that allowed it or let a person be asked, or empty."""
        return self.approval.rule if self.approval else ""

    @property
    def by(self) -> str:
        """Who has allowed it, or empty."""
        return self.approval.by if self.approval else ""

    @property
    def digest(self) -> str:
        """What binds the approval to the call, or empty."""
        return self.approval.digest if self.approval else ""


class NamedTool(msgspec.Struct, frozen=True):
    """A `ToolChoice`: the model must call this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "any", "none"] | NamedTool
"""Whether the model may, must or must not call a tool, or which one it must call."""


Effort: TypeAlias = Literal["none", "low", "medium", "high", "xhigh", "max"]
"""How hard a model thinks, the least first; "none" turns thinking off."""

Thinking: TypeAlias = int | Literal["adaptive", "between_tools"]
"""How a model thinks: for so many tokens, as it sees fit, or only between the calls of tools."""


class OutputSchema(msgspec.Struct, frozen=True):
    """The form that a reply's text must have: one JSON object that fits a JSON Schema.

    Attributes:
        name: letters, digits, `_` and `-`, at most 64; the model sees it.
        schema: a JSON Schema of type object. Providers adapt it to the keywords that they know, so
            check the reply against the whole schema.
    """

    name: str
    schema: Mapping[str, object]

    def __post_init__(self) -> None:
        freeze_fields(self, "schema")


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A request to a model, in our own words; each provider translates it and adds nothing.

    Attributes:
        messages: the conversation so far; the last message is usually the user's.
        system: the system prompt, unchanged; blocks may carry `extra` such as a cache marker.
        tools: the tools that the model may ask for.
        tool_choice: whether it may, must or must not call a tool, or which one it must.
        max_tokens: the limit of the reply; None for the provider's default.
        temperature: the sampling temperature; None for the model's default.
        top_p: the nucleus to sample from; None for the model's default.
        stop_sequences: texts at which the reply stops.
        effort: how hard the model thinks; each provider takes the nearest effort that its model
            has. None leaves it to the model.
        thinking: how many tokens the model may think for, of which a model without budgets makes an
            effort; 0 turns thinking off. With an `effort`, that counts. None says nothing.
        seed: makes the sampling repeatable, as far as the provider can.
        parallel_tools: whether a reply may call several tools; None for the provider's default.
        options: fields of the provider's own request body; they win over all others.
        cache: whether the provider may mark what its cache should keep, unless the request has
            marks of its own.
        output: the form that the reply must have, for providers that can enforce one;
            `generate_structured` knows which can.
        conversation: an id of the conversation, such as a session's, by which a provider can route
            requests to the server that has their beginning cached; may be empty.

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
    effort: Effort | None = None
    thinking: Thinking | None = None
    seed: int | None = None
    parallel_tools: bool | None = None
    options: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    cache: bool = True
    output: OutputSchema | None = None
    conversation: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "messages", "system", "tools", "stop_sequences", "options")


class FileState(Wire, frozen=True):
    """The state of one path at one moment.

    Attributes:
        kind: nothing there, a regular file, a symbolic link, or something else.
        mode: permission bits of a file.
        size: bytes of a file.
        digest: SHA-256 of a file's content in hex; empty if it was not read.
        target: the target of a link.
        problem: why it can't be compared or restored; else empty.

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
        """Whether both are known to be alike, times aside; a file that was not read is not."""
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
        before: its state before the first of the calls.
        after: its state after them; None while they run, and forever if the process died then.
    """

    path: str
    before: FileState
    after: FileState | None = None


class Checkpoint(Wire, frozen=True):
    """What the calls of one reply did to files; recorded when they start, and again at their end.

    The contents of the files are kept elsewhere.

    Attributes:
        id: the same in both records; the later one counts.
        root: the workspace's real path.
        tool_use_ids: the calls.
        changes: the files that they change.
        gaps: what is unknown about their changes, a sentence each.
    """

    id: str
    root: str
    tool_use_ids: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    gaps: tuple[str, ...] = ()


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
"""One thing that a sandbox can enforce.

- files: nothing is created, written, renamed or removed outside the writable folders.
- attributes: nor are modes, owners and times changed there.
- protected: names in the workspace that make programs run elsewhere, such as `.git`, stay as they
  are, also those that don't exist.
- hidden: hidden files and folders are not read.
- network: no address is reached.
- services: no program outside is asked over a Unix socket to do it instead.
- signals: no process outside is signalled, slowed down or limited.
- syscalls: system calls that are known to break sandboxes are refused.
- memory, cpu, file_size, processes: the limits.
- disk: the sum of all that is written is bounded.
"""

SandboxTier: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "limits"]
"""The means of a sandbox: namespaces, Landlock, macOS, or limits alone."""


class SandboxReport(Wire, frozen=True):
    """What this machine enforces for a command under one policy, found by trying it.

    Attributes:
        mode: the policy's mode, "workspace-write" or "read-only".
        network: the policy's network, "none" or "all".
        tier: the means.
        enforced: what enforces each part.
        missing: the parts that nothing enforces, whether the policy asks for them or not.
        lacking: those of them that the policy asks for.
        why: why each missing part is missing.
        user: the id of the user that runs the command, if it is not the one that asks for it.
        as_root: why root runs it although that user should.

    Example:
        >>> print(SandboxReport("read-only", "none", "limits", lacking=("files",)))
        read-only, network none (limits); NOT HELD: files
    """

    mode: str
    network: str
    tier: SandboxTier
    enforced: dict[SandboxPart, str] = cast("dict[SandboxPart, str]", EMPTY)
    missing: tuple[SandboxPart, ...] = ()
    lacking: tuple[SandboxPart, ...] = ()
    why: dict[SandboxPart, str] = cast("dict[SandboxPart, str]", EMPTY)
    user: int | None = None
    as_root: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "enforced", "why")

    def __str__(self) -> str:
        user = "" if self.user is None else f", as user {self.user}"
        user = f", as root: {self.as_root}" if self.as_root else user
        text = f"{self.mode}, network {self.network} ({self.tier}{user})"
        return f"{text}; NOT HELD: {', '.join(self.lacking)}" if self.lacking else text
