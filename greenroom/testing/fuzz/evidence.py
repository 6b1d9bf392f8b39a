"""The evidence of one run: what its agent said and did, and what it left outside."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from greenroom import core
from greenroom.core import Message, OutputChunk
from greenroom.core._internal import ConversationInput, clip
from greenroom.runtime import InterruptReport, Outcome, Receipt, TurnResult


@dataclass(frozen=True)
class File:
    """A file or folder at one moment; two are equal if they hold the same.

    Attributes:
        digest: its size and a check sum, or where a link leads; empty for a folder.
        content: what it holds, if that is at most 64 KB; of all files together at most 8 MB.
    """

    digest: str
    content: bytes | None = field(default=None, compare=False, repr=False)


Files: TypeAlias = Mapping[str, File]
"""What each path below `workspace` and `TMPDIR` holds."""


@dataclass(frozen=True)
class Leftovers:
    """What a run has left behind, in words.

    Attributes:
        files: what files there are in all, also those from before.
        processes: command lines of processes that were started and still run; on Linux alone.
        threads: the names of threads that were started and still run at the end, without idle ones
            of trio's.
        descriptors: what new file descriptors are open on; on Linux alone.
        unclosed_resources: what the garbage collector had to close.
        settings: settings of the process that have changed, such as variables of the environment,
            the umask or the level of a logger. They were put back.
    """

    files: Files = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    unclosed_resources: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


Mode: TypeAlias = Literal["interrupt", "after_step", "shutdown", "kill", "cancel"]
"""What is done to the agent: a turn is interrupted, at once or after its step; the agent is shut
down, or killed; or the whole runtime is cancelled from outside."""


@dataclass(frozen=True)
class AcknowledgedInput:
    """An input for which the runtime gave a receipt."""

    receipt: Receipt
    text: str


@dataclass(frozen=True)
class InterruptMoment:
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
        checkpoints: how many the agent's tasks have passed meanwhile, on such a clock.
    """

    call: str
    result: core.ToolResult | None
    seconds: float
    checkpoints: int

    @property
    def name(self) -> str:
        """The call."""
        return self.call

    @property
    def status(self) -> str:
        """Its status, or "cut off"."""
        return self.result.status if self.result else "cut off"

    @property
    def text(self) -> str:
        """The text of its result."""
        return self.result.text if self.result else ""


@dataclass(frozen=True)
class EndedTurn:
    """A turn of the agent that is over.

    Attributes:
        input: the text of the input that opened it.
        status: how it ended, such as "completed".
        text: what the agent has said in it, as the history has it.
        seconds: how long it took, on a clock that jumps; 0 on a real one.
        checkpoints: how many the agent's tasks have passed meanwhile, on such a clock.
    """

    input: str
    status: str
    text: str
    seconds: float
    checkpoints: int

    @property
    def name(self) -> str:
        """The turn, by its input."""
        return f"the turn of {clip(self.input, 200)!r}"


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
        outcome: what `wait()` returned; None if it never did.
        state: its last state, as the handle shows it.
        history: its conversation in memory.
        stored_histories: the conversations that the store holds, by session id, its subagents' too.
        damaged: the faults of stored conversations, by session id.
        all_chunks: all that the agent published, its subagents' chunks wrapped among its own.
        streams: the same chunks by the session id of the agent that speaks, none of them wrapped.
        alive: tasks that its agents have started and that were alive when `wait()` returned, or
            when the runtime was left.
        running: sessions that the runtime still called running after that.
        pending: permission requests that were still open then.
        stuck: calls that had not returned by the time limit, such as "ask" or "wait".
        acknowledged_inputs: inputs for which there was a receipt.
        interrupt: what `interrupt()` returned with, where there was one.
        probe: the result of the last input, which shows that the agent still answers, or where it
            has ended the next one with the same tools; None where there was no result, as after a
            kill.
        calls: how each call of a tool ended, before the probe.
        calls_again: how each call ended that the probe led to.
        turns: how each turn of the agent ended, before the probe; none in a scenario of a tool.
        turns_again: how each turn of the probe ended.
        swallowed_cancels: where a task went on although it was cancelled.
        way: the places in the user's code at which the tasks waited and went on, one after the
            other; where nothing was done, on a clock that jumps, and in a scenario of a tool only
            while that runs.
        successor: the session of the next agent; empty where there was none.
        files_before: what files there were before the run.
        files_after_calls: what files there were after each call of a tool; where nothing was done.
        leftovers: what was left once the disturbance was over, before the probe.
        leftovers_at_end: what was left at the end, outside of trio.
        control: the same scenario undisturbed; None where this is that run.
        controls: all undisturbed runs, which show what differs between them.
    """

    mode: Mode | None
    checkpoint: int
    where: str
    checkpoints: int
    worth_trying: tuple[int, ...]
    session_id: str
    outcome: Outcome | None
    state: core.AgentState
    history: tuple[Message, ...]
    stored_histories: Mapping[str, tuple[Message, ...]]
    damaged: Mapping[str, str]
    all_chunks: tuple[OutputChunk, ...]
    streams: Mapping[str, tuple[OutputChunk, ...]]
    alive: tuple[str, ...]
    running: tuple[str, ...]
    pending: tuple[core.PermissionRequest, ...]
    stuck: tuple[str, ...]
    acknowledged_inputs: tuple[AcknowledgedInput, ...]
    interrupt: InterruptMoment | None
    probe: TurnResult | None
    calls: tuple[EndedCall, ...]
    calls_again: tuple[EndedCall, ...]
    turns: tuple[EndedTurn, ...]
    turns_again: tuple[EndedTurn, ...]
    swallowed_cancels: tuple[str, ...]
    way: tuple[str, ...]
    successor: str
    files_before: Files
    files_after_calls: tuple[Files, ...]
    leftovers: Leftovers
    leftovers_at_end: Leftovers = field(default_factory=Leftovers)
    control: "Trial | None" = None
    controls: "tuple[Trial, ...]" = field(default=(), repr=False)

    @property
    def chunks(self) -> tuple[OutputChunk, ...]:
        """The agent's own chunks."""
        return self.streams[self.session_id]

    @property
    def undelivered_ids(self) -> frozenset[str]:
        """The ids of inputs that the agent never took, as its outcome says."""
        messages = self.outcome.undelivered if self.outcome else ()
        return frozenset(m.id for m in messages if isinstance(m, ConversationInput))


def streams_of(
    session_id: str, chunks: Iterable[OutputChunk]
) -> dict[str, tuple[OutputChunk, ...]]:
    """Take the chunks of an agent's subagents, of any depth, out of its own."""
    streams: dict[str, list[OutputChunk]] = {session_id: []}
    for chunk in chunks:
        speaker = session_id
        while isinstance(chunk, core.SubAgentOutput):
            speaker, chunk = chunk.session_id, chunk.chunk  # noqa: PLW2901 (unwrapped layer by layer)
        streams.setdefault(speaker, []).append(chunk)
    return {speaker: tuple(stream) for speaker, stream in streams.items()}
