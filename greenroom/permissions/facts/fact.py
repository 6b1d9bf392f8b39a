"""Facts: what one tool call would do, each small enough for a rule to judge."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from greenroom.core import visible
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.word import Part, Word

if TYPE_CHECKING:
    from greenroom.permissions.facts.place import Place

Extent: TypeAlias = Literal["prints", "reads", "stores", "any"]
"""What a command does with what its words name, as far as it has no cautions.

- prints: nothing; they are only text.
- reads: it reads some of it.
- stores: it writes, but no file that they name, as `git add` doesn't.
- any: whatever its program does.
"""

Stars: TypeAlias = Literal["none", "files", "search"]
"""What the stars in a path are.

- none: it has none, or they stand for themselves.
- files: the shell's, in whose place the files come that fit.
- search: a program's that searches folders by itself, as `find -name`.
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program with its words.

    Attributes:
        argv: its words.
        guard: only denials and questions are looked for; something else must allow it.
        outer: the command that runs this one, such as `timeout`, or None.
        start: where in the outer command's words this one begins.
        cautions: places of words that make the program do more than its name says, and why.
        loose: the program is one that we don't know, so it may run what its words say.
        place: where the relative paths among its words begin, or None.
        settings: the variables that are set for it, such as "CI=1"; see `Change.setting`.
        extent: what it does with what its words name; "any" if it has cautions.
        parts: its options and operands, if it is known how its program reads them.
        inner: the word that begins the command which it runs, as of `timeout`, or None.
    """

    argv: tuple[Word, ...]
    guard: bool = False
    outer: "Command | None" = field(default=None, hash=False)
    start: int = 0
    cautions: tuple[tuple[int, str], ...] = ()
    loose: bool = False
    place: "Place | None" = field(default=None, repr=False)
    settings: tuple[str, ...] = ()
    extent: Extent = "any"
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)
    inner: int | None = None

    @cached_property
    def text(self) -> str:
        """The words joined by blanks, which is what regular expressions see."""
        return " ".join([word.text for word in self.argv])

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The same, and once more with the program named without its folder if it has one."""
        folder = self.argv[0].text.rpartition("/")[0] if self.argv else ""
        base = self.text.removeprefix(f"{folder}/")
        return (self.text,) if base == self.text else (self.text, base)

    @cached_property
    def is_plain(self) -> bool:
        """Whether `text` hides nothing: all words are known, and the program is one word."""
        program = self.argv[0].text if self.argv else " "
        return self.known and not any(char.isspace() for char in program)

    @property
    def known(self) -> bool:
        """Whether every word is known before the command runs."""
        return all(word.static for word in self.argv)

    def __str__(self) -> str:
        return visible(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathUse:
    """A file or folder that is read or written.

    Attributes:
        kind: what is done to it.
        text: as it was named.
        lexical: the absolute paths that this may mean, `..` removed as text; of a pattern also
            the files that fit now.
        real: the same with symbolic links followed.
        guard: only denials and questions are looked for.
        stars: whether it names whatever files there are that fit, as `*.py` does.
        patterns: those among the paths that may stand for other files than were found.
        command: the command whose output is redirected there, if that is how it is written.
    """

    kind: Literal["read", "write"]
    text: str
    lexical: tuple[str, ...]
    real: tuple[str, ...]
    guard: bool = False
    stars: Stars = "none"
    patterns: tuple[str, ...] = ()
    command: Command | None = None

    def __str__(self) -> str:
        return f"{self.kind} {visible(self.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """A host that is contacted."""

    url: str
    host: Host
    guard: bool = False

    def __str__(self) -> str:
        return f"contact {visible(self.url)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A variable set or a function defined.

    Attributes:
        reason: what is set or defined, in words.
        command: the command that the variable is set for, if it is set for one alone.
        setting: the same as "NAME=value" if the value is written out; a rule for the command
            that names this setting covers it, and no other rule for commands does.
    """

    reason: str
    command: Command | None = field(default=None, hash=False, repr=False)
    setting: str = ""
    guard: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return visible(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something that can't be told beforehand; nothing allows it but a person.

    Attributes:
        reason: why it can't be told.
        refused: whether it is so large that it is denied rather than asked about.
    """

    reason: str
    refused: bool = False
    guard: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return visible(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The call as such, of a tool that states no effects."""

    tool: str
    guard: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return visible(self.tool)


Fact: TypeAlias = Command | PathUse | HostUse | Change | Unknown | Whole
"""Any fact."""
