"""The program with clients that others have written.

`GREENROOM_ACP_SDK` is a Python that has `agent-client-protocol`, and `GREENROOM_ACPX` npm's acpx,
such as `/tmp/npm/node_modules/.bin/acpx`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.servers import children

SDK = os.environ.get("GREENROOM_ACP_SDK", "")
ACPX = os.environ.get("GREENROOM_ACPX", "")
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture
def client(tmp_path):
    """Run a client in a home of its own; return its exit code and what it has printed."""
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "README.md").write_text("A project of ours.\n")
    (tmp_path / "home").mkdir()
    env = {name: os.environ[name] for name in os.environ if name in ("PATH", "LANG")}
    env |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "greenroom", "acp", "-m", "offline:"]

    def run(*words):
        words = [str(each) for each in words]
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout

    run.folder, run.command = folder, command
    return run


@pytest.mark.skipif(not SDK, reason="needs GREENROOM_ACP_SDK; see above")
def test_a_client_on_the_sdk(client):
    code, out = client(SDK, HERE / "sdk_client.py", client.folder, *client.command)
    assert code == 0
    found = json.loads(out.splitlines()[-1])
    session = found.pop("session")
    assert {"agent_message_chunk", "tool_call", "tool_call_update"} <= {*found.pop("kinds")}
    assert "user_message_chunk" in found.pop("replayed")
    assert found == {
        "version": 1,
        "read": "end_turn",
        "edit": "end_turn",
        "text": "saved\nchanged\n",
        "rejected": "end_turn",
        "b": False,
        "cancelled": "cancelled",
        "listed": [session],
        "asked": 3,
        "unknown": -32002,
        "exit": 0,
    }
    assert children() == set()


@pytest.mark.skipif(not ACPX, reason="needs GREENROOM_ACPX; see above")
def test_acpx(client):
    agent = ["--agent", " ".join(client.command)]

    def acpx(*words):
        return client(ACPX, "--cwd", client.folder, *words[:-2], *agent, *words[-2:])

    code, out = acpx("--approve-all", "exec", "write a.txt: hello")
    assert (code, (client.folder / "a.txt").exists()) == (0, True)
    assert "[done] end_turn" in out
    code, out = acpx("--deny-all", "exec", "write b.txt: hello")
    assert (code, (client.folder / "b.txt").exists()) == (5, False)
    code, out = acpx("--approve-all", "--timeout", "10", "exec", "run sleep 600")
    assert (code, "[done] cancelled" in out) == (3, True)
    assert acpx("sessions", "new")[0] == 0
    running = client.folder / "running"
    words = [
        ACPX,
        "--cwd",
        client.folder,
        "--approve-all",
        *agent,
        f"run touch {running}; sleep 600",
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(client.folder.parent / "home")}
    env["PYTHONPATH"] = str(ROOT)
    turn = subprocess.Popen(list(map(str, words)), env=env, stdout=subprocess.PIPE, text=True)
    while not running.exists():
        assert turn.poll() is None
    code, out = client(ACPX, "--cwd", client.folder, *agent, "cancel")
    assert code == 0
    assert "[done] cancelled" in turn.communicate(timeout=60)[0]
    assert acpx("set-mode", "plan")[0] == 0
    assert "A project of ours." in acpx("prompt", "read README.md")[1]
    assert acpx("sessions", "close")[0] == 0
    assert children() == set()
