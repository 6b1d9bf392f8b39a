"""`greenroom mcp serve`: the program as a server, and the coding agent as a tool."""

import sys

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from greenroom.agents import Agent
from greenroom.cli import mcp_serve_command, run_setup
from greenroom.cli.command_options import MCPOptions
from greenroom.core import Answer, RuleDecision
from greenroom.interop import MCPServer, MCPServers
from greenroom.testing import ScriptedProvider, call as model_call
from tests.interop.servers import call


async def test_a_client_uses_the_built_in_tools_by_the_users_rules(project, env):
    words = ["-m", "greenroom", "mcp", "serve", "--no-agent", "--allow", "Read"]
    server = MCPServer.stdio("us", sys.executable, words, env=env, cwd=project)
    async with MCPServers(server) as servers:
        tools = servers.status[0].tools
        assert {"mcp__us__Read", "mcp__us__Bash", "mcp__us__AskPerson"} <= {*tools}
        assert "mcp__us__coder" not in tools
        read = await call(servers, "Read", server="us", file_path="README.md")
        assert "A project of ours." in read.text
        write = await call(servers, "Write", server="us", file_path="b.txt", content="x")
        assert write.is_error
    assert not (project / "b.txt").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--http", "here"], "write HOST:PORT"),
        (["--http", "0.0.0.0:0"], "this machine alone"),
        (["--http", "0", "--permission-mode", "bypass"], "never runs in the mode bypass"),
        (["--http", "0", "--token-file", "nowhere"], "can't be read"),
    ],
)
def test_what_is_not_safe_is_refused(run, words, why):
    done = run("mcp", "serve", "--no-agent", *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


async def test_the_coding_agent_is_a_tool_whose_questions_reach_the_caller(
    project, env, monkeypatch
):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project)
    coder = ScriptedProvider(model_call("Write", file_path="b.txt", content="x"), "I wrote b.txt.")
    monkeypatch.setattr(run_setup, "open_model_of_run", lambda *_: (coder, ()))
    asked = []

    async def approve(request):
        asked.append((request.tool_name, request.lineage))
        return Answer(RuleDecision.ALLOW)

    async with mcp_serve_command._open_parts(MCPOptions()) as parts:
        assert {"Read", "Bash", "coder"} <= {each.name for each in parts.tools}
        llm = ScriptedProvider(model_call("coder", prompt="Write b.txt."), "done")
        agent = Agent(llm, tools=parts.tools, permissions=parts.permissions)
        result = await agent.run("go", approve=approve)
    assert [each.text for each in result.messages[2].tool_results] == ["I wrote b.txt."]
    assert asked == [("Write", ("agent", "coder"))]
    assert (project / "b.txt").read_text() == "x"
