"""Hooks: what each may do, what a failed one comes to, and that none allows what nobody did."""

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.agents._internal import rules_digest, trust_rules
from greenroom.cli.hook_files import find_files
from greenroom.cli.hook_run import MAX_OUTPUT
from greenroom.core._internal import serde

ROUNDS = int(os.environ.get("GREENROOM_HOOK_ROUNDS", "8"))
WRITE = ("-p", "write a.txt: x", "--model", "offline:", "--output-format", "json")


def says(event, **answer):
    """A command that answers an event."""
    found = {"hookSpecificOutput": {"hookEventName": event, **answer}}
    return f"cat >/dev/null; echo {shlex.quote(json.dumps(found))}"


def decides(event, decision, reason=""):
    return says(event, permissionDecision=decision, permissionDecisionReason=reason)


@pytest.fixture
def mine(tmp_path):
    """Write the user's settings: hooks by their events."""

    def write(**hooks):
        path = tmp_path / "home" / ".config" / "greenroom" / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = {
            event: [each if isinstance(each, dict) else {"command": each} for each in given]
            for event, given in hooks.items()
        }
        path.write_bytes(serde.dumps({"hooks": entries}))

    return write


@pytest.fixture
def trust(env, monkeypatch):
    def trust(path):
        monkeypatch.setenv("HOME", env["HOME"])
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        trust_rules(path, rules_digest(path))

    return trust


def write_project(project, hooks):
    path = project / ".greenroom" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    entries = {event: [{"command": each} for each in given] for event, given in hooks.items()}
    path.write_bytes(serde.dumps({"hooks": entries}))
    return path


def test_a_hook_gets_the_call_as_json_and_denies_it_with_a_reason(run, mine, project):
    mine(PreToolUse=["cat > seen.json; echo 'not on Fridays' >&2; exit 2"])
    done = run(*WRITE, "--allow", "Write")
    [denial] = done.json["denials"]
    assert "not on Fridays" in denial["reason"]
    assert not (project / "a.txt").exists()
    seen = json.loads((project / "seen.json").read_text())
    assert seen["hook_event_name"] == "PreToolUse"
    assert (seen["cwd"], seen["permission_mode"]) == (str(project), "default")
    assert (seen["tool_name"], seen["tool_input"]["file_path"]) == ("Write", "a.txt")
    assert seen["tool_use_id"]
    assert seen["session_id"] == done.json["session_id"]


def test_it_runs_in_the_folder_of_the_project_without_the_keys(run, mine, project):
    mine(PreToolUse=['pwd > where; env > variables; test "$GREENROOM_PROJECT" = "$PWD"'])
    assert run(*WRITE, "--allow", "Write", ANTHROPIC_API_KEY="sk-ant-1").json["denials"] == []
    assert (project / "where").read_text().strip() == str(project)
    assert "sk-ant-1" not in (project / "variables").read_text()


RUN_WITH_FEW_FILES = """
import os
from pathlib import Path
import trio
from greenroom.cli.hook_files import find_hooks
from greenroom.cli.hook_run import run_hook
from greenroom.cli.settings import read_settings, user_settings_path
from greenroom.sandbox._internal import NOTE_FD

async def main():
    [hook] = find_hooks(read_settings(user_settings_path()), Path.cwd())
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < NOTE_FD:
        held.append(os.open(os.devnull, os.O_RDONLY))
    for _ in range(6):  # one end after the other has the number
        os.close(held.pop())
        print((await run_hook(hook, {})).context)

trio.run(main)
"""


def test_it_is_heard_whatever_numbers_its_pipes_have(env, mine, project):
    """One number is that of the note which a command may leave behind."""
    hook = says("SessionStart", additionalContext="be brief")
    mine(SessionStart=[{"command": hook, "timeout": 60}])
    words = [sys.executable, "-c", RUN_WITH_FEW_FILES]
    done = subprocess.run(words, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (["be brief"] * 6, "")


@pytest.mark.parametrize(
    ("matcher", "runs"),
    [
        ("Write", True),
        ("Edit|Write", True),
        ("Edit", False),
        ("Write(*.txt)", True),
        ("Write(*.md)", False),
        ("Bash(git push:*)", False),
    ],
)
def test_a_matcher_is_a_tool_or_tools_or_a_rule(run, mine, project, matcher, runs):
    mine(PreToolUse=[{"matcher": matcher, "command": "exit 2"}])
    run(*WRITE, "--allow", "Write")
    assert (project / "a.txt").exists() is not runs


def test_a_rule_finds_a_command_inside_of_another(run, mine):
    mine(PreToolUse=[{"matcher": "Bash(git push:*)", "command": "echo no >&2; exit 2"}])
    words = ("-p", "run cd . && git push", "--permission-mode", "bypass")
    assert "no" in run(*words, "--output-format", "json").json["denials"][0]["reason"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("exit 1", "failed with exit code 1"),
        ("kill -9 $$", "failed with signal 9\n"),
        ("kill -9 $PPID; sleep 9", "it interfered with the process that waits for it\n"),
        ("exit 3", "failed with exit code 3\n"),
        ("echo nonsense", "no answer that can be read"),
        ("echo '[]'", "no answer that can be read"),
        ('echo \'{"hookSpecificOutput": {"permissionDecision": "maybe"}}\'', "'maybe'"),
        (says("Stop"), "it answers 'Stop'"),
        # Each of these means to refuse, in words of others or with a slip.
        ('echo \'{"decision": "block"}\'', "'decision' is not part of an answer"),
        ("echo '{\"continue\": false}'", "'continue' is not part of an answer"),
        ('echo \'{"permissionDecision": "deny"}\'', "'permissionDecision' is not part"),
        (
            'echo \'{"hookSpecificOutput": {"permissionDecison": "deny"}}\'',
            "'permissionDecison' in",
        ),
        ("head -c 100000000 /dev/zero", f"failed: it wrote more than {MAX_OUTPUT >> 10} KB"),
        ("head -c 100000000 /dev/zero >&2", f"more than {MAX_OUTPUT >> 10} KB"),
        ("/does/not/exist", "failed with exit code 127"),
    ],
)
def test_a_hook_that_fails_is_told_of_and_the_call_is_a_question(run, mine, project, command, says):
    mine(PreToolUse=[command])
    done = run(*WRITE, "--allow", "Write")
    assert len(done.json["denials"]) == 1
    assert says in done.err
    assert not (project / "a.txt").exists()


def test_an_answer_without_an_opinion_is_no_failure(run, mine, project):
    notice = {"continue": True, "suppressOutput": False, "systemMessage": "on main", "reason": None}
    specific = {"permissionDecision": None, "updatedOutput": None}
    mine(
        PreToolUse=[
            "echo {}",
            f"echo {shlex.quote(json.dumps({**notice, 'stopReason': ''}))}",
            f"echo {shlex.quote(json.dumps({'decision': None, 'hookSpecificOutput': specific}))}",
            "echo '{\"hookSpecificOutput\": null}'",
        ]
    )
    assert run(*WRITE, "--allow", "Write").json["denials"] == []
    assert (project / "a.txt").exists()


def test_one_that_hangs_is_ended_with_all_that_it_started(run, mine, project):
    mine(PreToolUse=[{"command": "setsid sleep 987 & sleep 987", "timeout": 0.5}])
    done = run(*WRITE, "--allow", "Write")
    assert "did not end within 0.5 seconds" in done.err
    sleeping = [
        each
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if b"987" in read(each).replace(b"\0", b" ").split()
    ]
    assert sleeping == []


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_deny_beats_ask_and_allow_is_no_opinion(run, mine, project):
    hooks = [decides("PreToolUse", each, each) for each in ("ask", "deny", "allow")]
    mine(PreToolUse=hooks)
    assert run(*WRITE, "--allow", "Write").json["denials"][0]["reason"] == "Denied: deny."
    mine(PreToolUse=[decides("PreToolUse", "allow")])
    done = run(*WRITE)
    assert len(done.json["denials"]) == 1
    assert done.err.count("allows nothing: a hook can only tighten") == 1
    mine(PreToolUse=[says("PreToolUse", updatedInput={"file_path": "b.txt"})])
    done = run(*WRITE, "--allow", "Write")
    assert done.err.count("can't change the input of a call") == 1
    assert (project / "a.txt").exists()


def test_what_is_added_behind_a_call_reaches_the_model(run, mine):
    mine(PostToolUse=[says("PostToolUse", additionalContext="run the linter")])
    done = run("-p", "read README.md", "--output-format", "json")
    shown = run("sessions", "show", done.json["session_id"], "--json").json
    [result] = shown["messages"][2]["content"]
    assert result["content"][-1]["text"] == "run the linter"


def test_an_input_is_dropped_or_gets_more_to_it(run, mine):
    mine(UserPromptSubmit=["grep -q secret && echo 'no secrets' >&2 && exit 2; exit 0"])
    done = run("-p", "read secret.txt", "--output-format", "json")
    assert (done.code, done.json["result"], done.json["steps"]) == (0, "", 0)
    assert "the input was dropped: no secrets" in done.err
    id_ = done.json["session_id"]
    mine(UserPromptSubmit=[says("UserPromptSubmit", additionalContext="it is Friday")])
    run("-p", "read README.md", "--resume", id_)
    shown = run("sessions", "show", id_, "--json").json
    texts = [each["content"][0].get("text") for each in shown["messages"]]
    assert texts[:2] == ["read README.md", "it is Friday"]


def test_a_stop_hook_goes_on_with_the_turn_at_most_three_times(run, mine, project):
    mine(Stop=["echo x >> stops; echo 'list *.md' >&2; exit 2"])
    done = run("-p", "hello", "--output-format", "json")
    assert done.code == 0
    assert (project / "stops").read_text().count("x") == 3
    assert (done.json["turns"], "README.md" in done.json["result"]) == (1, True)


def test_a_subagents_end_has_its_own_hook(run, mine, project):
    mine(Stop=["cat > stop.json"], SubagentStop=["cat > subagent.json"])
    run("-p", "ask a subagent to read README.md", "--output-format", "json")
    assert json.loads((project / "stop.json").read_text())["agent"] == "coder"
    assert json.loads((project / "subagent.json").read_text())["stop_reason"] == "end_turn"


def test_a_session_begins_and_ends_with_its_hooks(run, mine, project):
    start = says("SessionStart", additionalContext="speak plainly")
    mine(SessionStart=[f"cat > start.json; ({start})"], SessionEnd=["cat > end.json"])
    done = run("-p", "hello", "--output-format", "json")
    assert json.loads((project / "start.json").read_text())["source"] == "startup"
    assert json.loads((project / "end.json").read_text())["hook_event_name"] == "SessionEnd"
    shown = run("sessions", "show", done.json["session_id"], "--json").json
    assert shown["messages"][1]["content"][0]["text"] == "speak plainly"
    run("-p", "hello", "--continue")
    assert json.loads((project / "start.json").read_text())["source"] == "resume"


def test_a_failure_at_the_end_of_a_session_is_told(run, mine):
    mine(SessionEnd=["exit 7"])
    done = run("-p", "hello", "--output-format", "json")
    assert (done.code, done.err.count("failed with exit code 7")) == (0, 1)


def test_a_session_that_is_left_while_its_first_hook_runs_ends_with_its_hooks(start, mine, project):
    os.mkfifo(project / "begun")
    first = {"command": "echo >> begun; sleep 600", "timeout": 60}
    mine(SessionStart=[first], SessionEnd=["touch ended"])
    process = start("-p", "hello", "--model", "offline:")
    (project / "begun").read_bytes()
    process.terminate()
    assert process.wait(60) == 143
    assert (project / "ended").exists()
    assert find_processes(project) == []


def test_each_session_of_a_terminal_begins_and_ends_with_its_hooks(terminal, mine, project):
    source = 'grep -o \'"source":"[a-z]*"\''
    mine(SessionStart=[f"{source} >> begun"], SessionEnd=[f"{source} >> ended"])
    begun, expected = project / "begun", []
    begun.touch()
    program = terminal("hello", "--model", "offline:")
    program.wait_for("handful of rules", "idle")
    for line, why in (("", "startup"), ("/fork", "fork"), ("/clear", "clear")):
        program.type(f"{line}\r" if line else "")
        expected.append(f'"source":"{why}"')
        program.wait_until(
            lambda screen: begun.read_text().split() == expected and "idle" in screen
        )
    program.type("/quit\r")
    assert program.wait() == 0
    assert (project / "ended").read_text().split() == expected


def test_a_failure_at_the_end_of_a_session_is_told_in_a_terminal(terminal, mine):
    mine(SessionEnd=["exit 7"])
    program = terminal("hello", "--model", "offline:")
    program.wait_for("handful of rules", "idle")
    program.type("/clear\r")
    program.wait_for("failed with exit code 7", "idle")
    program.type("/quit\r")
    assert program.wait() == 0
    assert "failed with exit code 7" in "".join(program.screen.splitlines()[-3:])


def test_a_question_is_answered_in_the_persons_place_and_recorded_as_the_hooks(run, mine, project):
    mine(PermissionRequest=[f"tee asked.json | ({decides('PermissionRequest', 'allow')})"])
    done = run(*WRITE)
    assert (done.json["denials"], (project / "a.txt").exists()) == ([], True)
    asked = json.loads((project / "asked.json").read_text())
    assert asked["request_id"].startswith("p-")
    assert asked["digest"]
    log = run("permissions", "log", done.json["session_id"], "--json").json
    assert [each["by"] for each in log if each["tool_name"] == "Write"] == ["hook"]


def test_no_answer_of_a_hook_overrides_a_denial(run, mine, project):
    mine(PermissionRequest=[decides("PermissionRequest", "allow")])
    assert len(run(*WRITE, "--deny", "Write").json["denials"]) == 1
    mine(PermissionRequest=[decides("PermissionRequest", each) for each in ("allow", "deny")])
    assert len(run(*WRITE).json["denials"]) == 1
    mine(PermissionRequest=["exit 0"])
    assert "no one can be asked" in run(*WRITE).json["denials"][0]["reason"]
    assert not (project / "a.txt").exists()


def test_a_question_that_no_hook_answers_is_left_open_where_it_may_be(run, mine):
    mine(PermissionRequest=["exit 0"])
    done = run(*WRITE, "--on-question", "wait")
    assert (done.code, done.json["status"]) == (3, "waiting")


def test_a_projects_hooks_run_once_they_are_trusted_and_never_allow(run, mine, project, trust):
    path = write_project(
        project,
        {
            "PreToolUse": ["touch ran"],
            "PermissionRequest": [decides("PermissionRequest", "allow")],
        },
    )
    done = run(*WRITE)
    assert not (project / "ran").exists()
    assert done.err.count("hooks does not count") == 1
    trust(path)
    done = run(*WRITE)
    assert (project / "ran").exists()
    assert "only a hook of your own file can" in done.err
    assert not (project / "a.txt").exists()
    path.write_text(path.read_text() + "\n")
    (project / "ran").unlink()
    run(*WRITE)
    assert not (project / "ran").exists()


def test_a_file_of_the_project_runs_only_as_it_was_trusted(run, mine, project, trust):
    script = project / "check.sh"
    script.write_text("touch ran\n")
    mine(PreToolUse=['bash "$GREENROOM_PROJECT/check.sh"'])
    done = run(*WRITE, "--allow", "Write")
    assert "check.sh comes with the project, and is not trusted" in done.err
    assert not (project / "ran").exists()
    assert not (project / "a.txt").exists()
    trust(script)
    run(*WRITE, "--allow", "Write")
    assert (project / "ran").exists()
    script.write_text("touch ran-again\n")
    run(*WRITE, "--allow", "Write")
    assert not (project / "ran-again").exists()


def test_what_changes_in_mid_session_does_not_run(run, mine, project, trust):
    script = project / "allow.sh"
    script.write_text(decides("PermissionRequest", "allow"))
    trust(script)
    mine(PermissionRequest=["bash ./allow.sh"])
    assert run(*WRITE).json["denials"] == []
    (project / "a.txt").unlink()
    mine(PermissionRequest=["bash ./allow.sh"], PreToolUse=["echo '# more' >> allow.sh"])
    trust(script)
    done = run(*WRITE)
    assert "allow.sh has changed since the run began" in done.err
    assert not (project / "a.txt").exists()


ASKS = {
    "exit 1",
    "kill -9 $$",
    "echo nonsense",
    "sleep 600",
    "head -c 100000000 /dev/zero",
    decides("PreToolUse", "ask"),
}
DENIES = {"exit 2", decides("PreToolUse", "deny")}
LEAVES = {"exit 0", decides("PreToolUse", "allow"), "sleep 600 & exit 0"}
NO_ANSWER = {"exit 0", "exit 1", "sleep 600", "echo [", "head -c 100000000 /dev/zero", "kill $$"}
REFUSES = {"exit 2", decides("PermissionRequest", "deny")}
ALLOWS = decides("PermissionRequest", "allow")
CHANGED = "bash ./allow.sh"
AROUND = {
    "exit 1",
    "sleep 600",
    "sleep 600 & exit 0",
    "setsid sleep 600 & exit 0",
    "echo nonsense",
    "head -c 100000000 /dev/zero",
    "head -c 100000000 /dev/zero >&2; exit 2",
    "kill -9 $$",
}
STOPS = "echo x >> stops; echo hello >&2; exit 2"
DROPS = "echo no >&2; exit 2"


def find_processes(project):
    """Find what still runs with the variables of the hooks of this project."""
    mark = f"GREENROOM_PROJECT={project}".encode()
    return [each for each in Path("/proc").glob("[0-9]*/environ") if mark in read(each)]


def limit(commands):
    """Give what does not end little time."""
    return [{"command": each, "timeout": 0.3} if "sleep" in each else each for each in commands]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_hooks_never_let_a_call_run_that_nobody_allowed(run, mine, project, trust, seed):
    random_ = random.Random(seed)

    def pick(commands, most=3):
        return random_.choices(sorted(commands), k=random_.randrange(most))

    before = pick(ASKS | DENIES | LEAVES)
    asked = random_.choices(
        sorted(NO_ANSWER | REFUSES) + [ALLOWS] * 4 + [CHANGED], k=random_.randrange(3)
    )
    around = {
        event: limit(pick(AROUND, 2))
        for event in ("PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop")
    }
    around["Stop"] += random_.choices([STOPS], k=random_.randrange(2))
    drops = random_.random() < 0.1
    around["UserPromptSubmit"] += [DROPS] * drops
    (project / "allow.sh").write_text(ALLOWS)
    trust(project / "allow.sh")
    is_changed = random_.random() < 0.5
    change = ["echo '# more' >> allow.sh"] if is_changed else []
    mine(PreToolUse=[*limit(before), *change], PermissionRequest=limit(asked), **around)
    theirs = {"PreToolUse": [decides("PreToolUse", "allow")], "PermissionRequest": [ALLOWS]}
    path = write_project(project, theirs)
    if random_.random() < 0.5:
        trust(path)
    rule, is_ruled = random_.choice([("--allow", True), ("--deny", False), (None, None)])
    run(*WRITE, *((rule, "Write") if rule else ()))
    answers = [each for each in asked if each != CHANGED or not is_changed]
    is_allowed = bool({ALLOWS, CHANGED} & set(answers)) and not REFUSES & set(asked)
    must_ask = is_ruled is None or bool(ASKS & set(before))
    expected = is_ruled is not False and not DENIES & set(before) and not drops
    assert (project / "a.txt").exists() is (expected and (is_allowed or not must_ask))
    stops = 3 if STOPS in around["Stop"] and not drops else 0
    assert read(project / "stops").count(b"x") == stops
    assert find_processes(project) == []


SPELLINGS = [
    "./check.sh",
    "bash check.sh",
    "$PWD/check.sh",
    '"${PWD}/check.sh"',
    "$(pwd)/check.sh",
    "`pwd`/check.sh",
    "${GREENROOM_PROJECT}/check.sh",
    "cd scripts && ./deep.sh",
    "(cd scripts; bash deep.sh)",
    "bash scripts/*.sh",
    "bash 'scripts/'*.sh",
    "bash c*.sh",
    "bash -c 'for f in scripts/*; do bash $f; done'",
    "for f in scripts/d?ep.sh; do bash $f; done",
    "bash './a check.sh'",
    "bash a\\ check.sh",
    "~/project/check.sh",
    "$HOME/project/check.sh",
    "FOO=./check.sh; $FOO",
    "true 2>/dev/null;./check.sh",
    "echo x >check.log&&. ./check.sh",
    "bash <check.sh",
    "x=$(./check.sh)",
    "bash -c 'exec ./check.sh'",
    "bash scripts/../check.sh",
    "bash linked.sh",
]


@pytest.mark.parametrize("command", SPELLINGS)
def test_a_file_of_the_project_is_found_however_a_command_writes_it(tmp_path, monkeypatch, command):
    root = tmp_path / "project"
    (root / "scripts").mkdir(parents=True)
    files = [root / each for each in ("check.sh", "scripts/deep.sh", "a check.sh")]
    for path in files:
        path.write_text("exit 0\n")
    (root / "linked.sh").symlink_to(tmp_path / "else.sh")
    (tmp_path / "else.sh").write_text("exit 0\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = {Path(os.path.realpath(each)) for each in find_files(command, root)}
    assert found & {*files, tmp_path / "else.sh"}


def test_what_is_only_written_or_is_elsewhere_is_no_file_of_the_project(tmp_path):
    (tmp_path / "log").write_text("")
    for command in (
        "/bin/true", "echo x > log", "echo x >>log 2>&1", "jq . | grep -q /log", "",
        "grep -q '^[a-z]*$'", 'grep -o "l.*"', "sed 's/.*/x/'",
    ):  # fmt: skip
        assert find_files(command, tmp_path) == {}
