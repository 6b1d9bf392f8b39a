"""`greenroom -p` as a program: what it prints, what it leaves, how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "greenroom"]
SECONDS = 30


@pytest.fixture
def home(tmp_path):
    """A user's machine: a home, a project with a file, no keys."""
    (tmp_path / "home").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("A project of ours.\n")
    return tmp_path


@pytest.fixture
def env(home):
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    coverage = {name: value for name, value in os.environ.items() if name.startswith("COV")}
    root = str(Path(__file__).parents[2])
    return {**kept, **coverage, "HOME": str(home / "home"), "PYTHONPATH": root}


@pytest.fixture
def run(home, env):
    def run(*words, stdin=b"", cwd=None, **variables):
        return subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            capture_output=True,
            cwd=cwd or home / "project",
            env={**env, **variables},
            timeout=SECONDS,
            check=False,
        )

    return run


def result_of(done):
    return json.loads(done.stdout)


def test_the_answer_alone_goes_to_standard_output(run):
    done = run("-p", "read README.md")
    assert done.returncode == 0
    assert b"A project of ours." in done.stdout
    assert done.stdout.startswith(b"README.md, 1 line")


def test_without_a_key_one_line_says_that_the_offline_model_answers(run):
    done = run("-p", "read README.md")
    assert done.stderr.decode().count("\n") == 1
    assert "offline model" in done.stderr.decode()
    assert "ANTHROPIC_API_KEY" in done.stderr.decode()


def test_a_model_that_was_asked_for_needs_no_such_line(run):
    assert run("-p", "read README.md", "--model", "offline:").stderr == b""


def test_the_json_result_is_one_object_that_says_how_it_went(run):
    result = result_of(run("-p", "read README.md", "--output-format", "json"))
    assert result["type"] == "result"
    assert result["status"] == "completed"
    assert result["stop_reason"] == "end_turn"
    assert "A project of ours." in result["result"]
    assert result["session_id"].startswith("s-")
    assert result["denials"] == []
    assert result["error"] is None
    assert "input_tokens" in result["usage"]


def test_what_no_rule_allows_is_denied_and_listed_and_the_run_is_done(run, home):
    done = run("-p", "write new.txt: hello", "--output-format", "json")
    assert done.returncode == 0
    [denial] = result_of(done)["denials"]
    assert denial["tool"] == "Write"
    assert denial["input"] == {"file_path": "new.txt", "content": "hello"}
    assert not (home / "project" / "new.txt").exists()


def test_a_rule_on_the_command_line_allows(run, home):
    done = run("-p", "write new.txt: hello", "--allow", "Write(*.txt)", "--output-format", "json")
    assert result_of(done)["denials"] == []
    assert (home / "project" / "new.txt").read_text().strip() == "hello"


def test_a_denial_on_the_command_line_beats_what_is_allowed_by_itself(run):
    done = run("-p", "read README.md", "--deny", "Read", "--output-format", "json")
    assert [denial["tool"] for denial in result_of(done)["denials"]] == ["Read"]


def test_a_subagents_denials_are_listed_too(run):
    done = run("-p", "ask a subagent to write a.txt: x", "--output-format", "json")
    assert [denial["tool"] for denial in result_of(done)["denials"]] == ["Write"]


def test_every_line_of_the_stream_is_a_chunk_and_the_last_says_how_the_turn_ended(run):
    done = run("-p", "read README.md", "--output-format", "stream-json")
    chunks = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds[-1] == "done"
    assert {"turn_start", "text_delta", "tool_start", "tool_end"} <= set(kinds)


def test_what_is_piped_in_goes_to_the_model_as_context(run):
    run("-p", "explain", stdin=b"x = 1\n")
    [session] = json.loads(run("sessions", "list", "--json").stdout)
    shown = json.loads(run("sessions", "show", session["session_id"], "--json").stdout)
    assert "<stdin>\nx = 1\n" in shown["messages"][0]["content"][0]["text"]


def test_a_session_is_continued_in_its_folder_and_nowhere_else(run, home):
    first = result_of(run("-p", "read README.md", "--output-format", "json"))
    again = result_of(run("-p", "list *.md", "--continue", "--output-format", "json"))
    assert again["session_id"] == first["session_id"]
    elsewhere = run("-p", "list *", "--continue", cwd=home)
    assert elsewhere.returncode == 2
    assert b"--resume" in elsewhere.stderr


def test_a_session_is_resumed_by_its_id(run):
    first = result_of(run("-p", "read README.md", "--output-format", "json"))
    id_ = first["session_id"]
    assert run("-p", "list *.md", "--resume", id_).returncode == 0
    shown = run("sessions", "show", id_).stdout.decode()
    assert "> read README.md" in shown
    assert "> list *.md" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "nobody:x"], "nobody:x"),
        (["--model", "anthropic:"], "ANTHROPIC_API_KEY"),
        (["--allow", "Bash("], "--allow"),
        (["--resume", "s-unknown"], "s-unknown"),
        (["--resume", "../etc"], "../etc"),
        (["--log", "/nowhere/x.log"], "/nowhere/x.log"),
    ],
)
def test_a_bad_set_up_is_one_clear_line_and_exit_code_2(run, words, says):
    done = run("-p", "hello", *words)
    assert done.returncode == 2
    assert done.stdout == b""
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("greenroom: ")
    assert says in line


def test_a_malformed_rule_file_is_refused_with_its_place(run, home):
    folder = home / "project" / ".greenroom"
    folder.mkdir()
    (folder / "permissions.json").write_text(
        '{"version": 1,\n "rules": [{"decision": "deny", "tol": "Bash"}]}'
    )
    done = run("-p", "read README.md")
    assert done.returncode == 2
    assert "permissions.json:2:" in done.stderr.decode()
    assert "tol" in done.stderr.decode()


def test_a_projects_file_may_deny_but_not_allow(run, home):
    folder = home / "project" / ".greenroom"
    folder.mkdir()
    rules = [
        {"decision": "allow", "tool": "Write"},
        {"decision": "deny", "tool": "Read", "message": "ask me first"},
    ]
    (folder / "permissions.json").write_text(json.dumps({"version": 1, "rules": rules}))
    done = run("-p", "write a.txt: x", "--output-format", "json")
    assert [denial["tool"] for denial in result_of(done)["denials"]] == ["Write"]
    assert "1 rule that allows is ignored" in done.stderr.decode()
    denied = run("-p", "read README.md", "--output-format", "json")
    assert "ask me first" in result_of(denied)["denials"][0]["reason"]


def test_the_users_own_file_allows(run, home):
    folder = home / "config" / "greenroom"
    folder.mkdir(parents=True)
    rules = [{"decision": "allow", "tool": "Write"}]
    (folder / "permissions.json").write_text(json.dumps({"version": 1, "rules": rules}))
    done = run(
        "-p", "write a.txt: x", "--output-format", "json", XDG_CONFIG_HOME=str(home / "config")
    )
    assert result_of(done)["denials"] == []


def start(home, env, *words):
    return subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home / "project",
        env=env,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_running_tool_and_the_session_is_saved(run, home, env, number, code):
    process = start(
        home,
        env,
        "-p",
        "run touch started; sleep 60",
        "--permission-mode",
        "bypass",
        "--output-format",
        "stream-json",
    )
    kinds = []
    for line in process.stdout:
        chunk = json.loads(line)
        kinds.append(chunk["type"])
        if chunk["type"] == "tool_start":
            process.send_signal(number)
    assert process.wait(SECONDS) == code
    process.stdout.close()
    process.stderr.close()
    assert kinds[-1] == "done"
    [session] = json.loads(run("sessions", "list", "--json").stdout)
    shown = json.loads(run("sessions", "show", session["session_id"], "--json").stdout)
    assert "interrupted" in json.dumps(shown["messages"][-1])


def test_a_reader_that_goes_away_ends_it_quietly(home, env):
    process = start(home, env, "-p", "read README.md", "--output-format", "stream-json")
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert process.stderr.read().decode().count("\n") == 1  # the line about the offline model
    process.stderr.close()


def test_a_session_that_another_process_writes_is_refused_with_its_id(run, home, env):
    process = start(
        home,
        env,
        "-p",
        "run sleep 60",
        "--permission-mode",
        "bypass",
        "--output-format",
        "stream-json",
    )
    for line in process.stdout:
        if json.loads(line)["type"] == "tool_start":
            break
    [session] = json.loads(run("sessions", "list", "--json").stdout)
    done = run("-p", "hello", "--resume", session["session_id"], "--output-format", "json")
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert done.returncode == 2
    assert result_of(done)["error"]["kind"] == "SessionLockedError"
    assert str(process.pid) in result_of(done)["error"]["message"]
