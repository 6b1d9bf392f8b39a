"""Restoring files after a rewind: a plan to look at and agree to, and its execution.

`plan_restore` compares what is on record of each changed file with the file as it is now. A file
that someone else has changed as well is left alone.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
import trio

from greenroom.agents.session_packs import packs_of
from greenroom.core import SessionStorageError, ToolError
from greenroom.core._internal import Checkpoint, FileChange, FileState, new_id, visible
from greenroom.session import AgentSession
from greenroom.session._internal import checkpoints_after
from greenroom.tools._internal import Packs, PackWriter, look_at, put_back


@dataclass(frozen=True)
class FileRestore:
    """What a restore does with one file that tools changed.

    Attributes:
        path: relative to the workspace's root.
        action: "write" it back; "delete" it, since tools made it; "leave" it, since someone else
            has changed it; or "lost": its former content is gone.
        reason: why it is left or lost; else empty.
        present: how it is now.
        original: how it was.
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
    """Describe what is not known of the changes below a root, each sentence once."""
    gaps: dict[str, None] = {}
    for each in checkpoints:
        gaps.update(dict.fromkeys(each.gaps))
        if each.changes and each.root != str(root):
            gaps[f"{len(each.changes)} files were changed in another workspace, {each.root}"] = None
    return tuple(gaps)


def judge_files(
    checkpoints: Iterable[Checkpoint], root: Path, packs: Packs
) -> tuple[FileRestore, ...]:
    """Decide about each file below the root that has changed. Blocks.

    Raises:
        OSError: the session's kept files can't be read.
    """
    changes = _collect_changes(each for each in checkpoints if each.root == str(root))
    files = (_judge(root, path, chain, packs) for path, chain in sorted(changes.items()))
    return tuple(each for each in files if each is not None)


def _collect_changes(checkpoints: Iterable[Checkpoint]) -> dict[str, list[FileChange]]:
    """Return the changes of each path, in order, without paths that lead out of the root."""
    changes: dict[str, list[FileChange]] = {}
    for checkpoint in checkpoints:
        for change in checkpoint.changes:
            parts = change.path.split("/")
            if "\0" not in change.path and not {"", ".", ".."}.intersection(parts):
                changes.setdefault(change.path, []).append(change)
    return changes


def _judge(root: Path, path: str, chain: list[FileChange], packs: Packs) -> FileRestore | None:
    """Decide about one file; None if it is as it was."""
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


class RestoreReport(msgspec.Struct, frozen=True):
    """What a restore did.

    Attributes:
        restored: the paths that were restored, in order.
        failed: the paths that could not be, with the reason.
    """

    restored: tuple[str, ...]
    failed: Mapping[str, str]


class RestorePlan:
    """What a restore would do to files; nothing happens before `apply`. Made by `plan_restore`.

    Attributes:
        root: the workspace's real path.
        files: each file that tools changed and that is not as it was before.
        gaps: what is not known of the tools' changes, a sentence each.
    """

    def __init__(
        self,
        session: AgentSession,
        root: Path,
        files: tuple[FileRestore, ...],
        gaps: tuple[str, ...],
    ) -> None:
        """Made by `plan_restore`."""
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
        """The files to change, deletions first, since a file may be where a folder was."""
        deletes = [each for each in self.files if each.action == "delete"]
        return (*deletes, *(each for each in self.files if each.action == "write"))

    async def apply(self) -> RestoreReport:
        """Write and delete as planned, except for files that have changed since the plan was made.

        Each file is replaced as a whole or not at all. Contents that are overwritten or deleted are
        kept in the session's checkpoints; the session records what was done, and is saved. A cancel
        stops it at the next file; what was done until then is recorded.

        Raises:
            SessionLockedError: there is another writer of the session; nothing was done.
            SessionStorageError: storage failed, either before anything was done or while it was
                recorded.
        """
        if not self.steps:
            return RestoreReport((), {})
        was_open = self._session.statistics().is_open
        if not was_open:
            await self._session.open()
        restorer = _Restorer(self.root, _packs(self._session), self.steps)
        try:
            await trio.to_thread.run_sync(restorer.run)
        except OSError as error:
            raise SessionStorageError(
                f"what would be overwritten can't be kept: {error.strerror or error}",
                session_id=self._session.session_id,
                hint="check free space and permissions in the session's folder",
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
    """Plan how to restore files; what `FileCheckpoints.plan_restore` does."""
    await session.save()
    store = session.store
    entries = (await store.read(session.session_id)).history.entries if store is not None else ()
    found = checkpoints_after(entries, to)
    packs = _packs(session)

    def make() -> RestorePlan:
        root = Path(os.path.realpath(workspace))
        return RestorePlan(session, root, judge_files(found, root, packs), find_gaps(found, root))

    try:
        return await trio.to_thread.run_sync(make)
    except OSError as error:
        raise SessionStorageError(
            f"the kept files can't be read: {error}", session_id=session.session_id
        ) from error


def _packs(session: AgentSession) -> Packs:
    """Return the session's packs; where its store keeps no files there are none."""
    return packs_of(session) or Packs("")


class _Restorer:
    """Carries out the steps of a plan, one after the other, in a thread."""

    def __init__(self, root: Path, packs: Packs, steps: tuple[FileRestore, ...]) -> None:
        self._root = root
        self._packs = packs
        self._steps = steps
        # In the order in which they were done; read once the thread has ended, even by a cancel.
        self.done: list[FileRestore] = []
        self.failed: dict[str, str] = {}

    def run(self) -> None:
        """Do all steps; a cancel stops it before the next one.

        Raises:
            OSError: what would be overwritten can't be kept; nothing was done.
        """
        self._keep_present()
        for step in self._steps:
            trio.from_thread.check_cancelled()
            try:
                self._do(step)
            # A record that someone edited by hand may ask for the impossible.
            except (OSError, ToolError, ValueError, OverflowError) as error:
                self.failed[step.path] = (
                    error.message if isinstance(error, ToolError) else str(error)
                )
            else:
                self.done.append(step)

    def _keep_present(self) -> None:
        """Keep the contents that are about to go, so that a mistaken yes loses nothing."""
        waiting = [step for step in self._steps if step.present.digest]
        while waiting:
            with self._packs.new_pack() as pack:
                while waiting and self._keep(waiting[-1], pack):
                    waiting.pop()

    def _keep(self, step: FileRestore, pack: PackWriter) -> bool:
        """Keep one content; return whether there was room for it."""
        trio.from_thread.check_cancelled()
        look = look_at(self._root / step.path)
        if look.content is None or look.state.digest != step.present.digest:
            return True  # it has just changed, so it will be left alone
        return pack.add(look.state.digest, look.content)

    def _do(self, step: FileRestore) -> None:
        content = self._packs.read(step.original.digest) if step.original.digest else b""
        if content is None:
            raise ToolError("its former content is damaged, or no longer kept")
        put_back(self._root / step.path, step.present, step.original, content)
