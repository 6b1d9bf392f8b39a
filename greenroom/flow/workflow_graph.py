"""The graph of a workflow: nodes, edges, and their checks."""

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

from greenroom.core._internal import is_async
from greenroom.flow.errors import WorkflowError
from greenroom.flow.graph import draw, find_reachable, suggest
from greenroom.flow.resume import Inspect
from greenroom.flow.workflow_state import END, START

StateT = TypeVar("StateT")

StateFunction: TypeAlias = Callable[[StateT], object]
"""A function of a state."""

Function: TypeAlias = Callable[[Unpack[tuple[object, ...]]], Awaitable[object]]
"""The function of a node: a function of a state, or an agent function."""


@dataclass(frozen=True)
class Node:
    """One node; `Workflow.node` and `Workflow.each` describe its other fields.

    Attributes:
        inspect: finds out what its agent left behind when it was cut off; None for a function.
    """

    name: str
    run: Function
    inspect: Inspect | None = None
    input: str = ""
    output: str = ""
    timeout: float | None = None
    repeatable: bool = False
    over: str = ""
    concurrency: int = 1


@dataclass(frozen=True)
class Edge(Generic[StateT]):
    """Leads to a node, always or on a condition; or to the nodes that a function names."""

    target: str = ""
    when: StateFunction[StateT] | None = None
    route: StateFunction[StateT] | None = None

    def follow(self, state: Callable[[], StateT]) -> Iterable[str]:
        """Return the nodes that it leads to; `state` makes a copy of the state."""
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
        """Return the nodes that it may lead to; for a route, those in its annotation, else all."""
        if self.route is None:
            return (self.target,)
        return _find_literals(self.route) or (*nodes, END)


class Graph(Generic[StateT]):
    """Nodes and edges, in the order in which they were added."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._edges: dict[str, list[Edge[StateT]]] = {START: []}

    def add(self, node: Node) -> None:
        """Add a node."""
        if node.name in (START, END, "", *self.nodes):
            raise WorkflowError(f"the name {node.name!r} is taken", hint="give each node its own")
        self.nodes[node.name] = node
        self._edges.setdefault(node.name, [])

    def repeat_for_each(self, name: str, over: str, concurrency: int) -> None:
        """Run a node once for each item of a field."""
        if name not in self.nodes:
            raise WorkflowError(f"there is no node {name!r}", hint="add it with .node first")
        self.nodes[name] = replace(self.nodes[name], over=over, concurrency=concurrency)

    def connect(self, source: str, edge: Edge[StateT]) -> None:
        """Add an edge from a node."""
        if is_async(edge.when) or is_async(edge.route):
            hint = "use a plain function of the state, and do slow work in a node"
            raise WorkflowError(f"an edge of {source} has an async function", hint=hint)
        for given, what in ((edge.when, "when"), (edge.route, "a route")):
            if given is not None and not callable(given):
                hint = "give a function of the state"
                raise WorkflowError(f"{what} of {source} is {given!r}", hint=hint)
        self._edges.setdefault(source, []).append(edge)

    def check(self) -> None:
        """Check that the graph can run and end."""
        targets_of = {
            source: {each for edge in edges for each in edge.targets(self.nodes)}
            for source, edges in self._edges.items()
        }
        sources_of: dict[str, set[str]] = {}
        for source, targets in targets_of.items():
            for target in targets:
                sources_of.setdefault(target, set()).add(source)
            unknown = [each for each in targets - {END} if each not in self.nodes]
            if source not in (START, *self.nodes):
                unknown = [source]
            if unknown:
                message = f"an edge of {source} names {min(unknown)!r}, which is not a node"
                raise WorkflowError(message, hint=self._hint(min(unknown)))
        self._refuse_others(find_reachable(START, targets_of), "can't be reached from START")
        self._refuse_others(find_reachable(END, sources_of), "has no way to END")
        for node in self.nodes.values():
            if node.inspect is not None and not (node.input or node.over):
                hint = f'write .node("{node.name}", agent, input="field", output="field")'
                raise WorkflowError(f"{node.name} is an agent without an input", hint=hint)

    def _hint(self, name: str) -> str:
        return suggest(name, self.nodes) or f"nodes: {', '.join(self.nodes) or 'none'}"

    def to_mermaid(self) -> str:
        """Draw the graph; an edge on a condition, and one that a route may take, is dotted."""
        labels = {name: name for name in (START, *self.nodes, END)}
        drawn = [
            (source, target, "maybe" if edge.route or edge.when else "")
            for source, edges in self._edges.items()
            for edge in edges
            for target in edge.targets(self.nodes)
        ]
        return draw(labels, drawn)

    def _refuse_others(self, known: set[str], problem: str) -> None:
        others = [name for name in (START, *self.nodes) if name not in known]
        if others:
            raise WorkflowError(f"{others[0]} {problem}", hint="add an edge, or remove the node")

    def follow(self, done: Iterable[str], state: Callable[[], StateT]) -> tuple[str, ...]:
        """Return the nodes that run after these, in the order in which nodes were added.

        Args:
            done: the nodes of the last step.
            state: makes a copy of the state after it.
        """
        ready: set[str] = set()
        for source in done:
            found = {name for edge in self._edges[source] for name in edge.follow(state)}
            if unknown := [name for name in found - {END} if name not in self.nodes]:
                raise WorkflowError(
                    f"a route of {source} names {unknown[0]!r}, which is not a node",
                    hint=self._hint(unknown[0]),
                )
            if not found:
                raise WorkflowError(
                    f"no edge of {source} can be followed: none of its conditions holds",
                    hint=f'add an edge without a condition, such as .edge("{source}", END)',
                )
            ready |= found
        return tuple(name for name in self.nodes if name in ready)


def _find_literals(function: object) -> tuple[str, ...]:
    """Return the strings that a function may return, if its annotation lists them all."""
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
