"""The graph of a workflow: nodes, edges, and their checks."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from types import NoneType
from typing import (
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from greenroom.core import WorkflowError
from greenroom.planning import Trace
from greenroom.session import AgentSession
from greenroom.teams.workflow_state import END, START

StateT = TypeVar("StateT")

StateFunction: TypeAlias = Callable[[StateT], object]
"""A function of a state."""

Function: TypeAlias = Callable[[Unpack[tuple[object, ...]]], Awaitable[object]]
"""What a node runs: a function of a state, or an agent's."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node; `Workflow.node` and `Workflow.each` say what its fields mean.

    Attributes:
        look: what the session of its agent shows, where that was cut off; None for a function.
        goes_on: whether a session that was cut off is told to go on; else it gets its input again.
    """

    name: str
    run: Function
    look: Callable[[AgentSession], Trace] | None = None
    goes_on: bool = True
    input: str = ""
    output: str = ""
    timeout: float | None = None
    repeatable: bool = False
    over: str = ""
    limit: int = 1


@dataclass(frozen=True)
class Edge(Generic[StateT]):
    """Leads to a node, always or on a condition; or to the node that a function names."""

    target: str = ""
    when: StateFunction[StateT] | None = None
    route: StateFunction[StateT] | None = None

    def follow(self, state: Callable[[], StateT]) -> Iterable[str]:
        """Return where it leads from the state of which this makes copies."""
        if self.route is not None:
            found = self.route(state())
            names = (found,) if isinstance(found, str) else found
            if not isinstance(names, Iterable):
                raise WorkflowError(
                    f"a route returned {found!r}", hint="return the name of a node, or several"
                )
            return tuple(names)
        return (self.target,) if self.when is None or self.when(state()) else ()

    def targets(self, nodes: Iterable[str]) -> Iterable[str]:
        """Return where it may lead: of a route what its annotation says, else anywhere."""
        if self.route is None:
            return (self.target,)
        return _find_literals(self.route) or (*nodes, END)


class Graph(Generic[StateT]):
    """Nodes and edges, in the order in which they were added."""

    def __init__(self) -> None:
        """Begin with none."""
        self.nodes: dict[str, Node] = {}
        self._edges: dict[str, list[Edge[StateT]]] = {START: []}
        self._places: dict[str, int] = {}

    def add(self, node: Node) -> None:
        """Add a node.

        Raises:
            WorkflowError: its name is taken.
        """
        if node.name in (START, END, "") or node.name in self.nodes:
            raise WorkflowError(f"the name {node.name!r} is taken", hint="give each node its own")
        self.nodes[node.name] = node
        self._edges.setdefault(node.name, [])
        self._places[node.name] = len(self._places)

    def spread(self, name: str, over: str, limit: int) -> None:
        """Let a node run once for each item of a field."""
        if name not in self.nodes:
            raise WorkflowError(f"there is no node {name!r}", hint="add it with .node first")
        self.nodes[name] = replace(self.nodes[name], over=over, limit=limit)

    def connect(self, source: str, edge: Edge[StateT]) -> None:
        """Lead on from a node.

        Raises:
            WorkflowError: the function of the edge is an async one.
        """
        if is_async(edge.when) or is_async(edge.route):
            hint = "a plain one looks at the state; let a node find out what takes time"
            raise WorkflowError(f"what leads on from {source} is an async function", hint=hint)
        self._edges.setdefault(source, []).append(edge)

    def check(self) -> None:
        """Check that the graph can run and end.

        Raises:
            WorkflowError: an edge names an unknown node, a node can't be reached, END can't be
                reached from a node, or an agent has no input.
        """
        ways = {
            source: {each for edge in edges for each in edge.targets(self.nodes)}
            for source, edges in self._edges.items()
        }
        back: dict[str, set[str]] = {}
        for source, targets in ways.items():
            for target in targets:
                back.setdefault(target, set()).add(source)
            unknown = [each for each in targets - {END} if each not in self.nodes]
            if source not in (START, *self.nodes):
                unknown = [source]
            if unknown:
                hint = f"nodes: {', '.join(self.nodes) or 'none'}"
                message = f"an edge of {source} names {min(unknown)!r}, and there is no such node"
                raise WorkflowError(message, hint=hint)
        self._refuse_others(_find_reachable(START, ways), "can't be reached from START")
        self._refuse_others(_find_reachable(END, back), "has no way to END")
        for node in self.nodes.values():
            if node.look is not None and not (node.input or node.over):
                hint = f'write .node("{node.name}", agent, input="field", output="field")'
                raise WorkflowError(f"{node.name} is an agent that gets nothing", hint=hint)

    def _refuse_others(self, known: set[str], problem: str) -> None:
        others = [name for name in (START, *self.nodes) if name not in known]
        if others:
            raise WorkflowError(f"{others[0]} {problem}", hint="add an edge, or leave it out")

    def follow(self, done: Iterable[str], state: Callable[[], StateT]) -> tuple[str, ...]:
        """Return what runs after these nodes, in the order of the nodes.

        Args:
            done: the nodes of the step.
            state: makes a copy of the state behind it.

        Raises:
            WorkflowError: nothing leads on from one of them, or a route names no node.
        """
        ready: set[str] = set()
        for source in done:
            found = {name for edge in self._edges[source] for name in edge.follow(state)}
            if unknown := [name for name in found - {END} if name not in self.nodes]:
                raise WorkflowError(
                    f"a route of {source} names {unknown[0]!r}, and there is no such node",
                    hint=f"nodes: {', '.join(self.nodes)}",
                )
            if not found:
                raise WorkflowError(
                    f"nothing leads on from {source}: none of its conditions holds",
                    hint=f'add an edge without one, such as .edge("{source}", END)',
                )
            ready |= found
        return tuple(sorted(ready - {END}, key=self._places.__getitem__))


def _find_reachable(start: str, ways: dict[str, set[str]]) -> set[str]:
    found, left = {start}, [start]
    while left:
        new = ways.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def _find_literals(function: object) -> tuple[str, ...]:
    """Return the words that a function may return, where its annotation lists them all."""
    try:
        left = [get_type_hints(function).get("return")]
    except (TypeError, NameError):
        return ()
    words: list[str] = []
    while left:
        hint = left.pop()
        if get_origin(hint) is Literal:
            words += get_args(hint)
        elif get_args(hint):  # a union, or a list of them
            left += get_args(hint)
        elif hint not in (NoneType, Ellipsis):
            return ()
    return tuple(words)


def is_async(function: object) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
