"""`Plan`: subtasks and their dependencies, checked on construction."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from greenroom.core._internal import EMPTY, Wire, freeze_fields
from greenroom.flow.errors import PlanError
from greenroom.flow.graph import draw, find_order, suggest
from greenroom.tools import ToolRegistry
from greenroom.tools._internal import RegisteredTool

_ID = re.compile(r"[\w-]{1,64}")
_MAX_FAULTS = 10


class Subtask(Wire, frozen=True):
    """One step of a plan.

    Its goal and its arguments may name the results of subtasks that it waits for: `{flight}` is the
    whole result of the subtask `flight`, `{flight.price}` a field of it.

    Attributes:
        id: its name in the plan: at most 64 letters, digits, `_` and `-`.
        goal: what to do, in words; the first input of its agent.
        after: the ids of the subtasks that have to be completed first.
        tool: the tool to call with `arguments`; empty if an agent does the work.
        arguments: the input of the tool.
        critical: whether the plan is revised at once if it fails.
        capability: what its agent has to be good at, if there are several to choose from.
        expected: what its result has to be like; its agent is told, and the planner.

    Raises:
        PlanError: the id is invalid, there are arguments but no tool, or `after` is a string.

    Example:
        >>> Subtask("hotel", "Book a hotel for {flight.day}", after=["flight", "flight"]).after
        ('flight',)
    """

    id: str
    goal: str
    after: tuple[str, ...] = ()
    tool: str = ""
    arguments: dict[str, object] = EMPTY
    critical: bool = False
    capability: str = ""
    expected: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        freeze_fields(self, "arguments")
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            hint = "use letters, digits, '_' and '-', at most 64 of them"
            raise PlanError(f"{self.id!r:.80} can't be the id of a subtask", hint=hint)
        if isinstance(self.after, str):
            hint = f"write after=({self.after!r},)"
            raise PlanError(f"{self.id}: `after` is a list of ids, not a string", hint=hint)
        if self.arguments and not self.tool:
            hint = "name the tool, or write them into the goal"
            raise PlanError(f"{self.id} has arguments but no tool", hint=hint)
        msgspec.structs.force_setattr(self, "after", tuple(dict.fromkeys(self.after)))


class Plan(Wire, frozen=True, dict=True, gc=True):
    """A goal, and the subtasks that lead to it: a graph without a cycle.

    It is also a `Planner` that always returns this plan. An id that it does not have is a
    `PlanError`.

    Raises:
        PlanError: two subtasks have the same id, one waits for an unknown id, or they wait for each
            other; the message names the ids, and the path of a cycle.

    Example:
        >>> plan = Plan("a trip", [Subtask("hotel", "Book a hotel", after=["flight"]),
        ...                        Subtask("flight", "Book a flight")])
        >>> plan.order()
        ('flight', 'hotel')
        >>> plan.ready({"flight"})
        ('hotel',)
        >>> Plan("a knot", [Subtask("a", "", after=["b"]), Subtask("b", "", after=["a"])])
        Traceback (most recent call last):
        ...
        greenroom.flow.errors.PlanError: the subtasks wait for each other: a → b → a \
(shorten one's `after`)
    """

    goal: str
    subtasks: tuple[Subtask, ...]

    def __post_init__(self) -> None:
        """Check the graph."""
        msgspec.structs.force_setattr(self, "subtasks", tuple(self.subtasks))
        for each in self.subtasks:
            if not isinstance(each, Subtask):
                hint = "write Subtask('facts', 'Find the facts')"
                raise PlanError(f"{each!r:.80} is not a subtask", hint=hint)
        counts = Counter(self.ids).items()
        faults = [f"{count} subtasks are called {id_!r}" for id_, count in counts if count > 1]
        faults += self._find_unknown_ids()
        try:
            _ = self._order
        except PlanError as error:
            if not faults:
                raise
            faults.append(error.message)
        if faults:
            left = f"; and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
            raise PlanError("; ".join(faults[:_MAX_FAULTS]) + left)

    def __getitem__(self, id: str) -> Subtask:  # noqa: A002 (the field's word for it)
        """Return the subtask of this id."""
        if id not in self._by_id:
            raise PlanError(f"the plan has no subtask {id!r}", hint=suggest(id, self._by_id))
        return self._by_id[id]

    def __contains__(self, id: object) -> bool:  # noqa: A002 (as above)
        """Whether there is a subtask of this id."""
        return id in self._by_id

    def order(self) -> tuple[str, ...]:
        """Return the ids in topological order, which is the same for equal plans."""
        return self._order

    def ready(self, done: Collection[str]) -> tuple[str, ...]:
        """Return the ids of subtasks that can start once these are done, in the plan's order."""
        done = frozenset(done)
        return tuple(
            subtask.id
            for subtask in self.subtasks
            if subtask.id not in done and done.issuperset(subtask.after)
        )

    def dependents(self, id: str) -> tuple[str, ...]:  # noqa: A002 (as above)
        """Return the ids of subtasks that directly wait for this one, in the plan's order."""
        return tuple(self._dependents.get(self[id].id, ()))

    def to_mermaid(
        self,
        kinds: Mapping[str, str] = MappingProxyType({}),
        styles: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Draw it as a Mermaid flowchart; arrows lead from a subtask to those that wait for it.

        `kinds` has the kind of each subtask, such as its status, and `styles` that of each kind.

        Example:
            >>> plan = Plan("", [Subtask("a", "Look"), Subtask("b", "Leap", after=["a"])])
            >>> print(plan.to_mermaid())
            graph TD
                a["a: Look"]
                b["b: Leap"]
                a --> b
        """
        labels = {each.id: f"{each.id}: {each.goal or each.tool}" for each in self.subtasks}
        edges = [(before, each.id, "") for each in self.subtasks for before in each.after]
        return draw(labels, edges, "subtask", kinds, styles)

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> "Plan":
        """Return this plan with this goal, as a `Planner`."""
        return msgspec.structs.replace(self, goal=goal)

    async def revise(self, run: object, failure: object) -> "Plan":
        """Raise a `PlanError`: a fixed plan can't be revised."""
        hint = "pass planner=ModelPlanner(llm) to have it revised"
        raise PlanError("a fixed plan can't be revised", hint=hint)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids of the subtasks, in the order in which they were given."""
        return tuple(subtask.id for subtask in self.subtasks)

    @cached_property
    def _by_id(self) -> dict[str, Subtask]:
        return {subtask.id: subtask for subtask in self.subtasks}

    @cached_property
    def _dependents(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for subtask in self.subtasks:
            for before in subtask.after:
                found.setdefault(before, []).append(subtask.id)
        return found

    @cached_property
    def _order(self) -> tuple[str, ...]:
        order, cycle = find_order({subtask.id: subtask.after for subtask in self.subtasks})
        if cycle:
            path = " → ".join(cycle)
            hint = "shorten one's `after`"
            raise PlanError(f"the subtasks wait for each other: {path}", hint=hint)
        return order

    def _find_unknown_ids(self) -> Iterator[str]:
        for subtask in self.subtasks:
            for before in subtask.after:
                if before not in self._by_id:
                    fault = f"{subtask.id} waits for {before!r}, which is not in the plan"
                    hint = suggest(before, self._by_id)
                    yield f"{fault} ({hint})" if hint else fault


def find_tool(subtask: Subtask, tools: ToolRegistry) -> RegisteredTool:
    """Return the tool that a subtask names.

    Raises:
        PlanError: no tool has that name; the hint lists the tools.
    """
    if (found := tools.get(subtask.tool)) is not None:
        return found
    hint = f"tools: {', '.join(tools.list_tools()) or 'none'}"
    raise PlanError(f"{subtask.id}: there is no tool {subtask.tool!r}", hint=hint)
