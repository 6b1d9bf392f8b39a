"""A look at a whole runtime: every agent with what it is doing, as values and as text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from greenroom.core import AgentState, Usage, serde, visible

_LINE = 240
"""Characters of one agent's line; a longer one is cut."""


@dataclass(frozen=True)
class OpenTool:
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


@dataclass(frozen=True)
class OpenPrompt:
    """A permission request that nobody has answered.

    Attributes:
        request_id: the id by which it is answered.
        tool_name: the tool that may not run before that.
    """

    request_id: str
    tool_name: str

    def __str__(self) -> str:
        return f"asks for {self.tool_name} ({self.request_id})"


@dataclass(frozen=True)
class OpenWait:
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


@dataclass(frozen=True)
class AgentNode:
    """One agent at one moment.

    Attributes:
        session_id: the id of its session.
        name: the name that it was spawned with.
        agent_type: the type of its session.
        state: what it says that it is doing.
        turn: the number of the turn in hand, from 1; None while none is open.
        step: the number of the step in that turn, from 1; 0 before the first.
        tools: the tool calls that run.
        prompts: its permission requests that are open, its subagents' not among them.
        waits: the agents that it is waiting for.
        mailbox: inputs that it has not taken.
        mailbox_limit: how many may wait.
        subscribers: readers of its output that are registered.
        largest_lag: chunks that the slowest of them has not read.
        budgets: what is left of each budget that it has opened, outermost first.
        epoch: 1, and one more with each restart.
        usage: the tokens of its model calls, its subagents' not counted.
        supervisor: the names of the supervisors that it stands under, from the outermost to the one
            that starts it again, such as "desk/feeds"; empty where there is none.
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
    epoch: int
    usage: Usage
    supervisor: str = ""
    restarting: bool = False
    children: "tuple[AgentNode, ...]" = ()

    @property
    def restarts(self) -> int:
        """How often it was restarted."""
        return self.epoch - 1

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
        yield from map(_left, self.budgets)
        yield f"{self.usage.total} tokens" if self.usage.total else ""
        yield f"restarts {self.restarts}" if self.restarts else ""


@dataclass(frozen=True)
class RuntimeTree:
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
            lines += _below(agent, "")
        if self.left_out:
            lines.append(f"… {self.left_out} more left out")
        return "\n".join(lines)


_ONE_LINE = {ord("\n"): "\\n", ord("\t"): "\\t"}


def _below(agent: AgentNode, indent: str) -> Iterator[str]:
    for child in agent.children:
        last = child is agent.children[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{child}"
        yield from _below(child, indent + ("   " if last else "│  "))


def _left(budget: Mapping[str, float]) -> str:
    left = ", ".join(
        f"{_amount(amount)} {what.replace('_', ' ')}" for what, amount in budget.items()
    )
    return f"left: {left}" if left else ""


def _amount(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
