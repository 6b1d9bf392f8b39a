"""What the user asked for: the options of a run and of each command, and the exit codes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from greenroom.export._internal import ExportFormat

DONE, FAILED, USAGE, DENIED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141
"""The exit codes: done, failed, usage or configuration, denied or waiting, interrupted, SIGPIPE."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What a headless run prints: the answer, one result object, or one chunk a line."""

InputFormat: TypeAlias = Literal["text", "stream-json"]
"""What a headless run reads: a text that is piped in, or inputs and answers, one object a line."""

OnQuestion: TypeAlias = Literal["deny", "wait"]
"""What a headless run does with a question: deny, or end and leave the question open."""

SandboxChoice: TypeAlias = Literal["off", "read-only", "workspace-write"]
"""What confines commands: nothing, or a sandbox of this mode."""

Network: TypeAlias = Literal["none", "all"]
"""What commands in a sandbox may reach."""

Sandboxed: TypeAlias = Literal["ask", "allow"]
"""Whether commands that a sandbox confines are asked about."""


TraceContent: TypeAlias = Literal["none", "redacted", "full", "off"]
"""What of a conversation its trace holds; "off" writes none."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for on the command line.

    Attributes:
        command: "run", "doctor", "tree", "models", or a command with its verb: "sessions list".
        prompt: the prompt of a headless run, or None for an interactive one; "-" is standard input,
            and empty where `input_format` brings the inputs.
        opening: what an interactive run begins with, or None.
        output_format: what a headless run prints.
        input_format: what a headless run reads.
        on_question: what a headless run does where a person would be asked.
        model: the model's name, or None for the default.
        resume: the session to continue, empty where one is to be chosen, or None.
        continue_last: whether to continue the newest session of this folder.
        allow: rules that allow, in the short form.
        deny: rules that deny, in the short form.
        mode: the permission mode.
        read_only: whether commands that only read inside the workspace need no rule.
        sandbox: what confines commands.
        sandbox_network: what they may reach there.
        sandboxed: whether commands that a sandbox confines are asked about.
        sessions: the folder or database of the sessions, or None for the user's own.
        memory: whether the agent remembers over sessions, for this folder.
        max_steps: the most model calls in one turn.
        max_cost: the most that one turn may cost, in the currency of the prices, or None.
        trace: what of the conversation the trace beside the session holds.
        log: the file for the log, or None.
        json: whether a command prints JSON.
        given: the names of those above that the command line has set.
        origins: where rules come from that the command line has not given, by their text.
        notes: what the user should know about where the options come from, a line each.
    """

    command: str = "run"
    prompt: str | None = None
    opening: str | None = None
    output_format: OutputFormat = "text"
    input_format: InputFormat = "text"
    on_question: OnQuestion = "deny"
    model: str | None = None
    resume: str | None = None
    continue_last: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    read_only: bool = True
    sandbox: SandboxChoice = "off"
    sandbox_network: Network = "none"
    sandboxed: Sandboxed = "ask"
    sessions: str | None = None
    memory: bool = False
    max_steps: int = 100
    max_cost: float | None = None
    trace: TraceContent = "redacted"
    log: str | None = None
    json: bool = False
    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class SessionsOptions(Options):
    """The options of `greenroom sessions`; no verb uses all of them.

    Attributes:
        ids: the sessions: whole ids, or the beginnings of some.
        here: whether only sessions of the working directory are meant.
        all: whether archived sessions and those of subagents are meant as well.
        text: the text to search for.
        limit: the most sessions to show, or None for the default.
        last: the most messages to show, counted from the end; None for all.
        branch: the number of a branch, or None for the current one.
        at: how many messages a fork begins with, or None for all.
        to: how many messages a rewind keeps.
        files: whether a rewind restores files as well.
        yes: whether nothing is asked before something is removed.
        format: the format of an export, or None where the name of its file says it.
        output: the file for an export, or None for standard output.
        force: whether that file may be replaced.
        file: the file to import; "-" is standard input.
        keep_id: whether an import keeps the id that it had.
        undo: whether sessions come back from the archive.
    """

    ids: tuple[str, ...] = ()
    here: bool = False
    all: bool = False
    text: str = ""
    limit: int | None = None
    last: int | None = None
    branch: int | None = None
    at: int | None = None
    to: int = 0
    files: bool = False
    yes: bool = False
    format: "ExportFormat | None" = None
    output: str | None = None
    force: bool = False
    file: str = "-"
    keep_id: bool = False
    undo: bool = False

    @property
    def session_id(self) -> str:
        """The session, for a verb that takes one."""
        return self.ids[0]


@dataclass(frozen=True, kw_only=True)
class PermissionsOptions(Options):
    """The options of `greenroom permissions`; no verb uses all of them.

    Attributes:
        text: the command that is judged, or None where `input` says it.
        tool: the tool that would be called.
        input: the call's input as JSON, or None.
        file: the file of calls, or a rule file; "-" is standard input.
        session_id: the session whose decisions are shown, or a beginning of its id.
        last: the most decisions to show, counted from the end; None for all.
    """

    text: str | None = None
    tool: str = "Bash"
    input: str | None = None
    file: str = "-"
    session_id: str = ""
    last: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(Options):
    """The options of `greenroom models`; `name` is a model or a provider, or None for all."""

    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(Options):
    """The options of `greenroom memory`: the ids of entries, and the most that are listed."""

    ids: tuple[str, ...] = ()
    limit: int = 30


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """The options of `greenroom plan`: the id of one session, and whether its plan is drawn."""

    ids: tuple[str, ...] = ()
    mermaid: bool = False


@dataclass(frozen=True, kw_only=True)
class ConfigOptions(Options):
    """The options of `greenroom config`.

    Attributes:
        name: the setting that is set or unset.
        value: its new value, as JSON or as it is.
        project: whether the project's file is meant, not the user's.
    """

    name: str = ""
    value: str = ""
    project: bool = False


@dataclass(frozen=True, kw_only=True)
class TraceOptions(Options):
    """The options of `greenroom trace` and `greenroom diagnose`.

    Attributes:
        ids: the id of one session, or its beginning.
        html: the file for a page, or None.
        alone: whether the traces of subagents are left out.
    """

    ids: tuple[str, ...] = ()
    html: str | None = None
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """The options of `greenroom audit`.

    Attributes:
        file: the audit.
        head: a hash that was the last one, or None.
        key_file: the file that holds the key, or None.
    """

    file: str = ""
    head: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """The options of `greenroom completion` and of `greenroom complete`, which its script runs.

    Attributes:
        shell: one of `SHELLS`.
        line: the line up to the cursor.
        word: the part of its last word that the shell replaces.
    """

    shell: str = ""
    line: str = ""
    word: str | None = None
