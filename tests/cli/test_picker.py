"""`greenroom --resume` without an id, in a real pseudo-terminal: a list to choose from."""

import os
import re
import signal
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom import AgentSession, FileStore, Message
from greenroom.core import clock

ENTER, ESCAPE, TAB, CTRL_C, CTRL_D = "\r", "\x1b", "\t", "\x03", "\x04"
UP, DOWN, PAGE_DOWN, PAGE_UP = "\x1b[A", "\x1b[B", "\x1b[6~", "\x1b[5~"
CTRL_N, CTRL_P = "\x0e", "\x10"
READY = "Esc leaves"
NOON = datetime(2026, 1, 14, 12, tzinfo=UTC)


@pytest.fixture
def keep(project, env):
    """Store a session as if it had been used in a folder at some hour; return its id."""
    store = FileStore(Path(env["HOME"], ".local", "state", "greenroom", "sessions"))

    async def save(title, hour, folder, said, id_):
        clock.set_clock(lambda: NOON.replace(hour=hour))
        try:
            session = AgentSession.new("coder", session_id=id_, store=store)
            session.set_metadata("title", title)
            session.set_metadata("workspace", str(folder or project))
            session.set_model("offline", "rules")
            session.add_message(Message.user(title))
            session.add_message(Message.assistant(said))
            await session.save()
        finally:
            clock.set_clock(None)
        at = NOON.replace(hour=hour).timestamp()
        os.utime(Path(store.folder(session.session_id), "history.jsonl"), (at, at))
        return session.session_id

    def keep(title, hour=12, folder=None, said="Indeed.", id_=None):
        return trio.run(partial(save, title, hour, folder, said, id_))

    keep.store = store
    return keep


def rows(screen):
    """The first words of the rows, and which of them is in hand."""
    lines = [line for line in screen.splitlines()[2:] if line.startswith(("  ", "▸ "))]
    return [line[:20].rstrip() for line in lines]


def test_the_sessions_of_the_folder_stand_newest_first_and_enter_goes_on_with_one(terminal, keep):
    keep("the oldest", 8)
    keep("the middle", 9, said="Middle words.")
    keep("the newest", 10, said="Newest words.")
    keep("of elsewhere", 11, folder="/elsewhere")
    program = terminal("--resume")
    screen = program.wait_for(READY, "Newest words.")
    assert screen.startswith("Sessions of this folder · 3 of 3")
    assert rows(screen) == ["▸ the newest", "  the middle", "  the oldest"]
    program.type(DOWN)
    program.wait_for("▸ the middle", "Middle words.", without=["Newest words."])
    program.type(ENTER)
    program.wait_for("so far:", "> the middle", "Middle words.", "/help")
    program.type(CTRL_D)
    assert program.wait() == 0


def test_an_archived_session_is_not_offered(terminal, keep):
    keep("still in use")
    trio.run(partial(AgentSession.archive, keep("put away"), store=keep.store))
    program = terminal("--resume")
    assert "put away" not in program.wait_for("still in use", READY)


def test_the_beginning_of_an_id_names_a_session(terminal, keep):
    keep("the one", id_="s-one")
    keep("the other", id_="s-other")
    program = terminal("--resume", "s-on")
    program.wait_for("so far:", "> the one", "/help")
    program = terminal("--resume", "s-o")
    assert program.wait() == 2
    assert "s-one, s-other" in program.screen or "s-other, s-one" in program.screen


def test_words_narrow_the_list_and_tab_goes_to_all_folders_and_back(terminal, keep):
    keep("fix the parser", 8)
    keep("write a page", 9, id_="s-abc")
    keep("fix the page", 10, folder="/elsewhere")
    program = terminal("--resume")
    program.wait_for(READY)
    program.type("PA fix")
    screen = program.wait_for("> PA fix", "1 of 2")
    assert rows(screen) == ["▸ fix the parser"]
    program.type(TAB)
    screen = program.wait_for("all folders · 2 of 3")
    assert rows(screen) == ["  fix the page", "▸ fix the parser"]
    assert "/elsewhere" in screen
    program.type(UP + TAB)
    program.wait_for("this folder · 1 of 2", "▸ fix the parser")
    program.type("\x15S-ABC")
    program.wait_for("▸ write a page", "1 of 2")
    program.type("nothing" + ENTER)
    program.wait_for("nothing fits", "0 of 2", without=["▸"])
    assert program.process.poll() is None


def test_keys_move_by_a_row_and_by_a_page(terminal, keep):
    for number in range(24):
        keep(f"session {number:02}", number)
    program = terminal("--resume", size=(14, 60))
    program.wait_for(READY, "▸ session 23")
    program.type(CTRL_N + CTRL_N + CTRL_P + DOWN)
    program.wait_for("▸ session 21")
    program.type(PAGE_DOWN)
    program.wait_for("▸ session 11")
    program.type(PAGE_DOWN * 9)
    program.wait_for("▸ session 00")
    program.type(PAGE_UP * 9)
    program.wait_for("▸ session 23")


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C, CTRL_D])
def test_leaving_gives_the_terminal_back(terminal, keep, key):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    program.type(key)
    assert program.wait() == 130
    assert program.mode == program.before
    assert b"\x1b[?1049l" in program.output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_gives_the_terminal_back(terminal, keep, number, code):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    program.process.send_signal(number)
    assert program.wait() == code
    assert program.mode == program.before


def test_a_window_that_is_closed_ends_it(terminal, keep):
    keep("something")
    program = terminal("--resume")
    program.wait_for(READY)
    assert program.hang_up() == 128 + signal.SIGHUP


def test_no_title_reaches_the_terminal_as_code(terminal, keep):
    keep("a\x1b[2Jb\r\nc \u202etxt.exe \x07日本語", said="\x1b]0;owned\x07")
    program = terminal("--resume")
    program.wait_for(READY, r"a\u{1b}[2Jb c \u{202e}txt.exe \u{7}日本語", r"]0;owned")
    for code in (b"\x1b[2Jb", "\u202e".encode(), b"\x07", b"\x1b]0;"):
        assert code not in program.output


@pytest.mark.parametrize("size", [(8, 40), (24, 80), (50, 200)])
def test_rows_fit_any_width(terminal, keep, size):
    for number in range(12):
        keep(f"{number:02} 日本語のとても長いタイトル" * 5, number)
    program = terminal("--resume", size=size)
    screen = program.wait_for(READY if size[1] > 40 else "Enter resumes", "▸ 11 ")
    assert sum(line.startswith(("▸ ", "  ")) for line in screen.splitlines()) >= min(
        size[0] - 3, 10
    )
    program.type(DOWN)
    program.wait_for("▸ 10 ")


def test_a_window_that_changes_its_size_is_drawn_anew(terminal, keep):
    keep("something", said="Indeed it was.")
    program = terminal("--resume", size=(30, 150))
    assert "│ > something" in program.wait_for(READY, "Indeed")
    program.resize(30, 60)
    screen = program.wait_for("──────", "\nIndeed it was.")
    assert "│" not in screen
    program.resize(10, 60)
    program.wait_for(READY, without=["Indeed"])


def test_a_damaged_session_says_why_and_the_others_can_be_chosen(terminal, keep):
    keep("the good one", 8)
    id_ = keep("the bad one", 9)
    path = Path(keep.store.folder(id_), "history.jsonl")
    path.write_bytes(path.read_bytes().replace(b"bad", b"b\xffd") * 2)
    program = terminal("--resume")
    program.wait_for("▸ the bad one", "history.jsonl", f"greenroom sessions repair {id_}")
    program.type(DOWN + ENTER)
    program.wait_for("so far:", "> the good one")


def test_without_colour_it_is_the_same_list(terminal, keep):
    keep("something", said="Indeed.")
    program = terminal("--resume", NO_COLOR="1")
    program.wait_for(READY, "▸ something", "Indeed.")
    assert not re.search(rb"\x1b\[[0-9;]*[349][0-9][;m]", program.output)


def test_a_terminal_that_can_not_redraw_asks_for_a_number(terminal, keep):
    for number in range(22):
        keep(f"session {number:02}", number)
    program = terminal("--resume", term="dumb")
    screen = program.wait_for("Which one? A number from 1 to 20")
    assert screen.startswith("  1  ")
    assert "session 21\n" in screen
    assert "2 older: `greenroom sessions list` shows them" in screen
    program.type("21\n")
    program.wait_for("no number from 1 to 20")
    program.type("3\n")
    program.wait_for("so far:", "> session 19")
    assert b"\x1b" not in program.output


def test_an_interrupt_leaves_a_terminal_that_can_not_redraw(terminal, keep):
    keep("something")
    program = terminal("--resume", term="dumb")
    program.wait_for("Which one?")
    program.type(CTRL_C)
    assert program.wait() == 130


def test_a_terminal_that_can_not_redraw_is_left_with_an_empty_line(terminal, keep):
    keep("something")
    for typed in ("\n", CTRL_D):
        program = terminal("--resume", term="dumb")
        program.wait_for("Which one?")
        program.type(typed)
        assert program.wait() == 130


def test_without_a_terminal_an_id_is_asked_for(run, keep):
    keep("something")
    done = run("--resume")
    assert done.code == 2
    assert "--resume ID" in done.err


def test_without_a_session_there_is_nothing_to_choose(terminal):
    program = terminal("--resume")
    assert program.wait() == 2
    assert "there is no session" in program.screen
