"""A doctor for a repository: it runs the tests, mends what it can, and opens issues for the rest.

    pip install 'greenroom[mcp]'
    python examples/repository_doctor/doctor.py FOLDER --model anthropic:claude-sonnet-5-5

It is a coding agent with three things around it: rules for what runs unasked, hooks that keep it
off the tests and run them after each change, and a tracker of issues, which is an MCP server. You
are asked about everything else. Without a model and a folder it mends a small patient of its own.
"""

import argparse
import shlex
import sys
from pathlib import Path

import trio

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    FileStore,
    PermissionManager,
    PermissionRequest,
    PermissionRule,
    ToolEnd,
    ToolResult,
    ToolStart,
    ToolUseBlock,
    builtin_tools,
)
from greenroom.core import Deny, Gate, ToolRun
from greenroom.interop import MCPServer, MCPServers
from greenroom.testing import ScriptedProvider, Step, call

TRACKER = Path(__file__).with_name("tracker.py")
TEST = shlex.join([sys.executable, "-B", "test_leap.py"])
PATIENT = {
    "leap.py": "def is_leap(year):\n    return year % 4 == 0\n",
    "test_leap.py": "from leap import is_leap\n\nassert is_leap(2024)\nassert not is_leap(1900)\n",
}
CURE = "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"


class TestsDecide(Gate):
    """Hooks: no call changes a test, and after each change of a file the tests run."""

    timeout = 60.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def judge(self, agent: AgentContext, call: ToolUseBlock) -> Deny | None:
        """Refuse to change a test."""
        path = Path(str(call.input.get("file_path", "")))
        is_change = call.name in ("Edit", "Write") and path.name.startswith("test_")
        return Deny("tests are not changed to make them pass") if is_change else None

    async def after_run(self, agent: AgentContext, call: ToolRun, result: ToolResult) -> str | None:
        """Run the tests after a change, and add what they say to its result."""
        if call.name not in ("Edit", "Write") or result.is_error:
            return None
        run = await trio.run_process(
            shlex.split(TEST), cwd=self._folder, capture_stderr=True, check=False
        )
        return "The tests pass." if run.returncode == 0 else f"The tests fail:\n{run.stderr!r}"


# What a model that has seen such a patient before does.
CURES: list[Step] = [
    call("Bash", command=TEST),
    call("Read", file_path="test_leap.py"),
    call("Read", file_path="leap.py"),
    call("Edit", file_path="test_leap.py", old_string="1900", new_string="1901"),
    call("Edit", file_path="leap.py", old_string="year % 4 == 0", new_string=CURE),
    call("mcp__tracker__open_issue", title="Too few tests", text="is_leap(2000) is not tested"),
    "leap.py took 1900 for a leap year; it is mended, and the tests pass. I opened an issue.",
]


async def ask(request: PermissionRequest) -> bool:
    """Ask the person at the terminal, if there is one."""
    if not sys.stdin.isatty():
        return request.tool_name.startswith("mcp__tracker__")
    print(f"{request.action}\n{request.details}")
    answer = await trio.to_thread.run_sync(input, "Allow this? [y/N] ")
    return answer.strip().lower() == "y"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path("patient"))
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    if not options.folder.exists():
        options.folder.mkdir()
        for name, text in PATIENT.items():
            (options.folder / name).write_text(text)
    folder = options.folder.resolve()
    rules = [
        PermissionRule.allow_category("read"),
        PermissionRule.allow_command(TEST),
        PermissionRule.allow_tool("Edit"),
    ]
    tracker = MCPServers(MCPServer.stdio("tracker", sys.executable, [str(TRACKER)]))
    doctor = Agent(
        options.model or ScriptedProvider(*CURES),
        instructions=f"Run the tests with `{TEST}`, mend what fails, open issues for the rest.",
        tools=[*builtin_tools(), tracker],
        permissions=PermissionManager(rules),
        max_steps=40,
        name="doctor",
    )
    names: dict[str, str] = {}
    gates, store = [TestsDecide(folder)], FileStore("doctor-sessions")
    async with tracker, AgentRuntime(store, gates=gates, workspace=folder) as runtime:
        async with doctor.stream("How is it?", runtime=runtime, approve=ask) as run:
            async for chunk in run:
                match chunk:
                    case ToolStart(id=id_, name=name):
                        names[id_] = name
                    case ToolEnd(id=id_, result=result):
                        print(f"{names[id_]}: {result.text.splitlines()[-1][:60]}")
                    case _:
                        pass
    print(run.result.text)


if __name__ == "__main__":
    trio.run(main)
