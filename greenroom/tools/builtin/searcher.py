"""Search files for a regular expression, and print rows as ripgrep does with `--null`.

This file runs as a program of its own, with only the standard library and `regex`, because a
search that takes forever has to be killed. A match that takes long counts as none, with a note:

    python -I -S searcher.py OPTIONS FILE ...

OPTIONS is a JSON object: `library` (the folder that has `regex`), `pattern`, `ignore_case`,
`multiline`, `before`, `after`, `count`, `max_count`, `columns`, `returns`. A row is the path, NUL,
the line's number, `:` (or `-` for context), and the line; when counting, the path, NUL and the
count. With `columns`, the column of the match, in bytes from 1, and `:` come before the line. With
`returns`, a carriage return is a character like any other; else it belongs to the line end that it
is part of. Binary files are
skipped. Exit code 2 means that the pattern is not a regular expression; the only line of output
then says why.
"""

import codecs
import json  # noqa: TID251  (the standard library alone)
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

MAX_FILE_BYTES = 100_000_000
SNIFFED_BYTES = 65_536
LINE_SECONDS = 0.1
FILE_SECONDS = 1.0


def decode_text(data: bytes) -> str:
    """Decode a file's bytes, UTF-16 with its mark as well; stray bytes become surrogates."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


class TimedPattern:
    """An expression whose matches end in time; `was_late` says whether one did not."""

    def __init__(self, pattern: str, flags: int) -> None:
        """Compile it; raise `re.error` if it is not a regular expression."""
        import regex

        self.was_late = False
        try:
            self._compiled = regex.compile(pattern, int(flags))
        except regex.error as error:
            raise re.error(str(error)) from None

    def search(self, text: str) -> "regex.Match[str] | None":
        """Return the first match in a line."""
        try:
            return self._compiled.search(text, timeout=LINE_SECONDS)
        except TimeoutError:
            self.was_late = True
            return None

    def finditer(self, text: str) -> "Iterator[regex.Match[str]]":
        """Yield the matches in a file."""
        try:
            yield from self._compiled.finditer(text, timeout=FILE_SECONDS)
        except TimeoutError:
            self.was_late = True


def compile_pattern(options: "dict[str, object]") -> TimedPattern:
    """Compile the expression as the options ask."""
    flags = re.IGNORECASE if options["ignore_case"] else re.NOFLAG
    if options["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    return TimedPattern(str(options["pattern"]), flags)


def find_lines(
    pattern: TimedPattern, lines: "list[str]", limit: int, *, returns: bool = False
) -> "dict[int, int]":
    """Return the indexes of the first `limit` lines that match, with the place of each match."""
    found: dict[int, int] = {}
    for index, line in enumerate(lines):
        if match := pattern.search(line if returns else line.removesuffix("\r")):
            found[index] = match.start()
            if len(found) == limit:
                break
    return found


def find_spanned_lines(
    pattern: TimedPattern, text: str, limit: int
) -> "tuple[dict[int, int], int]":
    """Return the indexes of all lines that matches touch, and how many matches there are.

    Each index comes with the place of the first match in the line where that begins.
    """
    found: dict[int, int] = {}
    matches = line = position = 0
    for match in pattern.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if position == len(text) and text.endswith("\n"):
            break
        inside = text.count("\n", position, max(match.end() - 1, position))
        start = position - (text.rfind("\n", 0, position) + 1)
        for touched in range(line, line + inside + 1):
            found.setdefault(touched, start)
        matches += 1
        if matches == limit:
            break
    return found, matches


def write_rows(path: str, text: str, options: "dict[str, object]", pattern: TimedPattern) -> str:
    """Return what to print of one file."""
    limit = int(str(options["max_count"]))
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if options["multiline"]:
        searched = text if options.get("returns") else text.replace("\r\n", "\n")
        found, matches = find_spanned_lines(pattern, searched, limit)
    else:
        found = find_lines(pattern, lines, limit, returns=bool(options.get("returns")))
        matches = len(found)
    if options["count"]:
        return f"{path}\0{matches}\n" if matches else ""
    wanted = dict.fromkeys(found, ":")
    for index in found:
        first = max(index - int(str(options["before"])), 0)
        for near in range(first, min(index + int(str(options["after"])) + 1, len(lines))):
            wanted.setdefault(near, "-")

    def column(index: int) -> str:
        if index not in found or not options.get("columns"):
            return ""
        return f"{len(lines[index][: found[index]].encode('utf-8', 'surrogateescape')) + 1}:"

    return "".join(
        f"{path}\0{index + 1}{wanted[index]}{column(index)}{lines[index]}\n"
        for index in sorted(wanted)
    )


def is_text(data: bytes) -> bool:
    """Return whether a file that begins so is text."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return is_utf16 or b"\0" not in data[:SNIFFED_BYTES]


def read(path: str) -> bytes:
    """Read a file that is not binary nor too large; else nothing."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return b""
    if len(data) > MAX_FILE_BYTES:
        print(f"skipped, as it is larger than {MAX_FILE_BYTES} bytes: {path}")  # noqa: T201
        return b""
    return data if is_text(data) else b""


def main(arguments: "list[str]") -> int:
    """Search; return the exit code."""
    options = json.loads(arguments[0])
    if "library" in options:
        sys.path.append(options["library"])
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]  # it is a real stream here
    try:
        pattern = compile_pattern(options)
    except (re.error, RecursionError, OverflowError) as error:
        print(f"regex parse error: {error}")  # noqa: T201
        return 2
    for path in arguments[1:]:
        data = read(path)
        if data:
            sys.stdout.write(write_rows(path, decode_text(data), options, pattern))
            if pattern.was_late:
                print(f"not searched in full, as a match takes too long: {path}")  # noqa: T201
                pattern.was_late = False
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
