"""Kills, signals and lost connections at random moments: nothing is left, and all goes on.

`GREENROOM_ACP_KILLS` is how many are tried.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.servers import PROGRAM, children
from tests.warm_python import start_warm

KILLS = int(os.environ.get("GREENROOM_ACP_KILLS", "1"))
ROOT = Path(__file__).parents[3]
SECONDS = 60


class Connection:
    """The program, and what is said to it."""

    def __init__(self, folder, env):
        words = ["-m", "greenroom", "acp", "-m", "offline:", "--permission-mode", "bypass"]
        self.process = start_warm(
            words, folder, env, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.folder, self.last_id = folder, 0
        self.ask("initialize", protocolVersion=1)

    def begin(self, method, **params):
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.begin(method, **params)
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.last_id and "method" not in message:
                return message["result"]
        raise AssertionError("the program has ended")

    def open(self, method, **more):
        servers = []
        if find_spec("mcp"):
            words = [str(PROGRAM), "deaf"]
            servers = [{"name": "deaf", "command": sys.executable, "args": words, "env": []}]
        return self.ask(method, cwd=str(self.folder), mcpServers=servers, **more)

    def prompt(self, session, text):
        blocks = [{"type": "text", "text": text}]
        return {"sessionId": session, "prompt": blocks}


@pytest.mark.parametrize("seed", range(KILLS))
def test_after_any_end_nothing_is_left_and_the_conversation_goes_on(seed, tmp_path):
    chance = random.Random(seed)
    (tmp_path / "README.md").write_text("A project of ours.\n")
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    first = Connection(tmp_path, env)
    session = first.open("session/new")["sessionId"]
    first.ask("session/prompt", **first.prompt(session, "read README.md"))
    first.begin("session/prompt", **first.prompt(session, "run sleep 600"))
    select.select([], [], [], chance.random() / 4)  # the moment is what is tried
    handles = [os.pidfd_open(each) for each in children(first.process.pid)]
    assert handles
    end = chance.choice(["kill", "term", "int", "input", "both", "cancel"])
    if end == "cancel":
        message = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        first.process.stdin.write(json.dumps(message).encode() + b"\n")
        first.process.stdin.flush()
    if end in ("kill", "term", "int"):
        first.process.send_signal(getattr(signal, f"SIG{end.upper()}"))
    else:
        first.process.stdin.close()
    if end == "both":
        first.process.stdout.close()
    code = first.process.wait(SECONDS)
    assert code in {"kill": [-9], "term": [143], "int": [130]}.get(end, [0, 141])
    for handle in handles:
        assert select.select([handle], [], [], SECONDS)[0], "a process is left"
        os.close(handle)
    second = Connection(tmp_path, env)
    second.open("session/load", sessionId=session)
    assert second.ask("session/prompt", **second.prompt(session, "read README.md")) == {
        "stopReason": "end_turn"
    }
    second.process.stdin.close()
    assert second.process.wait(SECONDS) == 0
    for each in (first, second):
        with suppress(BrokenPipeError):
            each.process.stdin.close()
        each.process.stdout.close()
