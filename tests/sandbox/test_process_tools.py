"""Functions in sandboxed processes: held as commands are, and killable as functions are."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolError, ToolResult, Workspace
from greenroom.sandbox import detection
from greenroom.sandbox._internal import SandboxUnavailableError
from greenroom.sandbox.report import Mechanisms
from greenroom.tools import Sandbox, ToolRegistry, WorkerPool, tool
from tests.sandbox import tools
from tests.sandbox.held import Held


async def call(held: Held, function: str, **arguments: object) -> ToolResult:
    with trio.fail_after(60):
        registry = ToolRegistry([getattr(tools, function)])
        return await registry.execute(function, arguments, held.context)


async def test_it_writes_in_the_workspace_alone(held: Held) -> None:
    result = await call(held, "write_text", path=str(held.root / "f"))
    assert result.text.splitlines()[0] == "written"
    assert (held.root / "f").read_text() == "written"
    result = await call(held, "write_text", path=str(held.outside / "f"))
    assert (held.outside / "f").exists() == (not result.is_error) == await held.is_missing("files")
    assert result.metadata["sandbox"]["tier"] in (held.tier, "limits")  # type: ignore[index]
    if result.is_error:
        assert "[it ran in a sandbox: only the workspace" in result.text


async def test_it_reaches_nothing(held: Held) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = await call(held, "reach", port=listener.getsockname()[1])
    assert result.is_error == (not await held.is_missing("network"))


async def test_each_call_has_a_process_and_a_temporary_folder_of_its_own(held: Held) -> None:
    async with trio.open_nursery() as nursery:
        pool = WorkerPool(2)
        held.context.resources.insert(pool)
        texts: list[str] = []

        async def ask() -> None:
            texts.append((await call(held, "process_id")).text.splitlines()[0])

        nursery.start_soon(ask)
        nursery.start_soon(ask)
    assert pool.statistics().started == pool.statistics().ended == 2
    assert pool.statistics().idle == 0
    if held.tier != "bubblewrap":
        assert texts[0] != texts[1]
        assert not any(os.path.exists(text.split()[2]) for text in texts)


async def test_what_it_does_when_it_is_stopped_still_happens(held: Held) -> None:
    begun = trio.Event()
    context = replace(held.context, current_tool_use_id="t", on_progress=lambda *_: begun.set())
    path = held.root / "cleaned"
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tools.clean_up_after.execute, {"path": str(path)}, context)
            await begun.wait()
            nursery.cancel_scope.cancel()
    assert path.read_text() == "cleaned"


async def test_the_limits_of_one_call_hold_in_it(held: Held) -> None:
    result = await call(held, "compute_on")
    assert "compute_on was stopped: it used more than 1 s of CPU time" in result.text


async def test_the_limits_of_its_sandbox_hold_in_it(held: Held) -> None:
    result = await call(held, "write_long", path=str(held.root / "long"))
    assert result.is_error == (not await held.is_missing("file_size"))
    assert "1 MB for one file" in result.text


async def test_what_it_requires_and_nothing_holds_is_an_error(held: Held) -> None:
    with pytest.raises(SandboxUnavailableError, match="must hold disk"):
        await tools.need_everything.execute({}, held.context)


async def test_without_a_working_sandbox_nothing_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Mechanisms("bubblewrap", "/nowhere/bwrap")
    monkeypatch.setattr(detection, "_mechanisms", [gone])
    context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(root))
    with trio.fail_after(60):
        result = await tools.write_text.execute({"path": str(root / "f")}, context)
    assert result.is_error
    assert "its process could not be started" in result.text
    assert not list(root.iterdir())


def test_a_sandbox_is_for_processes() -> None:
    with pytest.raises(ToolError, match=r"need a process of its own.*isolation='process'"):

        @tool(sandbox=Sandbox())
        def here() -> None:
            """Run in a thread."""
