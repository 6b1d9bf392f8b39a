"""Where sessions are stored, and which one is meant: by its id, the newest, or from a list.

The list to choose from needs no more than a terminal that prints lines: it redraws nothing and
handles no keys.
"""

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.cli.argument_values import PASSFILE, holds_password, is_server
from greenroom.cli.formatting import age, first_words, place_of, shorten, shorten_home, title_of
from greenroom.cli.options import INTERRUPTED, Options
from greenroom.cli.stdio import EndSignals, OutputWriter, is_hung_up, read_some
from greenroom.core import ConfigurationError, SessionError, SessionNotFoundError
from greenroom.session import AgentSession, FileStore, SessionMetadata, SessionStore
from greenroom.session._internal import folder_name

if TYPE_CHECKING:
    from greenroom.session import PostgresStore, SQLiteStore

_MAX_TITLE = 60
_MAX_NAMED = 5  # sessions that an error lists
_MAX_ROWS = 20
_AGE = 10  # columns; that of a date


def working_folder() -> Path:
    """Return the folder that the program was started in.

    Raises:
        ConfigurationError: it has been removed, or can't be read.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            "the working directory does not exist any more", hint="cd to another folder"
        ) from error


def sessions_folder(env: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the folder of this user's sessions; it need not exist.

    It is `$XDG_STATE_HOME/greenroom/sessions`, by default under `~/.local/state`, as the XDG base
    directory specification says; on macOS `~/Library/Application Support/greenroom/sessions`.

    Example:
        >>> sessions_folder({"XDG_STATE_HOME": "/state"}, "linux").as_posix()
        '/state/greenroom/sessions'
    """
    env = os.environ if env is None else env
    return user_folder("XDG_STATE_HOME", "~/.local/state", env, platform) / "sessions"


def traces_folder() -> Path:
    """Return where the traces of sessions are whose store has no folder for each."""
    return sessions_folder().parent / "traces"


def remove_traces(session_ids: Iterable[str]) -> None:
    """Remove what `traces_folder` has of sessions that are gone; one without a trace is fine.

    Raises:
        OSError: a trace can't be removed.
    """
    for session_id in session_ids:
        folder = traces_folder() / folder_name(session_id)
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def user_folder(variable: str, default: str, env: Mapping[str, str], platform: str) -> Path:
    """Return the folder of this program in one of the XDG base directories, or in macOS's own."""
    # The specification says to ignore a relative path.
    base = env.get(variable, "")
    home = Path(base if os.path.isabs(base) else default)
    home = Path("~/Library/Application Support") if platform == "darwin" else home
    return home.expanduser() / "greenroom"


def name_folder(folder: Path) -> str:
    """Return a name for what is kept of a folder, which no other folder has.

    Example:
        >>> name_folder(Path("/work/My Shop"))
        'My_Shop-509fa0755ae8'
    """
    digest = blake2b(os.fsencode(os.path.realpath(folder)), digest_size=6).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9.-]', '_', folder.name)[:40]}-{digest}"


def open_store(options: Options) -> "FileStore | SQLiteStore | PostgresStore":
    """Return the store that the options name, else the user's own; a file is a database.

    Raises:
        ConfigurationError: no PostgreSQL server is named, or it can't be used.
    """
    return open_place(options.sessions or str(sessions_folder()))


def open_configured_store(options: Options) -> "FileStore | SQLiteStore | PostgresStore":
    """Return the store as `open_store` does, for options that settings have not completed.

    Raises:
        ConfigurationError: settings or the store can't be used.
    """
    return open_place(options.sessions or configured_place() or str(sessions_folder()))


def configured_place(env: Mapping[str, str] | None = None) -> str | None:
    """Return where sessions are kept as the settings say that count here; it blocks.

    Raises:
        ConfigurationError: a file or a variable can't be used.
    """
    from greenroom.cli.settings_layers import read_layers

    layers = read_layers(working_folder(), os.environ if env is None else env)
    layer = layers.find("sessions")
    return None if layer is None else str(layer.values["sessions"])


def open_place(place: str) -> "FileStore | SQLiteStore | PostgresStore":
    """Return the store at a place: a folder, the file of a database, or a PostgreSQL server.

    Raises:
        ConfigurationError: no PostgreSQL server is named, or it can't be used.
    """
    if is_server(place):
        from greenroom.session import PostgresStore

        if holds_password(place):
            raise ConfigurationError(
                "a password on the command line can be read by every user of this machine",
                hint=f"it is in the history of the shell, too: change it; {PASSFILE}",
            )
        return PostgresStore(None if place == "postgresql" else place)
    place = os.path.expanduser(place)  # in settings no shell has done it
    if not os.path.isfile(place):
        return FileStore(place)
    from greenroom.session import SQLiteStore

    return SQLiteStore(place)


HEADLESS = "headless"
"""The metadata of a session that no person has used at a terminal; such are not offered there."""


def describe_session(session: AgentSession, workspace: Path, *, is_headless: bool = False) -> None:
    """Record where the session was used last, and the words that it began with.

    Call it once a run has its first input: a session that is never used is never stored.
    """
    session.set_metadata("workspace", str(workspace))
    is_new = session.get_metadata("title") is None
    if (is_headless and is_new) or session.get_metadata(HEADLESS):
        session.set_metadata(HEADLESS, is_headless)
    if is_new:
        words = next((first_words(each) for each in session.history if each.role == "user"), "")
        session.set_metadata("title", shorten(" ".join(words.split()), _MAX_TITLE))


def resume_command(session_id: str, options: Options) -> str:
    """Return the command that continues a session, from any store."""
    words = ["greenroom", "--resume", session_id]
    if options.sessions is not None:
        words += ["--sessions", options.sessions]
    return shlex.join(words)


async def load_session(
    session_id: str, store: SessionStore, *, keep_open: bool = False
) -> AgentSession:
    """Load the session whose id is this, or begins like this; see `AgentSession.load`.

    Raises:
        SessionError: it is unknown or can't be read.
    """
    full_id = await find_session_id(session_id, store)
    return await AgentSession.load(full_id, store=store, keep_open=keep_open)


async def find_session_id(text: str, store: SessionStore) -> str:
    """Find a session by its id, or by a beginning that no other id has; return the whole id.

    Raises:
        SessionNotFoundError: no session has such an id.
        SessionError: several begin like this; the error lists them. Or the store can't be read.
    """
    if await store.exists(text):
        return text
    matches = [each for each in await store.list_all() if each.session_id.startswith(text)]
    if len(matches) == 1:
        return matches[0].session_id
    if matches:
        names = [each.session_id for each in matches[:_MAX_NAMED]]
        more = f" and {len(matches) - _MAX_NAMED} more" if len(matches) > _MAX_NAMED else ""
        raise SessionError(
            f"{len(matches)} sessions begin with {text}",
            hint=f"write more of the id: {', '.join(names)}{more}",
        )
    if (await store.read(text)).history.end.lines:
        return text  # its description is lost: loading it fails with an error that says what to do
    place = os.path.dirname(store.folder(text)) or repr(store)
    raise SessionNotFoundError(
        f"there is no session {text} in {place}",
        session_id=text,
        hint="`greenroom sessions list` shows them; --sessions names another folder",
    )


async def load_newest(
    store: SessionStore, workspace: Path, *, is_headless: bool = False
) -> AgentSession:
    """Load the session that was used last in this folder, to go on with it.

    A session without any message does not count, and at a terminal none of a headless run.

    Raises:
        SessionError: the folder has no such session, or it can't be read.
    """
    usable = [each for each in await store.list_all() if _is_resumable(each, workspace)]
    here = [each for each in usable if is_headless or not each.metadata.get(HEADLESS)]
    if not here:
        others = f", {len(usable)} of runs of -p" if usable else ""
        raise SessionNotFoundError(
            f"there is no session of the folder {workspace} to continue{others}",
            hint="start one without --continue, or name one with --resume ID",
        )
    # The store counts whole seconds; their folders tell the sessions of one second apart.
    tied = [each.session_id for each in here if each.updated_at == here[0].updated_at]
    newest = await trio.to_thread.run_sync(lambda: max(tied, key=partial(_last_used_at, store)))
    return await AgentSession.load(newest, store=store, keep_open=True)


def _is_resumable(session: SessionMetadata, workspace: Path) -> bool:
    is_used = session.model or "title" in session.metadata
    is_here = session.metadata.get("workspace") == str(workspace)
    is_root = session.parent_session_id is None
    return bool(is_used and is_here and is_root and not session.is_archived)


def _last_used_at(store: SessionStore, session_id: str) -> int:
    try:
        return os.stat(store.folder(session_id)).st_mtime_ns
    except OSError:  # removed this moment
        return 0


async def choose_session(options: Options) -> str | int:
    """Let the person choose a session; return its id, or the exit code if none was chosen.

    Leaving without one is exit code 130, as an interrupt; a closed window is 129.

    Raises:
        ConfigurationError: there is no terminal to choose on.
        SessionError: there is no session.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError(
            "--resume without an id needs a terminal to choose on",
            hint="name the session: --resume ID; `greenroom sessions list` shows them",
        )
    stored = await AgentSession.list_all(store=open_store(options))
    sessions = SessionList(stored, working_folder())
    if not sessions.sessions:
        raise SessionNotFoundError(
            "there is no session to continue yet", hint="start one without --resume"
        )
    signals, chosen = EndSignals(signal.SIGINT), None
    async with trio.open_nursery() as nursery:
        await nursery.start(signals.watch, nursery.cancel_scope)
        chosen = await choose(sessions)
        nursery.cancel_scope.cancel()
    if chosen is not None:
        return chosen
    if signals.exit_code is not None:
        return signals.exit_code
    return 128 + signal.SIGHUP if is_hung_up(0) else INTERRUPTED


@dataclass
class SessionList:
    """Sessions, narrowed by words and by folder; first those of the working directory, if any.

    Those of subagents are left out, since they go on with their parents; and at first those that
    only runs of `-p` have used, if there are others.

    Attributes:
        sessions: all of them, in the order in which they are shown.
        folder: the working directory.
        words: each must be in a session's title or id, in any case of its letters.
        is_everywhere: whether sessions of other folders are shown too.
        has_headless: whether those are shown that only runs of `-p` have used.
    """

    sessions: Sequence[SessionMetadata]
    folder: Path
    words: tuple[str, ...] = ()
    is_everywhere: bool = field(init=False)
    has_headless: bool = field(init=False)

    def __post_init__(self) -> None:
        """Leave out subagents' sessions; show all folders if this one has no session."""
        self.sessions = [
            each
            for each in self.sessions
            if each.parent_session_id is None or "imported_from" in each.metadata
        ]
        people = [each for each in self.sessions if not each.metadata.get(HEADLESS)]
        self.has_headless = not people
        self.is_everywhere = not any(map(self._is_here, people or self.sessions))

    @property
    def matches(self) -> list[SessionMetadata]:
        """The sessions that match."""
        return [
            each
            for each in self.sessions
            if (self.is_everywhere or self._is_here(each)) and self._matches(each)
            if self.has_headless or not each.metadata.get(HEADLESS)
        ]

    def search(self, text: str) -> None:
        """Show only sessions that hold each of these words."""
        self.words = tuple(text.casefold().split())

    def row(self, number: int, session: SessionMetadata, columns: int) -> str:
        """Write one session as a line of at most so many columns."""
        from rich.cells import set_cell_size

        is_elsewhere = self.is_everywhere and not self._is_here(session)
        place = f"  ({shorten_home(place_of(session)) or 'no folder'})" if is_elsewhere else ""
        head = f"{number:>3}  {age(session.updated_at):>{_AGE}}  "
        return set_cell_size(f"{head}{title_of(session)}{place}", columns).rstrip()

    def _is_here(self, session: SessionMetadata) -> bool:
        return session.metadata.get("workspace") == str(self.folder)

    def _matches(self, session: SessionMetadata) -> bool:
        text = f"{title_of(session)} {session.session_id}".casefold()
        return all(word in text for word in self.words)


async def choose(sessions: SessionList, descriptor: int = 0) -> str | None:
    """Print the list and read lines until one is the number of a session; return its id.

    Words narrow the list, `*` shows other folders too or no longer, `+` those of `-p`, and an empty
    line or the end of the input chooses nothing.

    Raises:
        OSError: the terminal can't be read or written.
    """
    out = OutputWriter()
    while True:
        matches = sessions.matches
        await _print_list(sessions, matches, out)
        data = await read_some(descriptor)  # a line, as a terminal gives them
        match data.decode("utf-8", "replace").strip():
            case "":
                return None
            case "*":
                sessions.is_everywhere = not sessions.is_everywhere
            case "+":
                sessions.has_headless = not sessions.has_headless
            case line if line.isdecimal():
                if 1 <= int(line) <= min(len(matches), _MAX_ROWS):
                    return matches[int(line) - 1].session_id
                await out.text(f"There is no number {line} in the list.")
            case line:
                sessions.search(line)


async def _print_list(
    sessions: SessionList, matches: Sequence[SessionMetadata], out: OutputWriter
) -> None:
    where = "all folders" if sessions.is_everywhere else "this folder"
    about = f' with "{" ".join(sessions.words)}"' if sessions.words else ""
    columns = max(shutil.get_terminal_size().columns - 1, 1)
    lines = [f"\nSessions of {where}{about}: {len(matches):,}"]
    lines += [sessions.row(at, each, columns) for at, each in enumerate(matches[:_MAX_ROWS], 1)]
    if len(matches) > _MAX_ROWS:
        lines.append(f"     {len(matches) - _MAX_ROWS:,} older ones are not shown")
    other = "this folder only" if sessions.is_everywhere else "all folders"
    headless = "without runs of -p" if sessions.has_headless else "runs of -p too"
    keys = f"* for {other}, + for {headless}"
    lines.append(f"Number to continue, words to search for, {keys}, Enter to leave:")
    await out.text("\n".join(lines))
