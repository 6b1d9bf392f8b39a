"""What runs on hosts: types of agents, and what one agent of a type shall be like."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Unpack, cast, get_args

from greenroom.core import ConfigurationError, GreenroomError
from greenroom.core._internal import Used, freeze_fields, serde
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import check_agent_function

Workspace: TypeAlias = Literal["host", "shared"]
"""Whether the files of an agent are on its host alone, or the same on all hosts."""

WhenCutOff: TypeAlias = Literal["ask", "continue", "stop"]
"""What becomes of a turn that the end of its host has cut off."""

MadeAgent: TypeAlias = tuple[object, tuple[object, ...]]
"""An agent function, and its arguments behind the agent's internals; `AgentType` checks it."""

_Function: TypeAlias = Callable[[AgentInternals, Unpack[tuple[object, ...]]], Awaitable[object]]

_LONGEST = 200  # characters of a name


class NoHostError(GreenroomError):
    """No host can run an agent: none has its type, or its capabilities, or room.

    Attributes:
        missing: which of them: "type", "capabilities" or "room".
    """

    retryable = True
    remedy = "start a host with what is missing: `greenroom hosts` lists those that run"

    def __init__(self, message: str, *, missing: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


@dataclass(frozen=True)
class AgentSpec:
    """What an agent on a host shall be like; it is stored, so it holds plain values.

    Attributes:
        type: the name of its type, one of those that hosts have.
        options: JSON for the type's `make`, which checks them.
        capabilities: what its host must offer, such as "gpu".
        unattended: what happens to a question that nobody answers: "ask" waits, and asks again on
            the next host if this one is drained; "deny" denies it.
        budget: limits of its whole conversation, by the names that `Budget` gives them, such as
            `{"cost": 2.0, "model_calls": 100}`; what was used before it moved counts. Seconds begin
            again with each host.
        workspace: "host" if its files are on its host alone; "shared" if every host sees the same.
        on_cut_off: what becomes of a turn that the end of its host has cut off: "continue" goes on
            from the history, "stop" gives it up as failed, "ask" waits for a person to say. With
            the workspace "host" it is "ask" in place of "continue": another host has another disk.
    """

    type: str
    options: Mapping[str, object] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    unattended: Literal["ask", "deny"] = "ask"
    budget: Mapping[str, int | float] | None = None
    workspace: Workspace = "host"
    on_cut_off: WhenCutOff = "ask"

    def __post_init__(self) -> None:
        check_names([self.type, *self.capabilities])
        if self.unattended not in ("ask", "deny"):
            raise ValueError(f"unattended is 'ask' or 'deny', not {self.unattended!r}")
        if self.workspace not in get_args(Workspace):
            raise ValueError(f"workspace is 'host' or 'shared', not {self.workspace!r}")
        if self.on_cut_off not in get_args(WhenCutOff):
            raise ValueError(f"on_cut_off is 'ask', 'continue' or 'stop', not {self.on_cut_off!r}")
        serde.plain(dict(self.options), "the options of an agent")
        freeze_fields(self, "options", "budget")
        self.make_budget()

    def make_budget(self, used: Used | None = None) -> Budget | None:
        """Return its budget, of which this was used already.

        Raises:
            ValueError: one of the limits is none.
        """
        if self.budget is None:
            return None
        try:
            return Budget(**self.budget, used=used)  # type: ignore[arg-type]  # it checks them
        except (TypeError, ConfigurationError) as error:
            raise ValueError(
                f"the budget of an agent can't be {dict(self.budget)}: {error}"
            ) from error

    @property
    def when_moved(self) -> WhenCutOff:
        """What becomes of a turn that was cut off, once the agent is on another host."""
        moves_disk = self.workspace == "host" and self.on_cut_off == "continue"
        return "ask" if moves_disk else self.on_cut_off


@dataclass(frozen=True)
class AgentType:
    """A kind of agent that a host can run.

    Attributes:
        name: its name, which `AgentSpec.type` has.
        make: makes the agent function and its arguments from a spec; it raises `ValueError` for
            options that it refuses.

    Example:
        >>> async def echo(agent, prefix):
        ...     async for message in agent.inputs():
        ...         async with agent.turn(message) as turn:
        ...             turn.set_result(prefix + message.text)
        >>> AgentType("echo", lambda spec: (echo, (spec.options.get("prefix", ""),))).name
        'echo'
    """

    name: str
    make: Callable[[AgentSpec], MadeAgent]

    def __post_init__(self) -> None:
        check_names([self.name])

    def start(self, spec: AgentSpec) -> Callable[[AgentInternals], Awaitable[object]]:
        """Return the agent function of a spec, with its arguments.

        Raises:
            ValueError: the options are refused.
            TypeError: `make` returns something else than an agent function and its arguments.
        """
        function, arguments = self.make(spec)
        check_agent_function(function)

        async def run(agent: AgentInternals) -> object:
            return await cast("_Function", function)(agent, *arguments)

        return run


@dataclass(frozen=True)
class HostInfo:
    """A host, as the others see it.

    Attributes:
        id: its number, which is never used again.
        name: what it is called.
        state: "live", or "draining" if it takes no more agents.
        capabilities: what it offers.
        types: the types of agents that it can run.
        agents: how many it has.
        max_agents: how many it takes at most.
        pid: the id of its process.
        address: where it answers over HTTP; empty if it does not.
    """

    id: int
    name: str
    state: str
    capabilities: tuple[str, ...]
    types: tuple[str, ...]
    agents: int
    max_agents: int
    pid: int
    address: str


def check_names(names: Iterable[str]) -> None:
    """Refuse names that can't be shown or stored.

    Raises:
        ValueError: one is empty, longer than 200 characters, or not printable.
    """
    for name in names:
        if not (isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable()):
            raise ValueError(f"{name!r} is not a name: use 1 to {_LONGEST} printable characters")
