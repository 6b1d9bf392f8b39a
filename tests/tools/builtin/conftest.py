import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolResult, Workspace
from greenroom.tools import Tool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Path(os.path.realpath(folder))


@pytest.fixture
def context(root: Path) -> AgentContext:
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(root))


@pytest.fixture
def call(context: AgentContext) -> Callable[..., ToolResult]:
    """Run a tool in a loop of its own: `call(Read(), file_path="a.txt")`."""

    async def execute(tool: Tool, data: dict[str, object]) -> ToolResult:
        with trio.fail_after(60):
            return await tool.execute(data, context)

    return lambda tool, **data: trio.run(execute, tool, data)
