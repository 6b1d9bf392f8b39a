"""Topics and blackboards of agents on several hosts, one of which ends in between."""

import pytest
import trio

from greenroom.core import Message, SessionStorageError
from greenroom.distributed import AgentSpec, AgentType, Host, mailbox, shared_tables
from greenroom.flow import AgentMessage, StaleWriteError
from greenroom.flow._internal import BlackboardFullError
from tests.distributed.kinds import ECHO, count_as_gone, wait_for, wait_host


async def listen(agent):
    """Note each message of a topic."""
    async for message in agent.inputs():
        async with agent.turn(message):
            told = AgentMessage.of(message)
            agent.session.add_message(Message.assistant(f"{told.sender}: {told.content}"))


LISTENING = AgentType("listening", lambda spec: (listen, ()))


async def heard(agent):
    return [each.text for each in await agent.history() if each.role == "assistant"]


async def test_members_on_two_hosts_hear_all_in_one_order_though_one_host_ends(
    cluster, make_cluster, nursery, frozen
):
    hosts = [await nursery.start(Host(cluster, [LISTENING]).run) for _ in range(2)]
    agents = [await cluster.spawn(AgentSpec("listening")) for _ in range(4)]
    assert {(await each.status()).host for each in agents} == set(hosts)
    news = cluster.topic("news")
    for each in agents:
        await news.join(each)

    async def publish_some(who, count):
        async with make_cluster() as program:
            topic = program.topic("news")
            for number in range(count):
                for _ in range(2):  # as if the first reply had been lost
                    await topic.publish(number, sender=who, id=f"{who}-{number}")

    with trio.fail_after(60):
        async with trio.open_nursery() as publishing:
            publishing.start_soon(publish_some, "ann", 5)
            publishing.start_soon(publish_some, "bob", 5)
            frozen.add(hosts[0])
            await count_as_gone(cluster, hosts[0])
            for each in agents:
                await wait_host(each, hosts[1])

        async def has_all():
            found = [await heard(each) for each in agents]
            return found if all(len(each) == 10 for each in found) else None

        found = await wait_for(has_all)
    assert all(each == found[0] for each in found)
    assert sorted(found[0]) == sorted(f"{who}: {n}" for who in ("ann", "bob") for n in range(5))
    for who in ("ann", "bob"):
        assert [each for each in found[0] if who in each] == [f"{who}: {n}" for n in range(5)]


async def test_who_gets_a_publication_and_why_not(cluster, nursery, monkeypatch):
    await nursery.start(Host(cluster, [ECHO, LISTENING]).run)
    one, two = [await cluster.spawn(AgentSpec("listening")) for _ in range(2)]
    ended = await cluster.spawn(AgentSpec("echo"))
    news = cluster.topic("news")
    for each in (one, two, ended):
        await news.join(each)
    await ended.shutdown()
    first = await news.publish("one")
    assert set(first.delivered) == {one.session_id, two.session_id}
    assert {each: str(why) for each, why in first.missed.items()} == {ended.session_id: "ended"}
    assert set(await news.members()) == set(first.delivered)
    second = await news.publish(AgentMessage(to=two.session_id, content="for you"))
    assert (second.number, second.delivered) == (2, (two.session_id,))
    assert await news.leave(two)
    assert not await news.leave(two)
    monkeypatch.setattr(shared_tables, "MOST_WAITING", 0)
    third = await news.publish("full")
    assert {str(why) for why in third.missed.values()} == {"full"}
    await news.publish("once", id="p1")
    with pytest.raises(ValueError, match="other content"):
        await news.publish("twice", id="p1")
    with pytest.raises(ValueError, match="100 characters"):
        cluster.topic("n" * 101)


@pytest.mark.parametrize("knows_host", [True, False])
async def test_what_is_stored_counts_though_the_database_is_away_right_after_it(
    make_cluster, nursery, monkeypatch, knows_host
):
    async with make_cluster() as hosts, make_cluster() as program:
        await nursery.start(Host(hosts, [LISTENING]).run)
        agent = await hosts.spawn(AgentSpec("listening"))
        topic, same = program.topic("news"), await program.get(agent.session_id)
        await topic.join(agent)
        if not knows_host:
            program.links._known.clear()

        def is_away(*_):
            raise SessionStorageError("the database is away")

        monkeypatch.setattr(program.links, "find", is_away)
        monkeypatch.setattr(program.links, "secret", is_away)
        delivery = await topic.publish("It rains.")
        receipt = await same.send_input("hello")
        assert delivery.delivered == (agent.session_id,)
        with trio.fail_after(60):
            await agent.answer(receipt)
        assert "It rains." in (await heard(agent))[0]
        nursery.cancel_scope.cancel()


async def test_an_agent_does_not_get_its_own_publication(cluster, nursery):
    async def speak(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                delivery = await cluster.topic("news").publish(message.text)
                agent.session.add_message(Message.assistant(str(delivery.delivered)))

    kind = AgentType("speaking", lambda spec: (speak, ()))
    await nursery.start(Host(cluster, [kind, LISTENING]).run)
    speaker = await cluster.spawn(AgentSpec("speaking"))
    listener = await cluster.spawn(AgentSpec("listening"))
    for each in (speaker, listener):
        await cluster.topic("news").join(each)
    with trio.fail_after(60):
        assert (await speaker.ask("hello")).text == f"('{listener.session_id}',)"

        async def has_heard():
            return await heard(listener)

        assert await wait_for(has_heard) == ["speaking: hello"]
    assert await heard(speaker) != ["speaking: hello"]


async def test_a_board_is_written_over_the_version_that_was_read(cluster, make_cluster):
    board = cluster.blackboard("facts")
    assert await board.get("rain") is None
    first = await board.put("rain", {"mm": 940}, 0, author="ann")
    assert (first.version, first.author) == (1, "ann")
    async with make_cluster() as program:
        other = program.blackboard("facts")
        assert await other.get("rain") == first
        await other.put("rain", 950, 1, author="bob")
    with pytest.raises(StaleWriteError) as caught:
        await board.put("rain", 960, 1)
    assert caught.value.version == 2
    with pytest.raises(StaleWriteError):
        await board.put("snow", 1, 3)
    assert [(each.key, each.value) for each in await board.entries()] == [("rain", 950)]
    assert await cluster.blackboard("others").entries() == ()


async def test_of_many_that_claim_a_key_one_succeeds(cluster, make_cluster, monkeypatch):
    won = []

    async def claim(number):
        async with make_cluster() as program:
            try:
                await program.blackboard("tasks").put("t1", number, 0)
            except StaleWriteError:
                return
            won.append(number)

    async with trio.open_nursery() as claiming:
        for number in range(6):
            claiming.start_soon(claim, number)
    assert len(won) == 1
    board = cluster.blackboard("tasks")
    assert (await board.get("t1")).value == won[0]
    monkeypatch.setattr(shared_tables, "MOST_KEYS", 1)
    with pytest.raises(BlackboardFullError, match="keys"):
        await board.put("t2", 1, 0)
    with pytest.raises(BlackboardFullError, match="bytes"):
        await board.put("t1", "x" * 200_001, 1)


async def test_a_write_that_is_repeated_counts_once(cluster):
    board = cluster.blackboard("facts")
    await board.get("rain")
    value = shared_tables.Value("rain", 0, b"1", "ann", None)
    for _ in range(2):
        version, _ = await cluster.database.run(
            lambda each: shared_tables.write_value(each, "facts", value, "token")
        )
        assert version == 1


async def test_publications_are_forgotten_with_their_inputs(cluster):
    await cluster.topic("news").publish("one", id="p1")
    query = "UPDATE publications SET changed = changed - interval '8 days'"
    await cluster.database.run(lambda each: each.execute(query))
    await cluster.database.run(mailbox.forget_inputs)
    assert (await cluster.topic("news").publish("two", id="p1")).number == 2
