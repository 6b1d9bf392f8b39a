"""Tools that the client runs: described here, called there, and gated like all others."""

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import AgentContext, ToolError, ToolResult, ToolStart, ToolStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from tests.session.accepted import check_accepted


@tool(runs_on="client", category="read", timeout=30.0)
def pick_file(kind: str) -> str:
    """Let the user pick a file.

    Args:
        kind: such as "image".
    """
    raise AssertionError("it is never called here")


async def serve(results, *, arguments=None):
    """Run a turn that calls the tool; give the results in, and return what the model is told."""
    model = ScriptedProvider(call("pick_file", **(arguments or {"kind": "image"})), "done")
    rules = PermissionManager([PermissionRule.allow_category("read")])
    session = AgentSession.new("coder")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(session, coder, model, ToolRegistry([pick_file]), rules)
        async with handle.subscribe() as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, ToolStart):
                    for result in results:
                        await handle.send_tool_result(chunk.id, result)
                if type(chunk).__name__ == "Done":
                    break
    check_accepted(session.history)
    return model.requests[1].messages[-1].tool_results[0]


async def test_the_client_s_result_is_the_call_s():
    with trio.fail_after(60):
        result = await serve([ToolResult.ok("/home/kim/cat.png")])
    assert (result.text, result.is_error) == ("/home/kim/cat.png", False)


async def test_a_result_of_the_client_s_is_cut_like_any_other():
    with trio.fail_after(60):
        result = await serve([ToolResult.ok("x" * 1_000_000)])
    assert len(result.text) < 100_000


async def test_it_has_the_time_that_the_tool_says(autojump_clock):
    result = await serve([])
    assert result.is_error
    assert "within 30 seconds" in result.text
    assert trio.current_time() >= 30


async def test_the_input_is_validated_before_the_client_sees_it():
    with trio.fail_after(60):
        result = await serve([ToolResult.ok("unasked")], arguments={"sort": "image"})
    assert result.is_error
    assert "kind" in result.text


async def test_an_interrupt_ends_the_wait():
    session, model = AgentSession.new("coder"), ScriptedProvider(call("pick_file", kind="a"), "on")
    rules = PermissionManager([PermissionRule.allow_category("read")])
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(session, coder, model, ToolRegistry([pick_file]), rules)
            async with handle.subscribe() as chunks:
                await handle.send_input("go")
                async for chunk in chunks:
                    if isinstance(chunk, ToolStart):
                        break
                await handle.interrupt()
                with pytest.raises(ToolError):
                    await handle.send_tool_result(chunk.id, ToolResult.ok("late"))
            assert (await handle.ask("again")).text == "on"
    check_accepted(session.history)


async def test_without_an_agent_there_is_no_client():
    context = AgentContext(session_id="s-1", agent_type="coder")
    result = await ToolRegistry([pick_file]).execute("pick_file", {"kind": "a"}, context)
    assert result.status is ToolStatus.ERROR
    assert "no client runs this call" in result.text


@pytest.mark.parametrize("options", [{"isolation": "process"}, {"runs_on": "moon"}])
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(ToolError):
        tool(**{"runs_on": "client", **options})(sorted_names)


def sorted_names(names: list[str]) -> str:
    """Sort names."""
    return " ".join(sorted(names))
