"""Commands that change sessions: `greenroom sessions fork`, `rewind`, `rm`, `repair` and others."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.cli.command_options import SessionsOptions
from greenroom.cli.formatting import age, one_line, recap, title_of
from greenroom.cli.sessions_read import show_lines
from greenroom.cli.stdio import OutputWriter, confirm, tell
from greenroom.cli.stored_sessions import (
    find_session_id,
    load_session,
    open_store,
    remove_traces,
    working_folder,
)
from greenroom.core import SessionError, SessionNotFoundError, utc_now
from greenroom.core._internal import quantity, serde
from greenroom.export import import_session
from greenroom.export._internal import LONGEST_IMPORT
from greenroom.session import AgentSession, SessionMetadata, SessionStore
from greenroom.session._internal import descendants

if TYPE_CHECKING:
    from greenroom.agents._internal import RestorePlan, RestoreReport
    from greenroom.session import FileStore, PostgresStore, SQLiteStore


_ACTIONS = {
    "write": "write back   ",
    "delete": "delete       ",
    "leave": "leave        ",
    "lost": "can't restore",
}


async def _print_plan(plan: "RestorePlan", page: OutputWriter) -> None:
    """Print what would happen to each file, and which changes are unknown."""
    if not plan.files and not plan.gaps:
        await page.text("\nNo file differs from what it was.")
        return
    await page.text(f"\nFiles in {one_line(str(plan.root))}:")
    for file in plan.files:
        reason = f": {file.reason}" if file.reason else ""
        await page.text(f"  {_ACTIONS[file.action]}  {file.label}{reason}")
    for gap in plan.gaps:
        await page.text(f"  note: {gap}")


def _find_unrestored(plan: "RestorePlan", report: "RestoreReport") -> dict[str, str]:
    """Return the changed files that are not restored, each with the reason."""
    return {file.path: file.reason for file in plan.files if file.reason} | dict(report.failed)


async def _print_restored(plan: "RestorePlan", report: "RestoreReport", page: OutputWriter) -> None:
    await page.text(f"{quantity(len(report.restored), 'file')} restored.")
    labels = {file.path: file.label for file in plan.files}
    for path, why in _find_unrestored(plan, report).items():
        await page.text(f"not restored: {labels[path]}: {why}")
    for gap in plan.gaps:
        await page.text(f"note: {gap}")


async def fork_session(options: SessionsOptions) -> int:
    """Make a new session that begins as another one does, and print its id.

    Raises:
        SessionError: the session is unknown, can't be read, or has fewer messages.
        SessionStorageError: the disk refused.
    """
    session = await load_session(options.session_id, open_store(options))
    fork = await session.fork(options.at, branch=options.branch)
    result = {"session_id": fork.session_id, "forked_from": fork.get_metadata("forked_from")}
    await OutputWriter().result(fork.session_id, result, as_json=options.json)
    return 0


async def rewind_session(options: SessionsOptions) -> int:
    """Go back to an earlier message, after showing what is removed and asking.

    With `--files`, the files that tools have changed since then are restored as well, as far as
    possible. The exit code is 1 if the person declines, or a file could not be restored as planned.

    Raises:
        SessionError: the session is unknown, is being written, or has fewer messages.
        SessionStorageError: the disk refused.
        ConfigurationError: no terminal to ask at, and no `--yes`.
    """
    session = await load_session(options.session_id, open_store(options))
    count = len(session.history)
    removed_count = max(count - options.to, 0)
    plan = await _plan_files(session, options.to) if options.files else None
    if not options.yes and not await _confirm_rewind(session, options.to, removed_count, plan):
        tell("nothing was taken back")
        return 1
    if options.to != count:
        await session.rewind(options.to)
    report = await plan.apply() if plan else None
    out = OutputWriter()
    if options.json:
        left = len(session.history)  # one more than asked for where a call needed a result
        done: dict[str, object] = {
            "session_id": session.session_id,
            "messages": left,
            "taken_back": removed_count,
        }
        if plan and report:
            unrestored = _find_unrestored(plan, report)
            done |= {"restored": report.restored, "not_restored": unrestored, "notes": plan.gaps}
        await out.line(serde.encode(done))
    else:
        await out.text(
            f"{quantity(removed_count, 'message')} taken back; they stay in the session's file."
        )
        if plan and report:
            await _print_restored(plan, report, out)
    return 1 if report and report.failed else 0


async def _plan_files(session: AgentSession, to: int) -> "RestorePlan":
    from greenroom.agents import FileCheckpoints  # all of the agents; no other verb needs them

    folder = session.get_metadata("workspace")
    return await FileCheckpoints.plan_restore(
        session, to, Path(folder) if isinstance(folder, str) else working_folder()
    )


async def _confirm_rewind(
    session: AgentSession, to: int, count: int, plan: "RestorePlan | None"
) -> bool:
    """Show what would be taken back and restored, and ask, unless it is nothing."""
    files = len(plan.steps) if plan else 0
    if not count and not files:
        return True
    page = OutputWriter(2)
    await show_lines(
        (line for line in recap(session.history) if line.at >= to), page, len(session.history)
    )
    if plan:
        await _print_plan(plan, page)
    back = f"take back {quantity(count, 'message')}" if count else ""
    restore = f"restore {quantity(files, 'file')}" if files else ""
    question = " and ".join(part for part in (back, restore) if part)
    return await confirm(f"\n{question[0].upper()}{question[1:]}?")


async def remove_sessions(options: SessionsOptions) -> int:
    """Remove sessions for good, with those of their subagents; the exit code is 1 if one is left.

    Raises:
        SessionError: one is unknown; nothing was removed.
        ConfigurationError: no terminal to ask at, and no `--yes`.
    """
    store = open_store(options)
    listed = await store.list_all()
    chosen = await _find_ids(options, store)
    below = {each: _descendant_ids(each, listed) for each in chosen}
    # A subagent's session is removed with its parent's, not separately.
    chosen = [each for each in chosen if not any(each in ids for ids in below.values())]
    if not options.yes:
        # Beside the question, so that standard output holds results only.
        await OutputWriter(2).text("\n".join(_describe(chosen, below, listed)))
        if not await confirm(f"Remove {quantity(len(chosen), 'session')} for good?"):
            tell("nothing was removed")
            return 1

    async def remove(session_id: str) -> None:
        await AgentSession.delete(session_id, store=store, children=bool(below[session_id]))
        await trio.to_thread.run_sync(remove_traces, [session_id, *below[session_id]])

    return await _change_each(chosen, remove, "removed", options, below)


async def expire_sessions(options: SessionsOptions) -> int:
    """Remove sessions for good that have not changed for so many days; 1 if one is left.

    One with subagents goes with them, once the last of them is as old. What is in use, or is
    changed meanwhile, is kept.

    Raises:
        ConfigurationError: no terminal to ask at, and no `--yes`.
    """
    store, now = open_store(options), utc_now()
    moment = now - timedelta(days=min(options.older, now.toordinal() - 1))  # since the year 1
    listed = await store.list_all()
    by_id = {each.session_id: each for each in listed}
    below = _group_by_root(listed)
    old = [
        each
        for each in below
        if all(by_id[one].updated_at < moment for one in (each, *below[each]))
    ]
    if old and not options.yes:
        await OutputWriter(2).text("\n".join(_describe(old, below, listed)))
        if not await confirm(f"Remove {quantity(len(old), 'session')} for good?"):
            tell("nothing was removed")
            return 1

    async def remove(session_id: str) -> None:
        children = bool(below[session_id])
        await AgentSession.delete(session_id, store=store, children=children, older_than=moment)
        await trio.to_thread.run_sync(remove_traces, [session_id, *below[session_id]])

    return await _change_each(old, remove, "removed", options, below)


def _group_by_root(listed: Sequence[SessionMetadata]) -> dict[str, list[str]]:
    """Return the ids below each session whose parent is not listed, in time linear in all."""
    known = {each.session_id for each in listed}
    children = dict[str | None, list[str]]()
    for each in listed:
        children.setdefault(each.parent_session_id, []).append(each.session_id)
    below = dict[str, list[str]]()
    for each in listed:
        if each.parent_session_id not in known:  # so nothing below it is in a circle
            family = [each.session_id]
            for member in family:  # which grows meanwhile
                family += children.get(member, ())
            below[each.session_id] = family[1:]
    return below


async def archive_sessions(options: SessionsOptions) -> int:
    """Hide sessions from the lists, or show them again; the exit code is 1 if one could not be.

    Raises:
        SessionError: one is unknown; nothing was changed.
    """
    store = open_store(options)
    change = partial(AgentSession.archive, store=store, archived=not options.undo)
    chosen = await _find_ids(options, store)
    word = "restored" if options.undo else "archived"
    return await _change_each(chosen, change, word, options, {})


async def _change_each(
    chosen: Sequence[str],
    change: Callable[[str], Awaitable[None]],
    word: str,
    options: SessionsOptions,
    below: Mapping[str, Sequence[str]],
) -> int:
    """Change each session; where that fails for one, say so and go on with the others."""
    done, failed, out = list[str](), list[SessionError](), OutputWriter()
    for session_id in chosen:
        try:
            await change(session_id)
        except SessionError as error:
            failed.append(error)
            tell(str(error))
            continue
        done += [session_id, *below.get(session_id, ())]
        if not options.json:
            await out.text(
                f"{word} {session_id}{_describe_subagents(len(below.get(session_id, ())))}"
            )
    if options.json:
        errors = [{"session_id": each.session_id, "error": each.message} for each in failed]
        await out.line(serde.encode({word: done, "failed": errors}))
    return 1 if failed else 0


async def _find_ids(options: SessionsOptions, store: SessionStore) -> list[str]:
    """Return the whole ids, each once; all of them are known before any session is changed."""
    return list(dict.fromkeys([await find_session_id(each, store) for each in options.ids]))


def _descendant_ids(session_id: str, listed: Sequence[SessionMetadata]) -> list[str]:
    return [child for children in descendants(session_id, listed).values() for child in children]


def _describe(
    chosen: Sequence[str], below: Mapping[str, Sequence[str]], listed: Sequence[SessionMetadata]
) -> list[str]:
    """Describe each session, as far as it can be read."""
    known = {each.session_id: each for each in listed}
    lines = []
    for each in chosen:
        record = known.get(each)
        about = f", {age(record.updated_at)}, {title_of(record)}" if record else ""
        lines.append(f"{each}{about}{_describe_subagents(len(below[each]))}")
    return lines


def _describe_subagents(count: int) -> str:
    return f" with {quantity(count, 'session')} of its subagents" if count else ""


async def repair_session(options: SessionsOptions) -> int:
    """Keep what can be verified of a damaged session, set the rest aside, and report it.

    Raises:
        SessionError: the session is unknown, is being written, or can't be repaired.
    """
    store = open_store(options)
    session_id = await _find_damaged(options.session_id, store)
    report = await store.salvage(session_id)
    session = await load_session(session_id, store)
    out, count = OutputWriter(), len(session.history)
    if options.json:
        found = {"messages": count, "repair": report}
        await out.line(serde.encode({"session_id": session.session_id, **found}))
        return 0
    result = "Nothing is damaged." if report is None else f"{report}."
    await out.text(f"{result} The session has {quantity(count, 'message')}.")
    if report is not None and report.kept:
        await out.text(
            f"`greenroom sessions show {session_id}` shows where some are missing; "
            f"`greenroom sessions fork {session_id} --at N` makes a new session of the first N."
        )
    return 0


async def _find_damaged(text: str, store: "FileStore | SQLiteStore | PostgresStore") -> str:
    """Return the full id, even of a session that can't be listed.

    Raises:
        SessionError: no session, or more than one, begins like this.
    """
    damaged = [each.session_id for each in (await store.survey()).damaged]
    if text in damaged:
        return text
    matches = [each for each in damaged if each.startswith(text)]
    try:
        return await find_session_id(text, store)
    except SessionNotFoundError:
        if len(matches) != 1:
            raise
        return matches[0]


async def import_from(options: SessionsOptions) -> int:
    """Make a session of a JSON export, and print its id.

    Raises:
        InvalidJSONError: it is not an export; the message names the line or the field.
        SessionError: it is of a newer version, or has an id that is in use, with `--keep-id`.
        SessionStorageError: the disk refused.
        OSError: the file can't be read.
    """
    # A person who waits for a pipe may want to give up.
    data = await trio.to_thread.run_sync(_read, options.file, abandon_on_cancel=True)
    store = open_store(options)
    session = await import_session(data, keep_id=options.keep_id, store=store)
    result = {
        "session_id": session.session_id,
        "messages": len(session.history),
        "imported_from": session.get_metadata("imported_from"),
    }
    await OutputWriter().result(session.session_id, result, as_json=options.json)
    return 0


def _read(path: str) -> bytes:
    """Read an export, at most one byte more than may be imported."""
    if path == "-":
        return sys.stdin.buffer.read(LONGEST_IMPORT + 1)
    with open(path, "rb") as file:
        return file.read(LONGEST_IMPORT + 1)
