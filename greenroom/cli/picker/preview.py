"""The end of a conversation, for the list in which it is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import trio
from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.console.recap import recap
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.picker.entry import Entry
from greenroom.core import SessionError, clip, visible
from greenroom.session import AgentSession, Page, SessionStore

_MESSAGES = 6
_READ = 2 * _MESSAGES  # so that they can begin with words of the user's
_LONGEST = 600  # characters of what was said at once


@dataclass(frozen=True)
class Preview:
    """What is shown of a session.

    Attributes:
        session_id: whose it is.
        head: a line about it.
        parts: what was said last; where there is not room for all of it, the end is shown.
    """

    session_id: str
    head: RenderableType
    parts: Sequence[RenderableType]


async def load_preview(entry: Entry, store: SessionStore, scheme: ColorScheme) -> Preview:
    """Read the last few messages of a session, and nothing else; what can't be read says why."""
    head = Text(_about(entry), scheme.note)
    try:
        page = await AgentSession.read_last(entry.session_id, _READ, store=store)
    except SessionError as error:
        return Preview(entry.session_id, head, [Text(visible(str(error)), scheme.error)])
    return Preview(entry.session_id, head, _told(page, scheme))


def _about(entry: Entry) -> str:
    changed = f"{entry.changed.astimezone():%Y-%m-%d %H:%M}"
    parts = (entry.session_id, changed, entry.model, entry.folder)
    return " · ".join(part for part in parts if part)


def _told(page: Page, scheme: ColorScheme) -> list[RenderableType]:
    # Only now: Markdown takes long to load, and the list stands there already.
    from greenroom.cli.console.render_recap import render_recap

    parts: list[RenderableType] = []
    for line in recap(page.messages, _MESSAGES):
        parts += [Text(""), render_recap(replace(line, text=clip(line.text, _LONGEST)), scheme)]
    if page.repair is not None:
        parts += [Text(""), Text(visible(str(page.repair)), scheme.note)]
    return parts


class PreviewReader:
    """Reads the preview that is wanted, one at a time; what is wanted no longer is not shown."""

    def __init__(self, store: SessionStore, show: Callable[[Preview], None]) -> None:
        """Read from this store, and hand over what was read."""
        self._store = store
        self._show = show
        self._wanted: Entry | None = None
        self._has_changed = trio.Event()
        self._reading = trio.CancelScope()

    def want(self, entry: Entry | None) -> None:
        """Read this one next, or none, instead of what is being read."""
        self._wanted = entry
        self._has_changed.set()
        self._reading.cancel()

    async def run(self) -> None:
        """Read until it is cancelled."""
        scheme = ColorScheme()
        while True:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            with trio.CancelScope() as self._reading:
                if self._wanted is not None:
                    self._show(await load_preview(self._wanted, self._store, scheme))
