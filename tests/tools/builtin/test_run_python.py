"""`run_python`: held, bounded, and dead when it is to be."""

import os
import re
import sys
from pathlib import Path

import pytest
import trio

from greenroom import Agent, AgentRuntime, InMemoryStore, ToolProgress
from greenroom.core import AgentContext, ToolStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.sandbox import detection
from greenroom.sandbox.report import Mechanisms
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import (
    ProcessLimits,
    Sandbox,
    ToolRegistry,
    builtin_tools,
    examine_sandbox,
    run_python,
)
from greenroom.tools._internal import PYTHON_SANDBOX
from tests.tools.builtin.test_bash import marked, marker

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


async def run(context, code, **options):
    with trio.fail_after(60):
        tools = ToolRegistry([run_python(**options)])
        return await tools.execute("run_python", {"code": code}, context)


@pytest.fixture
def held(context):
    # In an async fixture, the reason of a skip would be lost.
    report = trio.run(examine_sandbox, Sandbox("read-only"), context.workspace)
    if not {"files", "network"} <= report.enforced.keys():
        pytest.skip("nothing here holds files and network")


async def test_a_program_runs_and_is_told_how_it_ended(context: AgentContext, held) -> None:
    result = await run(context, "import math\nprint(math.factorial(20), 'größer')")
    assert result.text.startswith("2432902008176640000 größer")
    assert result.status is ToolStatus.SUCCESS
    failed = await run(context, "print('so far', end=' ')\n1 / 0")
    assert failed.metadata["exit_code"] == 1
    assert "so far Traceback" in failed.text
    assert "ZeroDivisionError" in failed.text
    assert "run_python" not in {tool.name for tool in builtin_tools()}


BOMB = """
import os, time
started = 0
while started < 400:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        break
    started += 1
print("started", started)
"""


async def test_the_processes_of_a_program_are_bounded_or_the_result_says_that_they_are_not(
    context: AgentContext, held
) -> None:
    report = await examine_sandbox(PYTHON_SANDBOX, context.workspace)
    result = await run(context, BOMB)
    assert result.status is ToolStatus.SUCCESS
    started = int(result.text.split()[1])
    if "processes" in report.enforced:
        assert 200 <= started <= 256
    else:
        assert re.search(r"NOT HELD by the sandbox here: [^\]]*\bprocesses\b", result.text)


ATTACK = """
import os, pathlib, socket
for what in (
    lambda: pathlib.Path("here.txt").write_text("x"),
    lambda: pathlib.Path("{outside}").write_text("x"),
    lambda: socket.create_connection(("127.0.0.1", {port}), 5),
):
    try:
        what()
        print("done")
    except BaseException as error:
        print("refused")
pathlib.Path(os.environ["TMPDIR"], "a").write_text("x")
print(os.environ.get("MY_API_KEY"), pathlib.Path("kept.txt").read_text())
"""


async def test_it_reads_and_changes_and_reaches_nothing(
    context: AgentContext, root: Path, held, monkeypatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    (root / "kept.txt").write_text("kept")
    outside = Path("/var/tmp") / f"greenroom-{os.getpid()}"
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        result = await run(context, ATTACK.format(outside=outside, port=port))
    assert result.text.splitlines()[:4] == ["refused"] * 3 + ["None kept"]
    assert os.listdir(root) == ["kept.txt"]
    assert not outside.exists()
    greedy = await run(context, "print(len(bytearray(3 << 30)))")
    assert greedy.status is ToolStatus.ERROR
    assert str(3 << 30) not in greedy.text


SPAWN = """
import subprocess, sys
subprocess.Popen(["sleep", "{0}"], start_new_session=True)
print("up", flush=True)
{1}
"""


@LINUX
async def test_at_its_end_and_its_time_out_nothing_of_it_is_left(context: AgentContext) -> None:
    for ending, timeout, status in (
        ("", 60, ToolStatus.SUCCESS),
        ("while True: pass", 2, ToolStatus.TIMEOUT),
    ):
        mark = marker()
        ended = await run(context, SPAWN.format(mark, ending), sandbox=None, timeout=timeout)
        assert ended.status is status
        assert marked(mark) == []


@LINUX
async def test_an_interrupt_kills_it_with_all_that_it_has_started(held) -> None:
    mark = marker()
    llm = ScriptedProvider(call("run_python", code=SPAWN.format(mark, "while True: pass")))
    rules = PermissionManager([PermissionRule.allow_tool("run_python")])
    agent = Agent(llm, tools=[run_python()], permissions=rules)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        with trio.fail_after(60):
            async with agent.stream("go", runtime=runtime) as run:
                async for chunk in run:
                    if isinstance(chunk, ToolProgress) and "up" in chunk.output:
                        assert len(marked(mark)) >= 2
                        break
        assert marked(mark) == []


async def test_output_in_excess_is_bounded(context: AgentContext, tmp_path: Path) -> None:
    context.spill_folder = str(tmp_path / "spilled")
    result = await run(context, "for _ in range(3000): print('x' * 1000)", sandbox=None)
    assert result.status is ToolStatus.SUCCESS
    assert len(result.text) <= 30_000
    assert Path(result.metadata["spill_file"]).stat().st_size < 1_100_000
    assert result.metadata["characters"] == 3_003_000


async def test_without_a_sandbox_it_runs_only_where_that_was_said(
    context: AgentContext, monkeypatch
) -> None:
    monkeypatch.setattr(
        detection, "_mechanisms", [Mechanisms("limits", held_parts=frozenset({"cpu"}))]
    )
    refused = await run(context, "print(1)")
    assert "the sandbox must hold files, network, which nothing does here" in refused.text
    assert "greenroom doctor says what would help" in refused.text
    assert (await run(context, "print(1)", sandbox=None)).text == "1"
    loose = Sandbox("read-only", limits=ProcessLimits(cpu_seconds=5))
    assert (await run(context, "print(1)", sandbox=loose)).text.startswith("1\n[NOT HELD")


@pytest.mark.parametrize("code", [" ", "a\0b", "#" * 131_072])
async def test_what_can_not_be_run_is_refused(context: AgentContext, code: str) -> None:
    assert "the program" in (await run(context, code)).text


async def test_it_asks_and_shows_the_program() -> None:
    asked = []

    async def approve(request):
        asked.append((request.action, request.details))
        return False

    agent = Agent(ScriptedProvider(call("run_python", code="print(1)"), "no"), tools=[run_python()])
    await agent.run("go", approve=approve)
    assert asked == [("Run Python", "print(1)")]
