"""What the user asked for: the options of a run, and the exit codes."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

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

CostGroup: TypeAlias = Literal["day", "agent", "model", "session"]
"""What the rows of a bill are about."""

WrittenFormat: TypeAlias = Literal["markdown", "html", "json"]
"""What a session is written as for people or programs."""

TraceContent: TypeAlias = Literal["none", "redacted", "full", "off"]
"""What of a conversation its trace holds; "off" writes none."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
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
        mcp_config: a file that lists servers of tools, besides the user's and the project's.
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
    mcp_config: str | None = None
    json: bool = False
    given: frozenset[str] = frozenset()
    origins: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
