"""Patterns in rules: for paths, for hosts, and regular expressions for the words of commands.

Each pattern matches in two ways: exactly, for an allowance, and generously, for a denial, which
must match whatever some program could take for the thing it denies. No text can make matching slow.

In a path pattern `*` stays within a name, `**` spans any depth and `{a,b}` means either. It begins
at one of three anchors: the workspace, `/` or `~/`.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from greenroom.core import ConfigurationError, RuleFileError
from greenroom.core._internal import BoundedPattern, cache_short, compile_later
from greenroom.fs._internal import (
    NamePattern,
    expand_braces,
    find_longest_text,
    fold_names,
    fold_path,
    match_names,
    may_go_on,
    read_names,
    read_pattern,
    split_path,
)

if TYPE_CHECKING:
    from greenroom.programs._internal import Host
    from greenroom.shell._internal import Place

Segments: TypeAlias = tuple[str, ...]
MAX_PATTERN = 1024
MAX_ALTERNATIVES = 64
_ALONE = compile_later(r"\{([^{}]*)\}")
END = "/\0"
_PATH_EXAMPLE = "write src/** or *.md (from the workspace), /etc/** (absolute) or ~/.ssh/** (home)"


class Anchors(msgspec.Struct, frozen=True, dict=True):
    """Where patterns begin: the workspace root and the home folder, split into names."""

    root: Segments
    home: Segments

    @cached_property
    def folded(self) -> "Anchors":
        """The same anchors, case-folded."""
        return Anchors(fold_names(self.root), fold_names(self.home))

    @cached_property
    def texts(self) -> tuple[str, str]:
        """The two folders as absolute paths."""
        return "/" + "/".join(self.root), "/" + "/".join(self.home)

    @classmethod
    @cache_short(64)
    def of(cls, root: str, home: str) -> "Anchors":
        """Split two absolute paths; most calls name the same two, so the result is cached."""
        return cls(split_path(root), split_path(home))


def find_anchors(place: "Place") -> tuple[Anchors, Anchors]:
    """Find where patterns begin: for paths as written, and for paths with links followed."""
    real = place.lookup.resolve
    return Anchors.of(place.root, place.home), Anchors.of(real(place.root), real(place.home))


class PathPattern(msgspec.Struct, frozen=True):
    """A pattern for paths, parsed once and matched name by name.

    Example:
        >>> pattern = PathPattern.parse("src/**/*.{py,pyi}")
        >>> pattern.matches("/w/src/a/b.py", Anchors(("w",), ("home",)))
        True
        >>> pattern.matches("/w/lib/a/b.py", Anchors(("w",), ("home",)))
        False
    """

    text: str
    alternatives: tuple[Segments, ...]

    @classmethod
    def parse(cls, text: str) -> "PathPattern":
        """Parse a pattern.

        Raises:
            RuleFileError: the pattern is empty or too long, has unbalanced braces, or holds `..`,
                `~user` or a NUL.
        """
        if not text or len(text) > MAX_PATTERN or "\0" in text:
            raise RuleFileError(f"not a pattern of paths: {text[:60]!r}", hint=_PATH_EXAMPLE)
        if text.startswith("~") and not text.startswith("~/"):
            raise RuleFileError(f"{text!r} names another user's home", hint=_PATH_EXAMPLE)
        alternatives = tuple(split_path(each) for each in list_alternatives(text.removeprefix("~")))
        if any(".." in each for each in alternatives):
            raise RuleFileError(f"a path pattern can't hold '..': {text!r}", hint=_PATH_EXAMPLE)
        return cls(text, alternatives)

    def matches(self, path: str, anchors: Anchors, *, folder: bool = False) -> bool:
        """Match an absolute path exactly, as an allow rule does.

        With `folder`, `src/**` also matches `src` itself, as for a search in it.
        """
        start = self._find_start(anchors)
        return _match_from(self.alternatives, split_path(path), start, folder=folder)

    def touches(self, path: str, *anchors: Anchors) -> bool:
        """Match generously, as a deny rule does, whichever of the anchors is meant.

        Case does not matter, `src/**` also matches `src` itself, and a pattern that begins with
        `**` applies outside of the workspace as well.
        """
        folded, names = list(map(fold_names, self.alternatives)), split_path(fold_path(path))
        starts = map(self._find_generous_start, anchors)
        return any(_match_from(folded, names, start, folder=True) for start in starts)

    def may_be_found_by(self, path: str, anchors: Anchors) -> bool:
        """Return whether a program that searches for a pattern is looking for such a path.

        It is if the pattern spells out at least half of a name: `.e*` looks for `.env`, while
        `*.py` does not look for `secrets.py`, though it may find it.
        """
        start, names = self._find_generous_start(anchors), split_path(fold_path(path))
        begins = [read_pattern(name).fits(each) for each, name in zip(start, names, strict=False)]
        return begins.count(True) == len(start) and any(
            match_names(
                read_names(fold_names(each)),
                names[len(start) :],
                NamePattern.is_sought_by,
                folder=True,
                deep="**",
            )
            for each in self.alternatives
        )

    def may_lie_below(self, folder: str, anchors: Anchors) -> bool:
        """Return whether a file that this pattern touches may lie below an absolute folder."""
        start, names = self._find_generous_start(anchors), split_path(fold_path(folder))
        if names[: len(start)] != start[: len(names)]:
            return False
        return any(may_go_on(fold_names(each), names[len(start) :]) for each in self.alternatives)

    def may_meet(self, path: str, anchors: Anchors) -> bool:
        """Return whether a path may match this and an absolute pattern whose `*` is any text."""
        start, given = self._find_generous_start(anchors), read_pattern(fold_path(path))
        return any(
            given.meets(read_pattern("/".join(("", *start, *fold_names(each)))))
            for each in self.alternatives
        )

    @property
    def is_hidden(self) -> bool:
        """Whether each file that it touches is hidden, or in a hidden folder."""
        return all(any(name.startswith(".") for name in each) for each in self.alternatives)

    def names(self, wanted: Segments) -> bool:
        """Return whether the pattern spells out these case-folded names, one after the other."""
        return any(
            fold_names(each)[at : at + len(wanted)] == wanted
            for each in self.alternatives
            for at in range(len(each))
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """For each alternative, a text that occurs in every path it touches; it may be empty.

        The text is looked for in the case-folded path with `END` appended.
        """
        return tuple(find_longest_text(fold_names(each)) for each in self.alternatives)

    def _find_generous_start(self, anchors: Anchors) -> Segments:
        return () if self.text.startswith("**") else self._find_start(anchors.folded)

    def _find_start(self, anchors: Anchors) -> Segments:
        if self.text.startswith("/"):
            return ()
        return anchors.home if self.text.startswith("~") else anchors.root


def _match_from(
    alternatives: Iterable[Segments], names: Segments, start: Segments, *, folder: bool
) -> bool:
    """Match names that begin in a folder."""
    rest = names[len(start) :]
    return names[: len(start)] == start and any(
        match_names(read_names(each), rest, NamePattern.fits, folder=folder)
        for each in alternatives
    )


def list_alternatives(text: str) -> list[str]:
    """Expand the braces of a pattern, which must be balanced.

    Raises:
        RuleFileError: they are not, or there are more than 64 alternatives.

    Example:
        >>> list_alternatives("/{a,b{c,d}}/{e}")
        ['/a/e', '/bc/e', '/bd/e']
    """
    try:
        found = expand_braces(text, most=MAX_ALTERNATIVES)
    except ValueError as error:
        raise RuleFileError(f"too many alternatives in {text!r}", hint=_PATH_EXAMPLE) from error
    while any(map(_ALONE.search, found)):  # braces around a single choice mean nothing
        found = [_ALONE.sub(r"\1", each) for each in found]
    if any("{" in each or "}" in each for each in found):
        raise RuleFileError(f"a brace without its partner in {text!r}", hint=_PATH_EXAMPLE)
    return list(dict.fromkeys(found))


_HOST_EXAMPLE = "write docs.python.org, or *.readthedocs.io for its subdomains"


class HostPattern(msgspec.Struct, frozen=True):
    """The name of a host, or `*.name` for its subdomains but not the host itself."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Parse a pattern.

        Raises:
            RuleFileError: it is not the name of a host, or has a star other than at its beginning.
        """
        # Rules without hosts need not wait for what reads them.
        from greenroom.programs._internal import HOST_NAME, shorten_host

        lowered = text.lower()
        if not HOST_NAME.fullmatch(lowered.removeprefix("*.")):
            raise RuleFileError(f"not the name of a host: {text!r}", hint=_HOST_EXAMPLE)
        return cls(shorten_host(lowered))

    def matches(self, host: "Host") -> bool:
        """Match the one name that every client reads."""
        return bool(host.exact) and self._is_about(host.exact)

    def touches(self, host: "Host") -> bool:
        """Match any name that some client could read."""
        return any(self._is_about(name) for name in host.names)

    def may_be(self, glob: str) -> bool:
        """Return whether a text with stars may stand for such a host."""
        return read_pattern(glob).meets(read_pattern(self.text))

    def _is_about(self, name: str) -> bool:
        if self.text.startswith("*."):
            return name.endswith(self.text[1:])
        return name == self.text


class Care(msgspec.Struct, frozen=True, dict=True):
    """What the rules that deny or ask are about, and so what to look for in the words of commands.

    Attributes:
        paths: the patterns of files.
        hosts: the patterns of hosts.
    """

    paths: tuple[PathPattern, ...] = ()
    hosts: tuple[HostPattern, ...] = ()

    @cached_property
    def folders(self) -> bool:
        """Whether some rule is about files in certain folders, not just names at any depth."""
        return not all(each.text.startswith("**/") for each in self.paths)

    @cached_property
    def shown(self) -> "Care":
        """The same, without the patterns that only touch hidden files."""
        return Care(tuple(each for each in self.paths if not each.is_hidden))

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Texts of which one is in each path that a rule is about; see `PathPattern.marks`."""
        return tuple({mark for pattern in self.paths for mark in pattern.marks})

    @cached_property
    def mark(self) -> re.Pattern[str]:
        """Matches in each path that a rule is about, and in few others."""
        return re.compile("|".join(map(re.escape, self.marks)))

    def touches(self, host: "Host") -> bool:
        """Return whether some rule is about a host."""
        return any(each.touches(host) for each in self.hosts)


MAX_EXPRESSION = 512  # characters of an expression
MAX_TEXT = 4096  # characters of a text


class Expression:
    """A regular expression in Python's syntax that matches in bounded time.

    Example:
        >>> expression = Expression("npm run (lint|test)( .*)?")
        >>> expression.fullmatch("npm run test --fix"), expression.fullmatch("npm run tests")
        (True, False)
        >>> Expression("npm run .*--force").search("npm run test --force -x")
        True
    """

    def __init__(self, text: str) -> None:
        """Compile an expression.

        Raises:
            RuleFileError: it is empty, too long, or not a regular expression for our engine.
        """
        if not 0 < len(text) <= MAX_EXPRESSION:
            raise RuleFileError(
                f"a regex has 1 to {MAX_EXPRESSION} characters, this has {len(text)}"
            )
        part = re.sub(r"\A\.\*(?![?+])|(?<!\\)\.\*\Z", "", text)  # a search needs no outer `.*`
        try:
            self._whole, self._part = BoundedPattern(text), BoundedPattern(part)
        except ConfigurationError as error:
            raise RuleFileError(f"the regex {text!r}: {error.message}", hint=error.hint) from error

    def fullmatch(self, text: str) -> bool:
        """Return whether the whole text matches; a text that takes too long does not."""
        return len(text) <= MAX_TEXT and self._whole.fullmatch(text) is True

    def search(self, text: str) -> bool | None:
        """Return whether some part of a text matches, or takes too long; None if it is too long.

        Line ends are tried as spaces as well, since `.` does not match them.
        """
        if len(text) > MAX_TEXT:
            return None
        tries = {text, text.replace("\n", " ")}
        return any(self._part.search(each) is not False for each in tries)
