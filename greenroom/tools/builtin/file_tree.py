"""The files below a folder: patterns of paths, `.gitignore`, walks, and filters of a search."""

import codecs
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from greenroom.core import ToolError
from greenroom.core._internal import compile_later
from greenroom.fs._internal import NamePattern, expand_braces, open_regular, read_pattern
from greenroom.sandbox._internal import Exit
from greenroom.tools.builtin.plain_names import plain_name

MAX_PATTERN = 1_000
"""The most characters of a pattern from a model."""

_MAX_ALTERNATIVES = 1_000


class GlobPattern:
    """A pattern for paths relative to a folder, with `/` between names.

    `*`, `?` and `[…]` match within one name; `**` as a whole part matches any number of folders;
    `{a,b}` matches either. Brackets and braces are signs or themselves, so `app/[id]/*` matches
    `app/i/x` and `app/[id]/x`. A backslash takes the sign after it as itself. A leading dot is
    nothing special. Case matters. A path matches itself, whatever signs it has. The plain form of a
    name, with blanks and quotes of ASCII, matches as well.

    Example:
        >>> pattern = GlobPattern("src/**/*.{py,pyi}")
        >>> pattern.matches("src/a.py"), pattern.matches("src/x/y/b.pyi"), pattern.matches("c.py")
        (True, True, False)
    """

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises:
            ToolError: its braces expand to more than 1,000 patterns.
        """
        self._literal = pattern.removeprefix("**/")
        self._is_deep = self._literal != pattern
        self._alternatives = _read_alternatives(pattern)
        plain = plain_name(pattern)
        self._plain = self._alternatives if plain == pattern else _read_alternatives(plain)

    def matches(self, path: str) -> bool:
        """Whether the pattern describes the whole path, as it is or in its plain form."""
        if path == self._literal or (self._is_deep and path.endswith(f"/{self._literal}")):
            return True
        names = path.split("/")
        if any(match_parts(parts, names) for parts in self._alternatives):
            return True
        names = names if path.isascii() else plain_name(path).split("/")
        return any(match_parts(parts, names) for parts in self._plain)


def _read_alternatives(pattern: str) -> list[list[NamePattern | None]]:
    return [
        [read_part(part) for part in one.split("/") if part not in {"", "."}]
        for one in dict.fromkeys([*list_alternatives(pattern), pattern])
    ]


def match_parts(parts: Sequence[NamePattern | None], names: Sequence[str]) -> bool:
    """Match names one to one with parts; None means any number of names.

    Only the last None ever has to take more names, so there are at most parts times names steps.
    """
    part = name = 0
    retry: tuple[int, int] | None = None
    while name < len(names):
        expected: NamePattern | Literal[False] | None = parts[part] if part < len(parts) else False
        if expected is None:
            retry = (part, name)
            part += 1
        elif expected and expected.fits(names[name]):
            part += 1
            name += 1
        elif retry:
            part, name = retry[0] + 1, retry[1] + 1
            retry = (retry[0], name)
        else:
            return False
    return all(rest is None for rest in parts[part:])


def list_alternatives(pattern: str) -> list[str]:
    """Expand `{a,b}` into its alternatives, also nested ones; a lone brace is itself.

    Example:
        >>> list_alternatives("{a,b{c,d}}.x")
        ['a.x', 'bc.x', 'bd.x']

    Raises:
        ToolError: there are more than 1,000.
    """
    try:
        return expand_braces(pattern, most=_MAX_ALTERNATIVES)
    except ValueError as error:
        message = f"{pattern[:200]!r} means more than {_MAX_ALTERNATIVES} patterns"
        raise ToolError(message) from error


def read_part(part: str, *, only_sets: bool = False) -> NamePattern | None:
    """Read the part of a pattern between two slashes; None for `**`.

    With `only_sets`, as git has it, brackets never stand for themselves.
    """
    if part == "**":
        return None
    # A glob has no escapes, but takes a bracketed character literally.
    text = re.sub(r"\\([*?\[])|\\(.?)", lambda each: f"[{each[1]}]" if each[1] else each[2], part)
    return read_pattern(text, only_sets=only_sets)


_MAX_BYTES = 1_000_000


class _Rule(msgspec.Struct, frozen=True):
    parts: tuple[NamePattern | None, ...]
    folders_only: bool
    keeps: bool

    @classmethod
    def parse(cls, line: str) -> "_Rule | None":
        text = line.rstrip(" ")
        if text.endswith("\\") and text != line:
            text += " "
        if not text or text.startswith("#"):
            return None
        keeps = text.startswith("!")
        text = text[1:] if keeps or text.startswith(("\\#", "\\!")) else text
        folders_only = text.endswith("/")
        text = text.rstrip("/")
        anchored = "/" in text
        names = [name for name in text.split("/") if name]
        if not names:
            return None
        parts = [read_part(name, only_sets=True) for name in names]
        if not anchored:
            parts.insert(0, None)
        elif parts[-1] is None:
            # "a/**" is all that lies in a, not a itself.
            parts.append(read_part("*"))
        return cls(tuple(parts), folders_only, keeps)

    def matches(self, names: list[str], *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if len(self.parts) == 2 and self.parts[0] is None and self.parts[1] is not None:
            return self.parts[1].fits(names[-1])
        return match_parts(self.parts, names)


class IgnoreRules:
    """The rules of one folder's `.gitignore`, on top of those of the folders above; as in git.

    Example:
        >>> rules = IgnoreRules.parse(["*.log", "!keep.log", "build/"])
        >>> rules.ignores("a/x.log"), rules.ignores("keep.log"), rules.ignores("build", True)
        (True, False, True)
    """

    def __init__(self, rules: list[_Rule], folder: str, above: "IgnoreRules | None") -> None:
        """Use `parse` and `below`."""
        # The last rule that matches decides.
        self._rules = rules[::-1]
        self._folder = folder
        self._above = above

    @classmethod
    def parse(
        cls, lines: list[str], folder: str = "", above: "IgnoreRules | None" = None
    ) -> "IgnoreRules":
        """Parse the lines of the file in `folder`, a path with a final slash or empty."""
        return cls([rule for line in lines if (rule := _Rule.parse(line))], folder, above)

    def below(self, real: Path, folder: str) -> "IgnoreRules":
        """Return the rules for a folder: these, and those of its own file, if any.

        Args:
            real: the folder on disk.
            folder: the same, relative to where these rules begin, with a final slash.
        """
        try:
            with open_regular(real / ".gitignore") as file:
                data = file.read(_MAX_BYTES)
        except OSError:
            return self
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        return IgnoreRules.parse(lines, folder, self)

    def ignores(self, path: str, is_folder: bool = False) -> bool:
        """Whether a path is ignored, given that its folder is not."""
        names = path[len(self._folder) :].split("/")
        for rule in self._rules:
            if rule.matches(names, is_folder=is_folder):
                return not rule.keeps
        return self._above.ignores(path, is_folder) if self._above else False


REPOSITORY_FOLDERS = (".git", ".hg", ".svn", ".jj")
"""The folders of version control, which are never listed or searched."""


def walk_files(base: Path, root: Path, check: Callable[[], None]) -> Iterator[str]:
    """List the regular files below `base`, in the order of their names, folder by folder.

    Files that a `.gitignore` excludes are left out, counted from the top of the repository (or from
    `root`, if `base` is not in one). Symbolic links are neither followed nor listed, and unreadable
    folders count as empty.

    Args:
        base: a real path.
        root: the workspace's real path.
        check: called once for each folder; it raises to stop.

    Yields:
        Paths relative to `base`, with `/`.
    """
    top, rules = rules_above(base, root)
    start = "" if base == top else f"{base.relative_to(top).as_posix()}/"
    stack: list[tuple[str, IgnoreRules]] = [(start, rules)]
    while stack:
        path, rules = stack.pop()
        if path and not path.endswith("/"):
            yield path[len(start) :]
            continue
        check()
        rules = rules.below(top / path, path)
        names = sorted(_children(top / path, path, rules), key=os.fsencode, reverse=True)
        stack.extend((path + name, rules) for name in names)


def rules_above(base: Path, root: Path) -> tuple[Path, IgnoreRules]:
    """Find the top folder for rules, and the rules for `base` without its own file."""
    top = root if base.is_relative_to(root) else base
    for folder in (base, *base.parents):
        if (folder / ".git").exists():
            top = folder
            break
    rules = IgnoreRules.parse([])
    for folder in reversed(base.parents):
        if folder.is_relative_to(top):
            relative = folder.relative_to(top).as_posix()
            rules = rules.below(folder, "" if relative == "." else f"{relative}/")
    return top, rules


def _children(folder: Path, path: str, rules: IgnoreRules) -> Iterator[str]:
    """List the names in a folder; those of folders have a final slash."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.name in REPOSITORY_FOLDERS:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if not rules.ignores(path + entry.name, is_folder):
                yield f"{entry.name}/" if is_folder else entry.name


FILE_TYPES = {
    "c": "*.{c,h}",
    "cpp": "*.{C,cc,cpp,cxx,h,hh,hpp,hxx,inl}",
    "cs": "*.cs",
    "css": "*.{css,scss}",
    "csv": "*.csv",
    "docker": "*{Dockerfile,.dockerfile}",
    "elixir": "*.{ex,eex,exs}",
    "erlang": "*.{erl,hrl}",
    "go": "*.go",
    "haskell": "*.{hs,lhs}",
    "html": "*.{htm,html,ejs}",
    "java": "*.{java,jsp,properties}",
    "js": "*.{js,jsx,mjs,cjs,vue}",
    "json": "*.{json,jsonl}",
    "kotlin": "*.{kt,kts}",
    "lua": "*.lua",
    "make": "{Makefile,makefile,GNUmakefile,*.mk,*.mak}",
    "markdown": "*.{md,mdx,markdown,mkd}",
    "md": "*.{md,mdx,markdown,mkd}",
    "perl": "*.{pl,pm,t}",
    "php": "*.php",
    "protobuf": "*.proto",
    "ps": "*.{ps1,psm1,psd1}",
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "r": "*.{r,R,Rmd,Rnw}",
    "rst": "*.rst",
    "ruby": "{*.rb,*.gemspec,Gemfile,Rakefile}",
    "rust": "*.rs",
    "scala": "*.{scala,sbt}",
    "sh": "*.{sh,bash,zsh,ksh}",
    "sql": "*.sql",
    "svelte": "*.svelte",
    "swift": "*.swift",
    "tex": "*.{tex,sty,cls,bib}",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "txt": "*.txt",
    "vue": "*.vue",
    "xml": "*.{xml,xsd,xsl,xslt}",
    "yaml": "*.{yaml,yml}",
    "zig": "*.zig",
}
"""The known types of files, each by a pattern of their names."""

# What may be spelled otherwise on the disk.
_UNSURE = compile_later(r"[^A-Za-z0-9_.*?+]+|\*+")


class FileFilter:
    """Selects files by type and by pattern; a pattern after `!` excludes files.

    A pattern without `/` is matched against the name, in any folder; another one against the path
    from the searched folder.

    Example:
        >>> wanted = FileFilter(glob="*.{ts,tsx}")
        >>> wanted.matches("a/b.tsx"), wanted.names
        (True, ['*.ts', '*.tsx'])
    """

    def __init__(self, glob: str = "", file_type: str = "") -> None:
        """Make a filter; without arguments it selects every file.

        Raises:
            ToolError: no such type.
        """
        if file_type and file_type not in FILE_TYPES:
            known = ", ".join(FILE_TYPES)
            raise ToolError(f"there is no file type {file_type!r}", hint=f"use one of {known}")
        self._type = GlobPattern(f"**/{FILE_TYPES[file_type]}") if file_type else None
        self._excludes = glob.startswith("!")
        pattern = glob.removeprefix("!").removeprefix("./")
        anchored = "/" in pattern.rstrip("/")
        self._glob = GlobPattern(pattern if anchored else f"**/{pattern}") if pattern else None
        broad = pattern if pattern and not self._excludes else ""
        self.names = _file_names(FILE_TYPES[file_type] if file_type else broad)

    def matches(self, path: str) -> bool:
        """Whether it selects the file of this path, relative to the searched folder."""
        if self._type and not self._type.matches(path):
            return False
        return self._glob is None or self._glob.matches(path) is not self._excludes


def _file_names(pattern: str) -> list[str]:
    """Return patterns that match the names of all selected files; empty if there are none.

    ripgrep uses them to skip files; `matches` then filters the rest.
    """
    names = [one.rstrip("/").rpartition("/")[2] for one in list_alternatives(plain_name(pattern))]
    names = ["" if re.search(r"[\[\\]", name) else name for name in names]
    names = [re.sub(r"\*+", "*", _UNSURE.sub("*", name)) for name in names]
    return names if not {"", "*"} & {*names} else []


def find_ripgrep(base: Path) -> str | None:
    """Return the path of the program `rg`, or None. Reads the disk: call it in a thread.

    Also None if ripgrep could wait forever: it opens each `.gitignore` from `base` upwards, and
    one may be a pipe or a device.
    """
    rules = (folder / ".gitignore" for folder in (base, *base.parents))
    return None if any(map(_is_special, rules)) else shutil.which("rg")


def _is_special(path: Path) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def has_crashed(ended: Exit) -> bool:
    """Whether a search ended before its time, as by a signal, so that its output is incomplete.

    0 and 1 say whether it found something, 2 that there were errors.
    """
    return not ended.timed_out and ended.code not in (0, 1, 2)


def ripgrep_command(program: str, *arguments: str) -> list[str]:
    """Make a command that sees hidden files, obeys only `.gitignore`, and reads no settings."""
    return [
        program,
        "--no-config",
        "--no-messages",
        "--hidden",
        "--no-require-git",
        "--no-ignore-global",
        "--no-ignore-exclude",
        "--no-ignore-dot",
        "--color=never",
        *(f"--glob=!{name}" for name in REPOSITORY_FOLDERS),
        *arguments,
    ]
