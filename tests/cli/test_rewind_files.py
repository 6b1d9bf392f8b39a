"""`greenroom sessions rewind --files`: what tools changed is shown, asked about, and put back."""

import pytest
import trio

from greenroom.core import Message
from greenroom.session import AgentSession, SQLiteStore


@pytest.fixture
def changed(run, project):
    """A session in which a file was changed and another one made; its id."""
    (project / "a.txt").write_text("old\n")
    words = ("--permission-mode", "bypass", "--output-format", "json")
    run("-p", "run echo new > a.txt", *words)
    result = run("-p", "write notes.txt: hello", "--continue", *words)
    assert (project / "notes.txt").read_text() == "hello"
    return result.json["session_id"]


def test_with_yes_it_tells_what_was_restored_and_what_was_not(run, project, changed):
    (project / "a.txt").write_text("mine\n")
    done = run("sessions", "rewind", changed, "--to", "0", "--files", "--yes")
    assert done.code == 0
    assert done.out.splitlines() == [
        "8 messages taken back; they stay in the session's file.",
        "1 file restored.",
        "not restored: a.txt: someone else has changed it since",
    ]
    assert (project / "a.txt").read_text() == "mine\n"
    assert not (project / "notes.txt").exists()


def test_a_program_is_told_the_same(run, project, changed):
    (project / "a.txt").write_text("mine\n")
    done = run("sessions", "rewind", changed, "--to", "0", "--files", "--yes", "--json").json
    assert done == {
        "session_id": changed,
        "messages": 0,
        "taken_back": 8,
        "restored": ["notes.txt"],
        "not_restored": {"a.txt": "someone else has changed it since"},
        "notes": [],
    }


def test_without_the_option_files_stay(run, project, changed):
    assert run("sessions", "rewind", changed, "--to", "0", "--yes").code == 0
    assert (project / "notes.txt").exists()
    # What was not restored then is restored later.
    assert run("sessions", "rewind", changed, "--to", "0", "--files", "--yes").code == 0
    assert (project / "a.txt").read_text() == "old\n"


def test_where_nobody_can_be_asked_nothing_is_done(run, project, changed):
    refused = run("sessions", "rewind", changed, "--to", "0", "--files")
    assert refused.code == 2
    for line in ("  write back     a.txt", "  delete         notes.txt"):
        assert line in refused.err.splitlines()
    assert (project / "notes.txt").exists()


def test_where_nothing_differs_it_says_so(run, changed):
    refused = run("sessions", "rewind", changed, "--to", "7", "--files")
    assert "No file differs from what it was." in refused.err


@pytest.mark.parametrize(("answer", "code", "text"), [("y", 0, "old\n"), ("n", 1, "new\n")])
def test_a_terminal_is_asked_once_for_both(terminal, project, changed, answer, code, text):
    program = terminal("sessions", "rewind", changed, "--to", "0", "--files")
    program.wait_for("Take back 8 messages and restore 2 files? [y/N]")
    program.type(f"{answer}\r")
    assert program.wait() == code
    assert (project / "a.txt").read_text() == text


def test_a_file_that_can_t_be_restored_as_planned_is_a_failure(run, project, changed, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("greenroom.agents.file_restore.put_back", refuse)
    done = run("sessions", "rewind", changed, "--to", "0", "--files", "--yes")
    assert done.code == 1
    assert "not restored: a.txt: [Errno 13] Permission denied" in done.out


async def make_database(path):
    async with SQLiteStore(path) as store:
        session = AgentSession.new("coder", store=store)
        session.add_message(Message.user("hello"))
        await session.save()


def test_files_are_restored_from_a_session_in_a_database(run, tmp_path, project):
    database = tmp_path / "sessions.db"
    trio.run(make_database, database)
    words = ("--permission-mode", "bypass", "--output-format", "json")
    store = ("--sessions", str(database))
    result = run("-p", "write notes.txt: hello", *words, *store)
    id_ = result.json["session_id"]
    assert (project / "notes.txt").exists()
    done = run("sessions", "rewind", id_, "--to", "0", "--files", "--yes", *store)
    assert "1 file restored." in done.out
    assert not (project / "notes.txt").exists()
