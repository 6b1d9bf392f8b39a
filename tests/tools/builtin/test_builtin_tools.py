from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolStatus
from greenroom.tools import ToolRegistry, builtin_tools


async def test_every_built_in_tool_passes_the_gate(context: AgentContext, root: Path) -> None:
    registry = ToolRegistry(builtin_tools())
    calls = [
        ("Write", {"file_path": "a.py", "content": "old = 1\n"}, "created a.py"),
        ("Read", {"file_path": "a.py", "offset": 1.0, "limit": 2.0}, "old = 1"),
        ("Edit", {"file_path": "a.py", "old_string": "old", "new_string": "new"}, "+new = 1"),
        ("Glob", {"pattern": "**/*.py"}, "a.py"),
        ("Grep", {"pattern": "new", "output_mode": "content", "-n": True}, "a.py:1:new = 1"),
        ("Bash", {"command": "cat a.py", "timeout": 20_000}, "new = 1"),
    ]
    with trio.fail_after(60):
        for name, data, text in calls:
            result = await registry.execute(name, data, context)
            assert result.status is ToolStatus.SUCCESS, result.text
            assert text in result.text


async def test_the_gate_tells_a_model_what_went_wrong(context: AgentContext) -> None:
    registry = ToolRegistry(builtin_tools())
    with trio.fail_after(60):
        missing = await registry.execute("Read", {"file_path": "none.txt"}, context)
        outside = await registry.execute("Read", {"file_path": "/etc/passwd"}, context)
        surplus = await registry.execute("Bash", {"command": "ls", "shell": "zsh"}, context)
    assert "there is no file none.txt" in missing.text
    assert "/etc/passwd is outside the workspace" in outside.text
    assert "shell" in surplus.text
    assert missing.is_error
    assert outside.is_error
    assert surplus.is_error


async def test_what_bash_prints_in_excess_is_spilled_and_can_be_read(
    context: AgentContext, tmp_path: Path
) -> None:
    context.spill_folder = str(tmp_path / "session")
    registry = ToolRegistry(builtin_tools())
    with trio.fail_after(60):
        flood = await registry.execute("Bash", {"command": "seq 1 20000"}, context)
        path = flood.metadata["spill_file"]
        back = await registry.execute("Read", {"file_path": path, "offset": 10_000}, context)
    assert len(flood.text) <= 30_000
    assert " 10000\t10000\n" in back.text


def test_what_only_reads_may_run_side_by_side() -> None:
    concurrent = {tool.name for tool in builtin_tools() if getattr(tool, "concurrent", False)}
    assert {"Read", "Glob", "Grep"} <= concurrent
    assert concurrent.isdisjoint({"Bash", "Write", "Edit"})
