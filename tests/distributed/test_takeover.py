"""A host that is gone: its agents go on elsewhere, and nothing it still says counts."""

from functools import partial

import pytest
import trio

from greenroom import Agent, AgentRuntime, PermissionManager, PermissionRule
from greenroom.core import Message
from greenroom.core._internal import serde
from greenroom.distributed import AgentSpec, AgentType, Host, mailbox
from greenroom.session import AgentSession
from greenroom.testing import ScriptedProvider, call
from tests.distributed.kinds import (
    ECHO,
    GOES_ON,
    asked,
    count_as_gone,
    echo,
    spawn_and_freeze,
    wait_for,
    wait_host,
)


async def test_a_turn_goes_on_elsewhere_and_what_the_old_host_says_counts_for_nothing(
    cluster, work, frozen, nursery
):
    agent, _, second = await spawn_and_freeze(cluster, work, frozen, nursery, **GOES_ON)
    with trio.fail_after(60):
        result = await agent.answer("i1")
    assert (result.status, result.text) == ("completed", "done by b")
    assert work.begun == [("a", "i1"), ("b", "i1")]
    work.held["a"].set()  # the old host's turn ends too late
    assert (await agent.ask("more")).text == "done by b"
    assert (await agent.status()).host == second
    assert [each.text for each in await agent.history()] == ["go", "done by b", "more", "done by b"]


async def test_a_turn_is_given_up_where_the_spec_says_so(cluster, work, frozen, nursery):
    agent, *_ = await spawn_and_freeze(cluster, work, frozen, nursery, on_cut_off="stop")
    with trio.fail_after(60):
        result = await agent.answer("i1")
    assert result.status == "failed"
    assert "cut off" in result.error
    assert (await agent.ask("more")).text == "done by b"
    assert await asked(agent) == ["go", "more"]
    assert work.begun[0] == ("a", "i1")
    assert "i1" not in [input_id for _, input_id in work.begun[1:]]


@pytest.mark.parametrize(("decision", "status"), [("allow", "completed"), ("deny", "failed")])
async def test_a_turn_on_another_disk_goes_on_if_a_person_says_so(
    cluster, work, frozen, nursery, decision, status
):
    agent, _, second = await spawn_and_freeze(
        cluster, work, frozen, nursery, workspace="host", on_cut_off="continue"
    )
    await wait_host(agent, second)
    (question,) = await wait_for(agent.pending)
    assert "another host" in question.reason
    assert await agent.respond_permission(question.request_id, decision)
    assert not await agent.respond_permission(question.request_id, "allow")
    with trio.fail_after(60):
        assert (await agent.answer("i1")).status == status
    assert await agent.pending() == ()
    assert (await agent.ask("more")).text == "done by b"


async def test_a_turn_that_had_not_begun_to_be_saved_is_begun_again(cluster, frozen, nursery):
    begun = trio.Event()

    def kind(where):
        async def work(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    begun.set()
                    if where == "a":
                        await trio.sleep_forever()
                    agent.session.add_message(Message.assistant(where))

        return AgentType("worker", lambda spec: (work, ()))

    first = await nursery.start(Host(cluster, [kind("a")]).run)
    agent = await cluster.spawn(AgentSpec("worker"))
    await agent.send_input("go", id="i1")
    with trio.fail_after(60):
        await begun.wait()
        frozen.add(first)
        await nursery.start(Host(cluster, [kind("b")]).run)
        await count_as_gone(cluster, first)
        assert (await agent.answer("i1")).text == "b"
    assert await asked(agent) == ["go"]


async def end_turn(session, cluster):
    async with AgentRuntime(store=session.store) as runtime:
        await runtime.spawn(session, partial(echo, prefix="before: ")).ask("go", id="i1")


async def begin_turn(session, cluster):
    """Save the beginning of a turn that has no end, as a host that is killed then."""
    begun = trio.Event()

    async def save_and_wait(agent):
        async with agent.turn(await agent.receive()):
            await agent.session.save()
            begun.set()
            await trio.sleep_forever()

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, save_and_wait)
        await handle.send_input("go", id="i1")
        await begun.wait()
        query = "UPDATE sessions SET holder = NULL, epoch = epoch + 1"
        await cluster.database.run(lambda each: each.execute(query))
        handle.kill()


@pytest.mark.parametrize(("act", "text"), [(end_turn, "before: go"), (begin_turn, "on: i1")])
async def test_what_an_earlier_host_saves_until_the_session_is_taken_counts(
    cluster, nursery, monkeypatch, act, text
):
    """That host has the session for a moment after its agent was given to another one."""
    agent = await make_waiting(cluster)
    open_session, acts = AgentSession.open, [act]

    async def open_late(session):
        if acts:
            async with cluster.database.make_store() as store:
                own = await AgentSession.load(session.session_id, store=store)
                await acts.pop()(own, cluster)
        await open_session(session)

    monkeypatch.setattr(AgentSession, "open", open_late)
    await nursery.start(Host(cluster, [ECHO]).run)
    with trio.fail_after(60):
        assert (await agent.answer("i1")).text == text
        assert (await agent.ask("more")).text == "more"
    assert await asked(agent) == ["hello", "go", "more"]
    assert not acts


async def make_waiting(cluster):
    """Return an agent with a conversation that no host has, and for which an input waits."""
    async with trio.open_nursery() as hosting:
        await hosting.start(Host(cluster, [ECHO]).run)
        agent = await cluster.spawn(AgentSpec("echo", **GOES_ON))
        await agent.ask("hello")
        hosting.cancel_scope.cancel()
    query = "UPDATE agents SET host = NULL, epoch = epoch + 1"
    await cluster.database.run(lambda each: each.execute(query))
    await agent.send_input("go", id="i1")
    return agent


async def test_a_turn_that_has_ended_but_was_not_marked_is_not_done_again(
    cluster, work, frozen, nursery, monkeypatch
):
    first = await nursery.start(Host(cluster, [work.kind("a")]).run)
    agent = await cluster.spawn(AgentSpec("worker", **GOES_ON))
    finish, tried = mailbox.finish_input, trio.Event()
    loop = trio.lowlevel.current_trio_token()

    def lose(connection, place, number, result):
        if place.host == first:
            loop.run_sync_soon(tried.set)
            return True  # as if the host had ended just before
        return finish(connection, place, number, result)

    monkeypatch.setattr(mailbox, "finish_input", lose)
    await agent.send_input("go", id="i1")
    await tried.wait()
    frozen.add(first)
    await nursery.start(Host(cluster, [work.kind("b")]).run)
    await count_as_gone(cluster, first)
    with trio.fail_after(60):
        result = await agent.answer("i1")
    assert (result.status, result.text) == ("completed", "done by a")
    assert work.begun == [("a", "i1")] or work.begun == [("a", "i1"), ("b", "")]


async def test_an_input_that_ends_its_hosts_is_set_aside_after_three(cluster, work, nursery):
    await nursery.start(Host(cluster, [work.kind("b")]).run)
    agent = await cluster.spawn(AgentSpec("worker", **GOES_ON))
    assert (await agent.ask("first")).text == "done by b"
    place = (await agent.status()).host
    query = "UPDATE agents SET host = NULL"
    await cluster.database.run(lambda each: each.execute(query))
    query = """INSERT INTO inputs (session_id, input_id, digest, body, ends)
        VALUES (%s, 'poison', '', %s, 3)"""
    body = serde.encode(mailbox.Letter("boom"))
    await cluster.database.run(lambda each: each.execute(query, [agent.session_id, body]))
    with trio.fail_after(60):
        result = await agent.answer("poison")
        assert result.status == "failed"
        assert "set aside" in result.error
        assert (await agent.ask("next")).text == "done by b"
    assert await cluster.set_aside() == ((agent.session_id, "poison"),)
    assert await asked(agent) == ["first", "next"]
    assert place == (await agent.status()).host


async def test_ends_of_hosts_are_counted_for_the_input_in_hand_alone(
    cluster, work, frozen, nursery
):
    agent, *_ = await spawn_and_freeze(cluster, work, frozen, nursery, **GOES_ON)
    await agent.send_input("later", id="i2")
    with trio.fail_after(60):
        await agent.answer("i2")
    query = "SELECT input_id, ends FROM inputs ORDER BY number"
    rows = await cluster.database.run(lambda each: each.execute(query).fetchall())
    assert rows == [("i1", 1), ("i2", 0)]


async def test_a_drained_host_gives_its_agents_away(cluster, work, nursery):
    with trio.fail_after(60):
        await drain_one(cluster, work)


async def drain_one(cluster, work):
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first_alone:
            first = await first_alone.start(Host(cluster, [work.kind("a")]).run)
            agents = [await cluster.spawn(AgentSpec("worker")) for _ in range(3)]
            assert [(await each.ask("go")).text for each in agents] == ["done by a"] * 3
            second = await nursery.start(Host(cluster, [work.kind("b")]).run)
            assert await cluster.drain(first)
        # It has returned by itself.
        assert [each.id for each in await cluster.hosts()] == [second]
        assert [(await each.ask("more")).text for each in agents] == ["done by b"] * 3
        assert [(await each.status()).host for each in agents] == [second] * 3
        assert not await cluster.drain(first)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("options", [GOES_ON, {}], ids=["continue", "ask"])
async def test_a_question_that_is_open_when_its_host_is_drained_is_asked_on_the_next(
    cluster, nursery, options
):
    def kind(*replies):
        agent = Agent(ScriptedProvider(*replies), tools=[deploy], permissions=rules)
        return AgentType("deployer", lambda spec: (agent, ()))

    rules, done = PermissionManager([PermissionRule.ask_for_tool("deploy")]), []

    def deploy(version: str) -> str:
        """Deploy a version."""
        done.append(version)
        return f"{version} is live"

    first = await nursery.start(Host(cluster, [kind(call("deploy", version="1.2"))]).run)
    agent = await cluster.spawn(AgentSpec("deployer", **options))
    await agent.send_input("go", id="i1")
    with trio.fail_after(60):
        (question,) = await wait_for(agent.pending)
        second = await nursery.start(Host(cluster, [kind("It is live.")]).run)
        assert await cluster.drain(first)
        await wait_host(agent, second)

        async def find_question(reason):
            return [each for each in await agent.pending() if reason in each.reason]

        if not options:  # another host has another disk
            (about,) = await wait_for(partial(find_question, "another host"))
            assert await agent.respond_permission(about.request_id, "allow")
        (again,) = await wait_for(partial(find_question, "the rule"))
        assert again.request_id == question.request_id
        assert (done, (await agent.status()).queued) == ([], 1)
        # It is on record before it is asked again.
        await wait_for(partial(agent.respond_permission, again.request_id, "allow"))
        result = await agent.answer("i1")
    assert (result.status, result.text, done) == ("completed", "It is live.", ["1.2"])
    assert await agent.pending() == ()


async def test_a_question_that_is_open_when_its_agent_is_ended_is_answered_by_that(
    cluster, nursery
):
    async def confirm(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.request_permission("Deploy", "do it")

    await nursery.start(Host(cluster, [AgentType("asking", lambda spec: (confirm, ()))]).run)
    agent = await cluster.spawn(AgentSpec("asking"))
    with trio.fail_after(60):
        receipts = [await agent.send_input(text) for text in ("one", "two")]
        await wait_for(agent.pending)
        assert (await agent.shutdown()).status == "completed"
        for receipt in receipts:
            result = await agent.answer(receipt)
            assert (result.status, result.kind) == ("failed", "AgentNotRunningError")
        assert await agent.pending() == ()


async def test_a_host_that_was_counted_as_gone_comes_back_under_another_number(
    cluster, work, frozen, nursery
):
    agent, first, second = await spawn_and_freeze(cluster, work, frozen, nursery, **GOES_ON)
    await wait_host(agent, second)
    frozen.clear()

    async def find_two():
        hosts = await cluster.hosts()
        return hosts if len(hosts) == 2 else None

    assert first not in [each.id for each in await wait_for(find_two)]
    assert (await agent.status()).host == second


async def test_a_budget_goes_with_the_agent(cluster, nursery):
    def kind():
        return AgentType("bounded", lambda spec: (Agent(ScriptedProvider("one", "two")), ()))

    spec = AgentSpec("bounded", budget={"model_calls": 1})
    first = await nursery.start(Host(cluster, [kind()]).run)
    agent = await cluster.spawn(spec)
    with trio.fail_after(60):
        assert (await agent.ask("go")).text == "one"
        second = await nursery.start(Host(cluster, [kind()]).run)
        assert await cluster.drain(first)
        await wait_host(agent, second)
        result = await agent.ask("more")
    assert (result.status, result.kind) == ("failed", "BudgetExceededError")
