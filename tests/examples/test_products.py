"""The examples that are whole products: each runs, is killed, or is asked by a browser's means."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.examples.test_examples import EXAMPLES, environment, run, start
from tests.warm_python import WarmProcess, run_warm

LETTERS = int(os.environ.get("GREENROOM_LETTERS", "42"))
"""How many an ingest sorts: the example makes a thousand."""

FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/README.md"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_product_is_short_and_named_here(folder):
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    assert 0 < len(text.splitlines()) <= 150
    assert f'"{folder.name}/' in Path(__file__).read_text()
    assert "._internal" not in text


def test_a_killed_ingest_does_the_rest(tmp_path):
    (tmp_path / "letters").mkdir()
    for number in range(LETTERS):
        topic = ("invoice", "order")[number % 3 == 0]
        (tmp_path / "letters" / f"{number:04}.txt").write_text(f"my {topic} {number}\n")
    program = str(EXAMPLES / "ingest/ingest.py")
    arguments = [program, "letters", "--die-at", str(LETTERS * 2 // 3)]
    code, printed, errors = run_warm(arguments, tmp_path, environment(tmp_path))
    assert (code, printed) == (-signal.SIGKILL, f"beginning with {LETTERS} files\n"), errors
    orders = len(range(0, LETTERS, 3))
    assert run("ingest/ingest.py", "letters", cwd=tmp_path).splitlines() == [
        "going on",
        f"{LETTERS - orders} invoices, 0 complaints, {orders} orders",
    ]
    worked_on = Counter((tmp_path / "worked-on.txt").read_text().split())
    assert len(worked_on) == LETTERS
    assert sum(worked_on.values()) <= LETTERS + 20  # those in progress began again


def test_a_clerk_agrees_to_a_refund_and_a_card_is_refused(tmp_path):
    pytest.importorskip("hypercorn", reason="needs the extra serve")
    with start("browser_desk/desk.py", cwd=tmp_path) as process:
        try:
            address, _, token = process.stdout.readline().strip().partition("/#token=")
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
                assert client.get("/").status_code == 200
                assert _refund(client, "My lamp, order 4711, is broken.") == (
                    "Done: 30 euros are on their way."
                )
                assert "more than this desk" in _refund(client, "Order 4712, please.")
                made = _begin(client, "Take 4111111111111111.")
                assert _wait(client, made)["status"] == "failed"
        finally:
            process.kill()
    assert (tmp_path / "refunds.txt").read_text() == "4711 30 as the customer asked\n"
    stored = [path.read_text() for path in (tmp_path / "desk-sessions").rglob("*.jsonl")]
    assert not any("4111111111111111" in text for text in stored)


def _begin(client, text):
    return client.post("/api/sessions", json={"agent": "desk", "input": text}).json()


def _wait(client, made, seconds=60):
    path = f"/api/sessions/{made['id']}/inputs/{made['input_id']}?wait={seconds}"
    return client.get(path).json()


def _refund(client, text):
    """Say something, agree to the one question, and return the answer."""
    made = _begin(client, text)
    with client.stream("GET", f"/api/stream?session={made['id']}") as stream:
        question = _wait_for_question(stream.iter_lines())
    path = f"/api/sessions/{made['id']}/permissions/{question['request_id']}"
    answer = {"decision": "allow", "digest": question["digest"]}
    assert client.post(path, json=answer).status_code == 200
    return _wait(client, made)["text"]


def _wait_for_question(lines):
    """Read the stream up to the question; a turn that ends without one fails the test."""
    for line in lines:
        if line.startswith("data: {"):
            chunk = json.loads(line.removeprefix("data: "))
            assert chunk.get("type") != "done"
            if chunk.get("type") == "permission_request":
                return chunk
    raise AssertionError("the stream ended")


def test_a_team_works_under_one_budget_and_leaves_a_trace(tmp_path):
    said = run("research_team/team.py", cwd=tmp_path).splitlines()
    assert said[:3] == [
        "Cats sleep 13 hours a day [cats], lions rest 20 [lions].",
        "6 model calls, 0.000630 euros",
        "invoke_agent orchestrator ok",
    ]
    assert {line.strip() for line in said[3:]} >= {
        "plan_step cats ok",
        "plan_step lions ok",
        "plan_step text ok",
        "execute_tool look_up ok",
    }
    ended = run("research_team/team.py", "--calls", "3", cwd=tmp_path).splitlines()
    assert ended[0] == "failed: the budget of orchestrator is spent: 3 model calls"
    assert ended[1].startswith("3 model calls")


def test_a_doctor_mends_code_and_not_its_tests(tmp_path):
    pytest.importorskip("mcp", reason="needs the extra mcp")
    assert run("repository_doctor/doctor.py", cwd=tmp_path).splitlines() == [
        "Bash: [exit code 1]",
        "Read:      4\tassert not is_leap(1900)",
        "Read:      2\t    return year % 4 == 0",
        "Edit: Denied: tests are not changed to make them pass.",
        "Edit: The tests pass.",
        "mcp__tracker__open_issue: opened issue 1",
        "leap.py took 1900 for a leap year; it is mended, and the tests pass. I opened an issue.",
    ]
    assert "year % 400" in (tmp_path / "patient/leap.py").read_text()
    assert "1900" in (tmp_path / "patient/test_leap.py").read_text()
    assert (tmp_path / "issues.txt").read_text().startswith("#1 Too few tests")


def test_a_host_takes_over_what_another_has_left(tmp_path, postgres_server):
    with _host("one", tmp_path, postgres_server):
        assert _say("I am Ann.", tmp_path, postgres_server) == (
            "You have said 1 things, and at first: I am Ann."
        )
    with _host("two", tmp_path, postgres_server):
        assert _say("Who am I?", tmp_path, postgres_server) == (
            "You have said 2 things, and at first: I am Ann."
        )


@contextmanager
def _host(name, cwd, server):
    """Run a host, and kill it."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, str(EXAMPLES / "two_hosts/chat.py"), "host", name]
    with WarmProcess(command, **streams, cwd=cwd, env=_with_dsn(cwd, server), text=True) as host:
        try:
            assert re.match(f"host {name} is there", host.stdout.readline())
            yield
        finally:
            host.kill()


def _say(text, cwd, server):
    command = [str(EXAMPLES / "two_hosts/chat.py"), "say", "ann", text]
    code, printed, errors = run_warm(command, cwd, _with_dsn(cwd, server))
    assert code == 0, errors
    return printed.strip().partition(": ")[2]


def _with_dsn(cwd, server):
    return environment(cwd) | {"GREENROOM_DSN": server.dsn}
