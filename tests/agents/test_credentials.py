"""Credentials: given once by a person, used by tools, and to be found nowhere else."""

import logging
import pickle

import pytest
import trio

from greenroom.agents import Agent, Task, coder
from greenroom.core import (
    AgentContext,
    Credential,
    ImageBlock,
    PermissionRequest,
    TextBlock,
    ToolError,
    ToolResult,
)
from greenroom.core._internal import Credentials, serde
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from tests.session.accepted import check_accepted

GITHUB = Credential("github token", hint="Settings > Developer settings")
SECRET = 'ghp_"9f8e7d6c5b4a\\é'
RULES = [PermissionRule.allow_tool("issues"), PermissionRule.allow_tool("Task")]


@tool(credentials=[GITHUB])
async def issues(repo: str, context: AgentContext) -> str:
    """List the issues."""
    token = GITHUB.value(context)
    if repo == "expired":
        GITHUB.forget(context)
        raise ToolError(f"401: bad token {token}")
    assert token == SECRET
    return f"2 issues in {repo} (asked with {token})"


class Clerk:
    """A person who gives the secret when asked for it, or says no."""

    def __init__(self, handle, gives=True):
        self.handle = handle
        self.gives = gives
        self.chunks = []
        self.asked = []

    async def attend(self, task_status):
        async with self.handle.subscribe("all", answers=True) as chunks:
            task_status.started()
            async for chunk in chunks:
                self.chunks.append(chunk)
                inner = getattr(chunk, "chunk", chunk)
                if isinstance(inner, PermissionRequest):
                    self.asked.append(inner)
                    if inner.credential and self.gives:
                        await self.handle.give_credential(inner.credential, SECRET)
                    decision = "allow" if self.gives else "deny"
                    await self.handle.respond_permission(inner.request_id, decision)


async def serve(*script, gives=True, store=None, instruments=(), turns=("go",)):
    session, model = AgentSession.new("coder"), ScriptedProvider(*script)
    with trio.fail_after(60):
        async with AgentRuntime(store or InMemoryStore(), instruments=instruments) as runtime:
            parts = (model, ToolRegistry([issues]), PermissionManager(RULES))
            handle = runtime.spawn(session, coder, *parts)
            clerk = Clerk(handle, gives)
            async with trio.open_nursery() as nursery:
                await nursery.start(clerk.attend)
                for text in turns:
                    await handle.ask(text)
                nursery.cancel_scope.cancel()
    check_accepted(session.history)
    return session, model, clerk


def results(model):
    last = model.requests[-1].messages
    return [block.text for message in last for block in message.tool_results]


async def test_it_is_asked_for_once_and_is_in_nothing_that_is_told_or_stored(tmp_path, caplog):
    class Watcher:
        seen = []

        def after_permission(self, *told):
            self.seen.append(repr(told))

    caplog.set_level(logging.DEBUG)
    watcher, store = Watcher(), FileStore(tmp_path)
    script = [call("issues", repo="a"), "first", call("issues", repo="b"), "second"]
    session, model, clerk = await serve(
        *script, store=store, instruments=[watcher], turns=("one", "two")
    )
    [asked] = clerk.asked
    assert (asked.credential, asked.details) == ("github token", GITHUB.hint)
    assert results(model) == [
        "2 issues in a (asked with [github token])",
        "2 issues in b (asked with [github token])",
    ]
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"issues in a" in written
    places = {
        "files": written.decode(),
        "chunks": "".join(map(repr, clerk.chunks)),
        "requests": repr(model.requests),
        "logs": caplog.text,
        "instruments": "".join(watcher.seen),
        "history": repr(session.history),
    }
    part = "9f8e7d6c5b4a"
    assert {name for name, text in places.items() if part in text} == set()


async def test_without_it_the_call_does_not_run_and_the_model_is_told_why():
    _, model, _ = await serve(call("issues", repo="a"), "pity", gives=False)
    assert results(model) == ["issues was not run: the credential github token was not given."]


async def test_one_that_a_service_has_refused_is_forgotten_and_asked_for_again():
    script = [call("issues", repo="expired"), call("issues", repo="a"), "done"]
    _, model, clerk = await serve(*script)
    assert len(clerk.asked) == 2
    assert results(model)[0] == "401: bad token [github token]"


async def test_a_subagent_has_those_of_its_tree_and_another_tree_does_not():
    inner = ScriptedProvider(call("issues", repo="a"), "found")

    async def delegating(agent, llm, tools, permissions):
        async def helper(child):
            await coder(child, inner, tools, permissions, delegates=False)

        await coder(agent, llm, tools.with_tools(Task(agent, helper)), permissions, delegates=False)

    outer = ScriptedProvider(
        call("Task", description="look", prompt="look"), call("issues", repo="b"), "done"
    )
    with trio.fail_after(60):
        async with AgentRuntime(InMemoryStore()) as runtime:
            parts = (ToolRegistry([issues]), PermissionManager(RULES))
            handle = runtime.spawn(AgentSession.new("coder"), delegating, outer, *parts)
            clerk = Clerk(handle)
            async with trio.open_nursery() as nursery:
                await nursery.start(clerk.attend)
                assert (await handle.ask("go")).text == "done"
                nursery.cancel_scope.cancel()
            model = ScriptedProvider(call("issues", repo="a"), "no")
            other = runtime.spawn(
                AgentSession.new("coder"), coder, model, *parts, unattended="deny"
            )
            await other.ask("go")
    assert len(clerk.asked) == 1
    assert "no one can be asked" in results(model)[0]


async def test_a_program_gives_one_for_all_agents_of_a_runtime():
    model = ScriptedProvider(call("issues", repo="a"), "done")
    with trio.fail_after(60):
        async with AgentRuntime(InMemoryStore()) as runtime:
            GITHUB.give(runtime.resources, SECRET)
            parts = (model, ToolRegistry([issues]), PermissionManager(RULES))
            handle = runtime.spawn(AgentSession.new("coder"), coder, *parts, unattended="deny")
            await handle.ask("go")
    assert results(model) == ["2 issues in a (asked with [github token])"]


async def run_with(value, function, tmp_path, *script):
    """Run an agent whose tool has this credential; return the result of its call."""
    model = ScriptedProvider(*script, call(function.__name__), "done")
    with trio.fail_after(60):
        async with AgentRuntime(FileStore(tmp_path)) as runtime:
            GITHUB.give(runtime.resources, value)
            agent = Agent(model, tools=[tool(credentials=[GITHUB])(function)])
            result = await agent.run("go", runtime=runtime)
    assert result.output == "done"
    return result.messages[-2].tool_results[0]


@pytest.mark.parametrize("value", ["1234", "text", "content", "type", "true", "null", "status"])
async def test_a_value_that_json_is_made_of_breaks_no_result(value, tmp_path):
    async def count(context: AgentContext) -> ToolResult:
        """Count."""
        image = ImageBlock("image/heic", "text1234")
        text = TextBlock(f"It is {value}")
        return ToolResult((text, image), metadata={"all": 12345, value: True, "none": None})

    given = await run_with(value, count, tmp_path)
    assert given.content == (
        TextBlock("It is [github token]"),
        ImageBlock("image/heic", "text1234"),
    )


async def test_a_value_in_quotes_is_found_as_well(tmp_path):
    key = '-----BEGIN "KEY"-----\nMIIE\\vQ=='

    async def show(context: AgentContext) -> str:
        """Show it."""
        value = GITHUB.value(context)
        return f"{value} {value!r} {serde.dumps({'key': value}).decode()}"

    given = await run_with(key, show, tmp_path)
    assert given.text == '[github token] \'[github token]\' {"key":"[github token]"}'


async def test_a_result_that_is_too_long_takes_none_to_its_file(tmp_path):
    async def dump(context: AgentContext) -> str:
        """Dump it."""
        return (GITHUB.value(context) + " ") * 5_000

    given = await run_with("tok-123456", dump, tmp_path)
    assert "tok-" not in given.text
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert b"[github token]" in b"".join(files)
    assert b"tok-123456" not in b"".join(files)


async def test_a_failure_that_tells_it_is_logged_without_it(tmp_path, caplog):
    async def refuse(context: AgentContext) -> str:
        """Refuse it."""
        raise ToolError(f"401: {GITHUB.value(context)}", hint=f"not {GITHUB.value(context)}")

    caplog.set_level(logging.DEBUG)
    given = await run_with("tok-123456", refuse, tmp_path)
    assert "401: [github token]" in given.text
    assert "401: [github token]" in caplog.text
    assert "tok-123456" not in given.text + caplog.text


def test_nothing_shows_or_copies_a_value():
    credentials = Credentials()
    credentials.give("a", "secret value")
    assert "secret" not in repr(credentials)
    with pytest.raises(TypeError):
        pickle.dumps(credentials)
    with pytest.raises(serde.InvalidJSONError):
        serde.encode(credentials)
    with pytest.raises(ValueError, match="empty"):
        credentials.give("a", " ")
    for name in ("", "a\n", "]", "x" * 65):
        with pytest.raises(ValueError, match="not a name"):
            Credential(name)


def test_what_can_not_be_is_refused_when_the_tool_is_made():
    with pytest.raises(ToolError, match="not a Credential"):
        ToolRegistry([tool(credentials=["github"])(plain)])
    with pytest.raises(ToolError, match="process"):
        tool(credentials=[GITHUB], isolation="process")(plain)


def plain(text: str) -> str:
    """Return the text."""
    return text
