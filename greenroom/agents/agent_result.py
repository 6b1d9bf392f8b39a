"""The result of a run of an `Agent`."""

from dataclasses import dataclass, field
from typing import Generic, cast

import trio
from msgspec import UNSET
from typing_extensions import TypeVar

from greenroom.core import (
    GreenroomError,
    Message,
    PermissionRequest,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
    TurnError,
    TurnStatus,
    Usage,
    Wire,
    leaves,
)
from greenroom.session import AgentSession

OutputT = TypeVar("OutputT", default=str)

_HINTS = {
    TurnStatus.WAITING: "answer what result.pending asks: run(session=…, answers={request_id: 'allow'})",
    TurnStatus.INTERRUPTED: "go on with run(session=result.session)",
}


class Denial(Wire, frozen=True):
    """A call that was not allowed, and why.

    Attributes:
        tool: the tool's name.
        input: what it was called with.
        reason: what the model was told.
        tool_use_id: the call.
        lineage: the names of the agents from the root to the one that has called.
    """

    tool: str
    input: dict[str, object] = {}
    reason: str = ""
    tool_use_id: str = ""
    lineage: tuple[str, ...] = ()


@dataclass
class RunReport:
    """What an `Agent` notes about its current turn, for the code that runs it in the same process.

    Attributes:
        above: that of the agent in whose call this one is run; it gets the denials, too.
        agent: the `Agent` that has the conversation.
        steps: how many model calls have begun.
        is_truncated: whether the last reply was cut short, or was made without tools.
        denials: the calls that were not allowed.
        warnings: what went wrong on the way, without ending it.
        error: what ended the turn, where that was one of our errors.
        has_crashed: whether it was another error: a bug, which ends the agent.
        output: the output of the turn; `msgspec.UNSET` until there is one.
    """

    above: "RunReport | None" = None
    agent: object = None
    steps: int = 0
    is_truncated: bool = False
    denials: list[Denial] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: GreenroomError | None = None
    has_crashed: bool = False
    output: object = UNSET

    @property
    def agents(self) -> tuple[object, ...]:
        """The agents that wait for each other, from the outermost to this one."""
        return (*(self.above.agents if self.above else ()), self.agent)

    def fail(self, error: BaseException) -> None:
        """Take into account what has ended the turn."""
        found = leaves(error)
        self.error = next((each for each in found if isinstance(each, GreenroomError)), None)
        self.has_crashed = any(
            not isinstance(each, GreenroomError | trio.Cancelled) for each in found
        )

    def note(self, call: ToolUseBlock, result: ToolResult, lineage: tuple[str, ...]) -> None:
        """Take the result of a call into account."""
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
    `agent.run_sync("…").output` never stands for a missing value.

    Attributes:
        status: completed, waiting (for answers: `pending`), interrupted or failed.
        text: the last text that the model wrote in this run, as far as it came.
        messages: what the run has added to the conversation; all of it is in `session.history`.
        usage: tokens of the run's model calls, and of those of the agents that it has run.
        steps: how many model calls the agent has begun.
        is_truncated: whether the answer is not what the model would have said with more room: it
            was made without tools because the steps were used up, or was cut off by its limit of
            tokens.
        denials: the calls that were not allowed, and why; also those of agents that it has run.
        pending: the questions that the run has left open, with `approve="later"`.
        warnings: what is worth a look although the run went on, such as a call that was repeated.
        error: what made the run fail; None where nothing did.
        session: the conversation, to go on with: `agent.run("…", session=result.session)`.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.testing import ScriptedProvider
        >>> result = Agent(ScriptedProvider("It is four.")).run_sync("What is two and two?")
        >>> result.output, result.steps, str(result.status)
        ('It is four.', 1, 'completed')
    """

    status: TurnStatus
    text: str
    messages: tuple[Message, ...] = field(repr=False)
    usage: Usage
    steps: int
    is_truncated: bool
    denials: tuple[Denial, ...]
    pending: tuple[PermissionRequest, ...]
    warnings: tuple[str, ...]
    error: GreenroomError | None
    session: AgentSession
    value: object = field(default=UNSET, repr=False)
    """The output, or `msgspec.UNSET` if there is none; read it as `output`."""

    @property
    def output(self) -> OutputT:
        """What the run was for: the model's text, or a value of the agent's `output_type`.

        Raises:
            GreenroomError: there is none: the run's `error`, or a `TurnError` where it was
                interrupted or waits for answers.
        """
        if self.value is UNSET:
            raise self.error or TurnError(
                f"the run has no output: it is {self.status}", hint=_HINTS.get(self.status, "")
            )
        return cast("OutputT", self.value)
