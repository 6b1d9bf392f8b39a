"""The menu below the input line: what may stand where the cursor is, and which of it is marked.

It is pure. `find_slot` says what is typed at the cursor, `find_matches` what may complete it, and
`Menu` keeps what is marked. What can't be known from the line alone, such as the sessions, is
offered by kind; until then a slot of that kind has no entries.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from greenroom.cli.commands import CandidateKind, Command
from greenroom.core._internal import compile_later

MAX_ROWS = 8
"""Rows of a menu at the most; others come into view as the mark moves."""

_MAX_MATCHES = 100
_FILE = compile_later(r'(?:^|(?<=\s))@("[^"\n]*|[^\s"]*)$')


class Candidate(msgspec.Struct, frozen=True):
    """One entry of a menu, or a completion in the shell.

    Attributes:
        word: what is put into the line.
        note: what it is.
        preview: what is shown while it is marked; a line or a few.
        label: what is shown instead of the word, if anything.
    """

    word: str
    note: str = ""
    preview: str = ""
    label: str = ""


class Slot(msgspec.Struct, frozen=True):
    """The place at the cursor where a word of some kind belongs.

    Attributes:
        kind: what belongs there; "history" for a whole earlier input.
        query: what is typed there.
        start: where that begins in the text.
        command: the command whose word it is, or None.
        is_last: whether no other word of the command follows.
    """

    kind: CandidateKind | str
    query: str
    start: int
    command: Command | None = None
    is_last: bool = True


def find_slot(before: str, commands: Iterable[Command]) -> Slot | None:
    """Find what belongs at the cursor, from the text before it.

    Example:
        >>> find_slot("look at @src/pa", ()).query
        'src/pa'
        >>> find_slot("/usr/bin", ()) is None
        True
    """
    if found := _FILE.search(before):
        return Slot("file", found[1].removeprefix('"'), found.start())
    if not before.startswith("/") or "\n" in before:
        return None
    name, blank, rest = before.partition(" ")
    if not blank:
        return None if "/" in name[1:] else Slot("command", name[1:], 0)
    command = next((each for each in commands if each.name == name[1:].casefold()), None)
    if command is None or not command.takes:
        return None
    earlier, words = len(name) + 1, rest
    for kind in command.takes[:-1]:
        word, blank, after = words.partition(" ")
        if not blank:
            return Slot(kind, word, earlier, command, is_last=False)
        earlier, words = earlier + len(word) + 1, after
    return Slot(command.takes[-1], words, earlier, command)


def find_matches(query: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that match what is typed, the best first, at most 100.

    Each word typed must be in the candidate, in any case of its letters; a single word may also
    name letters of it in their order.

    Example:
        >>> files = [Candidate("src/parser.py"), Candidate("docs/parts.md"), Candidate("a.py")]
        >>> [each.word for each in find_matches("par", files)]
        ['src/parser.py', 'docs/parts.md']
        >>> [each.word for each in find_matches("sppy", files)]
        ['src/parser.py']
        >>> [each.word for each in find_matches("mode", [Candidate("/model"), Candidate("/mode")])]
        ['/mode', '/model']
    """
    words = query.casefold().split()
    if not words:
        return list(candidates)[:_MAX_MATCHES]
    letters = re.compile(".*?".join(map(re.escape, words[0]))) if len(words) == 1 else None
    ranked: list[tuple[int, int, int, Candidate]] = []
    for at, each in enumerate(candidates):
        rank = _rank(words, each, letters)
        if rank is not None:
            ranked.append((rank, len(each.word) if rank > 1 else 0, at, each))
    ranked.sort(key=lambda row: row[:3])
    return [each for *_, each in ranked[:_MAX_MATCHES]]


def _rank(words: Sequence[str], each: Candidate, letters: re.Pattern[str] | None) -> int | None:
    word = each.word.casefold()
    last = word.rpartition("/")[2]
    if len(words) == 1 and words[0] in (word, last):
        return -1  # all of it: /mode is not the beginning of /model
    if word.startswith(words[0]) and len(words) == 1:
        return 0
    if len(words) == 1 and last.startswith(words[0]):
        return 1
    whole = f"{word} {each.label} {each.note}".casefold()
    if all(part in whole for part in words):
        return 2
    return 3 if letters is not None and letters.search(word) else None


class Menu(msgspec.Struct):
    """The entries at the cursor, and the one that is marked.

    Attributes:
        commands: the commands that the line has.
        offered: what may stand for each kind that the line alone does not tell.
        slot: what is open now, or None.
        matches: its entries.
        marked: the place of the marked one among them, or None.
    """

    commands: Sequence[Command] = ()
    offered: dict[str, Sequence[Candidate]] = msgspec.field(default_factory=dict)
    slot: Slot | None = None
    matches: Sequence[Candidate] = ()
    marked: int | None = None
    _closed_at: str | None = None  # the text for which the person has closed it
    _text: str | None = None  # for which it is up to date
    _history: bool = False  # whether the whole line is a query of earlier inputs

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose from."""
        return self.slot is not None and bool(self.matches)

    @property
    def current(self) -> Candidate | None:
        """The marked entry."""
        return None if self.marked is None else self.matches[self.marked]

    def update(self, before: str) -> None:
        """Follow the text before the cursor."""
        if before == self._text:
            return
        self._text = before
        if before == self._closed_at:
            self.slot = None
            return
        self._closed_at = None
        self.slot = Slot("history", before, 0) if self._history else self._find(before)
        self.matches = (
            find_matches(self.slot.query, self._candidates(self.slot)) if self.slot else ()
        )
        self.marked = 0 if self.matches and self._marks_first(self.slot, before) else None

    def _find(self, before: str) -> Slot | None:
        return find_slot(before, self.commands)

    def _marks_first(self, slot: Slot | None, before: str) -> bool:
        """Whether the first entry is marked at once: a command that begins like that, a search."""
        if slot is None or self._history:
            return slot is not None
        first = self.matches[0].word.casefold()
        return slot.kind == "command" and before != "/" and first.startswith(before.casefold())

    def _candidates(self, slot: Slot) -> Iterable[Candidate]:
        if slot.kind == "command":
            return [Candidate(f"/{each.name}", each.summary) for each in self.commands]
        return self.offered.get(slot.kind, ())

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        """Take what may stand where a word of this kind belongs."""
        self.offered[kind] = candidates
        if self.slot is not None and self.slot.kind == kind:
            self._text = None  # the next update finds them

    def search_history(self) -> None:
        """Take the whole line as a query of earlier inputs, until the menu is closed."""
        self._history, self._text, self._closed_at = True, None, None

    def move(self, by: int) -> None:
        """Move the mark, round the ends."""
        count = len(self.matches)
        if self.marked is None:
            self.marked = 0 if by > 0 else count - 1
        else:
            self.marked = (self.marked + by) % count

    def close(self) -> None:
        """Close it for the text that is there now."""
        self._closed_at, self.slot, self.matches, self.marked = self._text, None, (), None
        self._history = False

    def rows(self, columns: int, room: int) -> list[tuple[str, str]]:
        """Return its rows with their styles, in so many columns; the marked entry is among them.

        Where a command lets the person choose and nothing matches, one row says so.
        """
        # Here and not above: completion in the shell draws nothing.
        from rich.cells import cell_len, set_cell_size

        def cut(row: str) -> str:
            row = row.rstrip()
            if cell_len(row) < columns:
                return row
            return f"{set_cell_size(row, max(columns - 2, 0)).rstrip()}…"

        room = min(room, MAX_ROWS)
        if room < 1 or self.slot is None:
            return []
        if not self.matches:
            slot, query = self.slot, self.slot.query.strip()
            is_picked = slot.command is not None and slot.command.is_picker
            row = cut(f"  no {slot.kind} in the list matches {query!r}")
            return (
                [("class:menu", row)] if is_picked and query and self.offered.get(slot.kind) else []
            )
        preview = self.current.preview.splitlines() if self.current else []
        preview = preview[: max(room - 3, 0)]
        shown = max(room - len(preview), 1)
        first = max(min((self.marked or 0) - shown // 2, len(self.matches) - shown), 0)
        part = self.matches[first : first + shown]
        width = min(max(cell_len(each.label or each.word) for each in part), max(columns // 2, 8))
        rows = []
        for at, each in enumerate(part, first):
            mark, style = ("▸", "class:menu.marked") if at == self.marked else (" ", "class:menu")
            row = f"{mark} {set_cell_size(each.label or each.word, width)}  {each.note}"
            rows.append((style, cut(row)))
        return [*rows, *(("class:menu.preview", cut(f"    {line}")) for line in preview)]


def complete(text: str, cursor: int, slot: Slot, chosen: Candidate) -> tuple[str, int]:
    """Put a candidate in place of what was typed; return the text and the place of the cursor.

    Example:
        >>> complete("/mo", 3, Slot("command", "mo", 0), Candidate("/model"))
        ('/model ', 7)
    """
    word = chosen.word
    if slot.kind == "file":
        word = f'@"{word}"' if re.search(r"\s", word) else f"@{word}"
    after = text[cursor:]
    blank = "" if after.startswith(" ") or slot.kind == "history" or word.endswith("/") else " "
    done = text[: slot.start] + word + blank
    return done + after, len(done)
