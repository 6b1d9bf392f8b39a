"""File checkpoints: files that the calls of a reply may change are kept before the calls run."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import trio

from greenroom.core import Error, Execute, Opaque, SessionStorageError, ShellCommand, WritePath
from greenroom.core._internal import Checkpoint, Effect, new_id
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession
from greenroom.session._internal import StoreOnDisk

if TYPE_CHECKING:
    from greenroom.agents.file_restore import RestorePlan
    from greenroom.tools._internal import Packs, RegisteredTool, Window, WorkspaceRecorder

_RUNS = (Execute, ShellCommand, Opaque)
_HARMLESS = {"read", "network", "plan"}
_CUT_OFF = "what the commands changed is not known: the process ended before they did"
_NOT_COMPARED = "what the calls changed is not known: they were stopped, with no time to compare"
_GRACE = 5.0

WatchedCall: TypeAlias = "tuple[str, RegisteredTool, Sequence[Effect]]"
"""The id of a call, its tool, and its declared effects."""


class FileCheckpoints:
    """Keeps the files of a workspace before an agent's tools change them, to be restored.

    Pass it to `run_tools`. Before the calls of a reply start, each file that one of them declares
    to write is kept. If a call runs commands, or declares nothing, all files of the workspace are
    stamped and the small ones kept. When the calls have ended, the files are compared. A reply that
    only reads costs nothing. Files that can't be kept stop no tool: they are reported once, as an
    `Error`, and listed in the plan of a restore. The limits are in `docs/concepts/checkpoints.md`.

    Args:
        agent: the agent of the tools and the session.
        required: whether calls must not start if something can't be kept.

    Example:
        ```python
        checkpoints = FileCheckpoints(agent)
        await run_tools(agent, reply.tool_uses, tools, permissions, checkpoints=checkpoints)
        ```
    """

    def __init__(self, agent: AgentInternals, *, required: bool = False) -> None:
        """Begin with nothing kept; no file is read yet."""
        self._agent = agent
        self._is_required = required
        self._recorder: WorkspaceRecorder | None = None
        self._reported: set[str] = set()

    @staticmethod
    async def plan_restore(
        session: AgentSession, to: int, workspace: str | os.PathLike[str]
    ) -> "RestorePlan":
        """Plan how to restore files to what they were when the conversation had `to` messages.

        The plan covers files of the workspace that tools of this session have changed since then.
        Files that someone else has changed as well, later or between two calls, are listed and left
        alone. Nothing is changed yet; unsaved parts of the session are saved first.

        Raises:
            SessionError: the conversation has fewer messages.
            SessionStorageError: the store can't be read.

        Example:
            ```python
            plan = await FileCheckpoints.plan_restore(session, to, agent.context.workspace.root)
            print(plan)
            if input("Restore these files? ") == "yes":
                await session.rewind(to)
                await plan.apply()
            ```
        """
        from greenroom.agents.file_restore import plan_restore  # which few programs do

        return await plan_restore(session, to, workspace)

    @asynccontextmanager
    async def around(self, calls: Iterable[WatchedCall]) -> AsyncIterator[None]:
        """Keep what these calls may change, run the block, and record what they changed.

        The first record is part of the session's next commit; make it before the calls start.

        Raises:
            SessionStorageError: something can't be kept, and `required` is true.
        """
        ids, paths, compares = _find_writers(calls)
        if not ids:
            yield
            return
        from greenroom.agents.session_packs import packs_of  # loaded with the first of them

        packs = packs_of(self._agent.session)
        if packs is None:
            self._refuse(ids)
            yield
            return
        recorder = await self._get_recorder(packs)
        window = await recorder.open(self._make_absolute(paths), compares=compares)
        if recorder.failure:
            await self._report(recorder.failure)
        gaps = (*window.gaps, _CUT_OFF) if compares else tuple(window.gaps)
        begun = Checkpoint(new_id("c"), str(window.root), ids, window.before(), gaps)
        self._agent.session.conversation.add_checkpoint(begun)
        try:
            yield
        finally:
            await self._close(recorder, window, begun)

    def _make_absolute(self, paths: Iterable[str]) -> list[str]:
        absolute = []
        for path in paths:
            # The tool itself reports a bad path, such as one of an unknown user.
            with suppress(OSError, ValueError, RuntimeError):
                absolute.append(str(self._agent.context.workspace.absolute(path)))
        return absolute

    async def _close(
        self, recorder: "WorkspaceRecorder", window: "Window", begun: Checkpoint
    ) -> None:
        changes, gaps = begun.changes, (*window.gaps, _NOT_COMPARED)
        with self._agent.cleanup(_GRACE):
            changes = await recorder.close(window)
            gaps = tuple(window.gaps)
        ended = Checkpoint(begun.id, begun.root, begun.tool_use_ids, changes, gaps)
        self._agent.session.conversation.add_checkpoint(ended)

    def _refuse(self, ids: tuple[str, ...]) -> None:
        gap = f"no file was kept: {self._agent.session.store!r} keeps no files"
        if self._is_required:
            raise self._make_error(gap)
        self._agent.session.conversation.add_checkpoint(
            Checkpoint(new_id("c"), "", ids, gaps=(gap,))
        )

    def _make_error(self, why: str) -> SessionStorageError:
        id_ = self._agent.session.session_id
        return SessionStorageError(f"files can't all be restored: {why}", session_id=id_)

    async def _report(self, failure: str) -> None:
        """Report once what can't be kept."""
        error = self._make_error(failure)
        if self._is_required:
            raise error
        if failure not in self._reported:
            self._reported.add(failure)
            await self._agent.send(Error(error.message, type(error).__name__))

    async def _get_recorder(self, packs: "Packs") -> "WorkspaceRecorder":
        if self._recorder is None:
            from greenroom.tools._internal import WorkspaceRecorder

            session, workspace = self._agent.session, self._agent.context.workspace
            flush = session.durability != "none"

            def make() -> WorkspaceRecorder:
                root = Path(os.path.realpath(workspace.root))
                left_out = _places(session, str(root))
                return WorkspaceRecorder(root, packs, left_out=left_out, flush=flush)

            self._recorder = await trio.to_thread.run_sync(make)
        return self._recorder


def _find_writers(calls: Iterable[WatchedCall]) -> tuple[tuple[str, ...], list[str], bool]:
    """Return the calls that may change files, the files they name, and whether to compare all."""
    ids, paths, compares = [], [], False
    for id_, tool, effects in calls:
        named = [effect.path for effect in effects if isinstance(effect, WritePath)]
        runs = any(isinstance(effect, _RUNS) for effect in effects)
        is_silent = not effects and tool.category not in _HARMLESS
        if named or runs or is_silent:
            ids.append(id_)
            paths += named
            compares = compares or runs or is_silent
    return tuple(ids), paths, compares


def _places(session: AgentSession, root: str) -> tuple[str, ...]:
    """Return what of the store is not part of the workspace, though it may be there.

    That is its folder, or the session's if the workspace is in the store; or its files.
    """
    from greenroom.agents.session_packs import packs_folder

    if not (folder := packs_folder(session)):
        return session.store.paths() if isinstance(session.store, StoreOnDisk) else ()
    own = os.path.dirname(os.path.realpath(folder))
    store = os.path.dirname(own)
    return (own,) if os.path.commonpath([store, root]) == store else (store,)
