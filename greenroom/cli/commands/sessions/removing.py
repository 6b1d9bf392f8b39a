"""`greenroom sessions rm` and `archive`: sessions that nobody wants to see any more."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import age, title_of
from greenroom.cli.questions.confirm import confirm
from greenroom.cli.run.conversation import full_session_id
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import OutputWriter, tell
from greenroom.core import SessionError, serde
from greenroom.session import AgentSession, SessionMetadata, SessionStore, descendants

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions


async def remove_sessions(options: "SessionsOptions") -> int:
    """Remove sessions for good, with those of their subagents; the exit code is 1 if one is left.

    Raises:
        SessionError: one is unknown; nothing was removed.
        ConfigurationError: there is nobody to ask, and `--yes` was not given.
    """
    store = open_store(options)
    listed = await store.list_all()
    chosen = await _chosen(options, store)
    below = {each: _below(each, listed) for each in chosen}
    # What goes with another one of them need not go by itself.
    chosen = [each for each in chosen if not any(each in ids for ids in below.values())]
    if not options.yes:
        # Beside the question, so that standard output holds results only.
        await OutputWriter(2).text("\n".join(_going(chosen, below, listed)))
        if not await confirm(f"Remove {_sessions(len(chosen))} for good?"):
            tell("nothing was removed")
            return 1

    async def remove(session_id: str) -> None:
        await AgentSession.delete(session_id, store=store, children=bool(below[session_id]))

    return await _each(chosen, remove, "removed", options, below)


async def archive_sessions(options: "SessionsOptions") -> int:
    """Put sessions out of the lists, or back; the exit code is 1 if one could not be.

    Raises:
        SessionError: one is unknown; nothing was changed.
    """
    store = open_store(options)
    change = AgentSession.unarchive if options.undo else AgentSession.archive
    chosen = await _chosen(options, store)
    word = "restored" if options.undo else "archived"
    return await _each(chosen, lambda each: change(each, store=store), word, options, {})


async def _each(
    chosen: Sequence[str],
    change: Callable[[str], Awaitable[None]],
    word: str,
    options: "SessionsOptions",
    below: Mapping[str, Sequence[str]],
) -> int:
    """Change each session; what can't be done for one is told, and the others go on."""
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
            await out.text(f"{word} {session_id}{_with(len(below.get(session_id, ())))}")
    if options.json:
        errors = [{"session_id": each.session_id, "error": each.message} for each in failed]
        await out.line(serde.encode({word: done, "failed": errors}))
    return 1 if failed else 0


async def _chosen(options: "SessionsOptions", store: SessionStore) -> list[str]:
    """Return the ids that are meant, each once; all of them are known before any is touched."""
    return list(dict.fromkeys([await full_session_id(each, store) for each in options.ids]))


def _below(session_id: str, listed: Sequence[SessionMetadata]) -> list[str]:
    return [child for children in descendants(session_id, listed).values() for child in children]


def _going(
    chosen: Sequence[str], below: Mapping[str, Sequence[str]], listed: Sequence[SessionMetadata]
) -> list[str]:
    """Say of each session that is to go what it is, as far as that can be read."""
    known = {each.session_id: each for each in listed}
    lines = []
    for each in chosen:
        record = known.get(each)
        said = f", {age(record.updated_at)}, {title_of(record)}" if record else ""
        lines.append(f"{each}{said}{_with(len(below[each]))}")
    return lines


def _with(count: int) -> str:
    return f" with {_sessions(count)} of its subagents" if count else ""


def _sessions(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'}"
