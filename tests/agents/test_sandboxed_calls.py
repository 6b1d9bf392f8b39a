"""Calls in a sandbox: what the person, the model and programs are told of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import AgentContext, PermissionRequest, ToolEnd, ToolProgress, Workspace
from greenroom.core._internal import SandboxReport, serde
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.sandbox import detection
from greenroom.sandbox.report import Mechanisms
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import Bash, Sandbox, ToolRegistry, examine_sandbox, tool
from tests.sandbox.held import marked

ALL = [PermissionRule.allow_all()]


async def chunks_of(tools, folder, *, rules=(), answer=None, **options):
    """Let an agent call Bash once; what its subscribers saw."""
    llm = ScriptedProvider(call("Bash", command="echo made > $TMPDIR/f && cat $TMPDIR/f"), "done")
    parts = (llm, tools, PermissionManager(rules, **options))
    seen = []
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore(), workspace=str(folder)) as runtime:
            handle = runtime.spawn(AgentSession.new("coder"), coder, *parts)
            async with handle.subscribe("all", answers=True) as chunks:
                await handle.send_input("go")
                async for chunk in chunks:
                    seen.append(chunk)
                    if isinstance(chunk, PermissionRequest):
                        await handle.respond_permission(chunk.request_id, answer)
                    if chunk.__class__.__name__ == "Done":
                        break
    return seen


def only(seen, kind):
    (found,) = (chunk for chunk in seen if isinstance(chunk, kind))
    return found


async def test_the_person_and_the_programs_read_the_same_report(tmp_path):
    sandbox = Sandbox("read-only")
    seen = await chunks_of(ToolRegistry([Bash(sandbox=sandbox)]), tmp_path, answer="allow")
    report = await examine_sandbox(sandbox)
    request, end = only(seen, PermissionRequest), only(seen, ToolEnd)
    assert request.sandbox == report
    assert serde.decode(serde.encode(request), PermissionRequest) == request
    told = end.result.metadata["sandbox"]
    assert serde.decode(serde.dumps(told), SandboxReport) == report
    assert end.result.text.splitlines()[0] == "made"


async def test_what_is_not_held_in_this_very_place_stands_in_the_prompt_as_well(tmp_path):
    (tmp_path / ".git").symlink_to("elsewhere")
    registry = ToolRegistry([Bash(sandbox=Sandbox())])
    seen = await chunks_of(registry, tmp_path, answer="allow")
    request, end = only(seen, PermissionRequest), only(seen, ToolEnd)
    assert "symbolic link" in request.sandbox.why["protected"]
    assert "protected" in request.sandbox.lacking
    assert (
        serde.decode(serde.dumps(end.result.metadata["sandbox"]), SandboxReport) == request.sandbox
    )


async def test_a_place_where_a_sandbox_has_no_ground_refuses_before_anybody_is_asked(tmp_path):
    registry = ToolRegistry([Bash(sandbox=Sandbox(writable=["nowhere"]))])
    seen = await chunks_of(registry, tmp_path)
    assert not any(isinstance(chunk, PermissionRequest) for chunk in seen)
    assert "can't make nowhere writable" in only(seen, ToolEnd).result.text


async def test_without_a_sandbox_nothing_is_said_of_one(tmp_path):
    seen = await chunks_of(ToolRegistry([Bash()]), tmp_path, answer="deny")
    assert only(seen, PermissionRequest).sandbox is None


@pytest.mark.parametrize("rules", [[], ALL])
async def test_what_is_required_and_not_held_refuses_the_call_before_anybody_is_asked(
    tmp_path, rules
):
    # No machine bounds all files that a command writes into the workspace.
    sandbox = Sandbox(require=frozenset({"disk"}))
    seen = await chunks_of(ToolRegistry([Bash(sandbox=sandbox)]), tmp_path, rules=rules)
    assert not any(isinstance(chunk, PermissionRequest) for chunk in seen)
    end = only(seen, ToolEnd)
    assert end.is_error
    assert "the sandbox must hold disk, which nothing does here" in end.result.text


async def test_a_tool_of_ones_own_may_say_what_it_is_held_to():
    class Mine(Bash):
        """A tool that has a sandbox of its own."""

    sandbox = Sandbox("read-only")
    registered = ToolRegistry([Mine(sandbox=sandbox)]).get("Bash")
    assert registered.sandbox == sandbox

    @tool
    async def plain() -> None:
        """Do nothing."""

    assert await ToolRegistry([plain]).get("plain").examine_sandbox(Workspace("/")) is None
    plain.sandbox = "strict"
    with pytest.raises(Exception, match="its sandbox is 'strict'"):
        ToolRegistry([plain])


PROGRAM = """
import sys, trio
from greenroom.core import AgentContext, Workspace
from greenroom.tools import Bash, Sandbox

async def main():
    context = AgentContext(
        session_id="s", agent_type="t", current_tool_use_id="t", workspace=Workspace(sys.argv[1]),
        on_progress=lambda _, text: print(text, flush=True),
    )
    command = f"setsid sleep {sys.argv[2]} & echo begun; sleep {sys.argv[2]}"
    await Bash(sandbox=Sandbox()).execute({"command": command}, context)

trio.run(main)
"""


def test_the_death_of_the_program_ends_its_sandboxed_commands(tmp_path):
    mark = f"600.{int.from_bytes(os.urandom(6), 'big')}"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), mark]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as program:
        assert program.stdout.readline() == b"begun\n"
        handles = [os.pidfd_open(pid) for pid in marked(mark) if pid != program.pid]
        assert len(handles) >= 2
        program.send_signal(signal.SIGKILL)

    async def gone():
        with trio.fail_after(60):
            for handle in handles:
                await trio.lowlevel.wait_readable(handle)
                os.close(handle)
        # What the program could not take away goes with the next command there.
        context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(tmp_path))
        await Bash(sandbox=Sandbox()).execute({"command": "true"}, context)

    trio.run(gone)
    assert marked(mark) == []
    assert list(tmp_path.iterdir()) == []


async def test_an_interrupt_ends_a_sandboxed_command_and_the_agent_goes_on(tmp_path):
    mark = f"600.{int.from_bytes(os.urandom(6), 'big')}"
    command = f"setsid sleep {mark} & echo begun; sleep {mark}"
    llm = ScriptedProvider(call("Bash", command=command), "I am still here.")
    rules = PermissionManager([PermissionRule.allow_tool("Bash")])
    parts = (llm, ToolRegistry([Bash(sandbox=Sandbox())]), rules)
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore(), workspace=tmp_path) as runtime:
            handle = runtime.spawn(AgentSession.new("coder"), coder, *parts)
            receipt = await handle.send_input("go")
            async for chunk in handle.stream(receipt):
                if isinstance(chunk, ToolProgress):
                    break
            assert len(marked(mark)) >= 2
            report = await handle.interrupt()
            assert marked(mark) == []
            assert list(tmp_path.iterdir()) == []
            assert report.abandoned == ()
            assert (await handle.ask("still there?")).text == "I am still here."


@pytest.fixture
def held_sandbox(tmp_path):
    """A sandbox that holds files and network here."""
    sandbox = Sandbox()
    report = trio.run(examine_sandbox, sandbox, Workspace(tmp_path))
    if not {"files", "network"} <= report.enforced.keys():
        pytest.skip("no sandbox here that holds files and network")
    return sandbox


async def test_a_command_that_a_sandbox_holds_is_not_asked_about_if_that_is_wanted(
    tmp_path, held_sandbox
):
    bash = Bash(sandbox=held_sandbox)
    for sandboxed, asked in (("allow", 0), ("ask", 1)):
        seen = await chunks_of(ToolRegistry([bash]), tmp_path, answer="allow", sandboxed=sandboxed)
        assert len([chunk for chunk in seen if isinstance(chunk, PermissionRequest)]) == asked
        assert only(seen, ToolEnd).result.text.splitlines()[0] == "made"


async def test_without_a_sandbox_that_holds_it_is_asked_about(tmp_path, monkeypatch):
    for sandbox in (None, Sandbox(network="all")):
        seen = await chunks_of(
            ToolRegistry([Bash(sandbox=sandbox)]), tmp_path, answer="deny", sandboxed="allow"
        )
        only(seen, PermissionRequest)
    monkeypatch.setattr(
        detection, "_mechanisms", [Mechanisms("limits", held_parts=frozenset({"network"}))]
    )
    seen = await chunks_of(
        ToolRegistry([Bash(sandbox=Sandbox())]), tmp_path, answer="deny", sandboxed="allow"
    )
    assert only(seen, PermissionRequest).sandbox.tier == "limits"
