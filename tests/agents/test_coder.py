"""The ready-made agent: real tools on real files, subagents, and a limit of steps."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest
import trio

from greenroom.agents import Task, coder
from greenroom.core import (
    Custom,
    Message,
    PermissionRequest,
    StopReason,
    SubAgentComplete,
    SubAgentOutput,
    SubAgentSpawned,
    TextComplete,
    ToolEnd,
    TurnStatus,
)
from greenroom.core._internal import serde
from greenroom.llm import OfflineProvider
from greenroom.memory._internal import COMPACT
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools
from tests.agents.loops import simple_loop

ROOT = Path(__file__).parents[2]
READS = [PermissionRule.allow_category("read")]


def all_tools():
    return ToolRegistry(builtin_tools())


async def run(llm, prompt, *, rules=READS, agent_fn=coder, tools=None, workspace=".", store=None):
    """Run one turn; return its result, its chunks and the agent's session."""
    session = AgentSession.new("coder")
    arguments = (llm, tools or all_tools(), PermissionManager(rules))
    with trio.fail_after(60):
        async with AgentRuntime(store=store or InMemoryStore(), workspace=workspace) as runtime:
            handle = runtime.spawn(session, agent_fn, *arguments, unattended="deny")
            reader = handle.subscribe("all")
            result = await handle.ask(prompt)
        return result, [chunk async for chunk in reader], session


async def test_it_reads_a_real_file(tmp_path):
    (tmp_path / "notes.txt").write_text("the cat is green\n")
    result, _, _ = await run(OfflineProvider(), "read notes.txt", workspace=tmp_path)
    assert "the cat is green" in result.text


async def test_it_shortens_its_conversation_when_it_is_told_to():
    llm = ScriptedProvider(*["word " * 400] * 3, "Notes.", "Fine.")
    session = AgentSession.new("coder")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(session, coder, llm, all_tools(), PermissionManager(READS))
        chunks = handle.subscribe()
        for number in range(3):
            await handle.ask(f"Question {number}?")
        handle.send_input_nowait("/compact", metadata=COMPACT)
        assert (await handle.ask("And now?")).text == "Fine."
        await handle.shutdown()
        told = [chunk.text async for chunk in chunks if isinstance(chunk, Custom)]
    assert told[0].startswith("the conversation was shortened: ")
    assert session.history[0].sender == "summary"
    assert "Question 0?" in session.history[0].text
    assert "/compact" not in "".join(message.text for message in session.history)


async def test_it_is_short_and_uses_nothing_private():
    source = inspect.getsource(inspect.getmodule(coder))
    assert len(source.splitlines()) <= 78
    assert "._" not in source.replace("greenroom.memory._internal", "")


async def test_the_system_prompt_is_sent_as_it_was_given(tmp_path):
    llm = ScriptedProvider("ok")

    async def terse(agent, llm, tools, permissions):
        await coder(agent, llm, tools, permissions, "Be terse.")

    await run(llm, "hi", agent_fn=terse)
    assert llm.requests[0].system == "Be terse."


async def test_it_stops_after_its_steps_and_says_so():
    async def short(agent, llm, tools, permissions):
        await coder(agent, llm, tools, permissions, max_steps=3)

    llm = ScriptedProvider(*(call("Glob", pattern="*.md") for _ in range(9)))
    result, _, session = await run(llm, "go", agent_fn=short)
    assert result.status is TurnStatus.FAILED
    assert "3 model calls" in result.error
    assert len(llm.requests) == 3
    assert session.history[-1].tool_results


async def test_a_paused_reply_is_continued():
    llm = ScriptedProvider(Reply("searching", stop_reason=StopReason.PAUSE), "found")
    result, _, _ = await run(llm, "go")
    assert result.text == "found"
    assert llm.requests[1].messages[-1].role == "assistant"


async def test_a_subagent_does_a_part_of_the_work(tmp_path):
    (tmp_path / "notes.txt").write_text("the cat is green\n")
    store = FileStore(tmp_path / "sessions")
    result, chunks, session = await run(
        OfflineProvider(), "ask a subagent to read notes.txt", workspace=tmp_path, store=store
    )
    assert "the cat is green" in result.text
    (spawned,) = [chunk for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
    (complete,) = [chunk for chunk in chunks if isinstance(chunk, SubAgentComplete)]
    assert spawned.session_id == complete.session_id
    inner = [chunk.chunk for chunk in chunks if isinstance(chunk, SubAgentOutput)]
    assert any(isinstance(chunk, ToolEnd) for chunk in inner)
    child = await AgentSession.load(spawned.session_id, store=store)
    assert child.parent_session_id == session.session_id
    assert child.parent_tool_use_id == spawned.tool_use_id
    parent = await AgentSession.load(session.session_id, store=store)
    assert parent.child_session_ids == (spawned.session_id,)


async def test_a_subagent_is_asked_about_on_its_parents_handle_and_cannot_delegate():
    script = [
        call("Task", description="run it", prompt="run ls"),
        call("Bash", command="make"),
        "it said no",
        "the subagent was told no",
    ]
    llm = ScriptedProvider(*script)
    arguments = (llm, all_tools(), PermissionManager(READS))
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        with trio.fail_after(60):
            await handle.send_input("go")
            async for chunk in handle.subscribe("all"):
                if isinstance(chunk, SubAgentOutput) and isinstance(chunk.chunk, PermissionRequest):
                    request = chunk.chunk
                    break
            assert request.lineage == ("coder", "run it")
            assert [each.request_id for each in await handle.pending()] == [request.request_id]
            assert await handle.respond_permission(request.request_id, "deny")
            async for _ in handle.stream():
                pass
        assert (await handle.history())[-1].text == "the subagent was told no"
    assert "Task" in [tool.name for tool in llm.requests[0].tools]
    assert "Task" not in [tool.name for tool in llm.requests[1].tools]


async def test_an_interrupt_takes_the_subagent_along():
    llm = ScriptedProvider(
        call("Task", description="think", prompt="for ever"), Reply("hm", hangs=True), "back"
    )
    arguments = (llm, all_tools(), PermissionManager(READS))
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        with trio.fail_after(60):
            await handle.send_input("go")
            async for chunk in handle.subscribe("all"):
                if isinstance(chunk, SubAgentOutput) and getattr(chunk.chunk, "text", "") == "hm":
                    break
            assert len(runtime.list_active()) == 2
            report = await handle.interrupt()
            assert len(runtime.list_active()) == 1
            assert report.abandoned == ()
            assert len(report.repaired) == 1
            assert (await handle.ask("still there?")).text == "back"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script():
    return [
        Reply([*Message.assistant("let me look").content, call("Glob", pattern="*.txt")]),
        call("Bash", command="rm -rf /"),
        call("NoSuchTool"),
        "that is all",
    ]


def plain(chunks):
    """Chunks as JSON, with ids by the order of their first appearance, and no timings."""
    text = re.sub(r'"waited":[0-9.e-]+', '"waited":0', serde.encode(chunks).decode())
    seen = {}
    return re.sub(
        r'"((?:i|p|s|toolu)-[0-9a-z]{12})"',
        lambda found: f'"#{seen.setdefault(found[1], len(seen))}"',
        text,
    )


async def test_the_loop_as_printed_and_the_primitives_alone_give_the_same_chunks(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    primitives = load(ROOT / "examples" / "coder.py").Coder
    streams = []
    rules = [*READS, PermissionRule.deny_command("rm")]

    async def written_out(*parts):
        await primitives(*parts).run()

    for agent_fn in (simple_loop, written_out):
        result, chunks, _ = await run(
            ScriptedProvider(*script()), "go", rules=rules, agent_fn=agent_fn, workspace=tmp_path
        )
        assert result.text == "that is all"
        streams.append(plain([each for each in chunks if not isinstance(each, ToolEnd)]))
    assert streams[0] == streams[1]
    assert "let me look" in streams[0]


@pytest.mark.parametrize("name", ["description", "prompt"])
def test_tasks_schema_names_what_it_needs(name):
    assert name in Task.parameters["required"]


async def test_text_completes_once_for_each_reply():
    _, chunks, _ = await run(ScriptedProvider("one"), "go")
    assert [chunk for chunk in chunks if isinstance(chunk, TextComplete)] == [TextComplete("one")]
