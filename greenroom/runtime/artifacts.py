"""What the tools of an agent keep in its session: files, and artifacts for people."""

from typing import Protocol

import msgspec
import trio

from greenroom.core import Custom, OutputChunk, ToolError
from greenroom.core._internal import KeptFiles, valid_unicode
from greenroom.session import AgentSession
from greenroom.session._internal import (
    ARTIFACT,
    CHECKPOINT_FILES,
    LONGEST_FILE,
    Artifact,
    KeepsFiles,
    begin_version,
)


class SessionFiles:
    """Keeps files of one session in its store."""

    longest = LONGEST_FILE

    def __init__(self, store: KeepsFiles, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def put(self, name: str, data: bytes) -> None:
        """Keep a file, whole or not at all."""
        await self._store.put_file(self._session_id, _check(name), data)

    async def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (await self._store.open_file(self._session_id, _check(name))).getvalue()

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each file by its name, the oldest first."""
        found = await self._store.list_files(self._session_id)
        seen = (each for each in found if not each.name.startswith(CHECKPOINT_FILES))
        return {each.name: each.size for each in sorted(seen, key=lambda each: each.changed)}

    async def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        await self._store.remove_file(self._session_id, _check(name))


def _check(name: str) -> str:
    if name.startswith(CHECKPOINT_FILES):
        raise ValueError(f"{name!r} is not for tools: it is of the session's checkpoints")
    return name


def files_of(store: object, session_id: str) -> KeptFiles | None:
    """Return the files of a session, if its store keeps any."""
    return SessionFiles(store, session_id) if isinstance(store, KeepsFiles) else None


class _Agent(Protocol):
    """What artifacts need of the agent that makes them."""

    @property
    def session(self) -> AgentSession: ...
    def publish(self, chunk: OutputChunk) -> None: ...


class Artifacts:
    """Saves the versions of an agent's artifacts, one write after the other."""

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent
        self._lock = trio.Lock()

    async def save(
        self,
        tool_use_id: str,
        name: str,
        data: str | bytes,
        media_type: str | None,
        append: bool,
        complete: bool,
    ) -> int:
        """Save a version, or append to the newest one; see `AgentContext.save_artifact`."""
        session = self._agent.session
        store = session.store
        if not isinstance(store, KeepsFiles):
            raise ToolError("the store of this session keeps no files", hint="use another store")
        content = data if isinstance(data, bytes) else valid_unicode(data).encode()
        async with self._lock:
            known = session.artifacts()
            newest = [each for each in known if each.name == name][-1:]
            if append and newest and not newest[0].complete:
                now = newest[0]
                before = await store.open_file(session.session_id, now.file)
                content = before.getvalue() + content
            else:
                now = begin_version(known, name, media_type, is_text=isinstance(data, str))
            now = msgspec.structs.replace(
                now, size=len(content), complete=complete, tool_use_id=tool_use_id
            )
            await store.put_file(session.session_id, now.file, content)
            session.add_record(ARTIFACT, msgspec.to_builtins(now))
            # Here and not at the turn's end: whoever reads of it can fetch it.
            await session.save(flush=False)
        self._agent.publish(_tell(now, append=append))
        return now.version


def _tell(now: Artifact, *, append: bool) -> Custom:
    data = {**msgspec.to_builtins(now), "append": append}
    state = "" if now.complete else ", not complete yet"
    return Custom(ARTIFACT, data, f"{now.name}, version {now.version}{state}")
