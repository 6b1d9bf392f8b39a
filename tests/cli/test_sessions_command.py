"""`greenroom sessions`: what each verb prints, takes and refuses."""

from datetime import UTC, datetime, timedelta

import pytest

from greenroom.cli.formatting import age, one_line, title_of
from greenroom.core._internal import set_clock
from greenroom.session import AgentSession
from tests.cli.shelf import HOSTILE


def test_an_empty_store_says_so(run, shelf):
    assert run("sessions", "list").out == "There are no sessions yet.\n"
    assert run("sessions", "list", "--here").out == "There are no sessions here.\n"
    assert run("sessions", "list", "--json").json == []


def test_a_list_has_a_row_for_each_session_and_a_head(run, shelf):
    shelf.add("s-1", title="mend the roof", workspace="/work/roof")
    head, row = run("sessions", "list", *shelf.here).out.splitlines()
    assert head.split() == ["session", "age", "model", "folder", "title"]
    assert row == "s-1      now  offline:rules  /work/roof  mend the roof"


def test_columns_of_a_list_in_a_pipe_are_as_wide_as_their_letters(run, shelf):
    shelf.add("s-1", title="roof", workspace="/work/屋根")
    shelf.add("s-long", title="cellar", workspace="/w")
    rows = run("sessions", "list", *shelf.here).out.splitlines()
    assert sorted(rows[1:]) == [
        "s-1      now  offline:rules  /work/屋根  roof",
        "s-long   now  offline:rules  /w          cellar",
    ]


def test_a_list_leaves_subagents_out_unless_all_are_asked_for(run, shelf):
    shelf.add("s-1", title="mine")
    shelf.add("s-2", parent="s-1")
    assert len(run("sessions", "list", *shelf.here).out.splitlines()) == 2
    both = run("sessions", "list", "--all", *shelf.here).out
    assert "(subagent)" in both
    listed = run("sessions", "list", "--all", "--json", *shelf.here).json
    assert {each["session_id"] for each in listed} == {"s-1", "s-2"}


def test_a_list_says_what_it_leaves_out_and_a_repair_brings_it_back(run, shelf):
    shelf.add("s-1", "one", title="mine")
    shelf.add("s-2", "two")
    shelf.add("s-3", "three")
    (shelf.folder("s-1") / "metadata.json").write_bytes(b'{"session')
    (shelf.folder("s-2") / "metadata.json").unlink()
    for words in (("list",), ("list", "--json"), ("search", "three")):
        done = run("sessions", *words, *shelf.here)
        assert done.code == 1
        assert "s-3" in done.out
        assert "s-1" not in done.out
        for id_ in ("s-1", "s-2"):
            assert f"left out: {id_}" in done.err
            assert f"greenroom sessions repair {id_}" in done.err
    for id_, beginning in (("s-1", "s-1"), ("s-2", "s-2")):
        shown = run("sessions", "show", id_, *shelf.here)
        assert shown.code == 2
        assert f"greenroom sessions repair {id_}" in shown.err
        done = run("sessions", "repair", beginning, *shelf.here)
        assert done.code == 0
        assert "reconstructed in its description: " in done.out
        assert "has 1 message" in done.out
    listed = run("sessions", "list", *shelf.here)
    assert (listed.code, listed.err) == (0, "")
    assert "s-1" in listed.out
    assert "s-2" in listed.out


def test_a_repair_says_what_is_kept_and_what_is_not(run, shelf):
    texts = ["one", "two", "three", "four"]
    shelf.add("s-1", *texts)
    path = shelf.folder("s-1") / "history.jsonl"
    for text in ("five", "six", "seven"):
        shelf.say("s-1", text)
    path.write_bytes(path.read_bytes().replace(b"five", b"fiwe"))
    done = run("sessions", "repair", "s-1", *shelf.here)
    assert done.code == 0
    assert "2 messages verify and were kept" in done.out
    assert "has 7 messages" in done.out
    assert "greenroom sessions fork s-1 --at N" in done.out
    assert "is missing here: line 2 " in run("sessions", "show", "s-1", *shelf.here).out
    again = run("sessions", "repair", "s-1", "--json", *shelf.here).json
    assert again == {"session_id": "s-1", "messages": 7, "repair": None}


def test_a_subagent_whose_parent_is_gone_is_listed_by_itself(run, shelf):
    shelf.add("s-1", title="mine")
    shelf.add("s-2", parent="s-1")
    shelf.add("s-3", parent="s-0")
    listed = run("sessions", "list", "--json", *shelf.here).json
    assert {each["session_id"] for each in listed} == {"s-1", "s-3"}


def test_a_list_may_be_of_this_folder_alone(run, shelf, project):
    shelf.add("s-1", workspace=str(project))
    shelf.add("s-2", workspace="/elsewhere")
    [row] = run("sessions", "list", "--here", "--json", *shelf.here).json
    assert row["session_id"] == "s-1"


def test_a_list_may_be_cut_and_says_so(run, shelf):
    for number in range(5):
        shelf.add(f"s-{number}")
    lines = run("sessions", "list", "--limit", "2", *shelf.here).out.splitlines()
    assert len(lines) == 4
    assert lines[-1] == "3 more: --limit N shows more of them"
    assert len(run("sessions", "list", "--limit", "2", "--json", *shelf.here).json) == 2


def test_a_hostile_title_stays_in_its_row(run, shelf):
    shelf.add("s-1", title=HOSTILE * 1000, workspace=HOSTILE)
    shelf.add("s-2", title=["no", "text"])
    lines = run("sessions", "list", *shelf.here).out.splitlines()
    assert len(lines) == 3
    assert all(character.isprintable() for line in lines for character in line)
    assert max(map(len, lines)) < 1000
    shown = run("sessions", "show", "s-1", *shelf.here).out
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_session_without_a_title_is_named_by_its_kind(shelf):
    at = datetime(2026, 1, 14, tzinfo=UTC)
    record = AgentSession.new("reviewer").description.record
    assert title_of(record) == "(reviewer)"
    assert one_line("a" * 300) == "a" * 199 + "…"
    set_clock(lambda: at)
    try:
        passed = [timedelta(seconds=59), timedelta(minutes=5), timedelta(hours=23)]
        assert [age(at - each) for each in passed] == ["now", "5 min", "23 h"]
        assert [age(at - timedelta(days=each)) for each in (1, 13)] == ["1 d", "13 d"]
        assert age(at - timedelta(days=14)) == "2025-12-31"
        assert age(at + timedelta(days=1)) == "now"
    finally:
        set_clock(None)


def test_an_id_may_be_cut_short_as_long_as_no_other_begins_so(run, shelf):
    shelf.add("s-abc", "one")
    shelf.add("s-abd", "two")
    assert "> one" in run("sessions", "show", "s-abc", *shelf.here).out
    assert run("sessions", "show", "s-abd", *shelf.here).code == 0
    several = run("sessions", "show", "s-a", *shelf.here)
    assert several.code == 2
    assert "2 sessions begin with s-a" in several.err
    assert "s-abc" in several.err
    shelf.add("s-a", "three")
    assert "> three" in run("sessions", "show", "s-a", *shelf.here).out
    assert run("sessions", "show", "s-b", *shelf.here).code == 2
    assert "there is no session ../s-a" in run("sessions", "show", "../s-a", *shelf.here).err
    assert "is not a session id" in run("sessions", "show", "s\na", *shelf.here).err


def test_many_candidates_are_listed_in_part(run, shelf):
    for number in range(7):
        shelf.add(f"s-{number}")
    assert "and 2 more" in run("sessions", "show", "s", *shelf.here).err


def test_a_conversation_is_shown_with_the_numbers_of_its_messages(run, shelf):
    shelf.add("s-1", "one", "two", "three", title="count", workspace="/here")
    shown = run("sessions", "show", "s-1", *shelf.here).out.splitlines()
    when = shelf.load("s-1").updated_at.astimezone()
    assert shown == [
        "count",
        f"s-1 · offline:rules · /here · {when:%Y-%m-%d %H:%M} · 3 messages",
        "",
        "1  > one",
        "",
        "2  two",
        "",
        "3  > three",
    ]


def test_the_last_messages_alone_may_be_shown(run, shelf):
    shelf.add("s-1", "one", "two", "three")
    shown = run("sessions", "show", "s-1", "--last", "1", *shelf.here).out
    assert "… 2 earlier messages left out" in shown
    assert "3  > three" in shown
    assert "two" not in shown
    found = run("sessions", "show", "s-1", "--last", "2", "--json", *shelf.here).json
    assert (found["session_id"], found["skipped"]) == ("s-1", 1)
    assert [each["content"][0]["text"] for each in found["messages"]] == ["two", "three"]
    assert run("sessions", "show", "s-1", "--last", "9", "--json", *shelf.here).json["skipped"] == 0


def test_the_last_message_is_shown_with_its_call_where_it_is_a_result(run, project):
    (project / "a.txt").write_text("hello")
    assert run("-p", "read a.txt").code == 0
    [session] = run("sessions", "list", "--json").json
    session_id = session["session_id"]
    assert run("sessions", "rewind", session_id, "--to", "3", "--yes").code == 0
    shown = run("sessions", "show", session_id, "--last", "1").out
    assert "… 1 earlier message left out" in shown
    assert "● Read" in shown
    assert run("sessions", "show", session_id, "--last", "1", "--json").json["skipped"] == 2


def test_a_rewind_that_parts_a_call_from_its_result_counts_the_one_that_was_put_there(run, project):
    (project / "a.txt").write_text("hello")
    assert run("-p", "read a.txt").code == 0
    [session] = run("sessions", "list", "--json").json
    session_id = session["session_id"]
    done = run("sessions", "rewind", session_id, "--to", "2", "--yes", "--json").json
    assert (done["messages"], done["taken_back"]) == (3, 2)
    assert len(run("sessions", "show", session_id, "--json").json["messages"]) == 3


def test_a_fork_is_told_from_what_it_is_a_fork_of(run, shelf):
    shelf.add("s-1", title="mend the roof")
    fork = run("sessions", "fork", "s-1", *shelf.here).out.strip()
    titles = {row.split()[0]: row for row in run("sessions", "list", *shelf.here).out.splitlines()}
    assert titles["s-1"].endswith("mend the roof")
    assert titles[fork].endswith("mend the roof (fork)")
    title, facts, *_ = run("sessions", "show", fork, *shelf.here).out.splitlines()
    assert title == "mend the roof (fork)"
    assert facts.endswith("1 message · fork of s-1")


def test_what_a_rewind_left_is_shown_and_forked(run, shelf):
    shelf.add("s-1", "one", "two", "three")
    assert "branch" not in run("sessions", "show", "s-1", *shelf.here).out
    run("sessions", "rewind", "s-1", "--to", "1", "--yes", *shelf.here)
    shown = run("sessions", "show", "s-1", *shelf.here).out
    assert "branch 1 of 0 to 1, the current one (--branch N shows another)" in shown
    assert "three" not in shown
    left = run("sessions", "show", "s-1", "--branch", "0", *shelf.here)
    assert "branch 0 of 0 to 1, not the current one, which is 1" in left.out
    assert "3  > three" in left.out
    found = run("sessions", "show", "s-1", "--branch", "0", "--last", "1", "--json", *shelf.here)
    assert (found.json["branch"], found.json["branches"], found.json["skipped"]) == (0, 2, 2)
    id_ = run("sessions", "fork", "s-1", "--branch", "0", "--at", "2", *shelf.here).out.strip()
    assert [each.text for each in shelf.load(id_).history] == ["one", "two"]
    for verb in ("show", "fork"):
        refused = run("sessions", verb, "s-1", "--branch", "2", *shelf.here)
        assert (refused.code, "no branch 2: the last is 1" in refused.err) == (2, True)


def test_a_fork_prints_the_new_session_s_id(run, shelf):
    shelf.add("s-1", "one", "two", "three")
    id_ = run("sessions", "fork", "s-1", "--at", "2", *shelf.here).out.strip()
    assert [each.text for each in shelf.load(id_).history] == ["one", "two"]
    made = run("sessions", "fork", "s-1", "--json", *shelf.here).json
    assert made["forked_from"] == {"session_id": "s-1", "at": 3, "branch": 0}
    assert len(shelf.load(made["session_id"]).history) == 3
    refused = run("sessions", "fork", "s-1", "--at", "4", *shelf.here)
    assert (refused.code, "no place 4" in refused.err) == (2, True)


def test_a_rewind_takes_the_last_messages_back(run, shelf):
    shelf.add("s-1", "one", "two", "three")
    refused = run("sessions", "rewind", "s-1", "--to", "1", *shelf.here)
    assert refused.code == 2
    assert "add --yes" in refused.err
    assert "3  > three" in refused.err
    assert "> one" not in refused.err
    done = run("sessions", "rewind", "s-1", "--to", "2", "--yes", *shelf.here)
    assert done.out == "1 message taken back; they stay in the session's file.\n"
    assert [each.text for each in shelf.load("s-1").history] == ["one", "two"]
    again = run("sessions", "rewind", "s-1", "--to", "0", "--yes", "--json", *shelf.here).json
    assert again == {"session_id": "s-1", "messages": 0, "taken_back": 2}
    assert run("sessions", "rewind", "s-1", "--to", "0", *shelf.here).code == 0
    assert run("sessions", "rewind", "s-1", "--to", "1", *shelf.here).code == 2


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 1), ("no", 1, 3), ("", 1, 3)])
def test_a_rewind_in_a_terminal_asks_first(terminal, shelf, answer, code, left):
    shelf.add("s-1", "one", "two", "three")
    program = terminal("sessions", "rewind", "s-1", "--to", "1", *shelf.here)
    program.wait_for("Take back 2 messages? [y/N]")
    program.type(f"{answer}\r")
    assert program.wait() == code
    assert len(shelf.load("s-1").history) == left


@pytest.mark.parametrize(
    ("columns", "head"),
    [
        (120, "session age model folder title"),
        (80, "session age folder title"),
        (40, "session age title"),
    ],
)
def test_a_list_fits_the_terminal(terminal, shelf, columns, head):
    shelf.add("s-0123456", title="long " * 50, workspace="/some/where/" + "x" * 60)
    shelf.copy("s-0123456", 31)
    program = terminal("sessions", "list", *shelf.here, COLUMNS=str(columns))
    assert program.wait() == 0
    shown = [line.rstrip() for line in program.output.decode().splitlines()]
    rows = [line for line in shown if "s-0" in line]
    assert len(rows) == 30
    assert {len(row) for row in rows} == {columns}, rows[0]
    assert all(row.endswith("…") for row in rows)
    assert shown[0].replace("\x1b[1m", "").replace("\x1b[0m", "").split() == head.split()
    assert shown[-1] == "2 more: --limit N shows more of them"


def test_a_conversation_in_a_terminal_is_painted(terminal, shelf):
    shelf.add("s-1", "one", "some **bold** words \x1b[2J", title=HOSTILE)
    program = terminal("sessions", "show", "s-1", *shelf.here)
    assert program.wait() == 0
    assert b"\x1b[1mbold" in program.output
    assert b"\x1b[2J" not in program.output
    assert "2  some bold words" in program.screen
