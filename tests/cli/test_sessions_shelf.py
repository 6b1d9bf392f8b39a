"""`greenroom sessions search`, `rm` and `archive`."""

import signal

import pytest
import trio

from greenroom.cli.arguments import read_arguments
from greenroom.session import AgentSession
from tests.cli.shelf import HOSTILE
from tests.terminal_program import SECONDS


def ids(run, shelf, *words):
    return {
        each["session_id"] for each in run("sessions", "list", "--json", *words, *shelf.here).json
    }


def test_a_search_prints_where_a_text_stands(run, shelf):
    shelf.add("s-1", "hello", "mend the Roof", "the roof again", title="house")
    shelf.add("s-2", "nothing", title="the ROOF")
    done = run("sessions", "search", "roof", *shelf.here)
    assert done.code == 0
    assert sorted(done.out.splitlines()) == [
        "    message 2 and 1 more: mend the Roof",
        "    title: the ROOF",
        "s-1  now  house",
        "s-2  now  the ROOF",
    ]
    found = run("sessions", "search", "roof again", "--json", *shelf.here).json
    [hit] = found["hits"]
    assert (hit["session"]["session_id"], hit["message"], hit["count"]) == ("s-1", 3, 1)
    assert (hit["snippet"], hit["branch"]) == ("the roof again", None)
    assert (found["searched"], found["damaged"]) == (2, [])


def test_a_search_without_a_hit_says_so(run, shelf):
    shelf.add("s-1", "hello")
    done = run("sessions", "search", "roof", *shelf.here)
    assert (done.code, done.out) == (0, "Nothing was found in 1 session.\n")
    assert run("sessions", "search", "roof", "--json", *shelf.here).json["hits"] == []


def test_a_search_may_be_of_some_sessions_and_of_few(run, shelf, project):
    shelf.add("s-1", "roof", workspace=str(project))
    shelf.add("s-2", "roof", workspace="/elsewhere")
    shelf.add("s-3", "roof", parent="s-1")
    assert "s-3" not in run("sessions", "search", "roof", *shelf.here).out
    assert "s-3" in run("sessions", "search", "roof", "--all", *shelf.here).out
    here = run("sessions", "search", "roof", "--here", *shelf.here).out
    assert "s-1" in here
    assert "s-2" not in here
    few = run("sessions", "search", "roof", "--limit", "1", *shelf.here)
    assert len(few.out.splitlines()) == 2
    assert "the search ended at 1 session; --limit N looks for more" in few.err


def test_a_search_finds_what_a_compaction_has_left_out(run, shelf):
    shelf.add("s-1", "the roof", "one", "two")

    async def compact():
        session = await AgentSession.load("s-1", store=shelf.store)
        await session.compact("a house", 0)

    trio.run(compact)
    assert "branch 0, message 1: the roof" in run("sessions", "search", "roof", *shelf.here).out
    assert "1  > the roof" in run("sessions", "show", "s-1", "--branch", "0", *shelf.here).out


def test_damaged_sessions_are_told_after_a_search(run, shelf):
    for number in range(8):
        shelf.add(f"s-{number}", "one", "two")
        if number:
            history = shelf.folder(f"s-{number}") / "history.jsonl"
            history.unlink()
            history.mkdir()
    done = run("sessions", "search", "two", *shelf.here)
    assert done.code == 1
    assert "s-0" in done.out
    assert "2 more sessions could not be read" in done.err
    found = run("sessions", "search", "two", "--json", *shelf.here).json
    assert len(found["damaged"]) == 7
    assert all(set(each) == {"session_id", "error"} for each in found["damaged"])


def test_what_is_found_can_not_reach_the_terminal_as_code(terminal, run, shelf):
    shelf.add("s-1", f"roof {HOSTILE}", title=HOSTILE)
    program = terminal("sessions", "search", "ROOF", *shelf.here)
    assert program.wait() == 0
    assert b"\x1b[2J" not in program.output
    assert "\u202e".encode() not in program.output
    assert "message 1: roof \\u{1b}[2J" in program.screen
    assert "\x1b" not in run("sessions", "search", "roof", *shelf.here).out


def test_nothing_is_no_text_to_search_for(capsys):
    with pytest.raises(SystemExit) as end:
        read_arguments(["sessions", "search", " "])
    assert end.value.code == 2
    assert "the text to search for is empty" in capsys.readouterr().err


def test_ctrl_c_ends_a_search_and_what_was_found_stands(start, shelf):
    shelf.add("s-1", "roof " * 2000)
    shelf.copy("s-1", 400)
    process = start("sessions", "search", "roof", "--limit", "400", *shelf.here)
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    assert first.startswith(b"s-")
    assert len(process.stdout.readlines()) < 399
    assert process.stderr.read().decode() == ""


def test_a_search_that_nobody_reads_ends_quietly(start, shelf, unread):
    shelf.add("s-1", "roof")
    shelf.copy("s-1", 50)
    process = start("sessions", "search", "roof", "--limit", "50", *shelf.here, stdout=unread)
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_sessions_are_removed_for_good_with_their_subagents(run, shelf):
    for session_id in ("s-1", "s-2", "s-4"):
        shelf.add(session_id)
    shelf.add("s-3", parent="s-1")
    refused = run("sessions", "rm", "s-1", "s-2", *shelf.here)
    assert refused.code == 2
    assert "s-1, now, (coder) with 1 session of its subagents" in refused.err
    assert "add --yes" in refused.err
    assert ids(run, shelf, "--all") == {"s-1", "s-2", "s-3", "s-4"}
    done = run("sessions", "rm", "s-3", "s-1", "s-2", "s-1", "--yes", *shelf.here)
    assert done.out.splitlines() == [
        "removed s-1 with 1 session of its subagents",
        "removed s-2",
    ]
    again = run("sessions", "rm", "s-4", "--yes", "--json", *shelf.here).json
    assert again == {"removed": ["s-4"], "failed": []}
    assert ids(run, shelf, "--all") == set()


def test_nothing_is_removed_where_one_id_is_unknown(run, shelf):
    shelf.add("s-1")
    done = run("sessions", "rm", "s-1", "nope", "--yes", *shelf.here)
    assert (done.code, "there is no session nope" in done.err) == (2, True)
    assert ids(run, shelf) == {"s-1"}


def test_a_session_that_is_written_is_not_removed_and_the_others_are(run, shelf):
    shelf.add("s-1")
    shelf.add("s-2")

    async def hold():
        session = await AgentSession.load("s-1", store=shelf.store)
        await session.open()
        done = await trio.to_thread.run_sync(
            lambda: run("sessions", "rm", "s-1", "s-2", "--yes", "--json", *shelf.here)
        )
        await session.close()
        return done

    done = trio.run(hold)
    assert done.code == 1
    assert "is being written by this process" in done.err
    assert done.json["removed"] == ["s-2"]
    assert [each["session_id"] for each in done.json["failed"]] == ["s-1"]
    assert ids(run, shelf) == {"s-1"}


def test_a_session_that_can_not_be_read_can_be_removed(run, shelf):
    shelf.add("s-1")
    (shelf.folder("s-1") / "metadata.json").write_text("{")
    assert run("sessions", "rm", "s-1", "--yes", *shelf.here).out == "removed s-1\n"
    assert not shelf.folder("s-1").exists()


@pytest.mark.parametrize(("answer", "code"), [("YES", 0), ("\x04", 1)])
def test_removing_in_a_terminal_asks_first(terminal, run, shelf, answer, code):
    shelf.add("s-1", title=HOSTILE)
    program = terminal("sessions", "rm", "s-1", *shelf.here)
    program.wait_for("Remove 1 session for good? [y/N]")
    assert b"\x1b[2J" not in program.output
    program.type(answer + ("\r" if code == 0 else ""))
    assert program.wait() == code
    assert ids(run, shelf) == (set() if code == 0 else {"s-1"})


def test_ctrl_c_at_the_question_removes_nothing(terminal, run, shelf):
    shelf.add("s-1")
    program = terminal("sessions", "rm", "s-1", *shelf.here)
    program.wait_for("[y/N]")
    program.type("\x03")
    assert program.wait() == 130
    assert ids(run, shelf) == {"s-1"}


def test_archived_sessions_are_out_of_the_way_and_can_be_brought_back(run, shelf, project):
    shelf.add("s-1", title="old", workspace=str(project))
    shelf.add("s-2")
    assert run("sessions", "archive", "s-1", *shelf.here).out == "archived s-1\n"
    assert ids(run, shelf) == {"s-2"}
    assert "old (archived)" in run("sessions", "list", "--all", *shelf.here).out
    assert "Nothing was found" in run("sessions", "search", "old", *shelf.here).out
    assert "old (archived)" in run("sessions", "show", "s-1", *shelf.here).out
    unknown = run("-p", "list *", "--continue", *shelf.here)
    assert (unknown.code, "there is no session of the folder" in unknown.err) == (2, True)
    done = run("sessions", "archive", "--undo", "s-1", "--json", *shelf.here).json
    assert done == {"restored": ["s-1"], "failed": []}
    assert ids(run, shelf) == {"s-1", "s-2"}
    assert run("sessions", "archive", "nope", *shelf.here).code == 2
