"""What a menu of the input line offers, by kind: models, sessions, turns, files and others."""

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import get_args

import trio

from greenroom.cli.command_context import OpenRun
from greenroom.cli.formatting import age, one_line, place_of, recap, title_of
from greenroom.cli.menu import Candidate
from greenroom.cli.modes import DESCRIPTIONS
from greenroom.cli.session_commands import SCOPES, find_turns
from greenroom.cli.stored_sessions import SessionList
from greenroom.cli.themes import DESCRIPTIONS as THEME_DESCRIPTIONS
from greenroom.core import SessionError
from greenroom.core._internal import Effort, quantity
from greenroom.llm._internal import MODELS, VENDORS
from greenroom.session import AgentSession, SessionMetadata
from greenroom.tools._internal import walk_files

MAX_FILES = 20_000
"""Files that `@` offers at the most; the others can be typed."""

_MAX_SESSIONS = 100  # that are offered
_MAX_READ = 30  # of which the newest are read, for their messages
_MAX_TURNS = 500
_PREVIEW = 3  # lines of a session


async def find_candidates(run: OpenRun, kind: str) -> Sequence[Candidate]:
    """Return what may stand where a word of this kind belongs; commands are not among these.

    Raises:
        SessionStorageError: the store can't be read.
    """
    finder = _FINDERS.get(kind)
    return await finder(run) if finder else ()


async def _models(run: OpenRun) -> list[Candidate]:
    current = run.setup.model_name
    usable = [
        name
        for name in MODELS
        if (vendor := VENDORS.get(name.partition(":")[0]))
        and (vendor.key_in(os.environ) or not vendor.needs_key(os.environ))
    ]
    names = list(dict.fromkeys([current, *usable]))
    return [Candidate(name, "the model now" if name == current else "") for name in names]


async def _efforts(run: OpenRun) -> list[Candidate]:
    current = run.setup.model.effort
    return [Candidate(each, "now" if each == current else "") for each in get_args(Effort)]


async def _modes(run: OpenRun) -> list[Candidate]:
    return [Candidate(each, DESCRIPTIONS[each]) for each in run.setup.modes.modes]


async def _themes(run: OpenRun) -> list[Candidate]:
    return [Candidate(name, about) for name, about in THEME_DESCRIPTIONS.items()]


async def _scopes(run: OpenRun) -> list[Candidate]:
    return [Candidate(name, about) for name, about in SCOPES.items()]


async def _turns(run: OpenRun) -> list[Candidate]:
    turns = find_turns(run.setup.session.history)[-_MAX_TURNS:]
    return [Candidate(str(each.number), one_line(each.text)) for each in reversed(turns)]


async def _sessions(run: OpenRun, *, has_headless: bool = False) -> list[Candidate]:
    setup = run.setup
    listed = SessionList(await AgentSession.list_all(store=setup.store), setup.workspace)
    listed.has_headless = listed.has_headless or has_headless
    matches = [each for each in listed.matches if each.session_id != setup.session.session_id]
    found = []
    for at, each in enumerate(matches[:_MAX_SESSIONS]):
        found.append(await _describe_session(run, each, is_read=at < _MAX_READ))
    return found


async def _describe_session(run: OpenRun, session: SessionMetadata, *, is_read: bool) -> Candidate:
    facts = [age(session.updated_at), one_line(session.metadata.get("branch", ""))]
    if session.metadata.get("workspace") != str(run.setup.workspace):
        facts.append(place_of(session))
    preview = ""
    if is_read:
        try:
            history = (await AgentSession.load(session.session_id, store=run.setup.store)).history
        except SessionError:
            facts.append("can't be read")
        else:
            facts.append(quantity(len(history), "message"))
            lines = [one_line(line) for line in recap(history, 4)]
            preview = "\n".join(lines[-_PREVIEW:])
    note = " · ".join(filter(None, facts))
    return Candidate(session.session_id, note, preview, title_of(session) or session.session_id)


async def _agents(run: OpenRun) -> list[Candidate]:
    own = run.setup.session.session_id
    handles = (run.runtime.get(each) for each in run.runtime.list_active() if each != own)
    agents = [Candidate(each.name, str(each.state)) for each in handles if each is not None]
    commands = run.setup.commands.running
    return [*agents, *(Candidate(each.id, one_line(each.command)) for each in commands)]


async def _files(run: OpenRun) -> list[Candidate]:
    return [
        Candidate(each)
        for each in await trio.to_thread.run_sync(
            list_files, Path(run.setup.workspace), abandon_on_cancel=True
        )
    ]


def list_files(folder: Path) -> list[str]:
    """Return the files below a folder that git does not ignore, and their folders; it blocks."""
    files = list(islice(walk_files(folder, folder, lambda: None), MAX_FILES))
    folders = {f"{parent}/" for each in files for parent in Path(each).parents if parent.name}
    return sorted([*files, *folders], key=lambda path: (path.count("/"), path))


_FINDERS: dict[str, Callable[[OpenRun], Awaitable[list[Candidate]]]] = {
    "model": _models,
    "effort": _efforts,
    "mode": _modes,
    "scope": _scopes,
    "turn": _turns,
    "session": _sessions,
    "all sessions": partial(_sessions, has_headless=True),
    "agent": _agents,
    "theme": _themes,
    "file": _files,
}
