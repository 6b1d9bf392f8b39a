"""Output chunks: everything that an agent sends to its subscribers, in one ordered stream."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import UNSET

from greenroom.core.agent_state import AgentState
from greenroom.core.frozen import EMPTY, freeze_fields
from greenroom.core.message import StopReason
from greenroom.core.permission import PermissionEffects, PermissionPart, Remember, RuleDecision
from greenroom.core.serde import Wire
from greenroom.core.tooling import SandboxReport, ToolInfo, ToolResult
from greenroom.core.usage import Usage


class TurnStatus(StrEnum):
    """How a turn ended; a waiting turn was suspended, and resumes when a question is answered."""

    COMPLETED = "completed"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class EndStatus(StrEnum):
    """How an agent ended: its function returned, raised, was cancelled, or was killed."""

    COMPLETED = "completed"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    KILLED = "killed"


class TurnStart(Wire, frozen=True, tag="turn_start"):
    """A turn begins with the input of this id.

    Attributes:
        input_id: the input's id.
        sender: the program or agent that sent it, `RUNTIME` for the runtime itself; empty for a
            person.
        text: what it says, cut to 10,000 characters; empty where the agent's guards have yet to
            pass it.
        waited: how many seconds it waited in the mailbox.
    """

    input_id: str
    sender: str = ""
    text: str = ""
    waited: float = 0.0


class TextDelta(Wire, frozen=True, tag="text_delta"):
    """A piece of the reply's text."""

    text: str


class TextComplete(Wire, frozen=True, tag="text_complete"):
    """A text block is complete: its deltas, joined."""

    text: str


class ThinkingDelta(Wire, frozen=True, tag="thinking_delta"):
    """A piece of the model's reasoning."""

    text: str


class ThinkingComplete(Wire, frozen=True, tag="thinking_complete"):
    """A block of reasoning is complete: its deltas, joined."""

    text: str


class ToolStart(Wire, frozen=True, tag="tool_start"):
    """A tool begins to run, or is refused; exactly one `ToolEnd` with this id follows."""

    id: str
    name: str
    input: dict[str, object] = EMPTY
    info: ToolInfo | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "input")


class ToolProgress(Wire, frozen=True, tag="tool_progress"):
    """Output of a tool while it runs."""

    id: str
    output: str


class ToolEnd(Wire, frozen=True, tag="tool_end"):
    """The call has ended."""

    id: str
    result: ToolResult
    is_error: bool = False


class PermissionRequest(Wire, frozen=True, tag="permission_request"):
    """A call waits for a person's decision; nothing has run yet.

    Attributes:
        request_id: the id to answer, unique in the runtime.
        tool_name: the tool.
        action: one line on what it does.
        details: the exact text that would run, be written or be fetched.
        diff: a unified diff where a file would change.
        input: the call's whole input.
        parts: the verdict on each part of the call.
        reason: why a person is asked.
        remembers: the rules that a remembered allow would store, in words; of a command they name
            every word. Empty if none is offered.
        forbids: the rule that a remembered denial would store, in words; empty likewise.
        digest: binds the answer to tool, input, working directory and resolved paths, and to the
            files that commands name.
        tool_use_id: the call.
        session_id: the session of the agent that asks.
        lineage: the agents' names from the root to the one that asks.
        cwd: the working directory in which it would run.
        sandbox: the sandbox that it would run in, and what is not enforced here; None if it would
            run with all of our rights.
        effects: what it would do outside the workspace.
        warnings: what may mislead a reader of the texts above, a sentence each.
        claim: the model's own description of the call, unverified.
        runs_as: what a plain command was read as, which runs in its place where rules allow it;
            empty for other calls, and for a text that is not plain.
        unremembered: why an allow can't be remembered, if a narrow rule might have been found.
        options: the answers proposed to a question in words, perhaps none; the message of an allow
            is the answer. None if a call waits for permission.
        credential: the name of a requested credential, to pass to `handle.give_credential` before
            an allow; empty in all other requests.
        prefixes: the rules that it would store if the answer says `prefix`, in words: the same, but
            with just the first words of a command, such as `npm run build:*`; empty if none is
            offered.
        may_have_run: whether it was cut off, and nobody knows whether it has run. To allow it says
            that it did not; a denial with the input `{"result": value}` says that it did, with this
            result, or None if that is not known; any other denial leaves it out.
        host: the machine on which it would run; empty for this one.
        fields: a JSON Schema of an object that is asked for, which is the `input` of an allow; None
            in all other requests.
    """

    request_id: str
    tool_name: str
    action: str
    details: str = ""
    diff: str = ""
    input: dict[str, object] = EMPTY
    parts: tuple[PermissionPart, ...] = ()
    reason: str = ""
    remembers: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    digest: str = ""
    tool_use_id: str = ""
    session_id: str = ""
    lineage: tuple[str, ...] = ()
    cwd: str = ""
    sandbox: SandboxReport | None = None
    effects: PermissionEffects = PermissionEffects()
    warnings: tuple[str, ...] = ()
    claim: str = ""
    runs_as: str = ""
    unremembered: str = ""
    options: tuple[str, ...] | None = None
    credential: str = ""
    prefixes: tuple[str, ...] = ()
    may_have_run: bool = False
    host: str = ""
    fields: dict[str, object] | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "input", "fields")


class PermissionResponse(Wire, frozen=True, tag="permission_response"):
    """A request was decided or withdrawn; every subscriber can close its prompt.

    Attributes:
        request_id: the request.
        tool_name: its tool.
        decision: allow or deny.
        by: who decided, as in `Answer.by`.
        message: the person's words, or the reason for a denial.
        remember: how long the answer is remembered, or None.
        cancelled: whether it was withdrawn, without an answer.
        rules: the rules that a remembered answer adds, in words.
    """

    request_id: str
    tool_name: str
    decision: RuleDecision
    by: str = ""
    message: str = ""
    remember: Remember | None = None
    cancelled: bool = False
    rules: tuple[str, ...] = ()


class SubAgentSpawned(Wire, frozen=True, tag="subagent_spawned"):
    """A subagent was spawned; a `SubAgentComplete` follows at its end, unless it is detached.

    Attributes:
        session_id: its session.
        agent_type: its type.
        name: its name.
        tool_use_id: the call that spawned it, or empty.
        detached: whether it belongs to the runtime alone: then nothing more about it comes here.
    """

    session_id: str
    agent_type: str
    name: str = ""
    tool_use_id: str = ""
    detached: bool = False


class SubAgentOutput(Wire, frozen=True, tag="subagent_output"):
    """A chunk of a subagent; a grandchild's is wrapped twice."""

    session_id: str
    chunk: "OutputChunk"


class SubAgentComplete(Wire, frozen=True, tag="subagent_complete"):
    """A subagent has ended; the result is its last reply, or its error."""

    session_id: str
    status: EndStatus
    result: str = ""


class StateChange(Wire, frozen=True, tag="state_change"):
    """The agent's state has changed."""

    state: AgentState


class UsageReport(Wire, frozen=True, tag="usage_report"):
    """A model call was billed: its tokens, and the total of this agent, which the runtime adds.

    The effect of the provider's cache is in `usage`: `cache_share`, `is_cache_miss` and `saved`.
    """

    usage: Usage
    total: Usage = Usage()
    model: str = ""


class Lagged(Wire, frozen=True, tag="lagged"):
    """This reader has missed this many chunks; it goes on from here.

    It was too slow, and the ring has forgotten them. None: nobody knows how many, since its
    position is one of an earlier life of the agent, in a process or `spawn` before this one.
    """

    missed: int | None


class Error(Wire, frozen=True, tag="error"):
    """Something went wrong; `kind` is the error's class, `hint` what to do about it."""

    message: str
    kind: str = ""
    hint: str = ""


class Done(Wire, frozen=True, tag="done"):
    """A turn has ended, and how; the agent takes the next input.

    Attributes:
        input_id: the input that it has answered.
        status: completed, interrupted, failed, or waiting where it was suspended.
        stop_reason: why its last reply ended.
        usage: tokens of its model calls.
        error: what went wrong, or empty.
        value: the value given to `turn.set_result`, if the turn completed; else `msgspec.UNSET`.
        inputs: the ids of all inputs that the turn took: that one, and those that joined it.
    """

    input_id: str
    status: TurnStatus = TurnStatus.COMPLETED
    stop_reason: StopReason | None = None
    usage: Usage = Usage()
    error: str = ""
    value: object = UNSET
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self, "value")


class Restarted(Wire, frozen=True, tag="restarted"):
    """A supervisor starts the agent again; its stream, mailbox and session go on.

    Attributes:
        restarts: how often it was started again, with this one.
        error: what crashed it, or why it was stopped; empty if its function returned.
        delay: seconds until then.
    """

    restarts: int
    error: str = ""
    delay: float = 0.0


class Exited(Wire, frozen=True, tag="exited"):
    """The agent has ended, and how; the last chunk of its stream."""

    status: EndStatus
    error: str = ""


class Custom(Wire, frozen=True, tag="custom"):
    """A chunk of the agent's own kind, such as that a step of its plan is done.

    The set of kinds is open: readers skip those that they do not know.

    Attributes:
        kind: dotted words such as "plan.step".
        data: the facts, as JSON; they are copied when the chunk is sent.
        text: one line for readers that do not know the kind; empty to show nothing.

    Example:
        >>> Custom("plan.step", {"id": "tests", "status": "done"}, "the tests are written").kind
        'plan.step'
    """

    kind: str
    data: dict[str, object] = EMPTY
    text: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "data")


OutputChunk: TypeAlias = (
    TurnStart
    | TextDelta
    | TextComplete
    | ThinkingDelta
    | ThinkingComplete
    | ToolStart
    | ToolProgress
    | ToolEnd
    | PermissionRequest
    | PermissionResponse
    | SubAgentSpawned
    | SubAgentOutput
    | SubAgentComplete
    | StateChange
    | UsageReport
    | Lagged
    | Error
    | Done
    | Restarted
    | Exited
    | Custom
)
"""Any chunk of an agent's output."""
