"""`--resume`: a session goes on with its own model and what was granted, and says what differs."""

import os
import select
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio

from greenroom.core import Message
from greenroom.session import AgentSession, FileStore, SQLiteStore
from tests.session.accepted import check_accepted
from tests.terminal_program import SECONDS

ENTER = "\r"
READY = "/help"


@pytest.fixture
def key(impatient):
    """The variables of a user with a key, whose server is down."""
    server = "http://127.0.0.1:9"
    return {"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": server, **impatient}


def begun(run, *words, **variables):
    """Begin a session; return its id."""
    return run("-p", "read README.md", "--output-format", "json", *words, **variables).json[
        "session_id"
    ]


def with_model(store, provider, model):
    """Store a session that this model has answered; return its id."""

    async def make():
        session = AgentSession.new("coder", store=store)
        session.add_message(Message.user("hello"))
        session.add_message(Message.assistant("hi"))
        session.set_model(provider, model)
        await session.save()
        return session.session_id

    return trio.run(make)


def goes_on(run, *words, **variables):
    return run("-p", "list *.md", "--output-format", "json", "--resume", *words, **variables)


def test_a_session_goes_on_with_its_own_model(run, key, tmp_path):
    folder = tmp_path / "sessions"
    id_ = with_model(FileStore(folder), "anthropic", "claude-old-1")
    done = goes_on(run, id_, "--sessions", str(folder), **key)
    assert done.json["model"] == "anthropic:claude-old-1"
    assert done.err == ""


def test_a_misspelt_model_is_a_line_and_not_an_error(run, key, tmp_path):
    id_ = with_model(FileStore(tmp_path / "sessions"), "anthropic", "claude-sonet-5")
    done = goes_on(run, id_, "--sessions", str(tmp_path / "sessions"), **key)
    assert done.json["model"] == "anthropic:claude-sonet-5"
    assert done.err.count("did you mean anthropic:claude-sonnet-5?") == 1
    assert "Warning" not in done.err
    assert "did you mean" in run("--model", "claude-sonet-5", "doctor", **key).out


def test_a_model_that_is_asked_for_goes_before_the_session_s_own(run, key, tmp_path):
    folder = tmp_path / "sessions"
    id_ = with_model(FileStore(folder), "anthropic", "claude-old-1")
    done = goes_on(run, id_, "--sessions", str(folder), "--model", "offline:", **key)
    assert (done.json["model"], done.err) == ("offline:rules", "")


@pytest.mark.parametrize(
    ("provider", "why"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("scripted", "is not the name of a known model")],
)
def test_where_its_own_model_can_not_be_used_another_answers_and_a_note_says_so(
    run, tmp_path, provider, why
):
    folder = tmp_path / "sessions"
    id_ = with_model(FileStore(folder), provider, "some-model")
    done = goes_on(run, id_, "--sessions", str(folder))
    assert done.code == 0
    assert done.json["model"] == "offline:rules"
    [line] = done.err.splitlines()
    assert f"the session's own model, {provider}:some-model, can't be used: " in line
    assert why in line
    assert line.endswith("; offline:rules answers")


def test_who_has_set_a_key_since_is_told_how_to_leave_the_offline_model(run, key):
    id_ = begun(run)
    assert "no key is set" in goes_on(run, id_).err
    done = goes_on(run, id_, **key)
    assert done.json["model"] == "offline:rules"
    assert "--model anthropic:" in done.err
    assert "no key is set" not in done.err


def test_another_model_from_now_on_is_recorded(run, key):
    id_ = begun(run, "--model", "offline:")
    goes_on(run, id_, "--model", "anthropic:claude-new-1", **key)
    assert goes_on(run, id_, **key).json["model"] == "anthropic:claude-new-1"


def test_a_session_of_another_folder_says_which_two_they_are(run, project, tmp_path):
    id_ = begun(run, "--model", "offline:")
    assert goes_on(run, id_, "--model", "offline:").err == ""
    done = goes_on(run, id_, "--model", "offline:", cwd=tmp_path)
    [line] = done.err.splitlines()
    assert line.endswith(f"this session worked in {project} before; now it works in {tmp_path}")


def grant(terminal, *words):
    """Allow a command for the session, in a terminal that is then left."""
    program = terminal(*words)
    program.wait_for(READY)
    program.type("run touch made" + ENTER)
    program.wait_for("allow? >")
    program.type("s" + ENTER)
    program.wait_for("remembered for this session", "idle")
    program.type("/quit" + ENTER)
    assert program.wait() == 0


def sessions(run, *words):
    return run("sessions", "list", "--json", *words).json


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_what_was_granted_for_the_session_is_not_asked_again(
    terminal, run, project, tmp_path, kind
):
    place = tmp_path / "kept"
    if kind == "database":
        trio.run(make_database, place)
    where = ("--sessions", str(place))
    grant(terminal, *where)
    (project / "made").unlink()
    # Not the first one: what was changed in the same second stands in the order of the ids.
    [session] = [each for each in sessions(run, *where) if each["agent_type"] == "coder"]
    done = run(
        "-p", "run touch made", "--resume", session["session_id"], *where, "--model", "offline:"
    )
    assert done.code == 0
    assert "remembered for this session: allow Bash(touch made)\n" in done.err
    assert (project / "made").exists()


async def make_database(path):
    async with SQLiteStore(path) as store:
        session = AgentSession.new("other", store=store)
        session.add_message(Message.user("hello"))
        await session.save()
        await session.close()


def test_it_is_asked_again_in_a_fork_and_in_another_folder(terminal, run, project, tmp_path):
    grant(terminal)
    (project / "made").unlink()
    [session] = sessions(run)
    id_ = session["session_id"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ask = ("-p", "run touch made", "--output-format", "json", "--model", "offline:", "--resume")
    done = run(*ask, id_, cwd=elsewhere)
    assert len(done.json["denials"]) == 1
    assert f"a remembered answer holds in {project} only: allow Bash(touch made)" in done.err
    fork = run("sessions", "fork", id_, "--json").json["session_id"]
    assert len(run(*ask, fork).json["denials"]) == 1
    assert not (project / "made").exists()
    assert run(*ask, id_).json["denials"] == []


def test_what_is_granted_in_a_session_that_came_with_the_project_holds_for_nothing(
    terminal, run, project
):
    where = ("--sessions", str(project / "sessions"))
    grant(terminal, *where)
    (project / "made").unlink()
    [session] = sessions(run, *where)
    for times in range(2):
        done = run("-p", "run touch made", "--resume", session["session_id"], *where)
        assert not (project / "made").exists()
        assert ("since it is stored in the project" in done.err) is (times == 0)


def below(pid):
    """Return the processes that a process has started, and those that they have."""
    children = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            children += map(int, path.read_text().split())
    return [each for child in children for each in (child, *below(child))]


@contextmanager
def watched(pids):
    """Check that these processes end, once the block is left."""
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        yield
        for pid, handle in zip(pids, handles, strict=True):
            assert select.select([handle], [], [], SECONDS)[0], f"{pid} is still alive"
    finally:
        for handle in handles:
            os.close(handle)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody sees the program's end")
def test_killed_in_the_middle_of_a_call_it_goes_on_and_runs_nothing_again(terminal, run, project):
    program = terminal()
    program.wait_for(READY)
    program.type("read README.md" + ENTER)
    program.wait_for("README.md, 1 line:", "idle")
    program.type("run echo once >> counter; sleep 1000 & setsid sleep 1000 & echo up; wait" + ENTER)
    program.wait_for("allow? >")
    program.type("y" + ENTER)
    program.wait_for("● Bash", "\n  up")
    started = below(program.process.pid)
    assert len(started) >= 5  # the shell, its two guards, and the two that it started
    with watched(started):
        program.process.kill()
    assert program.wait() == -signal.SIGKILL

    [session] = sessions(run)
    again = terminal("--resume", session["session_id"])
    screen = again.wait_for(READY, session["session_id"], "so far:", "idle")
    assert "> read README.md" in screen
    assert "A project of ours." in screen
    assert "✗ Bash  echo once >> counter;" in screen
    assert "interrupted: the call had started, and its outcome is unknown" in screen
    again.type("list *.md" + ENTER)
    again.wait_for("> list *.md", "● Glob", "Files that match", "idle")
    assert (project / "counter").read_text() == "once\n"
    again.type("/quit" + ENTER)
    assert again.wait() == 0
    assert (project / "counter").read_text() == "once\n"
    shown = run("sessions", "show", session["session_id"]).out
    assert shown.index("README.md, 1 line:") < shown.index("✗ Bash") < shown.index("● Glob")


def test_killed_while_it_asks_it_asks_again_and_a_grant_given_before_still_holds(
    terminal, run, project
):
    program = terminal()
    program.wait_for(READY)
    program.type("run touch made" + ENTER)
    program.wait_for("allow? >")
    program.type("s" + ENTER)
    program.wait_for("remembered for this session", "idle")
    program.type("run touch other" + ENTER)
    program.wait_for("touch other", "allow? >")
    program.process.kill()
    assert program.wait() == -signal.SIGKILL
    (project / "made").unlink()

    [session] = sessions(run)
    again = terminal("--resume", session["session_id"])
    again.wait_for("> run touch made", "touch other", "coder asks", "allow? >")
    again.type("n" + ENTER)
    again.wait_for("Bash denied by user", "idle", without=["allow? >"])
    again.type("run touch made" + ENTER + "list *.md" + ENTER)
    again.wait_for("● Glob", "Files that match", "idle")
    assert (project / "made").exists()
    assert not (project / "other").exists()


def test_killed_while_it_asks_it_asks_again_and_the_call_runs_once(terminal, run, project):
    program = terminal()
    program.wait_for(READY)
    program.type("run echo once >> runs" + ENTER)
    program.wait_for("echo once", "allow? >")
    program.process.kill()
    assert program.wait() == -signal.SIGKILL

    again = terminal("--continue")
    again.wait_for("> run echo once", "coder asks", "allow? >")
    again.type("y" + ENTER)
    again.wait_for("The command printed", "idle", without=["allow? >"])
    assert (project / "runs").read_text() == "once\n"
    [session] = sessions(run)
    messages = run("sessions", "show", session["session_id"], "--json").json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant"]
    check_accepted([msgspec.convert(each, Message) for each in messages])


def test_what_a_headless_run_left_open_is_asked_and_answered_in_a_terminal(terminal, run, project):
    words = ("-p", "run echo once >> runs", "--on-question", "wait", "--output-format", "json")
    first = run(*words).json
    assert first["status"] == "waiting"
    program = terminal("--resume", first["session_id"])
    program.wait_for("coder asks", "allow? >")
    program.type("y" + ENTER)
    program.wait_for("The command printed", "idle", without=["allow? >"])
    assert (project / "runs").read_text() == "once\n"
    program.type("hello" + ENTER)
    program.wait_for("> hello", "idle")
    assert (project / "runs").read_text() == "once\n"


def test_what_holds_is_told_in_short(run, project, tmp_path):
    async def make():
        session = AgentSession.new("coder", store=FileStore(tmp_path / "kept"))
        session.add_message(Message.user("hello"))
        for number in range(7):
            path = "x " * 100 + "x" if number == 0 else f"{number}.txt"
            session.conversation.add_grants(
                [
                    {
                        "decision": "deny",
                        "tool": ["Write"],
                        "path": [path],
                        "session": session.session_id,
                        "workspace": str(project),
                    }
                ]
            )
        await session.save()
        return session.session_id

    where = ("--sessions", str(tmp_path / "kept"), "--model", "offline:")
    done = run("-p", "write 3.txt: hello", "--resume", trio.run(make), *where)
    line, denied = done.err.splitlines()
    assert "1 call was denied" in denied
    assert line.endswith("deny Write(4.txt) and 2 more")
    assert len(line) < 250
    assert not (project / "3.txt").exists()
