"""A check of the runtime's own promises, live, for programs that want to know."""

import logging
from collections import Counter

from greenroom.core import (
    AgentContext,
    Done,
    Exited,
    Instrument,
    OutputChunk,
    SubAgentResult,
    ToolEnd,
    ToolStart,
    TurnStart,
    UserInput,
)

logger = logging.getLogger("greenroom.observability")


class InvariantCheck(Instrument):
    """Checks while agents run what the test kit checks afterwards, and logs what does not hold.

    Each turn that begins ends, no two turns of an agent are open at once, each start of a tool has
    its end within the turn, turns are counted upwards, and nothing comes after the end of an agent.

    Attributes:
        counts: how often each of these did not hold; empty if all is well.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._turns: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._tools: dict[str, set[str]] = {}
        self._running: Counter[str] = Counter()

    def before_agent(self, agent: AgentContext) -> None:
        """An agent begins: its session has no other one."""
        self._running[agent.session_id] += 1

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """A turn begins: no other one is open."""
        id_ = agent.session_id
        if id_ in self._open:
            self._report(agent, "two turns are open at once")
        if agent.current_turn <= self._turns.get(id_, 0):
            self._report(agent, "turns are not counted upwards")
        self._open[id_] = message.id
        self._turns[id_] = agent.current_turn

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """A turn ends: it is the one that began, and none of its tools is open."""
        begun = self._open.pop(agent.session_id, None)
        if begun != end.input_id:
            self._report(agent, "a turn ends that has not begun")
        if self._tools.pop(agent.session_id, None):
            self._report(agent, "a tool's start has no end")

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """A chunk is published: its agent runs, and it fits to those before."""
        id_ = agent.session_id
        if not self._running[id_] and not isinstance(chunk, Exited):
            self._report(agent, "a chunk comes after the agent's end")
        match chunk:
            case TurnStart():
                self._tools[id_] = set()
            case ToolStart():
                self._tools.setdefault(id_, set()).add(chunk.id)
            case ToolEnd():
                started = self._tools.get(id_)
                if started is not None and chunk.id not in started:
                    self._report(agent, "a tool's end has no start")
                (started or set()).discard(chunk.id)
            case _:
                pass

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """An agent ends: its turn has ended."""
        id_ = agent.session_id
        if self._open.pop(id_, None) is not None:
            self._report(agent, "an agent ends within a turn")
        self._running[id_] -= 1
        if not self._running[id_]:
            del self._running[id_]
            self._turns.pop(id_, None)
            self._tools.pop(id_, None)

    def _report(self, agent: AgentContext, what: str) -> None:
        self.counts[what] += 1
        logger.error("%s: %s", "/".join(agent.lineage) or agent.session_id, what)
