"""A look at a runtime: its tree of agents, figures, and the dump of where each task waits."""

import logging
import math
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import msgspec
import trio

from greenroom.core import AgentState, ConfigurationError, PermissionRequest, Usage
from greenroom.core._internal import EndStatus, serde, visible
from greenroom.resilience import Budget
from greenroom.runtime.actor import Actor
from greenroom.runtime.kernel import Registry
from greenroom.runtime.tasks import owner_of

_LINE = 240
"""Characters of one agent's line; a longer one is cut."""


class OpenTool(msgspec.Struct, frozen=True):
    """A tool call that has started and not ended.

    Attributes:
        id: the tool-use id.
        name: the tool's name.
        seconds: how long it has been running, by trio's clock.
    """

    id: str
    name: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name} ({self.id}) {self.seconds:.1f} s"


class OpenPrompt(msgspec.Struct, frozen=True):
    """A permission request that has no answer yet.

    Attributes:
        request_id: the id by which it is answered.
        tool_name: the tool that may not run before that.
    """

    request_id: str
    tool_name: str

    def __str__(self) -> str:
        return f"asks for {self.tool_name} ({self.request_id})"


class OpenWait(msgspec.Struct, frozen=True):
    """An agent is waiting for another one, by its handle.

    Attributes:
        method: the handle's method that waits, such as "ask".
        session_id: the session of the agent that is waited for.
        seconds: for how long, by trio's clock.
    """

    method: str
    session_id: str
    seconds: float

    def __str__(self) -> str:
        return f"in {self.method}() of {self.session_id} {self.seconds:.1f} s"


class AgentNode(msgspec.Struct, frozen=True):
    """One agent at one moment.

    Attributes:
        session_id: the id of its session.
        name: the name that it was spawned with.
        agent_type: the type of its session.
        state: what it is doing.
        turn: the number of the open turn, from 1; None while none is open.
        step: the number of the step in that turn, from 1; 0 before the first.
        tools: the tool calls that run.
        prompts: its own open permission requests, without those of its subagents.
        waits: the agents that it is waiting for.
        mailbox: inputs that it has not taken.
        mailbox_limit: how many may wait.
        subscribers: readers of its output that are registered.
        largest_lag: chunks that the slowest of them has not read.
        budgets: what is left of each budget that it has opened, outermost first.
        restarts: how often a supervisor started it again.
        usage: the tokens of its model calls, without its subagents.
        supervisor: the names of the supervisors above it, from the outermost to the one
            that starts it again, such as "desk/feeds"; empty without one.
        restarting: whether its life is over, and it waits for its supervisor to start it again.
        children: its subagents, oldest first.
    """

    session_id: str
    name: str
    agent_type: str
    state: AgentState
    turn: int | None
    step: int
    tools: tuple[OpenTool, ...]
    prompts: tuple[OpenPrompt, ...]
    waits: tuple[OpenWait, ...]
    mailbox: int
    mailbox_limit: int
    subscribers: int
    largest_lag: int
    budgets: tuple[Mapping[str, float], ...]
    restarts: int
    usage: Usage
    supervisor: str = ""
    restarting: bool = False
    children: "tuple[AgentNode, ...]" = ()

    def __str__(self) -> str:
        """Draw the agent, without its subagents, in one line that hides and disguises nothing."""
        line = visible(" · ".join(filter(None, self._parts()))).translate(_ONE_LINE)
        return line if len(line) <= _LINE else line[: _LINE - 1] + "…"

    def _parts(self) -> Iterator[str]:
        kind = f" ({self.agent_type})" if self.agent_type != self.name else ""
        yield f"{self.name}{kind} {self.session_id}"
        yield f"under {self.supervisor}" if self.supervisor else ""
        yield "restarting" if self.restarting else str(self.state)
        yield f"turn {self.turn}, step {self.step}" if self.turn is not None else ""
        yield from map(str, (*self.tools, *self.prompts, *self.waits))
        yield f"mailbox {self.mailbox}/{self.mailbox_limit}"
        yield f"readers {self.subscribers}, lag {self.largest_lag}" if self.subscribers else ""
        yield from map(_format_budget, self.budgets)
        yield f"{self.usage.total} tokens" if self.usage.total else ""
        yield f"restarts {self.restarts}" if self.restarts else ""


class RuntimeTree(msgspec.Struct, frozen=True):
    """Every agent of a runtime at one moment; `str()` draws it, a line for each agent.

    Attributes:
        running: how many agents run.
        agents: the agents that belong to the runtime itself, oldest first; subagents are nested.
        left_out: how many of the running ones are not shown.
    """

    running: int
    agents: tuple[AgentNode, ...]
    left_out: int = 0

    def to_json(self) -> str:
        """Return the tree as one JSON object, with the names of the attributes as keys."""
        return serde.encode(self).decode()

    def __str__(self) -> str:
        lines = [f"{self.running} agents" if self.running != 1 else "1 agent"]
        for agent in self.agents:
            lines.append(str(agent))
            lines += _draw_children(agent, "")
        if self.left_out:
            lines.append(f"… {self.left_out} more left out")
        return "\n".join(lines)


_ONE_LINE = {ord("\n"): "\\n", ord("\t"): "\\t"}


def _draw_children(agent: AgentNode, indent: str) -> Iterator[str]:
    for child in agent.children:
        last = child is agent.children[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{child}"
        yield from _draw_children(child, indent + ("   " if last else "│  "))


def _format_budget(budget: Mapping[str, float]) -> str:
    left = ", ".join(
        f"{_format_amount(amount)} {what.replace('_', ' ')}" for what, amount in budget.items()
    )
    return f"left: {left}" if left else ""


def _format_amount(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


class RuntimeStatistics(msgspec.Struct, frozen=True):
    """A look at one runtime.

    Attributes:
        running: agents that run, subagents included.
        most_running: how many ran at once, at the most.
        spawned: agents started so far.
        ended: how many agents have ended, by the way in which they did.
        blocked: how often one call held up the event loop for longer than the watchdog allows,
            since the first of the runtimes that share the watchdog was opened.
        longest_block: seconds that the longest of these took, of those that are over.
    """

    running: int
    most_running: int
    spawned: int
    ended: Mapping[EndStatus, int]
    blocked: int
    longest_block: float


class AgentStatistics(msgspec.Struct, frozen=True):
    """A look into one agent.

    Attributes:
        mailbox: inputs that wait.
        published: chunks published so far.
        kept: chunks that the ring still holds.
        kept_bytes: their size, by an estimate.
        subscribers: readers that are registered.
        largest_lag: chunks that the slowest of them has not read.
        pending: open permission requests, its subagents' not counted.
        subagents: subagents alive.
        turns: turns begun.
        open_tools: tool calls that have started and not ended.
        abandoned: things that could not be stopped, here or in its subagents; at most 1,000.
        budgets: what is left of each budget that it has opened, outermost first.
    """

    mailbox: int
    published: int
    kept: int
    kept_bytes: int
    subscribers: int
    largest_lag: int
    pending: int
    subagents: int
    turns: int
    open_tools: int
    abandoned: int
    budgets: tuple[Mapping[str, float], ...]


def take_tree(registry: Registry[Actor], limit: int) -> RuntimeTree:
    """Describe the first `limit` agents, each with its subagents before the next root."""
    running = len(registry)
    if not running:
        return RuntimeTree(0, ())
    walk = _Walk(limit)
    agents = walk.nodes(registry.roots)
    return RuntimeTree(running, agents, running - walk.count)


def describe_below(actor: Actor, limit: int) -> AgentNode:
    """Describe an agent with the agents below it, `limit` of them at the most."""
    return _Walk(limit).nodes([actor])[0]


def describe_agent(actor: Actor) -> AgentStatistics:
    """Return figures about an agent's queues, readers and budgets."""
    return AgentStatistics(
        mailbox=len(actor.mailbox),
        published=actor.output.ring.next,
        kept=len(actor.output.ring),
        kept_bytes=actor.output.ring.bytes,
        subscribers=len(actor.output.readers),
        largest_lag=max((reader.lag for reader in actor.output.readers), default=0),
        pending=len(actor.approvals.open_requests),
        subagents=len(actor.children),
        turns=actor.turns.count,
        open_tools=len(actor.output.open_tools),
        abandoned=len(actor.abandoned),
        budgets=describe_budgets(actor),
    )


def describe_budgets(actor: Actor) -> "tuple[Mapping[str, float], ...]":
    """Return what is left of each budget that an agent set, including its time in seconds."""
    return tuple(_describe_budget(budget) for budget in actor.budgets.own)


def _describe_budget(budget: Budget) -> "dict[str, float]":
    left: dict[str, float] = dict(budget.remaining.items())
    if budget.deadline != math.inf:
        left["seconds"] = max(budget.deadline - trio.current_time(), 0.0)
    return left


class _Walk:
    """A walk that ends after so many agents."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._now = trio.current_time()
        self.count = 0

    def nodes(self, actors: Iterable[Actor]) -> tuple[AgentNode, ...]:
        found = []
        for actor in actors:
            if self.count >= self._limit:
                break
            self.count += 1
            found.append(self._node(actor))
        return tuple(found)

    def _node(self, actor: Actor) -> AgentNode:
        turn = actor.turns.current
        readers = tuple(actor.output.readers)
        return AgentNode(
            session_id=actor.session_id,
            name=actor.name,
            agent_type=actor.session.agent_type,
            state=actor.state,
            turn=actor.turns.count if turn else None,
            step=turn.steps if turn else 0,
            tools=self._tools(actor),
            prompts=tuple(
                OpenPrompt(each.request_id, each.tool_name)
                for each in actor.approvals.open_requests
            ),
            waits=tuple(
                OpenWait(wait.method, wait.target.session_id, self._now - wait.since)
                for wait in actor.waits
            ),
            mailbox=len(actor.mailbox),
            mailbox_limit=actor.limits.mailbox,
            subscribers=len(readers),
            largest_lag=max((reader.lag for reader in readers), default=0),
            budgets=describe_budgets(actor),
            restarts=actor.restarts,
            usage=actor.output.usage,
            supervisor=actor.member.path if actor.member else "",
            restarting=actor.member is not None and actor.member.is_parked,
            children=self.nodes(actor.children),
        )

    def _tools(self, actor: Actor) -> tuple[OpenTool, ...]:
        return tuple(
            OpenTool(key, tool.name, self._now - tool.since)
            for key, tool in actor.output.open_tools.items()
        )


_AGENTS = 1000  # agents in the tree
_FRAMES = 30  # of one stack, its innermost ones
_CHARACTERS = 1_000_000  # of all stacks together: beyond it, agents are counted only

logger = logging.getLogger("greenroom.runtime")


class DumpFile(Protocol):
    """An open text file, or anything else with these two methods."""

    def write(self, text: str, /) -> object:
        """Take the text."""

    def flush(self) -> object:
        """Pass it on."""


def write_dump(
    registry: Registry[Actor], file: DumpFile | None, interrupted: FrameType | None = None
) -> None:
    """Write the tree and the stacks; `interrupted` is the frame of the loop's thread, if known."""
    file = file or sys.stderr
    parts = [str(take_tree(registry, _AGENTS)), *describe_stacks(registry)]
    if interrupted is not None:
        stack = traceback.extract_stack(interrupted, limit=_FRAMES).format()
        parts.append("The event loop's thread is here:\n" + visible("".join(stack)))
    file.write("\n\n".join(part.rstrip() for part in parts) + "\n")
    file.flush()


@contextmanager
def dump_on_signal(registry: Registry[Actor], number: int, file: DumpFile | None) -> Iterator[None]:
    """Write the dump whenever the signal comes; the former handler comes back with the end."""

    def handle(_: int, frame: FrameType | None) -> None:
        # It runs between any two bytecodes, and must not raise into the code that it interrupts.
        try:
            write_dump(registry, file, frame)
        except Exception:
            logger.exception("the dump could not be written")

    try:
        before = signal.signal(number, handle)
    except (ValueError, OSError) as error:
        raise ConfigurationError(
            f"the signal {number} can't be handled here: {error}",
            hint="run the runtime in the process's main thread, and take a signal such as SIGUSR1",
        ) from error
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if before is None else before)


def describe_stacks(registry: Registry[Actor]) -> Iterator[str]:
    """Describe where each task of each agent waits, as far as there is room."""
    room = _CHARACTERS
    for index, actor in enumerate(registry):
        if room <= 0:
            yield f"… the stacks of {len(registry) - index} agents left out"
            return
        for task in _tasks(actor):
            text = _describe(actor, task)
            room -= len(text)
            yield text


def _tasks(actor: Actor) -> "Iterator[trio.lowlevel.Task]":
    """Find the agent's own task and those that it has started, its subagents' left out."""
    waiting = [actor.main_task] if actor.main_task is not None else []
    while waiting:
        task = waiting.pop()
        if owner_of(task) is not actor:
            continue
        yield task
        for nursery in task.child_nurseries:
            # A signal may come while trio is making a nursery, which then has no tasks to ask for.
            waiting += getattr(nursery, "child_tasks", ())


def _describe(actor: Actor, task: "trio.lowlevel.Task") -> str:
    head = visible(f"{actor}, task {task.name!r}:")
    stack = traceback.StackSummary.extract(task.iter_await_frames(), limit=-_FRAMES)
    return f"{head}\n" + visible("".join(stack.format()))


def find_pending(actor: Actor) -> tuple[PermissionRequest, ...]:
    """Return the open requests of an agent and of its subagents."""
    below = (request for child in actor.children for request in find_pending(child))
    return (*actor.approvals.open_requests, *actor.approvals.expected_requests, *below)
