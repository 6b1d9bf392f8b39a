"""Restoring files: what is to become of each, as a plan to look at and agree to, and its execution."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import trio

from greenroom.agents.file_checkpoints import packs_folder
from greenroom.core import (
    Checkpoint,
    FileChange,
    FileState,
    SessionStorageError,
    ToolError,
    new_id,
    visible,
)
from greenroom.session import AgentSession, checkpoints_after
from greenroom.tools import Packs, PackWriter, look_at, put_back

# ---- What is to become of each file that tools changed, decided from what is on record of it.


@dataclass(frozen=True)
class FileRestore:
    """What is to become of one file that tools changed.

    Attributes:
        path: relative to the workspace's root.
        action: it is written back, or deleted as tools made it; it is left, since someone else
            has changed it; or what it was is lost.
        reason: why it is left or lost; else empty.
        present: how it is now.
        wanted: how it was.
    """

    path: str
    action: Literal["write", "delete", "leave", "lost"]
    reason: str = ""
    present: FileState = field(default=FileState("absent"), repr=False)
    original: FileState = field(default=FileState("absent"), repr=False)

    @property
    def label(self) -> str:
        """The path in one line, with hidden characters made visible."""
        return visible(self.path).replace("\n", "\\u{a}")

    def __str__(self) -> str:
        return f"{self.action} {self.label}" + (f": {self.reason}" if self.reason else "")


def find_gaps(checkpoints: Iterable[Checkpoint], root: Path) -> tuple[str, ...]:
    """Return what is not known of the changes below a root, each sentence once."""
    gaps: dict[str, None] = {}
    for each in checkpoints:
        gaps.update(dict.fromkeys(each.gaps))
        if each.changes and each.root != str(root):
            gaps[f"{len(each.changes)} files were changed in another workspace, {each.root}"] = None
    return tuple(gaps)


def judge_files(
    checkpoints: Iterable[Checkpoint], root: Path, packs: Packs
) -> tuple[FileRestore, ...]:
    """Decide about each file below the root that is not as it was. Blocks.

    Raises:
        OSError: what is kept of a session's files can't be read.
    """
    changes = _collect_changes(each for each in checkpoints if each.root == str(root))
    files = (_judge(root, path, chain, packs) for path, chain in sorted(changes.items()))
    return tuple(each for each in files if each is not None)


def _collect_changes(checkpoints: Iterable[Checkpoint]) -> dict[str, list[FileChange]]:
    """Return what became of each path, in order; paths that lead out of the root are left out."""
    changes: dict[str, list[FileChange]] = {}
    for checkpoint in checkpoints:
        for change in checkpoint.changes:
            parts = change.path.split("/")
            if "\0" not in change.path and not {"", ".", ".."}.intersection(parts):
                changes.setdefault(change.path, []).append(change)
    return changes


def _judge(root: Path, path: str, chain: list[FileChange], packs: Packs) -> FileRestore | None:
    """Decide about one file; None where it is as it was."""
    original, present = chain[0].before, look_at(root / path).state
    if present.same(original):
        return None
    conflict = _find_conflict(chain, present)
    if conflict:
        return FileRestore(path, "leave", conflict)
    loss = _find_loss(original, packs)
    if loss:
        return FileRestore(path, "lost", loss)
    action: Literal["write", "delete"] = "delete" if original.kind == "absent" else "write"
    return FileRestore(path, action, "", present, original)


def _find_conflict(chain: list[FileChange], present: FileState) -> str:
    if any(change.after is None for change in chain):
        return "a call that changed it was cut off, and what it left is not known"
    after = chain[-1].after
    assert after is not None
    if after.problem and after.kind == "file":
        return after.problem
    if not present.same(after):
        return "someone else has changed it since"
    for first, second in pairwise(chain):
        if first.after is None or not first.after.same(second.before):
            return "someone else has changed it between two calls"
    return ""


def _find_loss(original: FileState, packs: Packs) -> str:
    if original.kind == "other" or original.problem:
        return original.problem
    if original.kind == "file" and original.digest not in packs:
        return "its former content is not kept, or no longer"
    return ""


@dataclass(frozen=True)
class RestoreReport:
    """What was done.

    Attributes:
        restored: the paths that are as they were, in order.
        failed: the paths that are not, and why.
    """

    restored: tuple[str, ...]
    failed: Mapping[str, str]


class RestorePlan:
    """What a rewind would do to files; nothing is done before `apply`. Made by `plan_restore`.

    Attributes:
        root: the workspace's real path.
        files: each file that tools changed and that is not as it was.
        gaps: what is not known of the tools' changes, a sentence each.
    """

    def __init__(
        self,
        session: AgentSession,
        root: Path,
        files: tuple[FileRestore, ...],
        gaps: tuple[str, ...],
    ) -> None:
        """Not for use from outside: call `plan_restore`."""
        self._session = session
        self.root = root
        self.files = files
        self.gaps = gaps

    def __repr__(self) -> str:
        return f"<RestorePlan of {len(self.files)} files in {self.root}>"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.files), *(f"note: {gap}" for gap in self.gaps)])

    @property
    def steps(self) -> tuple[FileRestore, ...]:
        """What `apply` does: deletions first, since a file may stand where a folder was."""
        deletes = [each for each in self.files if each.action == "delete"]
        return (*deletes, *(each for each in self.files if each.action == "write"))

    async def apply(self) -> RestoreReport:
        """Write back and delete as planned; what has changed since the plan was made is spared.

        Each file is replaced as a whole or not at all. What is overwritten or deleted is kept
        among the session's checkpoints, and the session records what was done, and is saved.
        Cancelled, it stops at the next file, and records what was done until then.

        Raises:
            SessionLockedError: someone else writes the session; nothing was done.
            SessionStorageError: the disk refused; before anything was done, or to record it.
        """
        if not self.steps:
            return RestoreReport((), {})
        was_open = self._session.statistics().is_open
        if not was_open:
            await self._session.open()
        restorer = _Restorer(self.root, Packs(packs_folder(self._session)), self.steps)
        try:
            await trio.to_thread.run_sync(restorer.run)
        except OSError as error:
            raise SessionStorageError(
                f"what would be overwritten can't be kept: {error.strerror or error}",
                session_id=self._session.session_id,
                hint="see to free space and permissions in the session's folder",
            ) from error
        finally:
            with trio.CancelScope(shield=True):
                await self._record(restorer, keeps_open=was_open)
        return RestoreReport(tuple(each.path for each in restorer.done), restorer.failed)

    async def _record(self, restorer: "_Restorer", *, keeps_open: bool) -> None:
        try:
            if restorer.done:
                changes = (FileChange(e.path, e.present, e.original) for e in restorer.done)
                made = Checkpoint(new_id("c"), str(self.root), (), tuple(changes))
                self._session.conversation.add_checkpoint(made)
                await self._session.save()
        finally:
            if not keeps_open:
                await self._session.close()


async def plan_restore(
    session: AgentSession, to: int, workspace: str | os.PathLike[str]
) -> RestorePlan:
    """Plan how files become what they were when the conversation had its first `to` messages.

    Only files below the workspace that tools of this session changed since then; what someone
    else has changed too, meanwhile or between two calls, is listed and left. Nothing is changed
    yet. The session is saved first where something of it is not.

    Raises:
        SessionError: the conversation has fewer messages.
        SessionStorageError: the store can't be read.

    Example:
        ```python
        plan = await plan_restore(session, to, agent.context.workspace.root)
        print(plan)
        if input("Restore these files? ") == "yes":
            await session.rewind(to)
            await plan.apply()
        ```
    """
    await session.save()
    store = session.store
    entries = (await store.read(session.session_id)).history.entries if store is not None else ()
    found = checkpoints_after(entries, to)
    packs = Packs(packs_folder(session))

    def make() -> RestorePlan:
        root = Path(os.path.realpath(workspace))
        return RestorePlan(session, root, judge_files(found, root, packs), find_gaps(found, root))

    try:
        return await trio.to_thread.run_sync(make)
    except OSError as error:
        raise SessionStorageError(
            f"what is kept of files can't be read: {error}", session_id=session.session_id
        ) from error


class _Restorer:
    """The steps of a plan, one after the other, in a thread."""

    def __init__(self, root: Path, packs: Packs, steps: tuple[FileRestore, ...]) -> None:
        self._root = root
        self._packs = packs
        self._steps = steps
        # In what order they were done; read while the thread is gone, also after a cancel.
        self.done: list[FileRestore] = []
        self.failed: dict[str, str] = {}

    def run(self) -> None:
        """Do them all; a cancel ends it before the next one.

        Raises:
            OSError: what would be overwritten can't be kept; nothing was done.
        """
        self._keep_present()
        for step in self._steps:
            trio.from_thread.check_cancelled()
            try:
                self._do(step)
            # A record that someone wrote by hand may ask for what no system can do.
            except (OSError, ToolError, ValueError, OverflowError) as error:
                self.failed[step.path] = (
                    error.message if isinstance(error, ToolError) else str(error)
                )
            else:
                self.done.append(step)

    def _keep_present(self) -> None:
        """Keep what is about to go, so that a yes by mistake loses nothing."""
        waiting = [step for step in self._steps if step.present.digest]
        while waiting:
            with self._packs.writing() as pack:
                while waiting and self._keep(waiting[-1], pack):
                    waiting.pop()

    def _keep(self, step: FileRestore, pack: PackWriter) -> bool:
        """Keep one content; return whether there was room for it."""
        trio.from_thread.check_cancelled()
        look = look_at(self._root / step.path)
        if look.content is None or look.state.digest != step.present.digest:
            return True  # changed this moment: it will be spared
        return pack.add(look.state.digest, look.content)

    def _do(self, step: FileRestore) -> None:
        content = self._packs.read(step.original.digest) if step.original.digest else b""
        if content is None:
            raise ToolError("its former content is damaged, or no longer kept")
        put_back(self._root / step.path, step.present, step.original, content)
