"""Graphs of names: what is wrong with them, their order, what can be reached, and a drawing.

Plans, workflows and composites are such graphs. A graph is a mapping from each name to the names
that its edges come from or lead to, in the order in which they were given.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from greenroom.core._internal import visible

_MERMAID_WORDS = (
    "end|(?:sub)?graph|flowchart|style|linkStyle|class|classDef|click|direction|href|call|[ox]"
)
_MERMAID_ID = re.compile(rf"(?!(?:{_MERMAID_WORDS})\b)[A-Za-z]\w*")
_MOST_NAMES = 200  # in which a name that was probably meant is searched


def suggest(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant, as a hint; empty if there is none.

    Example:
        >>> suggest("flihgt", ["flight", "hotel"])
        "did you mean 'flight'?"
    """
    close = difflib.get_close_matches(name, known, 1) if len(known) <= _MOST_NAMES else ()
    return f"did you mean {close[0]!r}?" if close else ""


def is_above_zero(number: object) -> bool:
    """Whether it is a number above 0, such as of seconds."""
    return isinstance(number, int | float) and number > 0


def is_count(number: object, least: int = 1) -> bool:
    """Whether it is a whole number, and not too low."""
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def find_order(sources_of: Mapping[str, Iterable[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names in topological order, and the path of a cycle if there is one.

    Example:
        >>> find_order({"hotel": ["flight"], "flight": []})
        (('flight', 'hotel'), ())
        >>> find_order({"a": ["b"], "b": ["a"]})
        ((), ('a', 'b', 'a'))
    """
    try:
        return tuple(TopologicalSorter(sources_of).static_order()), ()
    except CycleError as error:
        return (), tuple(error.args[1])


def find_reachable(start: str, targets_of: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the names that can be reached from one, and that one.

    Example:
        >>> sorted(find_reachable("a", {"a": ["b"], "b": ["a"], "c": ["a"]}))
        ['a', 'b']
    """
    found, left = {start}, [start]
    while left:
        new = set(targets_of.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def draw(
    labels: Mapping[str, str],
    edges: Iterable[tuple[str, str, str]],
    word: str = "node",
    kinds: Mapping[str, str] = MappingProxyType({}),
    styles: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Draw a graph as a Mermaid flowchart.

    Args:
        labels: the text of each node by its name.
        edges: source, target and style of each edge: "" or "maybe".
        word: begins the ids of nodes whose names Mermaid does not accept.
        kinds: the kind of each node by its name, if any.
        styles: the style of each kind.

    Example:
        >>> print(draw({"a": "Look", "b": "Leap"}, [("a", "b", "")]))
        graph TD
            a["Look"]
            b["Leap"]
            a --> b
    """
    ids = {
        name: name if _MERMAID_ID.fullmatch(name) else f"{word}{number}"
        for number, name in enumerate(labels, 1)
    }
    nodes = [f'{ids[name]}["{_escape(label)}"]' for name, label in labels.items()]
    arrows = {"": "-->", "maybe": "-.->"}
    lines = [f"{ids[source]} {arrows[style]} {ids[target]}" for source, target, style in edges]
    for kind, style in styles.items():
        if found := [ids[name] for name in labels if kinds.get(name) == kind]:
            lines += [f"class {','.join(found)} {kind}", f"classDef {kind} {style}"]
    return "\n    ".join(["graph TD", *nodes, *lines])


def _escape(label: str) -> str:
    text = visible(" ".join(label.split()))
    return text.replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;")
