"""The whole house on real input: an agent finds and mends a bug in a copy of a public package."""

import os
import random
import shutil
import sys
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import toolz
import trio

from greenroom.core._internal import serde
from greenroom.llm import ModelRequest, RecordedProvider
from greenroom.session import AgentSession, FileStore
from tests.e2e.repairer import BUGS, Repairer
from tests.e2e.wire import Anthropic, OpenAI
from tests.llm.server import Answer, model_server
from tests.warm_python import run_warm


def processes_that_mention(marker):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue  # it ended while we looked
    return found


async def greenroom(*arguments, cwd, **environment):
    """Run the program as a user would, and give it no more than two minutes."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    environment = {**kept, "HOME": str(cwd.parent), **environment}
    command = ["-m", "greenroom", *arguments]
    code, *said = await trio.to_thread.run_sync(run_warm, command, cwd, environment)
    return CompletedProcess(command, code, *(text.encode() for text in said))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("vendor", [Anthropic, OpenAI])
async def test_the_agent_repairs_a_package(vendor, tmp_path):
    bug = random.Random(vendor.__name__).choice(BUGS)
    project = tmp_path / "project"
    project.mkdir()
    shutil.copytree(
        Path(toolz.__file__).parent,
        project / "toolz",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    whole = (project / "toolz" / f"{bug.module}.py").read_text()
    bug.plant(project)
    repairer = Repairer(bug, sys.executable)
    number = iter(range(100))

    def answer(request):
        if request.method == "GET":  # a server of one's own is asked how many tokens it takes
            return Answer.error(404, {"error": "no such path"})
        assert request.path == vendor.path
        text, call = repairer.step(vendor.last_result(request.body))
        return vendor.answer(text, call, next(number))

    async with model_server(answer) as server:
        done = await greenroom(
            "-p",
            f"The tests of {bug.function} fail. Mend it.",
            *("--model", vendor.model),
            *("--output-format", "json"),
            *("--allow", "Edit(toolz/**)", "--allow", f"Bash({sys.executable} -B -m pytest:*)"),
            *("--sessions", str(tmp_path / "sessions")),
            cwd=project,
            **vendor.environment(server.url),
        )
    assert done.returncode == 0, done.stderr.decode()
    result = serde.loads(done.stdout)
    assert result["result"].startswith(f"Repaired {bug.function}")
    assert result["denials"] == []
    assert [call and call[0] for call in repairer.calls] == [
        *("Glob", "Grep", "Read", "Edit", "Bash"),
        *("Read", "Edit", "Bash", None),
    ]
    assert (project / "toolz" / f"{bug.module}.py").read_text() == whole
    assert processes_that_mention(str(tmp_path).encode()) == []
    await replayed(result, tmp_path / "sessions", len(repairer.calls))
    for path in (tmp_path / "sessions").rglob("*"):
        assert path.is_dir() or b"sk-e2e" not in path.read_bytes()
    assert b"sk-e2e" not in done.stdout + done.stderr


async def replayed(result, folder, replies):
    """The session on disk is whole: it replays to the same answer, and the store lists it."""
    store = FileStore(folder)
    session = await AgentSession.load(result["session_id"], store=store)
    assert session.repair is None
    model = RecordedProvider(session.history)
    request = partial(ModelRequest, messages=())
    texts = [(await model.generate(request())).text for _ in range(replies)]
    assert texts[-1] == result["result"]
    assert [each.session_id for each in await AgentSession.list_all(store=store)] == [
        result["session_id"]
    ]
