"""A tool call as the rules see it: its tool, its category, its facts, and what they touch.

`read_call` turns the effects that a tool states into facts; `greenroom.shell` takes shell commands
apart. Two more things are looked up here, once per call: the files and hosts that the words of
commands name (`find_operands`), and the protected files that the call would write
(`find_protected`). Nobody can know which words a program takes for names, so an operand never
allows anything.
"""

import hashlib
import logging
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import ClassVar, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    Contact,
    Execute,
    Opaque,
    ReadPath,
    RuleFileError,
    ShellCommand,
    WritePath,
)
from greenroom.core._internal import (
    Effect,
    SandboxReport,
    is_own_file,
    log_error,
    message_of,
    protected_names,
    usual_effects,
    visible,
)
from greenroom.fs._internal import split_path
from greenroom.git._internal import GitAnswer
from greenroom.permissions.operands import HostUse, find_fed_files, list_files, list_operands
from greenroom.permissions.patterns import (
    Anchors,
    Care,
    Segments,
    find_anchors,
    list_alternatives,
)
from greenroom.programs._internal import Host, extract_words
from greenroom.shell._internal import (
    Command,
    PathUse,
    Place,
    Script,
    ShellEffect,
    Unknown,
    analyse,
    find_disguises,
    list_program_effects,
)

_logger = logging.getLogger("greenroom.permissions")

MAX_DEPTH = 200  # of an input
_MAPPINGS = (dict, Mapping)  # a dict is known to be one at once
_FLAT = frozenset({str, int, float, bool, type(None)})
# The built-in tools: their categories, and whether a call has to be allowed.
_USUAL = {
    **dict.fromkeys(("Read", "Grep", "Glob"), ("read", True)),
    **dict.fromkeys(("Write", "Edit"), ("write", True)),
    "Bash": ("execute", True),
    **dict.fromkeys(("WebFetch", "WebSearch"), ("network", True)),
    "Todo": ("plan", False),
    "Task": ("agent", False),
}


class Whole(msgspec.Struct, frozen=True):
    """The call as a whole, for a tool that states no effects."""

    tool: str
    guard: ClassVar[bool] = False

    def __str__(self) -> str:
        return visible(self.tool)


Fact: TypeAlias = ShellEffect | HostUse | Whole
"""Any fact: one thing that a call would do, small enough for a rule to judge."""


class JudgedTool(Protocol):
    """What the rules need to know about a tool.

    It may also have `requires_permission: bool` (True by default),
    `effects(input, context) -> Sequence[Effect]` (by default, those of the built-in tool of its
    name), `runs_context_command: bool` (False by default): whether it runs the command of
    `AgentContext.command`, so that rules about commands may allow its calls, and
    `definition_hash: str` (empty by default): a digest of what it says of itself.
    """

    @property
    def name(self) -> str:
        """The exact name."""

    @property
    def category(self) -> str:
        """The category, such as "read"."""


AnyTool: TypeAlias = str | JudgedTool
"""A tool, or the name of a built-in one."""


class Call(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One call, taken apart.

    Attributes:
        tool: the tool's name.
        category: its category, empty for an unknown name.
        input: what the model sent.
        effects: what the tool says the call would do.
        facts: the effects taken apart; never empty.
        place: where its paths begin.
        unless_denied: whether it is allowed unless a rule says otherwise.
        sandbox: the report of the sandbox that would hold it, or None.
        script: the plain command that it runs, if it runs one.
        definition_hash: a digest of the tool's definition, for a tool from elsewhere.
        git: what git said of the repositories around folders.
        missing_answers: a cache of the folders in which git was not asked.
        protected_words: a cache of the protected names that its commands would write.
    """

    tool: str
    category: str
    input: Mapping[str, object]
    effects: tuple[Effect, ...]
    facts: tuple[Fact, ...]
    place: Place
    unless_denied: bool = False
    sandbox: SandboxReport | None = None
    script: Script | None = None
    definition_hash: str = ""
    git: Mapping[str, GitAnswer] = msgspec.field(default_factory=dict)
    missing_answers: dict[str, None] = msgspec.field(default_factory=dict)
    protected_words: dict[int, Mapping[int, tuple[Segments, ...]]] = msgspec.field(
        default_factory=dict
    )

    @cached_property
    def anchors(self) -> tuple[Anchors, Anchors]:
        """Where patterns begin: for paths as written, and for paths with links followed."""
        return find_anchors(self.place)

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """The commands that it runs, which may name files."""
        return tuple(fact for fact in self.facts if isinstance(fact, Command))

    @cached_property
    def paths(self) -> tuple[PathUse, ...]:
        """The files that it reads and writes, as far as it says so."""
        return tuple(fact for fact in self.facts if isinstance(fact, PathUse))

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of what would run; equal digests mean the same call on the same files.

        It covers what the tool states, how a tool from elsewhere is defined, and where the paths
        lead on this disk.
        """
        place = self.place
        where = (place.root, place.folder, os.path.realpath(place.folder))
        tool = (self.tool, self.definition_hash) if self.definition_hash else self.tool
        stated = (tool, _canonical(self.input), self.effects, where, [*self.paths])
        return hashlib.sha256(repr(stated).encode("utf-8", "backslashreplace")).hexdigest()

    def ask_git(self, folder: str, argv: Sequence[str]) -> str:
        """Return why a git command may do more than read in a folder; empty if it only reads."""
        if self.script is None:
            return "the tool runs git as it is, which may run what the repository names"
        if folder not in self.git:
            self.missing_answers[folder] = None
            return "git was not asked what this repository makes it run"
        return self.git[folder].find_obstacle(argv)

    def list_paths(self, use: PathUse) -> Iterator[tuple[str, Anchors]]:
        """List the paths that a use may mean, each with the anchors of its patterns."""
        written, followed = self.anchors
        yield from [(path, written) for path in use.lexical]
        if use.real != use.lexical or followed is not written:
            yield from [(path, followed) for path in use.real]

    def is_inside(self, use: PathUse) -> bool:
        """Return whether a file is surely in the workspace, as written and with links followed."""
        if self.place.lookup.is_exhausted:
            return False
        return all(
            split_path(path)[: len(anchors.root)] == anchors.root
            for path, anchors in self.list_paths(use)
        )

    def find_operands(self, care: Care) -> Iterator[Fact]:
        """Find the files and hosts that the words of commands name, if any rule is about some."""
        if care.paths or care.hosts:
            found = (list_operands(fact, self.place, care) for fact in self.facts)
            yield from dict.fromkeys(chain.from_iterable(found))
            yield from find_fed_files(self.commands, care)

    def find_protected(self, fact: Fact) -> Mapping[int, tuple[Segments, ...]]:
        """Find the protected names that a fact writes, by the words of a command, else under 0."""
        if isinstance(fact, PathUse) and fact.kind == "write":
            names = tuple(self._list_protected(fact))
            return {0: names} if names else {}
        if not isinstance(fact, Command) or fact.extent != "any":
            return {}
        if id(fact) not in self.protected_words:  # it holds its facts as long as it lives
            self.protected_words[id(fact)] = dict(self._find_protected_words(fact))
        return self.protected_words[id(fact)]

    def writes_inside(self, fact: PathUse) -> bool:
        """Return whether a fact surely writes in the workspace, and nothing that is protected."""
        return self.is_inside(fact) and not any(self._list_protected(fact))

    def writes_own_rules(self, fact: Fact) -> bool:
        """Return whether a fact writes the files that say what agents may do here."""
        return any(map(is_own_file, chain.from_iterable(self.find_protected(fact).values())))

    def _list_protected(self, use: PathUse) -> Iterator[Segments]:
        for path, anchors in self.list_paths(use):
            yield from protected_names(path, *anchors.texts)

    def _find_protected_words(self, fact: Command) -> Iterator[tuple[int, tuple[Segments, ...]]]:
        """Look at the words of a command that may name what it writes, not at those it runs."""
        words, found = fact.argv[1 : fact.invocation.inner], dict[str, tuple[Segments, ...]]()
        for word in dict.fromkeys(words):
            parts = extract_words(word) if fact.loose else ()  # which it may run
            uses = (use for each in (word, *parts) for use in list_files(each, fact.place))
            found[word] = tuple(name for use in uses for name in self._list_protected(use))
        yield from ((at, found[word]) for at, word in enumerate(words, 1) if found[word])


def _canonical(value: object) -> object:
    """Sort what has no order; values that JSON does not know are compared by their repr."""
    if type(value) in _FLAT:
        return value
    if isinstance(value, _MAPPINGS):
        pairs = ((repr(key), _canonical(each)) for key, each in value.items())
        return "mapping", sorted(pairs, key=itemgetter(0))
    if isinstance(value, set | frozenset):
        return "set", sorted(repr(_canonical(each)) for each in value)
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    return value


def read_call(
    tool: AnyTool,
    arguments: Mapping[str, object],
    context: AgentContext,
    sandbox: SandboxReport | None = None,
    git: Mapping[str, GitAnswer] | None = None,
) -> Call:
    """Take a call apart; an odd tool or input becomes an unknown fact, never an error.

    An input that is nested too deeply is denied, since neither a prompt nor a digest could be made
    of it.
    """
    place = Place(str(context.workspace.root), str(context.workspace.cwd))
    name = tool if isinstance(tool, str) else tool.name
    category, needs_permission = _USUAL.get(name, ("", True))
    if not isinstance(tool, str):
        category = str(tool.category)
        needs_permission = getattr(tool, "requires_permission", True)
    if _is_deep(arguments):
        why = f"the input is nested more than {MAX_DEPTH} levels deep"
        return Call(name, category, {}, (), (Unknown(reason=why, too_large=True),), place)
    effects = tuple(_state_effects(tool, name, arguments, context))
    runs_judged = tool == "Bash" or bool(getattr(tool, "runs_context_command", False))
    facts, script = _list_facts(effects, place, runs_judged=runs_judged)
    return Call(
        name,
        category,
        arguments,
        effects,
        tuple(dict.fromkeys(facts)) or (Whole(name),),
        place,
        unless_denied=not needs_permission,
        sandbox=sandbox,
        script=script,
        definition_hash=str(getattr(tool, "definition_hash", "")),
        git=git or {},
    )


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        held: list[Iterable[object]] = []
        for each in level:
            if type(each) in _FLAT:
                continue
            if isinstance(each, _MAPPINGS):
                held.append(each.values())
            elif isinstance(each, list | tuple):
                held.append(each)
        if not held:
            return False
        level = list(chain.from_iterable(held))
    return True


def _state_effects(
    tool: AnyTool, name: str, arguments: Mapping[str, object], context: AgentContext
) -> Sequence[Effect]:
    if not isinstance(arguments, Mapping):
        return (Opaque(f"the input is not an object: {type(arguments).__name__}"),)
    state = getattr(tool, "effects", None)
    if not callable(state):
        return usual_effects(name, arguments, context)
    try:
        stated = tuple(state(arguments, context))
    except Exception as error:  # noqa: BLE001 (whatever it is, nothing is known of the call)
        log_error(_logger, f"{name} failed to state its effects", error, logging.WARNING)
        return (Opaque(f"{name} failed to state its effects: {message_of(error)}"),)
    odd = f"{name} states an effect that is none: "
    return [
        each if isinstance(each, Effect) else Opaque(odd + type(each).__name__) for each in stated
    ]


def _list_facts(
    effects: Sequence[Effect], place: Place, *, runs_judged: bool
) -> tuple[Sequence[Fact], Script | None]:
    """Take the effects of a tool apart; the script is that of its only text for a shell."""
    facts, script, texts = list[Fact](), None, list[str]()
    for effect in effects:
        match effect:
            case ReadPath(path, pattern):
                facts += (place.use("read", path, tilde=True), *_search_targets(effect, place))
                facts += (*find_disguises(path, sure=True), *find_disguises(pattern, sure=True))
            case WritePath(path):
                facts += (place.use("write", path, tilde=True), *find_disguises(path, sure=True))
            case Contact(url):
                facts += _list_host_facts(url)
            case Execute(argv, cwd, environment):
                facts += list_program_effects(argv, environment, _enter(place, cwd))
            case Opaque(reason):
                facts.append(Unknown(reason=reason))
            case ShellCommand(command, cwd, environment):
                found = analyse(command, _enter(place, cwd, environment))
                script, texts, facts = found.script, [*texts, command], [*facts, *found.effects]
    if len(texts) > 1:
        facts.append(Unknown(reason="runs several texts, so what is judged is not one command"))
    elif texts and not runs_judged:
        why = "the tool runs the text itself, not what it was read as"
        facts.append(Unknown(reason=why, text=texts[0]))
    return facts, script if runs_judged and len(texts) == 1 else None


def _enter(place: Place, folder: str, environment: Sequence[tuple[str, str]] = ()) -> Place:
    place = place.move(os.path.expanduser(folder)) if folder else place
    if not environment:
        return place
    return replace(place, environment={**place.environment, **dict(environment)})


def _search_targets(effect: ReadPath, place: Place) -> Iterator[PathUse]:
    """List what a search in a folder may find, for denials."""
    if not effect.pattern or effect.pattern.startswith("!"):
        return
    try:
        alternatives = list_alternatives(effect.pattern)
    except RuleFileError:
        alternatives = [effect.pattern]
    for each in alternatives:
        yield from place.guard(posixpath.join(effect.path, each), tilde=True, searches=True)


def _list_host_facts(url: str) -> Iterator[Fact]:
    yield HostUse(url=url, host=Host.of(url))
    if not url.isprintable():
        yield Unknown(reason=f"not a usable URL: {url!r}")
    yield from find_disguises(re.split("[/?#]", url.partition("//")[2], maxsplit=1)[0])
