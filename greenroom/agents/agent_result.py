"""The result of a run of an `Agent`."""

from dataclasses import dataclass, field
from typing import Generic, cast

import msgspec
import trio
from msgspec import UNSET
from typing_extensions import TypeVar

from greenroom.core import (
    AgentCrashError,
    Custom,
    GreenroomError,
    Message,
    PermissionRequest,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    TurnError,
    TurnStatus,
    Usage,
)
from greenroom.core._internal import EMPTY, Wire, freeze_fields, leaves
from greenroom.session import AgentSession

OutputT = TypeVar("OutputT", default=str)

_HINTS = {
    TurnStatus.WAITING: (
        "answer what result.pending asks: run(session=…, answers={request_id: 'allow'})"
    ),
    TurnStatus.INTERRUPTED: "go on with run(session=result.session)",
}


class Denial(Wire, frozen=True):
    """A tool call that was not allowed, and why.

    Attributes:
        tool: the tool's name.
        input: the arguments of the call.
        reason: what the model was told.
        tool_use_id: the call's id.
        lineage: the names of the agents from the root to the one that called.
    """

    tool: str
    input: dict[str, object] = EMPTY
    reason: str = ""
    tool_use_id: str = ""
    lineage: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self, "input")


class RunReport(msgspec.Struct):
    """What an `Agent` reports about its current turn to the code that runs it.

    Attributes:
        above: the report of the agent whose call runs this one; it gets the denials, too.
        agent: the `Agent` that has the conversation.
        steps: how many model calls have begun.
        is_truncated: whether the last reply was cut short, or made without tools.
        denials: the calls that were not allowed.
        warnings: what went wrong without ending the turn.
        error: the `GreenroomError` that ended the turn, if one did.
        has_crashed: whether any other exception did: a bug, which ends the agent.
        output: the output of the turn; `msgspec.UNSET` until there is one.
        state: the `deps` of the run.
    """

    above: "RunReport | None" = None
    agent: object = None
    steps: int = 0
    is_truncated: bool = False
    denials: list[Denial] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    error: GreenroomError | None = None
    has_crashed: bool = False
    output: object = UNSET
    state: object = None

    @property
    def agents(self) -> tuple[object, ...]:
        """The chain of agents that wait for each other, from the outermost to this one."""
        return (*(self.above.agents if self.above else ()), self.agent)

    def fail(self, error: BaseException) -> None:
        """Note what ended the turn."""
        errors = leaves(error)
        self.error = next((each for each in errors if isinstance(each, GreenroomError)), None)
        self.has_crashed = any(
            isinstance(each, AgentCrashError)
            or not isinstance(each, GreenroomError | trio.Cancelled)
            for each in errors
        )

    def note(self, call: ToolUseBlock, result: ToolResult, lineage: tuple[str, ...]) -> None:
        """Note the result of a call: a denied one is listed here, and in the reports above."""
        if result.status is ToolStatus.DENIED:
            denial = Denial(call.name, dict(call.input), result.text, call.id, lineage)
            report: RunReport | None = self
            while report is not None:
                report.denials.append(denial)
                report = report.above


@dataclass(frozen=True, kw_only=True)
class AgentResult(Generic[OutputT]):
    """How a run ended, and its output.

    A failure is a value: `status` and `error` say what happened, and only `output` raises. So
    `agent.run_sync("…").output` is never a placeholder for a missing value.

    Attributes:
        status: completed, waiting (for answers: `pending`), interrupted or failed.
        text: the last text that the model wrote in this run, perhaps incomplete.
        messages: what the run added to the conversation; `session.history` has all of it.
        usage: tokens of the run's model calls, and of the agents that it ran.
        steps: how many model calls the agent began.
        is_truncated: whether the answer had too little room: it was made without tools because the
            steps were used up, or its limit of tokens cut it off.
        denials: the calls that were not allowed, and why, also those of agents that it ran.
        pending: the questions that the run left open, with `approve="later"`.
        warnings: oddities that did not stop the run, such as a repeated call.
        error: what made the run fail, or None.
        session: the conversation; go on with `agent.run("…", session=result.session)`.
        state: what the run worked on besides the conversation: its `deps`, as its tools left them;
            of a workflow, the state of the graph.
        events: the `Custom` chunks of the run, such as the steps of a plan; the newest 1,000, and
            of a run whose reader fell behind those that it was given.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.testing import ScriptedProvider
        >>> result = Agent(ScriptedProvider("It is four.")).run_sync("What is two and two?")
        >>> result.output, result.steps, str(result.status)
        ('It is four.', 1, 'completed')
    """

    status: TurnStatus
    text: str = ""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    is_truncated: bool = False
    denials: tuple[Denial, ...] = ()
    pending: tuple[PermissionRequest, ...] = ()
    warnings: tuple[str, ...] = ()
    error: GreenroomError | None = None
    session: AgentSession
    state: object = field(default=None, repr=False)
    events: tuple[Custom, ...] = field(default=(), repr=False)
    value: object = field(default=UNSET, repr=False)
    """The output, or `msgspec.UNSET` if there is none; read it as `output`."""

    @property
    def output(self) -> OutputT:
        """The model's text, or a value of the agent's `output_type`.

        Raises:
            GreenroomError: the run has no output: its `error`, or a `TurnError` if it was
                interrupted or waits for answers.
        """
        if self.value is UNSET:
            raise self.error or TurnError(
                f"the run has no output: it is {self.status}", hint=_HINTS.get(self.status, "")
            )
        return cast("OutputT", self.value)
