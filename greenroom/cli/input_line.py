"""The input line of the live terminal: its text, pasted chips, earlier inputs, the menu below it.

It belongs to the application's own loop, as `PromptApplication` does, and knows nothing of
questions: while one is open, none of the keys that are bound here count.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter, vi_insert_mode
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from greenroom.cli.commands import Command
from greenroom.cli.menu import Candidate, Menu, complete
from greenroom.cli.paste_chips import PasteChips
from greenroom.core._internal import compile_later

_PICTURE = compile_later(r"\.(png|jpe?g|gif|webp)$", re.IGNORECASE)
_MAX_DRAFT = 4_000_000  # bytes that are read back from the editor


class InputLine:
    """What is typed, with the menu below it.

    Attributes:
        buffer: prompt_toolkit's buffer; a chip is one letter of it.
        chips: the pasted texts that stand in it as chips.
        menu: the menu at the cursor.
    """

    def __init__(
        self,
        is_read_only: Filter,
        on_wanted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start empty.

        Args:
            is_read_only: whether nothing may be typed at the moment.
            on_wanted: is told which kind of candidates a menu needs, each time one opens.
        """
        self.chips = PasteChips()
        self.menu = Menu()
        self._on_wanted = on_wanted
        self._wanted: str | None = None
        self._draft: Document | None = None  # what stood there before a search of earlier inputs
        self._earlier = list[str]()
        self.buffer = Buffer(multiline=True, read_only=is_read_only)

    @property
    def commands(self) -> Sequence[Command]:
        """The commands that it knows."""
        return self.menu.commands

    @property
    def text(self) -> str:
        """What it says, with what was pasted."""
        return self.chips.expand(self.buffer.text)

    @property
    def shown(self) -> str:
        """What it shows, with chips by their labels."""
        return self.chips.show(self.buffer.text)

    def remember(self, history: Sequence[str]) -> None:
        """Know these inputs, the oldest first, before those that were typed already."""
        self._earlier[:0] = [self.chips.make(text) for text in history]
        self.buffer.history = InMemoryHistory(self._earlier)
        self.buffer.reset(self.buffer.document)  # else it keeps to the history of before

    def take(self) -> None:
        """Empty it, and remember what it said among the earlier inputs."""
        text = self.buffer.text
        self.buffer.reset()
        if text.strip():
            self._remember(text)

    def _remember(self, text: str) -> None:
        if self._earlier[-1:] != [text]:
            self._earlier.append(text)
            self.buffer.history.append_string(text)

    def paste(self, text: str) -> None:
        """Insert pasted text: as a chip if it is long, as `@path` if it names a picture."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        path = find_picture(text)
        if path:
            text = f'@"{path}" ' if re.search(r"\s", path) else f"@{path} "
        self.buffer.insert_text(self.chips.make(text))

    def update_menu(self) -> Menu:
        """Bring the menu up to date with what is typed; return it."""
        menu = self.menu
        menu.update(self.buffer.document.text_before_cursor)
        kind = menu.slot.kind if menu.slot else None
        if kind != self._wanted:
            self._wanted = kind
            if kind not in (None, "command", "history"):
                self._on_wanted(str(kind))
        return menu

    def search_history(self) -> None:
        """Search in the earlier inputs for what is typed from now on."""
        unique = list(dict.fromkeys(reversed(self._earlier)))
        self.menu.offer(
            "history",
            [Candidate(each, label=" ".join(self.chips.show(each).split())) for each in unique],
        )
        self._draft = self.buffer.document
        self.buffer.set_document(Document())
        self.menu.search_history()

    @property
    def is_searching(self) -> bool:
        """Whether the line is a query of earlier inputs."""
        return self._draft is not None

    def accept(self) -> bool:
        """Take what is marked, or the first; return whether the line may be sent now."""
        menu = self.update_menu()
        slot, chosen = menu.slot, menu.current
        if chosen is None and menu.matches:
            chosen = menu.matches[0]
        if slot is None or chosen is None:
            return False
        if slot.kind == "history":
            self._draft = None
            menu.close()
            self.buffer.set_document(Document(chosen.word))
            return False
        done, cursor = complete(self.buffer.text, self.buffer.cursor_position, slot, chosen)
        self.buffer.set_document(Document(done, cursor))
        if slot.kind == "command":
            command = next(each for each in self.commands if f"/{each.name}" == chosen.word)
            return not command.is_picker
        return slot.command is not None and slot.is_last

    def complete(self) -> None:
        """Take what is marked; among sessions, where none is, offer those of runs of `-p` too."""
        menu = self.update_menu()
        if menu.current is None and menu.slot is not None and menu.slot.kind == "session":
            self._on_wanted("all sessions")
        else:
            self.accept()

    def close_menu(self) -> None:
        """Close the menu; what stood in the line before a search comes back."""
        self.menu.close()
        if self._draft is not None:
            self.buffer.set_document(self._draft)
            self._draft = None

    def break_line(self, event: KeyPressEvent) -> None:
        """Insert a new line, in place of a back-slash before the cursor."""
        if self.has_backslash:
            event.current_buffer.delete_before_cursor()
        event.current_buffer.insert_text("\n")

    @property
    def has_backslash(self) -> bool:
        """Whether a back-slash before the cursor makes Enter a new line."""
        return self.buffer.document.text_before_cursor.endswith("\\")

    def edit(self, editor: str) -> None:
        """Edit the draft in an editor, and take what it says afterwards."""
        text = self.text

        def run() -> None:
            self.buffer.set_document(Document(self.chips.make(_edit(editor, text))))

        run_in_terminal(run, in_executor=False)


def _edit(editor: str, text: str) -> str:
    """Run an editor on a text, and return what it has made of it; the same if it failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            # The person's own editor, from their own settings.
            ended = subprocess.run([*shlex.split(editor), file.name], check=False)  # noqa: S603
            with open(file.name, encoding="utf-8", errors="replace") as edited:
                new = edited.read(_MAX_DRAFT)
        except (OSError, ValueError):
            return text
    return text if ended.returncode else new.removesuffix("\n")


def find_picture(text: str) -> str:
    """Return the path of a picture that a pasted text names; empty if it is anything else.

    A terminal pastes a dropped file as its path, with blanks escaped or quoted, or as an address.
    """
    text = text.strip()
    if "\n" in text or len(text) > 4_096 or not text.startswith(("/", "~", "'", '"', "file://")):
        return ""
    try:
        [path] = shlex.split(text) if not os.path.exists(text) else [text]
    except ValueError:
        return ""
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    path = os.path.expanduser(path)
    return path if _PICTURE.search(path) and os.path.isfile(path) else ""


def bind_line_keys(
    keys: KeyBindings,
    line: InputLine,
    when: Filter,
    send: Callable[[], None],
    editor: Callable[[], str],
) -> None:
    """Bind the keys that edit the line and move in its menu.

    Args:
        keys: where to.
        line: the line.
        when: whether the line takes text for the agent.
        send: sends the line.
        editor: returns the command of the editor.
    """
    is_open = when & Condition(lambda: line.update_menu().is_open)
    is_marked = is_open & Condition(lambda: line.menu.current is not None)
    is_searching = when & Condition(lambda: line.is_searching)

    def accept(event: KeyPressEvent) -> None:
        if line.accept():
            send()

    keys.add("c-j", filter=when)(line.break_line)
    keys.add("escape", "enter", filter=when)(line.break_line)
    keys.add("enter", filter=when & Condition(lambda: line.has_backslash))(line.break_line)
    keys.add("c-r", filter=when & ~is_searching)(lambda event: line.search_history())
    keys.add("c-g", filter=when)(lambda event: line.edit(editor()))
    keys.add("up", filter=is_open)(lambda event: line.menu.move(-1))
    keys.add("down", filter=is_open)(lambda event: line.menu.move(1))
    keys.add("tab", filter=is_open)(lambda event: line.complete())
    keys.add("enter", filter=is_searching)(lambda event: line.accept())
    keys.add("enter", filter=is_marked)(accept)
    closes = is_open | is_searching
    keys.add("escape", filter=closes & ~vi_insert_mode)(lambda event: line.close_menu())
    keys.add("c-c", filter=is_searching)(lambda event: line.close_menu())
