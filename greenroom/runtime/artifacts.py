"""The artifacts of an agent, as its tools save them."""

from typing import Protocol

import msgspec
import trio

from greenroom.core import Custom, OutputChunk, ToolError
from greenroom.core._internal import valid_unicode
from greenroom.session import AgentSession
from greenroom.session._internal import ARTIFACT, Artifact, KeepsFiles, begin_version


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
