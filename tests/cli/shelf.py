"""A store with sessions, for tests of the commands about them."""

import shutil
from pathlib import Path

import trio

from greenroom.core import Message
from greenroom.session import AgentSession

HOSTILE = "\x1b[2J\x1b]0;gone\x07two\nlines \u202etxt.exe\u200b"


class Shelf:
    def __init__(self, store):
        self.store = store
        self.here = ("--sessions", str(store.folder("x"))[:-2])

    def add(self, session_id, *texts, parent=None, **metadata):
        """Store a session in which user and model speak by turns."""
        trio.run(self._add, session_id, texts, parent, metadata)
        return session_id

    async def _add(self, session_id, texts, parent, metadata):
        if parent:
            session = AgentSession.new_subagent(
                "coder", parent, session_id=session_id, store=self.store
            )
        else:
            session = AgentSession.new("coder", session_id=session_id, store=self.store)
        for place, text in enumerate(texts or ["hello"]):
            session.add_message(Message.assistant(text) if place % 2 else Message.user(text))
        for key, value in metadata.items():
            session.set_metadata(key, value)
        session.set_model("offline", "rules")
        await session.save()

    def say(self, session_id, text):
        """Add a message in a line of its own."""

        async def say():
            session = await AgentSession.load(session_id, store=self.store)
            session.add_message(Message.user(text))
            await session.save()

        trio.run(say)

    def load(self, session_id):
        async def load():
            return await AgentSession.load(session_id, store=self.store)

        return trio.run(load)

    def copy(self, session_id, count):
        """Put so many more of a session beside it, at the speed of a copy."""
        for number in range(count):
            copy = self.folder(f"{session_id}-{number:05}")
            shutil.copytree(self.folder(session_id), copy)
            path = copy / "metadata.json"
            path.write_text(path.read_text().replace(f'"{session_id}"', f'"{copy.name}"'))

    def folder(self, session_id):
        return Path(self.store.folder(session_id))
