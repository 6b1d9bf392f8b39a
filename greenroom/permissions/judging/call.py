"""A tool call as the rules see it: its tool, its category and its facts."""

import logging
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Protocol, TypeAlias

from greenroom.core import (
    AgentContext,
    Contact,
    Effect,
    Execute,
    Opaque,
    ReadPath,
    RuleFileError,
    SandboxReport,
    ShellCommand,
    WritePath,
    usual_effects,
)
from greenroom.permissions.facts.fact import Fact, HostUse, PathUse, Unknown, Whole
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.pattern import Anchors, Segments, expand_braces, segments
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.analyse import analyse, execute
from greenroom.permissions.shell.hidden import posing

_logger = logging.getLogger("greenroom.permissions")

MAX_DEPTH = 200  # of an input
_NESTED = (list, tuple, Mapping)
# The built-in tools: their categories, and whether a call has to be allowed.
_USUAL = {
    **dict.fromkeys(("Read", "Grep", "Glob"), ("read", True)),
    **dict.fromkeys(("Write", "Edit"), ("write", True)),
    "Bash": ("execute", True),
    "WebFetch": ("network", True),
    "Todo": ("plan", False),
    "Task": ("agent", False),
}


class JudgedTool(Protocol):
    """What the rules need of a tool.

    It may also have `requires_permission: bool` (by default True) and
    `effects(input, context) -> Sequence[Effect]` (by default those of the usual tool of its name).
    """

    @property
    def name(self) -> str:
        """The exact name."""
        ...

    @property
    def category(self) -> str:
        """The category, such as "read"."""
        ...


AnyTool: TypeAlias = str | JudgedTool
"""A tool, or the name of one of the usual tools."""


@dataclass(frozen=True)
class Call:
    """One call, taken apart.

    Attributes:
        tool: the tool's name.
        category: its category, or empty for a name that is unknown.
        input: what the model sent.
        effects: what the tool states that the call would do.
        facts: the same taken apart; never empty.
        place: where its paths begin.
        unless_denied: whether it is allowed unless a rule says otherwise.
        sandbox: what was found to hold it, or None.
        named: what words of its commands name, as far as that was asked.
        protected: what is protected of what its commands write, as far as that was asked.
    """

    tool: str
    category: str
    input: Mapping[str, object]
    effects: tuple[Effect, ...]
    facts: tuple[Fact, ...]
    place: Place
    unless_denied: bool = False
    sandbox: SandboxReport | None = None
    named: dict[tuple[Word, Place | None], tuple[PathUse, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    protected: dict[int, Mapping[int, tuple[Segments, ...]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def anchors(self) -> tuple[Anchors, Anchors]:
        """Where patterns begin: for paths as they are written, and with links followed."""
        return self.place.anchors

    def paths(self, use: PathUse) -> Iterator[tuple[str, Anchors]]:
        """Go through the paths that a use may mean, and where patterns begin for each."""
        written, followed = self.anchors
        yield from [(path, written) for path in use.lexical]
        if use.real != use.lexical or followed is not written:
            yield from [(path, followed) for path in use.real]

    def has(self, use: PathUse) -> bool:
        """Tell whether a file surely lies in the workspace, as it is written and links followed."""
        if self.place.disk.full:
            return False
        return all(
            segments(path)[: len(anchors.root)] == anchors.root for path, anchors in self.paths(use)
        )


def read_call(
    tool: AnyTool,
    arguments: Mapping[str, object],
    context: AgentContext,
    sandbox: SandboxReport | None = None,
) -> Call:
    """Take a call apart; a tool or an input that is odd gives an unknown fact, never an error.

    One that is nested too deeply is refused, since not even a prompt or a digest could be made of it.
    """
    place = Place(str(context.workspace.root), str(context.workspace.cwd))
    name = tool if isinstance(tool, str) else tool.name
    category, needs_permission = _USUAL.get(name, ("", True))
    if not isinstance(tool, str):
        category = str(tool.category)
        needs_permission = bool(getattr(tool, "requires_permission", True))
    effects: tuple[Effect, ...] = ()
    facts: list[Fact]
    if _is_deep(arguments):
        why = f"the input is nested more than {MAX_DEPTH} levels deep"
        arguments, facts = {}, [Unknown(reason=why, refused=True)]
    else:
        effects = tuple(_effects(tool, name, arguments, context))
        facts = [fact for effect in effects for fact in _facts(effect, place)]
    return Call(
        name,
        category,
        arguments,
        effects,
        tuple(dict.fromkeys(facts)) or (Whole(tool=name),),
        place,
        unless_denied=not needs_permission,
        sandbox=sandbox,
    )


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [each for each in level if isinstance(each, _NESTED)]
        if not inner:
            return False
        parts = (each.values() if isinstance(each, Mapping) else each for each in inner)
        level = list(chain.from_iterable(parts))
    return True


def _effects(
    tool: AnyTool, name: str, arguments: Mapping[str, object], context: AgentContext
) -> Sequence[Effect]:
    if not isinstance(arguments, Mapping):
        return (Opaque(f"the input is not an object: {type(arguments).__name__}"),)
    state = getattr(tool, "effects", None)
    if not callable(state):
        return usual_effects(name, arguments, context)
    try:
        return tuple(state(arguments, context))
    except Exception as error:
        _logger.warning("the effects of %s can't be told: %s", name, error, exc_info=error)
        return (Opaque(f"what {name} would do can't be told: {error}"),)


def _sought(folder: str, pattern: str, place: Place) -> Iterator[Fact]:
    """Say what is looked for in a folder, for denials."""
    if not pattern or pattern.startswith("!"):
        return
    try:
        alternatives = expand_braces(pattern)
    except RuleFileError:
        alternatives = [pattern]
    for each in alternatives:
        fact = place.use("read", posixpath.join(folder, each), guard=True, stars="search")
        if fact.guard:
            yield fact


def _facts(effect: Effect, place: Place) -> Sequence[Fact]:
    match effect:
        case ReadPath(path, pattern):
            return (
                place.use("read", path),
                *_sought(path, pattern, place),
                *posing(path, sure=True),
            )
        case WritePath(path):
            return (place.use("write", path), *posing(path, sure=True))
        case Contact(url):
            odd = () if url.isprintable() else (Unknown(reason=f"no usable URL: {url!r}"),)
            host = re.split("[/?#]", url.partition("//")[2], maxsplit=1)[0]
            return (HostUse(url=url, host=Host.of(url)), *odd, *posing(host))
        case Execute(argv, cwd, environment):
            return execute(argv, environment, place.moved(cwd) if cwd else place)
        case ShellCommand(command, cwd):
            return analyse(command, place.moved(cwd) if cwd else place)
        case Opaque(reason):
            return (Unknown(reason=reason),)
