"""What all agents of a runtime share lives as long as the runtime, and ends with it."""

import pytest
import trio

from greenroom.core import ResourceMap
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


class Connection:
    def __init__(self, log=None, hangs=False, error=None):
        self.log = [] if log is None else log
        self.hangs = hangs
        self.error = error

    async def aclose(self):
        await trio.lowlevel.checkpoint()
        self.log.append(type(self).__name__)
        if self.error:
            raise self.error
        if self.hangs:
            await trio.sleep_forever()


class Pool(Connection):
    pass


class Plain:
    def aclose(self):
        raise AssertionError("this is not an async function, and not to be called")


async def test_agents_find_what_the_runtime_holds_and_what_they_hold_themselves_is_theirs(store):
    seen = {}

    async def look(agent, own):
        resources = agent.context.resources
        if own:
            resources.insert(own)
        seen[own] = resources.get(str), resources.contains(str), resources.shared.get(str)

    async with AgentRuntime(store=store) as runtime:
        runtime.resources.insert("of all")
        for own in ("mine", ""):
            await runtime.spawn(AgentSession.new("a"), look, own).wait()
        assert runtime.resources.get(str) == "of all"
    assert seen == {"mine": ("mine", True, "of all"), "": ("of all", True, "of all")}


async def test_they_are_closed_after_the_last_agent_the_newest_first(store):
    log = []

    async def agent_fn(agent):
        agent.context.resources.shared.insert(Connection(log))
        agent.context.resources.shared.insert(Pool(log))
        try:
            await trio.sleep_forever()
        finally:
            log.append("the agent")

    async with AgentRuntime(store=store) as runtime:
        runtime.resources.insert(Plain())
        runtime.spawn(AgentSession.new("a"), agent_fn)
        await trio.testing.wait_all_tasks_blocked()
    assert log == ["the agent", "Pool", "Connection"]
    assert len(runtime.resources) == 0


async def test_they_are_closed_although_the_block_is_cancelled(store):
    log = []
    with trio.CancelScope() as scope:
        async with AgentRuntime(store=store) as runtime:
            runtime.resources.insert(Connection(log))
            scope.cancel()
            await trio.sleep_forever()
    assert log == ["Connection"]


async def test_one_that_fails_or_hangs_is_logged_and_stops_no_other(store, caplog):
    log = []
    limits = RuntimeLimits(flush_grace=3)
    begin = trio.current_time()
    async with AgentRuntime(store=store, limits=limits) as runtime:
        runtime.resources.insert(Connection(log))
        runtime.resources.insert(Pool(log, hangs=True))
        runtime.resources.insert(type("Broken", (Connection,), {})(log, error=ValueError("bug")))
    assert log == ["Broken", "Pool", "Connection"]
    assert trio.current_time() - begin == 3
    assert "Broken could not be closed" in caplog.text
    assert "Pool was not closed within 3 seconds" in caplog.text


def test_a_map_that_stands_alone_is_its_own_shared_map():
    resources = ResourceMap()
    assert resources.shared is resources
    below = ResourceMap(shared=resources)
    assert below.shared is resources
    resources.insert("x")
    assert below.get(str) == "x"
    assert below.remove(str) is None
    below.clear()
    assert resources.get(str) == "x"


@pytest.mark.parametrize("kind", [int, str])
async def test_what_was_closed_with_one_runtime_is_not_there_in_the_next(kind):
    for _ in range(2):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            assert not runtime.resources.contains(kind)
            runtime.resources.insert(kind())
