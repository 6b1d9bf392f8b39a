"""What a runtime tells of its agents: the tree, as values and as text, and the figures."""

import json

import trio
from hypothesis import given, strategies as st
from trio.testing import wait_all_tasks_blocked

from greenroom.core import AgentState, TextDelta, ToolEnd, ToolResult, ToolStart, Usage, UsageReport
from greenroom.core._internal import EndStatus
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.runtime._internal import AgentNode, OpenTool, RuntimeTree
from greenroom.session import AgentSession, InMemoryStore


def new(id_=None, type_="worker"):
    return AgentSession.new(type_, session_id=id_)


async def idle(agent):
    async for _ in agent.inputs():
        pass


def node(**fields):
    known = {
        "session_id": "s-1",
        "name": "coder",
        "agent_type": "coder",
        "state": AgentState.idle(),
        "turn": None,
        "step": 0,
        "tools": (),
        "prompts": (),
        "waits": (),
        "mailbox": 0,
        "mailbox_limit": 64,
        "subscribers": 0,
        "largest_lag": 0,
        "budgets": (),
        "restarts": 0,
        "usage": Usage(),
    }
    return AgentNode(**(known | fields))


async def test_it_shows_what_an_agent_is_doing(runtime):
    async def busy(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(model_calls=5):
                    await agent.step()
                    await agent.step()
                    agent.set_state(AgentState.executing_tool("Bash"))
                    await agent.send(ToolStart("call_0", "Read", {}))
                    await agent.send(ToolEnd("call_0", ToolResult.ok("x")))
                    await agent.send(ToolStart("call_1", "Bash", {}))
                    await agent.send(UsageReport(Usage(input_tokens=7)))
                    await trio.sleep(100)

    handle = runtime.spawn(new("s-1", "coder"), busy, name="ann")
    async with handle.subscribe():
        for text in ("taken", "waits"):
            await handle.send_input(text)
        await trio.sleep(12.5)
        (ann,) = runtime.tree().agents
        shown = str(runtime.tree())
    assert ann == node(
        session_id="s-1",
        name="ann",
        state=AgentState.executing_tool("Bash"),
        turn=1,
        step=2,
        tools=(OpenTool("call_1", "Bash", 12.5),),
        mailbox=1,
        subscribers=1,
        largest_lag=7,
        budgets=({"model_calls": 3},),
        usage=Usage(input_tokens=7),
    )
    assert ann.restarts == 0
    assert shown.splitlines() == [
        "1 agent",
        "ann (coder) s-1 · executing tool: Bash · turn 1, step 2 · Bash (call_1) 12.5 s"
        " · mailbox 1/64 · readers 1, lag 7 · left: 3 model calls · 7 tokens",
    ]
    handle.kill()


async def test_it_shows_open_prompts(runtime):
    async def ask(agent):
        await agent.request_permission("Bash", "run")

    handle = runtime.spawn(new(), ask)
    await wait_all_tasks_blocked()
    (request,) = await handle.pending()
    (agent,) = runtime.tree().agents
    assert [(each.request_id, each.tool_name) for each in agent.prompts] == [
        (request.request_id, "Bash")
    ]
    assert f"asks for Bash ({request.request_id})" in str(agent)
    handle.kill()


async def test_it_shows_which_agent_waits_for_which_and_how(runtime):
    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep(100)

    other = runtime.spawn(new("s-2"), slow)

    async def boss(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.wait)
            nursery.start_soon(other.ask, "hello")
            await wait_all_tasks_blocked()
            nursery.start_soon(other.shutdown, 50)

    handle = runtime.spawn(new("s-1"), boss, name="boss")
    await trio.sleep(2)
    found = {(wait.method, wait.session_id, wait.seconds) for wait in tree_of(runtime, "s-1").waits}
    assert found == {("wait", "s-2", 2.0), ("ask", "s-2", 2.0), ("shutdown", "s-2", 2.0)}
    assert "in ask() of s-2 2.0 s" in str(tree_of(runtime, "s-1"))
    handle.kill()


async def test_an_agent_that_waits_for_another_shows_whom_it_waits_for(runtime):
    async def curious(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await other.ask(message.text)

    async def absent(agent):
        await trio.sleep_forever()

    one = runtime.spawn(new("s-1"), curious)
    other = runtime.spawn(new("s-2"), absent)
    await one.send_input("well?")
    await trio.sleep(3600)
    waits = tree_of(runtime, "s-1").waits
    assert [(wait.method, wait.session_id) for wait in waits] == [("ask", "s-2")]


def tree_of(runtime, session_id):
    return next(each for each in runtime.tree().agents if each.session_id == session_id)


async def test_a_wait_that_is_over_is_not_shown(runtime):
    other = runtime.spawn(new("s-2"), idle)

    async def boss(agent):
        with trio.move_on_after(1):
            await other.wait()
        await trio.sleep_forever()

    runtime.spawn(new("s-1"), boss)
    await trio.sleep(2)
    assert tree_of(runtime, "s-1").waits == ()


async def test_an_interrupt_that_is_waited_for_is_shown(runtime):
    async def stubborn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with trio.CancelScope(shield=True):
                    await trio.sleep(10)

    async def boss(agent):
        await target.interrupt(grace=5)

    target = runtime.spawn(new("s-2"), stubborn)
    await target.send_input("go")
    await wait_all_tasks_blocked()
    runtime.spawn(new("s-1"), boss)
    await trio.sleep(1)
    (wait,) = tree_of(runtime, "s-1").waits
    assert (wait.method, wait.session_id, wait.seconds) == ("interrupt", "s-2", 1.0)


async def test_subagents_are_nested_in_the_order_of_their_spawn(runtime):
    async def parent(agent, names):
        for name, below in names.items():
            agent.spawn(new(f"s-{name}"), parent, below, name=name)
        await trio.sleep_forever()

    family = {"a": {"a1": {}, "a2": {}}, "b": {"b1": {}}}
    runtime.spawn(new("s-root"), parent, family, name="root")
    runtime.spawn(new("s-last"), parent, {}, name="last")
    await wait_all_tasks_blocked()
    lines = [line.split(" · ")[0] for line in str(runtime.tree()).splitlines()]
    assert lines == [
        "7 agents",
        "root (worker) s-root",
        "├─ a (worker) s-a",
        "│  ├─ a1 (worker) s-a1",
        "│  └─ a2 (worker) s-a2",
        "└─ b (worker) s-b",
        "   └─ b1 (worker) s-b1",
        "last (worker) s-last",
    ]


async def test_it_shows_who_starts_an_agent_again_and_who_waits_for_that(runtime):
    async def crash(agent):
        raise ValueError("broken")

    backoff = Backoff(first=10, jitter=0)
    feeds = runtime.supervisor(name="desk").supervisor(name="feeds", backoff=backoff)
    feeds.spawn(new("s-1"), idle)
    feeds.spawn(new("s-2"), crash, restart="transient")
    await trio.sleep(1)
    calm, waits = runtime.tree().agents
    assert (calm.supervisor, calm.restarting, calm.restarts) == ("desk/feeds", False, 0)
    assert (waits.supervisor, waits.restarting, waits.restarts) == ("desk/feeds", True, 0)
    assert str(waits).startswith("worker s-2 · under desk/feeds · restarting · mailbox 0/64")
    await trio.sleep(10)
    assert tree_of(runtime, "s-2").restarts == 1


async def test_what_is_beyond_the_limit_is_counted(runtime):
    async def parent(agent):
        for _ in range(3):
            agent.spawn(new(), idle)
        await trio.sleep_forever()

    for _ in range(3):
        runtime.spawn(new(), parent)
    await wait_all_tasks_blocked()
    tree = runtime.tree(limit=6)
    assert (tree.running, tree.left_out) == (12, 6)
    assert [len(agent.children) for agent in tree.agents] == [3, 1]
    assert str(tree).splitlines()[-1] == "… 6 more left out"
    assert runtime.tree().left_out == 0


async def test_many_agents_are_a_bounded_text(runtime):
    for _ in range(1_200):
        runtime.spawn(new(), idle)
    tree = runtime.tree()
    assert (tree.running, len(tree.agents), tree.left_out) == (1_200, 1_000, 200)
    assert len(str(tree)) < 1_002 * 243


def test_a_runtime_without_agents_has_an_empty_tree_also_outside_of_trio():
    assert AgentRuntime(store=InMemoryStore()).tree() == RuntimeTree(0, ())
    assert str(RuntimeTree(0, ())) == "0 agents"


@given(name=st.text(), detail=st.text(), tool=st.text(), budget=st.text())
def test_whatever_names_hold_an_agent_is_one_visible_line(name, detail, tool, budget):
    drawn = str(
        node(
            name=name,
            state=AgentState.failed(detail),
            tools=(OpenTool("c", tool, 1.0),),
            budgets=({budget: 1.5},),
        )
    )
    assert len(drawn) <= 240
    assert len(drawn.splitlines()) == 1
    assert not set(drawn) & set("\n\t\r\x1b\x00\u202e\u200b\ud800\x85\u2028")


def test_a_tree_is_one_json_object():
    agent = node(
        tools=(OpenTool("c", "Bash\ud800", 1.5),),
        budgets=({"tokens": 5},),
        children=(node(session_id="s-2", restarts=2),),
    )
    found = json.loads(RuntimeTree(2, (agent,)).to_json())
    assert found["running"] == 2
    assert found["agents"][0]["tools"] == [{"id": "c", "name": "Bash\ufffd", "seconds": 1.5}]
    assert found["agents"][0]["mailbox_limit"] == 64
    assert found["agents"][0]["children"][0]["session_id"] == "s-2"
    assert "restarts 2" in str(agent.children[0])


async def test_a_runtime_counts_its_agents(runtime):
    async def crash(agent):
        raise ValueError("broken")

    async def done(agent):
        pass

    assert runtime.statistics().spawned == 0
    stays = runtime.spawn(new(), idle)
    for function in (crash, done, done):
        await runtime.spawn(new(), function).wait()
    killed = runtime.spawn(new(), idle)
    killed.kill()
    await killed.wait()
    figures = runtime.statistics()
    assert (figures.running, figures.most_running, figures.spawned) == (1, 2, 5)
    assert figures.ended == {
        EndStatus.CRASHED: 1,
        EndStatus.COMPLETED: 2,
        EndStatus.KILLED: 1,
    }
    await stays.shutdown()
    assert figures.ended[EndStatus.COMPLETED] == 2  # a picture of its moment


async def test_a_reader_counts_what_it_missed():
    async def talk(agent):
        for _ in range(10):
            await agent.send(TextDelta("x"))
        await trio.sleep_forever()

    limits = RuntimeLimits(ring_chunks=4)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        handle = runtime.spawn(new(), talk)
        chunks = handle.subscribe("all")
        await wait_all_tasks_blocked()
        before = chunks.statistics()
        epoch = before.position[0]
        assert (before.position, before.lag, before.missed) == ((epoch, 0), 10, 0)
        await chunks.__anext__()
        after = chunks.statistics()
        assert (after.position, after.lag, after.missed) == ((epoch, 6), 4, 6)
        handle.kill()


async def test_the_log_names_an_agent_by_its_path_and_its_session(runtime, caplog):
    async def child(agent):
        agent.context.metadata["bad"] = object()

    async def boss(agent):
        await agent.spawn(new("s-2"), child, name="helper").wait()

    await runtime.spawn(new("s-1"), boss, name="boss").wait()
    assert "boss/helper (s-2): " in caplog.text
