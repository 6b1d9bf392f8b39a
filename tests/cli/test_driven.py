"""`greenroom -p` as a process that another program drives: inputs, answers and interrupts."""

import base64
import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from greenroom.cli import input_lines
from greenroom.cli.input_lines import MAX_LINE, InputLines
from greenroom.core import ImageBlock, TextBlock
from greenroom.threads import shared_threads
from greenroom.tools._internal import check_media
from tests.cli.driven import INTERRUPT, WORDS, answer, drive, user
from tests.terminal_program import SECONDS
from tests.tools.media import gif

SCRIPTS = int(os.environ.get("GREENROOM_DRIVEN_SCRIPTS", "30"))


@pytest.fixture
def driven(run, project):
    """Drive the command in this process, in the folder and with the variables of `run`."""
    run("models")  # sets both
    return drive


def results(lines):
    return [each for each in lines if each["type"] == "result"]


def test_each_input_has_its_result_and_the_end_of_the_input_ends_the_run(driven):
    def script(it):
        it.say(user("read README.md"))
        first = it.wait_for("result")
        assert "A project of ours." in first["result"]
        it.say(user("list *.md"), user([{"type": "text", "text": "hello"}]))

    code, lines = driven(script)
    assert code == 0
    assert lines[0]["type"] == "init"
    assert [each["turns"] for each in results(lines)] == [1, 1, 1]
    assert lines[-1]["type"] == "result"
    assert {each["session_id"] for each in results(lines)} == {lines[0]["session_id"]}


def test_an_input_that_looks_like_a_command_has_its_result_like_any_other(driven):
    code, lines = driven(lambda it: it.say(user("/nonsense now"), user("hello")))
    assert code == 0
    assert not [each for each in lines if each["type"] == "input_error"]
    assert len(results(lines)) == 2


def test_no_input_at_all_is_no_result_and_no_session(driven, run):
    code, lines = driven(lambda it: None)
    assert (code, [each["type"] for each in lines]) == (0, ["init"])
    assert run("sessions", "list", "--json").json == []


@pytest.mark.parametrize(("choice", "is_written"), [("once", True), ("no", False)])
def test_a_question_waits_for_its_answer(driven, project, choice, is_written):
    def script(it):
        it.say(user("write a.txt: hello"))
        question = it.wait_for("permission_request")
        it.say(answer(question["request_id"], choice, reason="not today"))

    code, lines = driven(script)
    assert code == 0
    [result] = results(lines)
    assert (project / "a.txt").exists() is is_written
    assert len(result["denials"]) == (0 if is_written else 1)
    assert is_written or "not today" in result["denials"][0]["reason"]


def test_an_answer_for_the_session_is_kept_for_the_session(driven, project):
    def script(it):
        it.say(user("write a.txt: one"))
        it.say(answer(it.wait_for("permission_request")["request_id"], "session"))
        it.wait_for("result")
        it.say(user("write a.txt: two"))

    _, lines = driven(script)
    assert [each["type"] for each in lines].count("permission_request") == 1
    assert (project / "a.txt").read_text().strip() == "two"


def test_a_subagents_question_is_answered_in_the_same_way(driven, project):
    def script(it):
        it.say(user("ask a subagent to write a.txt: x"))
        while it.wait_for("subagent_output", count=next(numbers))["chunk"]["type"] != (
            "permission_request"
        ):
            pass
        chunk = it.lines[-1]["chunk"]
        it.say(answer(chunk["request_id"]))

    numbers = iter(range(1, 1000))
    driven(script)
    assert (project / "a.txt").exists()


def test_nobody_can_answer_after_the_end_of_the_input(driven, project):
    def script(it):
        it.say(user("write a.txt: hello"))
        it.wait_for("permission_request")

    code, lines = driven(script)
    assert (code, len(results(lines)[0]["denials"])) == (0, 1)
    code, lines = driven(script, "--on-question", "wait")
    assert (code, results(lines)[0]["status"]) == (3, "waiting")


def test_an_interrupt_ends_the_turn_that_runs_and_the_next_input_gets_its_own(driven):
    def script(it):
        it.say(user("run sleep 600"), user("read README.md"))
        it.wait_for("tool_start")
        it.say(INTERRUPT)

    code, lines = driven(script, "--permission-mode", "bypass")
    assert [each["status"] for each in results(lines)] == ["interrupted", "completed"]
    assert [each["exit_code"] for each in results(lines)] == [130, 0]
    assert code == 0


def test_an_interrupt_right_behind_an_input_is_about_that_input(driven):
    code, lines = driven(lambda it: it.say(user("read README.md"), INTERRUPT))
    assert (code, results(lines)[0]["status"]) == (130, "interrupted")


def test_what_can_not_be_read_is_said_with_its_line_and_nothing_else_happens(driven):
    bad = [
        b"",
        b"{",
        b"\xff",
        b'{"type": "stop"}',
        b'{"type": "user"}',
        json.dumps(user(" ")).encode(),
        json.dumps(user([{"type": "image"}])).encode(),
        json.dumps(user([{"type": "image", "media_type": "image/png", "data": "aGk="}])).encode(),
        json.dumps(answer("p-1")).encode(),
        json.dumps(answer("p-1", "maybe")).encode(),
    ]

    def script(it):
        it.say(*bad, user("read README.md"))

    code, lines = driven(script)
    faults = [each for each in lines if each["type"] == "input_error"]
    assert [each["line"] for each in faults] == list(range(2, len(bad) + 1))
    assert "no question 'p-1' is open" in faults[-2]["message"]
    assert (code, len(results(lines))) == (0, 1)


@pytest.mark.parametrize(
    ("choice", "reason", "says", "is_written"),
    [
        ("once", "approve, and accept edits", "The user approves the plan.", True),
        ("once", None, "The user approves the plan.", False),
        ("no", "smaller", "The user refuses the plan: smaller.", False),
    ],
)
def test_a_plan_is_approved_or_refused_by_an_answer(
    driven, project, choice, reason, says, is_written
):
    def script(it):
        it.say(user("submit the plan: 1. write a.txt"))
        it.say(answer(it.wait_for("permission_request")["request_id"], choice, reason=reason))
        assert says in it.wait_for("result")["result"]
        it.say(user("write a.txt: x"))

    driven(script, "--permission-mode", "plan")
    assert (project / "a.txt").exists() is is_written


def test_an_answer_that_is_not_offered_leaves_the_question_open(driven, project):
    def script(it):
        it.say(user("run echo $(date) > a.txt"))
        id_ = it.wait_for("permission_request")["request_id"]
        it.say(answer(id_, "always"))
        assert "not offered" in it.wait_for("input_error")["message"]
        it.say(answer(id_))

    driven(script)
    assert (project / "a.txt").exists()


def test_too_many_inputs_that_wait_are_refused_and_the_others_are_answered(driven, monkeypatch):
    monkeypatch.setattr("greenroom.cli.headless.MAX_WAITING", 2)
    _, lines = driven(lambda it: it.say(*[user("read README.md")] * 4))
    kinds = [each["type"] for each in lines]
    assert kinds.count("result") + kinds.count("input_error") == 4
    assert kinds.count("result") >= 2


def test_a_reader_that_closes_early_ends_it_quietly(driven, capfd):
    def script(it):
        it.say(user("run sleep 600"))
        it.wait_for("tool_start")
        it.hang_up()

    code, _ = driven(script, "--permission-mode", "bypass", "--model", "offline:")
    assert code == 141
    assert "Traceback" not in capfd.readouterr().err


WHERE = ("--permission-mode", "bypass", "--model", "offline:")


def begin(start, *words):
    process = start(*WORDS, *WHERE, *words, stdin=subprocess.PIPE)
    assert json.loads(process.stdout.readline())["type"] == "init"
    return process


def send(process, *lines):
    for line in lines:
        process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()


def until(process, kind):
    return next(each for each in map(json.loads, process.stdout) if each["type"] == kind)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_gives_each_input_that_waits_its_result(start, number, code):
    process = begin(start)
    send(process, user("run sleep 600"), user("read README.md"), user("hello"))
    until(process, "tool_start")
    process.send_signal(number)
    found = results(map(json.loads, process.stdout))
    assert process.wait(SECONDS) == code
    assert [(each["status"], each["exit_code"]) for each in found] == [("interrupted", code)] * 3


def test_a_run_that_was_killed_goes_on_where_it_was(start, project):
    process = begin(start)
    send(process, user("write a.txt: kept"))
    until(process, "result")
    send(process, user("run sleep 600"))
    until(process, "tool_start")
    process.kill()
    process.wait(SECONDS)
    process = start(*WORDS, *WHERE, "--continue", stdin=subprocess.PIPE)
    send(process, user("read a.txt"))
    out, err = process.communicate(timeout=SECONDS)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [each["type"] for each in lines].count("init") == 1
    [result] = results(lines)
    assert (process.returncode, result["status"]) == (0, "completed")
    assert "kept" in result["result"]
    assert b"Traceback" not in err


def read_all(data):
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    found = []

    async def collect():
        found.extend([each async for each in InputLines(read)])

    import trio

    trio.run(collect)
    os.close(read)
    return found


def test_a_picture_is_checked_once_and_holds_up_nothing_if_it_is_large(monkeypatch):
    threads = []

    def check(block):
        threads.append(threading.current_thread())
        return check_media(block)

    monkeypatch.setattr(input_lines, "check_media", check)
    monkeypatch.setattr(shared_threads, "is_large", lambda value: True)
    data = base64.b64encode(gif()).decode()
    line = user([{"type": "image", "media_type": "image/png", "data": data}])
    (found,) = read_all(json.dumps(line).encode())
    assert found.message.blocks == (ImageBlock("image/gif", data),)
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_pictures_may_be_written_here_or_as_anthropic_does():
    data = base64.b64encode(gif()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    blocks = [
        {"type": "text", "text": "look"},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "image", "source": source},
    ]
    [line] = read_all(json.dumps(user(blocks)).encode())
    assert line.message.blocks == (
        TextBlock("look"),
        ImageBlock(url="https://example.com/a.png"),
        ImageBlock("image/gif", data),  # as what it is
    )


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read(monkeypatch):
    monkeypatch.setattr("greenroom.cli.input_lines.MAX_LINE", 100)
    long, short = read_all(b"x" * 40_000 + b"\n" + json.dumps(user("hi")).encode())
    assert "more than" in long.message
    assert short.message.content == "hi"
    assert MAX_LINE == 32 << 20


PROMPTS = (
    "hello",
    "read README.md",
    "write a.txt: x",
    "run echo hi",
    "ask a subagent to write b.txt: x",
)
SLOW = ("run sleep 600",)
GARBAGE = (b"", b"{", b"\x00\xff", b"[]", b'{"type": "user"}', b'{"type": "answer"}', b"null")


class RandomScript:
    """Says inputs, answers, interrupts and garbage in any order, and counts what it has said."""

    def __init__(self, seed):
        self.inputs = self.garbage = 0
        self.has_hung_up = self.has_terminated = False
        self._random = random.Random(seed)
        self.mode = self._random.choice(["default", "bypass", "deny"])
        self.waits = self._random.random() < 0.3

    def __call__(self, it):
        for _ in range(self._random.randrange(8)):
            self._step(it)
        if self._random.random() < 0.1:
            it.wait_for("init")
            it.hang_up()
            self.has_hung_up = True
        elif self.mode == "bypass" and self._random.random() < 0.2:
            self._terminate(it)
        elif self.mode == "bypass":  # there a sleep would go on
            self._wait_for_results(it, self.inputs)

    def _step(self, it):
        match self._random.randrange(7):
            case 0 | 1 | 2:
                it.say(user(self._random.choice(PROMPTS + SLOW * (self.mode == "bypass"))))
                self.inputs += 1
            case 3:
                it.say(INTERRUPT)
            case 4:
                line = self._random.choice(GARBAGE)
                it.say(line)
                self.garbage += bool(line)
            case 5:
                it.say(answer("p-unknown"))
                self.garbage += 1
            case _:
                self._wait_for_results(it, self._random.randint(0, self.inputs))

    def _terminate(self, it):
        """Send a signal while a call runs and other inputs wait."""
        self._wait_for_results(it, self.inputs)
        calls = it.kinds.count("tool_start")
        waiting = self._random.choices(PROMPTS, k=self._random.randrange(3))
        it.say(*map(user, [*SLOW, *waiting]))
        self.inputs += 1 + len(waiting)
        it.wait_for("tool_start", calls + 1)
        os.kill(os.getpid(), signal.SIGTERM)
        self.has_terminated = True

    def _wait_for_results(self, it, count):
        """Answer what is asked and interrupt what sleeps, until so many results are there."""
        while it.kinds.count("result") < count:
            line = it.wait_for_next()
            while line["type"] == "subagent_output":
                line = line["chunk"]
            if line["type"] == "permission_request":
                choice = self._random.choice(["once", "no", "session", "never", "always"])
                it.say(answer(line["request_id"], choice), answer(line["request_id"], "no"))
            elif line["type"] == "tool_start" and "sleep" in str(line["input"]):
                it.say(INTERRUPT)


def find_children():
    found = [each.read_text().split() for each in Path("/proc/self/task").glob("*/children")]
    return {child for each in found for child in each}


@pytest.mark.parametrize("seed", range(SCRIPTS))
@pytest.mark.every(2)
def test_random_scripts_get_one_result_an_input_and_leave_nothing_running(
    driven, capfd, tmp_path, seed
):
    script, before = RandomScript(seed), find_children()
    where = ("--sessions", str(tmp_path / "sessions"))
    how = ("--on-question", "wait") if script.waits else ()
    code, lines = driven(script, "--permission-mode", script.mode, *how, *where)
    assert "Traceback" not in capfd.readouterr().err
    assert find_children() <= before
    if script.has_hung_up:
        assert code in (0, 130, 141)
        return
    kinds = [each["type"] for each in lines]
    assert kinds[0] == "init"
    assert kinds.count("init") == 1
    assert kinds.count("result") == script.inputs
    assert kinds.count("input_error") >= script.garbage
    ends = [each["exit_code"] for each in results(lines)]
    assert code == (ends[-1] if ends else 0)
    assert (code == 143) is script.has_terminated
    for each in results(lines):
        codes = {"completed": {0}, "interrupted": {130, 143}, "waiting": {3}}
        assert each["exit_code"] in codes[each["status"]]
        assert (each["status"] == "waiting") is bool(each["pending"])
