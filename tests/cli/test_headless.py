"""`greenroom -p`: what it prints, what it leaves, how it ends."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
from contextlib import closing
from datetime import UTC, datetime

import pytest
import trio

from greenroom.core import Message
from greenroom.core._internal import set_clock
from greenroom.session import AgentSession, SQLiteStore
from tests.cli.conftest import COMMAND

SECONDS = 120


def write_rules(folder, *rules):
    folder.mkdir(parents=True)
    path = folder / "permissions.json"
    path.write_text(json.dumps({"version": 1, "rules": rules}))
    return path


def test_the_answer_alone_goes_to_standard_output(run):
    done = run("-p", "read README.md")
    assert done.code == 0
    assert "A project of ours." in done.out
    assert done.out.startswith("README.md, 1 line")


def test_without_a_key_one_line_says_that_the_offline_model_answers(run):
    done = run("-p", "read README.md")
    [line] = done.err.splitlines()
    assert "offline model" in line
    assert "ANTHROPIC_API_KEY" in line


def test_a_model_that_was_asked_for_needs_no_such_line(run):
    assert run("-p", "read README.md", "--model", "offline:").err == ""


def test_the_json_result_is_one_object_that_says_how_it_went(run):
    result = run("-p", "read README.md", "--output-format", "json").json
    assert result["type"] == "result"
    assert result["status"] == "completed"
    assert result["stop_reason"] == "end_turn"
    assert "A project of ours." in result["result"]
    assert result["session_id"].startswith("s-")
    assert result["denials"] == []
    assert result["error"] is None
    assert {"input_tokens", "cost", "saved", "cached"} <= set(result["usage"])


def test_what_no_rule_allows_is_denied_and_listed_and_the_run_is_done(run, project):
    done = run("-p", "write new.txt: hello", "--output-format", "json")
    assert done.code == 0
    [denial] = done.json["denials"]
    assert denial["tool"] == "Write"
    assert denial["input"] == {"file_path": "new.txt", "content": "hello"}
    assert not (project / "new.txt").exists()


def test_reading_outside_of_the_workspace_needs_a_permission(run):
    done = run("-p", "read /etc/hostname", "--output-format", "json")
    assert [denial["tool"] for denial in done.json["denials"]] == ["Read"]


def test_a_rule_on_the_command_line_allows(run, project):
    words = ("--allow", "Write(*.txt)", "--output-format", "json")
    assert run("-p", "write new.txt: hello", *words).json["denials"] == []
    assert (project / "new.txt").read_text().strip() == "hello"


def test_a_denial_on_the_command_line_beats_what_is_allowed_by_itself(run):
    done = run("-p", "read README.md", "--deny", "Read", "--output-format", "json")
    assert [denial["tool"] for denial in done.json["denials"]] == ["Read"]


def test_an_allowance_on_the_command_line_overrides_no_denial_of_a_file(run, tmp_path):
    write_rules(tmp_path / "config" / "greenroom", {"decision": "deny", "path": "*.md"})
    done = run(
        *("-p", "read README.md", "--allow", "Read", "--output-format", "json"),
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )
    assert [denial["tool"] for denial in done.json["denials"]] == ["Read"]


def test_a_subagents_denials_are_listed_too(run):
    done = run("-p", "ask a subagent to write a.txt: x", "--output-format", "json")
    assert [denial["tool"] for denial in done.json["denials"]] == ["Write"]


def test_the_stream_begins_with_what_runs_and_ends_with_the_result(run, project):
    done = run("-p", "read README.md", "--output-format", "stream-json")
    first, *chunks, result = map(json.loads, done.out.splitlines())
    kinds = [chunk["type"] for chunk in chunks]
    assert first["type"] == "init"
    assert (first["cwd"], first["model"]) == (str(project), "offline:rules")
    assert (first["permission_mode"], first["agents"], first["commands"]) == (
        "default",
        [],
        ["init", "review"],
    )
    assert {"Bash", "Read", "WebFetch"} <= set(first["tools"])
    assert kinds[-1] == "done"
    assert {"turn_start", "text_delta", "tool_start", "tool_end"} <= set(kinds)
    assert (result["type"], result["status"], result["exit_code"]) == ("result", "completed", 0)
    assert "A project of ours." in result["result"]
    assert result["session_id"] == first["session_id"]
    assert (result["turns"], result["steps"], result["cost"]) == (1, 2, None)
    assert result["duration_ms"] >= 0


def test_a_stream_that_fails_has_its_result_too(run):
    words = ("--max-turns", "1", "--output-format", "stream-json")
    first, *_, result = map(json.loads, run("-p", "read README.md", *words).out.splitlines())
    assert (first["type"], result["type"]) == ("init", "result")
    assert (result["status"], result["exit_code"]) == ("failed", 1)
    assert result["error"]["kind"] == "BudgetExceededError"


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_denied_calls_are_told_of_in_one_line_whatever_the_format(run, output):
    words = ("--model", "offline:", "--output-format", output)
    [line] = run("-p", "write a.txt: x", *words).err.splitlines()
    assert line.startswith("greenroom: 1 call was denied: Write a.txt (--allow RULE")


def test_where_a_rule_denies_nothing_is_suggested_that_would_not_help(run):
    done = run("-p", "write a.txt: x", "--model", "offline:", "--deny", "Write")
    assert done.err == "greenroom: 1 call was denied: Write a.txt\n"


def test_the_prompt_may_be_all_of_standard_input(start, run):
    process = start("-p", "-", "--output-format", "json", stdin=subprocess.PIPE)
    out, _ = process.communicate(b"read README.md\n", timeout=SECONDS)
    assert "A project of ours." in json.loads(out)["result"]
    process = start("-p", "-", stdin=subprocess.PIPE)
    _, err = process.communicate(b" \n", timeout=SECONDS)
    assert (process.returncode, b"the prompt is empty" in err) == (2, True)


def test_a_command_that_is_unknown_is_never_sent_to_a_model(run, project):
    folder = project / ".greenroom" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Greet $1.")
    for prompt, says in (
        ("/greet Ann", "there is no command /greet"),  # of a project that is not trusted
        ("/Nonsense", "there is no command /Nonsense"),
    ):
        done = run("-p", prompt)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
    assert run("-p", "/usr/bin/env reads what?").code == 0


def test_a_limit_of_the_cost_needs_a_price(run):
    refused = run("-p", "read README.md", "--max-cost", "0.5", "--model", "ollama:llama3.2")
    assert refused.code == 2
    assert "--max-cost needs the price of ollama:llama3.2" in refused.err
    assert run("-p", "read README.md", "--max-cost", "0.5", "--model", "offline:").code == 0


def test_a_terminal_goes_on_with_its_own_sessions_and_a_script_with_all(run):
    first = run("-p", "read README.md", "--output-format", "json").json
    refused = run("--continue")
    assert refused.code == 2
    assert "to continue, 1 of runs of -p" in refused.err
    again = run("-p", "list *", "-c", "--output-format", "json").json
    assert again["session_id"] == first["session_id"]


def test_a_session_is_continued_in_its_folder_and_nowhere_else(run, tmp_path):
    first = run("-p", "read README.md", "--output-format", "json").json
    again = run("-p", "list *.md", "--continue", "--output-format", "json").json
    assert again["session_id"] == first["session_id"]
    elsewhere = run("-p", "list *", "--continue", cwd=tmp_path)
    assert elsewhere.code == 2
    assert "--resume" in elsewhere.err


def test_the_last_used_of_two_sessions_of_one_second_is_continued(run, monkeypatch):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    set_clock(lambda: at)
    try:
        ids = [
            run("-p", "read README.md", "--output-format", "json").json["session_id"]
            for _ in range(4)
        ]
        again = run("-p", "list *", "--continue", "--output-format", "json")
        assert again.json["session_id"] == ids[-1]
    finally:
        set_clock(None)


def test_a_session_that_is_unknown_is_told_in_plain_words(run, tmp_path):
    done = run("sessions", "show", "nope", "--sessions", str(tmp_path))
    assert done.err == (
        f"greenroom: there is no session nope in {tmp_path} "
        "(`greenroom sessions list` shows them; --sessions names another folder)\n"
    )


def test_a_damaged_session_is_repaired_by_the_command_that_its_error_names(run, tmp_path):
    folder = ("--sessions", str(tmp_path / "kept"))
    id_ = run("-p", "read README.md", *folder, "--output-format", "json").json["session_id"]
    assert run("-p", "list *.md", *folder, "--resume", id_).code == 0
    assert run("sessions", "repair", id_, *folder).out.startswith("Nothing is damaged.")
    path = tmp_path / "kept" / id_ / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"A project", b"B project", 1))
    refused = run("sessions", "show", id_, *folder)
    assert refused.code == 2
    assert f"`greenroom sessions repair {id_}`" in refused.err
    done = run("sessions", "repair", id_, *folder)
    assert done.code == 0
    assert "set aside in" in done.out
    assert run("sessions", "show", id_, *folder).code == 0
    again = run("sessions", "repair", id_, *folder, "--json").json
    assert again == {"session_id": id_, "messages": again["messages"], "repair": None}


def test_the_sessions_of_a_database_are_listed_repaired_and_gone_on_with(run, tmp_path):
    path = tmp_path / "sessions.db"
    trio.run(store_in_database, path, "read README.md", "one", "two")
    here = ("--sessions", str(path))
    [row] = run("sessions", "list", "--json", *here).json
    assert row["session_id"] == "mine"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE lines SET line = zeroblob(length(line)) WHERE number = 1")
    refused = run("sessions", "show", "mine", *here)
    assert refused.code == 2
    assert f"`greenroom sessions repair mine --sessions {path}`" in refused.err
    assert "set aside in number 1 of the table torn" in run("sessions", "repair", "mine", *here).out
    assert run("sessions", "repair", "mine", *here).out.startswith("Nothing is damaged.")
    assert run("-p", "list *.md", "--resume", "mine", *here).code == 0
    shown = run("sessions", "show", "mine", *here).out
    said = [line.partition("> ")[2] for line in shown.splitlines() if "> " in line]
    assert said == ["read README.md", "list *.md"]
    unknown = run("sessions", "show", "nope", *here)
    assert f"there is no session nope in SQLiteStore('{path}')" in unknown.err


async def store_in_database(path, *texts):
    async with SQLiteStore(path) as store:
        session = AgentSession.new("coder", session_id="mine", store=store)
        for text in texts:
            session.add_message(Message.user(text))
            await session.save()


def test_a_file_that_is_no_database_of_sessions_is_refused_and_left_alone(run, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("These are notes. " * 99)
    done = run("sessions", "list", "--sessions", str(path))
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "if it is not a database of sessions, name another file" in done.err
    assert path.read_text() == "These are notes. " * 99


def test_a_session_is_resumed_by_its_id(run):
    id_ = run("-p", "read README.md", "--output-format", "json").json["session_id"]
    assert run("-p", "list *.md", "--resume", id_).code == 0
    shown = run("sessions", "show", id_).out
    assert "> read README.md" in shown
    assert "> list *.md" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "nobody:x"], "nobody:x"),
        (["--model", "anthropic:"], "ANTHROPIC_API_KEY"),
        (["--allow", "Bash("], "--allow"),
        (["--deny", ""], "--deny"),
        (["--resume", "s-unknown"], "sessions list"),
        (["--resume", "../etc"], "../etc"),
        (["--log", "/nowhere/x.log"], "/nowhere/x.log"),
        (["--sandbox-network", "all"], "add --sandbox"),
        (["--sandboxed", "allow"], "add --sandbox"),
        (["--input-format", "stream-json"], "needs --output-format stream-json"),
        (
            ["--input-format", "stream-json", "--output-format", "stream-json"],
            "write -p without one",
        ),
        (["-p", ""], "the prompt is empty"),
        (["-p", " \n"], "the prompt is empty"),
        (["-p"], "the prompt is empty"),
    ],
)
def test_a_bad_set_up_is_one_clear_line_and_exit_code_2(run, words, says):
    done = run("-p", "hello", *words)
    assert done.code == 2
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith("greenroom: ")
    assert says in line


BAD = '{"version": 1,\n "rules": [{"decision": "deny", "tol": "Bash"}]}'


def test_a_rule_file_that_can_not_be_used_is_told_of_with_its_place_and_nothing_is_allowed(
    run, project
):
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "permissions.json").write_text(BAD)
    done = run("-p", "read README.md", "--output-format", "json", "--allow", "Read")
    told = done.err.splitlines()[0]
    assert "permissions.json:2:" in told
    assert "tol" in told
    assert "every call is asked about, or denied" in told
    assert [each["tool"] for each in done.json["denials"]] == ["Read"]
    words = ("--permission-mode", "bypass", "--output-format", "json")
    assert run("-p", "read README.md", *words).json["denials"]


@pytest.mark.parametrize("text", ["", " \n", "{"])
def test_a_rule_file_that_holds_nothing_can_not_be_used_either(run, project, text):
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "permissions.json").write_text(text)
    done = run("-p", "read README.md")
    assert "denied" in done.out
    assert "permissions.json:" in done.err
    assert '{"version": 1' in done.err
    assert "FAIL  the project's rules" in run("doctor").out


def test_the_mode_bypass_is_told_of(run, project):
    done = run("-p", "write new.txt: hello", "--permission-mode", "bypass")
    assert "the mode bypass asks about nothing" in done.err.splitlines()[0]
    assert (project / "new.txt").exists()


def test_rules_of_several_files_may_have_one_name(run, project, tmp_path):
    denial = {"decision": "deny", "tool": "Write"}
    write_rules(
        project / ".greenroom",
        {**denial, "id": "x", "message": "from the project"},
        {"decision": "ask", "tool": "Glob", "id": "read-workspace"},
    )
    write_rules(tmp_path / "config" / "greenroom", {"decision": "deny", "tool": "Bash", "id": "x"})
    words = ("--output-format", "json")
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = run("-p", "write a.txt: x", *words, **config)
    assert "from the project" in done.json["denials"][0]["reason"]
    done = run("-p", "run ls", *words, **config)
    assert "'user/x'" in done.json["denials"][0]["reason"]


def test_a_projects_file_may_deny_but_not_allow(run, project):
    write_rules(
        project / ".greenroom",
        {"decision": "allow", "tool": "Write"},
        {"decision": "deny", "tool": "Read", "message": "ask me first"},
    )
    done = run("-p", "write a.txt: x", "--output-format", "json")
    assert [denial["tool"] for denial in done.json["denials"]] == ["Write"]
    assert done.err.count("1 rule that allows is ignored") == 1
    denied = run("-p", "read README.md", "--output-format", "json")
    assert "ask me first" in denied.json["denials"][0]["reason"]


def test_the_users_own_file_allows(run, tmp_path):
    write_rules(tmp_path / "config" / "greenroom", {"decision": "allow", "tool": "Write"})
    done = run(
        *("-p", "write a.txt: x", "--output-format", "json"),
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )
    assert done.json["denials"] == []


def test_a_server_that_is_down_fails_the_run_with_a_reason(run, impatient):
    done = run(
        *("-p", "hello", "--model", "openai:x", "--output-format", "json"),
        OPENAI_API_KEY="sk-secret-key",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        **impatient,
    )
    assert done.code == 1
    assert done.json["error"]["kind"] == "ModelConnectionError"
    assert "sk-secret-key" not in done.out + done.err


def test_the_failure_of_a_text_run_stands_on_standard_error(run, impatient):
    done = run(
        *("-p", "hello", "--model", "openai:x"),
        OPENAI_API_KEY="sk-secret-key",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        **impatient,
    )
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("greenroom: ")


def test_who_keeps_on_trying_what_is_denied_ends_as_at_any_limit(run):
    words = ("--max-steps", "1", "--output-format", "json")
    done = run("-p", "write a.txt: x", *words)
    assert done.code == 1
    assert done.json["error"]["kind"] == "BudgetExceededError"


def test_steps_that_are_used_up_without_a_denial_are_a_failure(run):
    done = run("-p", "read README.md", "--max-steps", "1", "--output-format", "json")
    assert done.code == 1


def test_the_log_is_for_its_owner_alone_and_one_json_object_a_line(run, tmp_path):
    log = tmp_path / "run.log"
    assert run("-p", "read README.md", "--log", str(log)).code == 0
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in lines)
    spans = [line for line in lines if line["logger"] == "greenroom.spans"]
    kinds = [line["message"].split()[0] for line in spans]
    assert kinds == ["chat", "execute_tool", "chat", "invoke_agent"]
    assert len({line["session"] for line in spans}) == 1
    assert {line["status"] for line in spans} == {"ok"}
    run("-p", "read README.md", "--log", str(log), "--trace", "off")
    assert log.read_text().count('"execute_tool Read"') == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_that_the_disk_refuses_is_told_in_one_line_and_harms_nothing(run):
    done = run("-p", "read README.md", "--log", "/dev/full")
    assert done.code == 0
    [line] = [line for line in done.err.splitlines() if "no key is set" not in line]
    assert line == "greenroom: lines are missing from the log /dev/full: No space left on device"


def test_sessions_are_kept_where_the_option_says(run, tmp_path):
    folder = tmp_path / "elsewhere"
    run("-p", "read README.md", "--sessions", str(folder))
    assert len(list(folder.iterdir())) == 1
    assert "read README.md" in run("sessions", "list", "--sessions", str(folder)).out


ASKING = ("-p", "write new.txt: hello", "--on-question", "wait")


@pytest.mark.parametrize("how", ["deny", "wait"])
def test_a_plan_that_nobody_can_approve_is_the_result_of_the_run(run, project, how):
    words = ("--permission-mode", "plan", "--on-question", how)
    done = run("-p", "submit the plan: 1. write a.txt", *words, "--output-format", "json")
    assert (done.code, done.json["status"], done.json["result"]) == (
        0, "completed", "1. write a.txt",
    )  # fmt: skip
    assert (done.json["denials"], done.json["pending"]) == ([], [])
    assert run("-p", "submit the plan: 1. a\n2. b", *words).out == "1. a\n2. b\n"


def test_a_question_may_wait_and_the_result_says_so(run, project):
    done = run(*ASKING, "--output-format", "json")
    assert done.code == 3
    assert (done.json["status"], done.json["exit_code"], done.json["error"]) == ("waiting", 3, None)
    [question] = done.json["pending"]
    assert question["tool"] == "Write"
    assert question["input"] == {"file_path": "new.txt", "content": "hello"}
    assert question["request_id"].startswith("p-")
    assert done.json["denials"] == []
    assert not (project / "new.txt").exists()
    [session] = run("sessions", "list", "--json").json
    assert session["session_id"] == done.json["session_id"]


def test_a_text_result_that_waits_names_the_question_and_how_to_be_asked(run):
    done = run(*ASKING, "--model", "offline:")
    assert done.code == 3
    [line] = done.err.splitlines()
    assert "waits for an answer: Write new.txt" in line
    assert "greenroom --resume s-" in line


def test_the_stream_of_a_run_that_waits_ends_with_it(run):
    done = run(*ASKING, "--output-format", "stream-json")
    chunks = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 3
    assert (chunks[-2]["type"], chunks[-2]["status"]) == ("done", "waiting")
    assert (chunks[-1]["type"], chunks[-1]["status"]) == ("result", "waiting")


def test_with_a_new_prompt_instead_the_call_does_not_run(run, project):
    first = run(*ASKING, "--output-format", "json").json
    done = run("-p", "read README.md", "--continue", "--output-format", "json")
    assert (done.code, done.json["pending"]) == (0, [])
    assert done.json["session_id"] == first["session_id"]
    assert "A project of ours." in done.json["result"]
    shown = run("sessions", "show", first["session_id"], "--json").json
    [result] = shown["messages"][2]["content"]
    assert result["content"][0]["text"].endswith("went on without it: the call was not started")
    assert not (project / "new.txt").exists()


def test_what_needs_no_question_is_done_as_ever(run, project):
    done = run(*ASKING, "--allow", "Write", "--output-format", "json")
    assert (done.code, done.json["status"], done.json["pending"]) == (0, "completed", [])
    assert (project / "new.txt").exists()


BYPASS = ("--permission-mode", "bypass", "--output-format", "stream-json")


def until_a_tool_runs(process):
    for line in process.stdout:
        if json.loads(line)["type"] == "tool_start":
            return


def test_what_is_piped_in_goes_to_the_model_as_context(start, run):
    process = start("-p", "explain", stdin=subprocess.PIPE)
    process.communicate(b"x = 1\n\xff", timeout=SECONDS)
    [session] = run("sessions", "list", "--json").json
    shown = run("sessions", "show", session["session_id"], "--json").json
    assert "<stdin>\nx = 1\n\ufffd" in shown["messages"][0]["content"][0]["text"]


ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), ENDS)
def test_a_signal_ends_a_running_tool_and_the_session_is_saved(start, run, number, code):
    process = start("-p", "run sleep 600", *BYPASS)
    until_a_tool_runs(process)
    process.send_signal(number)
    kinds = [json.loads(line)["type"] for line in process.stdout]
    assert process.wait(SECONDS) == code
    assert kinds[-2:] == ["done", "result"]
    [session] = run("sessions", "list", "--json").json
    shown = run("sessions", "show", session["session_id"]).out
    assert "✗ Bash" in shown
    assert "interrupted" in shown


def test_a_signal_that_its_parent_ignores_does_not_end_it(start, project):
    process = start("-p", "run until [ -e go ]; do sleep 0.02; done", *BYPASS, nohup=True)
    until_a_tool_runs(process)
    process.send_signal(signal.SIGHUP)
    (project / "go").touch()
    process.stdout.read()
    assert process.wait(SECONDS) == 0


def test_notes_that_nobody_reads_end_no_run(start):
    process = start("-p", "read README.md", "--output-format", "json")
    process.stderr.close()
    assert json.loads(process.stdout.read())["status"] == "completed"
    assert process.wait(SECONDS) == 0
    process.stderr = None


def test_sigusr1_tells_on_the_standard_error_what_the_agents_are_doing(start):
    process = start("-p", "run sleep 600", *BYPASS)
    until_a_tool_runs(process)
    process.send_signal(signal.SIGUSR1)
    lines = iter(process.stderr.readline, b"")
    assert next(line for line in lines if b"executing tool: Bash" in line).startswith(b"coder s-")
    assert next(line for line in lines if b"The event loop's thread is here" in line)
    assert process.poll() is None


def test_sigusr1_writes_to_the_log_where_there_is_one(start, project):
    os.mkfifo(project / "runs")
    process = start("-p", "run echo > runs; cat runs", *BYPASS[:2], "--log", "our.log")
    (project / "runs").read_bytes()
    process.send_signal(signal.SIGUSR1)
    (project / "runs").write_text("over\n")
    assert process.wait(SECONDS) == 0
    entries = [json.loads(line) for line in (project / "our.log").read_text().splitlines()]
    [dump] = [each["message"] for each in entries if each["logger"] == "greenroom.cli"]
    assert dump.startswith("1 agent\ncoder s-")
    assert b"1 agent" not in process.stderr.read()


def test_the_json_result_names_the_exit_code_of_the_signal_that_ended_it(start, project):
    os.mkfifo(project / "runs")
    process = start("-p", "run echo > runs; sleep 600", *BYPASS[:2], "--output-format", "json")
    (project / "runs").read_bytes()
    process.terminate()
    assert process.wait(SECONDS) == 143
    assert json.loads(process.stdout.read())["exit_code"] == 143


@pytest.mark.parametrize("words", [("-p", "read README.md"), ("sessions", "list")])
def test_output_that_can_not_be_written_is_one_line_and_exit_code_1(project, env, words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *words, "--model", "offline:"] if words[0] == "-p" else [*COMMAND, *words],
            cwd=project,
            env=env,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"greenroom: standard output: No space left on device\n"


@pytest.fixture
def close(project, env):
    """Run the command with a standard stream closed, such as "<&-"."""

    def close(stream, *words):
        script = f'exec "$@" {stream}'
        return subprocess.run(
            ["bash", "-c", script, "bash", *COMMAND, *words],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return close


@pytest.mark.parametrize("words", [("-p", "hello"), ("doctor",), ("sessions", "list")])
def test_a_closed_standard_output_is_one_line_and_exit_code_1(close, words):
    done = close(">&- </dev/null", *words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "greenroom: standard output: Bad file descriptor"
    assert "Traceback" not in done.stderr


def test_no_output_gets_into_the_log_that_opens_after_standard_output_was_closed(close, project):
    close(">&- </dev/null", "-p", "hello", "--log", "log", "--output-format", "json")
    entries = map(json.loads, (project / "log").read_text().splitlines())
    assert all("logger" in entry for entry in entries)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0),
        (("-p", "hello"), 0),
        (("--resume",), 2),
        (("sessions", "import", "-"), 2),
        (("permissions", "test", "-"), 0),
    ],
)
def test_a_closed_standard_input_is_an_empty_one(close, words, code):
    done = close("<&-", *words)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_with_standard_error_closed_the_output_has_results_only(close):
    done = close("2>&- </dev/null", "-p", "hello", "--output-format", "json")
    assert json.loads(done.stdout)["exit_code"] == 0


@pytest.mark.parametrize("streams", ["<&- 2>&-", "</dev/null 2>&-"])
def test_no_message_gets_into_the_output_whatever_is_closed_beside_standard_error(close, streams):
    done = close(streams, "sessions", "show", "nope")
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize("words", [("-p", "hello"), ("doctor",)])
def test_a_working_directory_that_is_gone_is_told(run, tmp_path, monkeypatch, words):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    done = run(*words, cwd=None)
    assert done.code == 2
    assert done.err.startswith("greenroom: the working directory does not exist any more")


def test_a_sessions_folder_that_can_not_be_used_is_exit_code_2(run, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("-p", "hello", "--sessions", str(tmp_path / "file" / "x"), "--model", "offline:")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "kept in memory" not in done.err


def test_a_reader_that_goes_away_ends_it_quietly(start, unread):
    process = start("-p", "read README.md", "--model", "offline:", *BYPASS[2:], stdout=unread)
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_a_session_that_another_process_writes_is_refused_with_its_id(start, run):
    process = start("-p", "run sleep 600", *BYPASS)
    until_a_tool_runs(process)
    [session] = run("sessions", "list", "--json").json
    done = run("-p", "hello", "--resume", session["session_id"], "--output-format", "json")
    process.terminate()
    assert done.code == 2
    assert done.json["error"]["kind"] == "SessionLockedError"
    assert str(process.pid) in done.json["error"]["message"]


def test_a_second_signal_does_not_wait_for_the_clean_up(start):
    process = start("-p", "run trap '' TERM; while :; do sleep 1; done", *BYPASS)
    until_a_tool_runs(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait(SECONDS) == 130


def test_a_list_that_nobody_reads_ends_quietly(start, run, unread):
    run("-p", "read README.md")
    process = start("sessions", "list", stdout=unread)
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_ctrl_c_before_anything_runs_is_exit_code_130(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trio.run", interrupted)
    assert run("-p", "x").code == 130


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_credential_that_nobody_can_give_is_told_with_what_to_do(run, monkeypatch, output):
    from greenroom.core import Credential
    from greenroom.tools import builtin_tools

    def tools(**options):
        found = builtin_tools(**options)
        (read,) = [each for each in found if each.name == "Read"]
        read.credentials = (Credential("shop token"),)
        return found

    monkeypatch.setattr("greenroom.cli.run_setup.builtin_tools", tools)
    done = run("-p", "read README.md", "--model", "offline:", "--output-format", output)
    assert "Read needs the credential shop token, which only a person at a terminal" in done.err
    assert "greenroom --resume s-" in done.err
