"""What one run of a scenario has left behind: the evidence that invariants look at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from greenroom.core import (
    AgentState,
    ConversationInput,
    Message,
    OutputChunk,
    PermissionRequest,
    SubAgentOutput,
    ToolResult,
)
from greenroom.runtime import InterruptReport, Outcome, Receipt, TurnResult
from greenroom.testing.fuzz.leftovers import Files, Leftovers

Mode: TypeAlias = Literal["interrupt", "after_step", "shutdown", "kill", "cancel"]
"""What is done to the agent: a turn is interrupted, at once or after its step; the agent is shut
down, or killed; or the whole runtime is cancelled from outside."""


@dataclass(frozen=True)
class Acknowledged:
    """An input for which the runtime gave a receipt."""

    receipt: Receipt
    text: str


@dataclass(frozen=True)
class Interrupted:
    """What was true in the moment in which `interrupt()` returned.

    Attributes:
        report: what it returned.
        before: how many chunks the agent had published when it was interrupted.
        after: how many it had published when that returned.
        history: the conversation then.
    """

    report: InterruptReport
    before: int
    after: int
    history: tuple[Message, ...]


@dataclass(frozen=True)
class EndedCall:
    """A call of a tool that is over.

    Attributes:
        call: the tool and its input, such as `bake(loaves=2)`.
        result: what it gave; None where it was cut off.
        seconds: how long it took, on a clock that jumps; 0 on a real one.
    """

    call: str
    result: ToolResult | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One run of a scenario, after its end.

    Attributes:
        mode: what was done to it; None where nothing was.
        checkpoint: where; 0 where nothing was.
        where: the task of that checkpoint and the lines in which it stood; empty where the run was
            over before that.
        checkpoints: how many the run had in all.
        worth_trying: those of them at which a cancel can show something; empty for all.
        session_id: the agent's session.
        outcome: how the agent ended, as `wait()` told; None where `wait()` never returned.
        state: its last state, as the handle shows it.
        history: its conversation in memory.
        stored: the conversations that the store holds, by session id, its subagents' too.
        damaged: what is wrong with a stored conversation, by session id.
        published: all that the agent published, its subagents' chunks wrapped among its own.
        streams: the same chunks by the session id of the agent that speaks, none of them wrapped.
        alive: tasks that its agents have started and that were alive when `wait()` returned, or when
            the runtime was left.
        running: sessions that the runtime still called running after that.
        pending: permission requests that were still open then.
        stuck: calls that had not returned by the time limit, such as "ask" or "wait".
        waiting: where the agent's tasks stood then.
        acknowledged: inputs for which there was a receipt.
        interrupted: what `interrupt()` returned with, where there was one.
        probe: the result of the last input, which shows that the agent still answers, or where it
            has ended the next one with the same tools; None where there was no result, as after a
            kill.
        calls: how each call of a tool ended, before the probe.
        calls_again: how each call ended that the probe led to.
        successor: the session of the next agent; empty where there was none.
        files_before: what files there were before the run.
        files_after_calls: what files there were after each call of a tool; where nothing was done.
        left: what was left behind when all that was done to the agent was over, before the probe.
        left_at_end: what was left behind at the end, outside of trio.
        control: the same scenario undisturbed; None where this is that run.
    """

    mode: Mode | None
    checkpoint: int
    where: str
    checkpoints: int
    worth_trying: tuple[int, ...]
    session_id: str
    outcome: Outcome | None
    state: AgentState
    history: tuple[Message, ...]
    stored: Mapping[str, tuple[Message, ...]]
    damaged: Mapping[str, str]
    published: tuple[OutputChunk, ...]
    streams: Mapping[str, tuple[OutputChunk, ...]]
    alive: tuple[str, ...]
    running: tuple[str, ...]
    pending: tuple[PermissionRequest, ...]
    stuck: tuple[str, ...]
    waiting: tuple[str, ...]
    acknowledged: tuple[Acknowledged, ...]
    interrupted: Interrupted | None
    probe: TurnResult | None
    calls: tuple[EndedCall, ...]
    calls_again: tuple[EndedCall, ...]
    successor: str
    files_before: Files
    files_after_calls: tuple[Files, ...]
    left: Leftovers
    left_at_end: Leftovers = field(default_factory=Leftovers)
    control: "Trial | None" = None

    @property
    def chunks(self) -> tuple[OutputChunk, ...]:
        """The agent's own chunks."""
        return self.streams[self.session_id]

    @property
    def undelivered(self) -> frozenset[str]:
        """The ids of inputs that the agent never took, as its outcome says."""
        messages = self.outcome.undelivered if self.outcome else ()
        return frozenset(m.id for m in messages if isinstance(m, ConversationInput))


def streams_of(
    session_id: str, chunks: Iterable[OutputChunk]
) -> dict[str, tuple[OutputChunk, ...]]:
    """Take the chunks of an agent's subagents, of any depth, out of its own."""
    found: dict[str, list[OutputChunk]] = {session_id: []}
    for chunk in chunks:
        speaker = session_id
        while isinstance(chunk, SubAgentOutput):
            speaker, chunk = chunk.session_id, chunk.chunk  # noqa: PLW2901 (unwrapped layer by layer)
        found.setdefault(speaker, []).append(chunk)
    return {speaker: tuple(said) for speaker, said in found.items()}
