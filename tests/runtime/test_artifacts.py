"""Artifacts: versions that tools save, kept with the session and told to readers."""

import pytest
import trio

from greenroom.core import AgentContext, Custom, SessionError, ToolError
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore


async def run(body):
    """Run this in a turn of an agent; return the session and the chunks that tell of artifacts."""
    session = AgentSession.new("maker", store=InMemoryStore())

    async def maker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent.context.with_tool_use_id("c1"))

    async with AgentRuntime(session.store) as runtime:
        handle = runtime.spawn(session, maker)
        result = await handle.ask("go")
        assert result.error == ""
        async with handle.subscribe("all") as chunks:
            told = [each for each in await chunks.take() if isinstance(each, Custom)]
    return session, told


async def content(session, artifact):
    return (await session.store.open_file(session.session_id, artifact.file)).getvalue()


async def test_each_save_is_a_version_that_is_stored_and_told():
    async def body(context):
        assert await context.save_artifact("report.md", "# One") == 1
        assert await context.save_artifact("dot.png", b"\x89PNG") == 1
        assert await context.save_artifact("report.md", "# Two") == 2

    session, told = await run(body)
    found = [(each.name, each.version, each.media_type) for each in session.artifacts()]
    assert found == [
        ("report.md", 1, "text/markdown"),
        ("dot.png", 1, "image/png"),
        ("report.md", 2, "text/markdown"),
    ]
    assert [await content(session, each) for each in session.artifacts()] == [
        b"# One", b"\x89PNG", b"# Two",
    ]  # fmt: skip
    assert [each.tool_use_id for each in session.artifacts()] == ["c1"] * 3
    assert [(each.kind, each.text) for each in told] == [
        ("artifact", "report.md, version 1"),
        ("artifact", "dot.png, version 1"),
        ("artifact", "report.md, version 2"),
    ]
    loaded = await AgentSession.load(session.session_id, store=session.store)
    assert loaded.artifacts() == session.artifacts()
    fork = await loaded.fork()
    assert await content(fork, fork.artifacts()[0]) == b"# One"


async def test_a_version_grows_until_it_is_complete():
    async def body(context):
        for text, complete in (("a", False), ("b", False), ("c", True)):
            version = await context.save_artifact("log", text, append=True, complete=complete)
            assert version == 1
        assert await context.save_artifact("log", "d", append=True) == 2

    session, told = await run(body)
    first, second = session.artifacts()
    assert (first.complete, first.size, await content(session, first)) == (True, 3, b"abc")
    assert (second.version, await content(session, second)) == (2, b"d")
    assert told[0].text == "log, version 1, not complete yet"
    assert [each.data["size"] for each in told] == [1, 2, 3, 1]


async def test_saves_side_by_side_are_versions_one_after_the_other():
    async def body(context):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(context.save_artifact, "log", str(number))

    session, _ = await run(body)
    assert [each.version for each in session.artifacts()] == list(range(1, 21))
    assert len({each.file for each in session.artifacts()}) == 20


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 201, "\u202egnp.exe"])
async def test_a_name_that_misleads_is_refused(name):
    async def body(context):
        with pytest.raises(ValueError, match="can't name an artifact"):
            await context.save_artifact(name, "x")
        with pytest.raises(ValueError, match="no media type"):
            await context.save_artifact("x", "x", media_type="text/html\r\nx: y")
        with pytest.raises(SessionError):
            await context.save_artifact("x", bytes((16 << 20) + 1))

    session, told = await run(body)
    assert (session.artifacts(), told) == ((), [])


async def test_outside_of_an_agent_nothing_is_kept():
    with pytest.raises(ToolError):
        await AgentContext(session_id="s", agent_type="x").save_artifact("a", "b")


async def test_a_record_that_is_no_artifact_is_left_out():
    session = AgentSession.new("maker")
    session.add_record("artifact", {"name": 7})
    session.add_record("artifact", "x")
    assert session.artifacts() == ()
