"""Path patterns: `*`, `?`, `[…]`, `**` and `{a,b}`, matched without backtracking out of hand."""

import fnmatch
import functools
import itertools
import re
from collections.abc import Sequence

from greenroom.core import ToolError

MAX_PATTERN = 1_000
"""How many characters a pattern may have that a model writes."""

_MAX_ALTERNATIVES = 1_000


class GlobPattern:
    """A pattern for paths relative to a folder, written with `/`.

    `*` and `?` stay within one name; `**` as a whole part stands for any number of folders, also
    none; `{a,b}` for either. A leading dot is nothing special. Case matters.

    Example:
        >>> pattern = GlobPattern("src/**/*.{py,pyi}")
        >>> pattern.matches("src/a.py"), pattern.matches("src/x/y/b.pyi"), pattern.matches("c.py")
        (True, True, False)
    """

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises:
            ToolError: its braces stand for more than 1,000 patterns.
        """
        self._alternatives = [
            [compile_part(part) for part in one.split("/") if part not in {"", "."}]
            for one in expand_braces(pattern)
        ]

    def matches(self, path: str) -> bool:
        """Whether the pattern describes the whole path."""
        names = path.split("/")
        return any(match_parts(parts, names) for parts in self._alternatives)


def match_parts(parts: Sequence["re.Pattern[str] | None"], names: Sequence[str]) -> bool:
    """Match names one to one with parts; None stands for any number of names.

    Only the last None ever has to take more names, so the work is at most parts times names.
    """
    part = name = 0
    retry: tuple[int, int] | None = None
    while name < len(names):
        wanted = parts[part] if part < len(parts) else _NOTHING
        if wanted is None:
            retry = (part, name)
            part += 1
        elif wanted.match(names[name]):
            part += 1
            name += 1
        elif retry:
            part, name = retry[0] + 1, retry[1] + 1
            retry = (retry[0], name)
        else:
            return False
    return all(rest is None for rest in parts[part:])


def expand_braces(pattern: str) -> list[str]:
    """Write out the alternatives of `{a,b}`, nested ones as well; a lone brace is itself.

    Example:
        >>> expand_braces("{a,b{c,d}}.x")
        ['a.x', 'bc.x', 'bd.x']

    Raises:
        ToolError: there are more than 1,000.
    """
    found = [pattern]
    done: list[str] = []
    while found:
        one = found.pop(0)
        braces = _first_braces(one)
        if braces is None:
            done.append(one)
        else:
            start, end, choices = braces
            found = [one[:start] + choice + one[end:] for choice in choices] + found
        if len(found) + len(done) > _MAX_ALTERNATIVES:
            raise ToolError(f"{pattern[:200]!r} stands for more than {_MAX_ALTERNATIVES} patterns")
    return done


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Find the first closed braces with a comma: where they begin and end, and the choices."""
    first: list[int] = []
    opened: list[list[int]] = []
    for found in re.finditer(r"[{,}]", pattern):
        if found[0] == "{":
            opened.append([found.start()])
        elif opened:
            # The edges of the choices: the opening brace, the commas, the closing brace.
            opened[-1].append(found.start())
            if found[0] == "}":
                edges = opened.pop()
                first = min(first or edges, edges) if len(edges) > 2 else first
    if not first:
        return None
    choices = [pattern[left + 1 : right] for left, right in itertools.pairwise(first)]
    return first[0], first[-1] + 1, choices


_NOTHING = re.compile(r"(?!)")


@functools.lru_cache(maxsize=1_024)
def compile_part(part: str) -> re.Pattern[str] | None:
    """Compile what stands between two slashes; None for `**`."""
    if part == "**":
        return None
    plain = part.replace("[^", "[!")
    # fnmatch has no escapes, but takes a bracketed character literally.
    escaped = re.sub(r"\\([*?\[])", r"[\1]", plain).replace("\\", "")
    return re.compile(fnmatch.translate(escaped))
