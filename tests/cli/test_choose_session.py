"""`greenroom --resume` without an id: a list to choose from, alone and in a pseudo-terminal."""

import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st
from rich.cells import cell_len

from greenroom import AgentSession, FileStore, Message
from greenroom.cli import stored_sessions
from greenroom.cli.options import Options
from greenroom.cli.stdio import is_hung_up
from greenroom.cli.stored_sessions import SessionList, choose_session
from greenroom.core._internal import set_clock, visible
from greenroom.session import SessionMetadata

CTRL_C, CTRL_D = "\x03", "\x04"
READY = "Enter to leave:"
HERE = Path("/work/here")
NOON = datetime(2026, 1, 14, 12, tzinfo=UTC)


@pytest.fixture
def keep(project, env):
    """Store a session as if it had been used in a folder at some hour; return its id."""
    store = FileStore(Path(env["HOME"], ".local", "state", "greenroom", "sessions"))

    async def save(title, hour, folder, said, id_):
        set_clock(lambda: NOON.replace(hour=hour))
        try:
            session = AgentSession.new("coder", session_id=id_, store=store)
            session.set_metadata("title", title)
            session.set_metadata("workspace", str(folder or project))
            session.set_model("offline", "rules")
            session.add_message(Message.user(title))
            session.add_message(Message.assistant(said))
            await session.save()
        finally:
            set_clock(None)
        at = NOON.replace(hour=hour).timestamp()
        os.utime(Path(store.folder(session.session_id), "history.jsonl"), (at, at))
        return session.session_id

    def keep(title, hour=12, folder=None, said="Indeed.", id_=None):
        return trio.run(partial(save, title, hour, folder, said, id_))

    keep.store = store
    return keep


def described(number=0, title="a title", folder=HERE, **more):
    return SessionMetadata(
        session_id=f"s-{number:05}",
        agent_type="coder",
        created_at=NOON,
        updated_at=NOON - timedelta(minutes=number),
        metadata={"title": title, "workspace": str(folder)},
        **more,
    )


def test_the_sessions_of_the_folder_are_shown_first():
    sessions = SessionList([described(1), described(2, folder="/a")], HERE)
    assert [each.session_id for each in sessions.matches] == ["s-00001"]
    sessions.is_everywhere = True
    assert [each.session_id for each in sessions.matches] == ["s-00001", "s-00002"]


def test_subagents_are_not_offered():
    sessions = SessionList([described(1), described(2, parent_session_id="s-00001")], HERE)
    assert [each.session_id for each in sessions.matches] == ["s-00001"]


def test_where_no_session_is_of_this_folder_all_are_shown():
    sessions = SessionList([described(folder="/a"), described(folder="/b")], HERE)
    assert sessions.is_everywhere
    assert len(sessions.matches) == 2


def test_each_word_must_be_in_the_title_or_the_id():
    sessions = SessionList([described(1, "Fix the page"), described(2, "Fix it")], HERE)
    for words, numbers in {"fix PAGE": [1], "FIX": [1, 2], "s-00002": [2], "else": []}.items():
        sessions.search(words)
        assert [int(each.session_id[2:]) for each in sessions.matches] == numbers


def test_a_session_of_another_folder_says_which_from_home_on(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = [described(folder=each) for each in ("/home/me", "/home/me/x", "/home/mel", HERE)]
    sessions = SessionList(found, HERE)
    sessions.is_everywhere = True
    ends = [sessions.row(1, each, 80).rpartition("title")[2].strip() for each in found]
    assert ends == ["(~)", "(~/x)", "(/home/mel)", ""]


@given(st.text(max_size=80), st.integers(20, 200))
def test_a_row_fits_whatever_its_title_is(title, columns):
    session = described(title=title, folder=f"/{title}")
    shown = SessionList([session], HERE).row(1, session, columns)
    assert cell_len(shown) <= columns
    assert visible(shown) == shown
    assert not set(shown) & set("\t\n")


def test_a_number_continues_a_session_of_this_folder(terminal, keep):
    keep("the oldest", 8)
    keep("the middle", 9, said="Middle words.")
    keep("the newest", 10)
    keep("of elsewhere", 11, folder="/elsewhere")
    program = terminal("--resume")
    screen = program.wait_for(READY)
    assert "Sessions of this folder: 3" in screen
    rows = [line.split()[-1] for line in screen.splitlines() if "the " in line and "20" in line]
    assert rows == ["newest", "middle", "oldest"]
    program.type("4\n")
    program.wait_for("There is no number 4")
    program.type("2\n")
    program.wait_for("so far:", "> the middle", "Middle words.", "/help")
    program.type(CTRL_D)
    assert program.wait() == 0


def test_an_archived_session_is_not_offered(terminal, keep):
    keep("still in use")
    trio.run(partial(AgentSession.archive, keep("archived one"), store=keep.store))
    program = terminal("--resume")
    assert "archived one" not in program.wait_for("1  2026-01-14  still in use", READY)


def test_the_beginning_of_an_id_names_a_session(terminal, keep):
    keep("the one", id_="s-one")
    keep("the other", id_="s-other")
    program = terminal("--resume", "s-on")
    program.wait_for("so far:", "> the one", "/help")
    program = terminal("--resume", "s-o")
    assert program.wait() == 2
    assert "s-one, s-other" in program.screen or "s-other, s-one" in program.screen


def test_words_narrow_the_list_and_a_star_shows_all_folders(terminal, keep):
    keep("fix the parser", 8)
    keep("write a page", 9)
    keep("fix the page", 10, folder="/elsewhere")
    program = terminal("--resume")
    program.wait_for(READY)
    program.type("PA fix\n")
    program.wait_for('this folder with "pa fix": 1', "1  2026-01-14  fix the parser")
    program.type("*\n")
    program.wait_for(
        'all folders with "pa fix": 2', "fix the page  (/elsewhere)", "this folder only"
    )
    program.type("nothing like this\n")
    program.wait_for('with "nothing like this": 0')
    program.type("parser\n")
    program.wait_for('with "parser": 1')
    program.type("1\n")
    program.wait_for("so far:", "> fix the parser")


def test_only_the_newest_are_shown_until_words_narrow_the_list(terminal, keep):
    for number in range(22):
        keep(f"session {number:02}", number)
    program = terminal("--resume", term="dumb", size=(40, 60))
    program.wait_for("session 21\n", "session 02\n", "2 older ones are not shown", READY)
    program.type("21\n")
    program.wait_for("There is no number 21")
    program.type("3\n")
    program.wait_for("so far:", "> session 19")
    assert b"\x1b" not in program.output


@pytest.mark.parametrize("typed", ["\n", CTRL_C, CTRL_D])
def test_leaving_chooses_nothing(terminal, keep, typed):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    program.type(typed)
    assert program.wait() == 130
    assert program.mode == program.before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it(terminal, keep, number, code):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    program.process.send_signal(number)
    assert program.wait() == code


def test_a_window_that_is_closed_ends_it(terminal, keep):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    # A shell reports both as 129: that it has ended itself, and that the signal has ended it.
    assert program.hang_up() in (128 + signal.SIGHUP, -signal.SIGHUP)


def test_a_terminal_is_hung_up_once_its_window_is_closed():
    """A read may find its end before the signal comes, which then tells it from an empty line."""
    window, terminal = os.openpty()
    assert not is_hung_up(terminal)
    os.close(window)
    assert is_hung_up(terminal)
    os.close(terminal)
    read_end, write_end = os.pipe()
    assert not is_hung_up(read_end)
    os.close(read_end)
    os.close(write_end)


def test_a_window_that_closes_before_its_signal_comes_is_no_interrupt(monkeypatch, keep):
    keep("something")
    window, terminal = os.openpty()

    async def choose(sessions):
        os.close(window)

    monkeypatch.setattr(stored_sessions, "open_store", lambda options: keep.store)
    monkeypatch.setattr(stored_sessions, "choose", choose)
    monkeypatch.setattr(stored_sessions, "is_hung_up", lambda descriptor: is_hung_up(terminal))
    with open(terminal, "r+b", buffering=0) as raw:
        monkeypatch.setattr(sys, "stdin", raw)
        monkeypatch.setattr(sys, "stdout", raw)
        assert trio.run(choose_session, Options()) == 128 + signal.SIGHUP


def test_no_title_reaches_the_terminal_as_code(terminal, keep):
    keep("a\x1b[2Jb\r\nc \u202etxt.exe \x07日本語")
    program = terminal("--resume")
    program.wait_for(READY, r"a\u{1b}[2Jb c \u{202e}txt.exe \u{7}日本語")
    for code in (b"\x1b[2Jb", "\u202e".encode(), b"\x07"):
        assert code not in program.output


def test_a_damaged_session_says_why_it_can_not_be_continued(terminal, keep):
    id_ = keep("the bad one", 9)
    path = Path(keep.store.folder(id_), "history.jsonl")
    path.write_bytes(path.read_bytes().replace(b"bad", b"b\xffd") * 2)
    program = terminal("--resume")
    program.wait_for("the bad one", READY)
    program.type("1\n")
    assert program.wait() == 2
    assert f"greenroom sessions repair {id_}" in program.screen.replace("\n", "")


def test_without_a_terminal_an_id_is_asked_for(run, keep):
    keep("something")
    done = run("--resume")
    assert done.code == 2
    assert "--resume ID" in done.err


def test_without_a_session_there_is_nothing_to_choose(terminal):
    program = terminal("--resume")
    assert program.wait() == 2
    assert "there is no session" in program.screen
