"""Calls in a sandbox: what the person, the model and programs are told of it."""

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import PermissionRequest, SandboxReport, ToolEnd, serde
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, MemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import Bash, Sandbox, ToolRegistry, examine_sandbox, tool


async def chunks_of(tools, folder, *, rules=(), answer=None):
    """Let an agent call Bash once; what its subscribers saw."""
    llm = ScriptedProvider(call("Bash", command="echo made > $TMPDIR/f && cat $TMPDIR/f"), "done")
    parts = (llm, tools, PermissionManager(rules))
    seen = []
    with trio.fail_after(60):
        async with AgentRuntime(store=MemoryStore(), workspace=str(folder)) as runtime:
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


async def test_without_a_sandbox_nothing_is_said_of_one(tmp_path):
    seen = await chunks_of(ToolRegistry([Bash()]), tmp_path, answer="deny")
    assert only(seen, PermissionRequest).sandbox is None


@pytest.mark.parametrize("rules", [[], [PermissionRule.allow_all()]])
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

    assert await ToolRegistry([plain]).get("plain").examine_sandbox() is None
    plain.sandbox = "strict"
    with pytest.raises(Exception, match="its sandbox is 'strict'"):
        ToolRegistry([plain])
