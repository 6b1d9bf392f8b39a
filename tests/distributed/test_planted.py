"""Eight bugs that are planted, each of which a check of what must be true has to see."""

import pytest
import trio

from greenroom.core import Done, Lagged, TurnStatus
from greenroom.core._internal import serde
from greenroom.distributed import (
    AgentSpec,
    Host,
    NoHostError,
    directory,
    mailbox,
    places,
    remote_chunks,
)
from greenroom.runtime import AgentHandle, TurnResult
from greenroom.session import AgentSession
from tests.distributed.kinds import ECHO, GOES_ON, asked, count_as_gone, spawn_and_freeze, wait_host


async def refuse_stale_places(cluster, frozen, nursery):
    """Check that an earlier host, and an earlier stay at the same host, have no say any more."""
    host = await nursery.start(Host(cluster, [ECHO]).run)
    agent = await cluster.spawn(AgentSpec("echo"))
    await agent.ask("hello")
    await agent.send_input("stays open", id="open")
    await agent.answer("open")
    query = "UPDATE inputs SET status = 'waiting', epoch = 1 WHERE input_id = 'open'"
    await cluster.database.run(lambda each: each.execute(query))
    frozen.add(host)
    query = "UPDATE agents SET epoch = 2"
    await cluster.database.run(lambda each: each.execute(query))
    query = "SELECT number FROM inputs WHERE input_id = 'open'"
    ((number,),) = await cluster.database.run(lambda each: each.execute(query).fetchall())
    result = serde.encode(TurnResult(TurnStatus.COMPLETED))
    for stale in (
        directory.Place(host + 100, agent.session_id, 2),
        directory.Place(host, agent.session_id, 1),
    ):
        is_done = await cluster.database.run(
            lambda each, stale=stale: mailbox.finish_input(each, stale, number, result)
        )
        assert not is_done, stale


async def test_stale_places_are_refused(cluster, frozen, nursery):
    await refuse_stale_places(cluster, frozen, nursery)


@pytest.mark.parametrize("check", ["host", "epoch"])
async def test_mutant_that_does_not_check_the_owner_or_the_epoch(
    cluster, frozen, nursery, monkeypatch, check
):
    mutant = mailbox._OWN.replace(f"AND {check} = %({check})s", "")
    assert mutant != mailbox._OWN
    monkeypatch.setattr(mailbox, "_OWN", mutant)
    with pytest.raises(AssertionError):
        await refuse_stale_places(cluster, frozen, nursery)


async def finish_cut_off_turn(cluster, work, frozen, nursery):
    """Check that a turn that was cut off is answered by the host that has taken it over."""
    agent, *_ = await spawn_and_freeze(cluster, work, frozen, nursery, **GOES_ON)
    with trio.fail_after(60):
        result = await agent.answer("i1")
    assert (result.status, result.text) == ("completed", "done by b")
    assert await asked(agent) == ["go"]


async def test_mutant_that_marks_inputs_as_done_before_the_save(
    cluster, work, frozen, nursery, monkeypatch
):
    take = mailbox.take_input

    def take_and_finish(connection, place):
        taken = take(connection, place)
        if isinstance(taken, mailbox.Taken):
            result = serde.encode(TurnResult(TurnStatus.COMPLETED))
            mailbox.finish_input(connection, place, taken.number, result)
        return taken

    monkeypatch.setattr(mailbox, "take_input", take_and_finish)
    with pytest.raises(AssertionError):
        await finish_cut_off_turn(cluster, work, frozen, nursery)


async def test_mutant_that_does_not_look_into_the_history(
    cluster, work, frozen, nursery, monkeypatch
):

    monkeypatch.setattr(AgentSession, "has_input", lambda session, input_id: False)
    with pytest.raises(AssertionError):
        await finish_cut_off_turn(cluster, work, frozen, nursery)


async def fill_hosts(cluster, nursery):
    """Check that placements side by side never exceed the room of a host."""
    placed, refused = [], []

    async def place():
        try:
            placed.append(await cluster.spawn(AgentSpec("echo")))
        except NoHostError:
            refused.append(1)

    for _ in range(2):
        await nursery.start(Host(cluster, [ECHO], max_agents=3).run)
    async with trio.open_nursery() as spawning:
        for _ in range(10):
            spawning.start_soon(place)
    assert (len(placed), len(refused)) == (6, 4)
    assert [each.agents for each in await cluster.hosts()] == [3, 3]


async def test_hosts_are_never_too_full(cluster, nursery):
    await fill_hosts(cluster, nursery)


async def test_mutant_that_places_without_looking_for_room(cluster, nursery, monkeypatch):
    mutants = [each.replace(b"agents < max_agents AND", b"") for each in places._PLACES]
    assert mutants[0] != places._PLACES[0]
    monkeypatch.setattr(places, "_PLACES", mutants)
    with pytest.raises(AssertionError):
        await fill_hosts(cluster, nursery)


async def name_one_input(cluster, nursery):
    """Check that an input's id names one content."""
    await nursery.start(Host(cluster, [ECHO]).run)
    agent = await cluster.spawn(AgentSpec("echo"))
    await agent.send_input("one", id="i1")
    await agent.send_input("one", id="i1")
    try:
        await agent.send_input("two", id="i1")
    except ValueError:
        return
    raise AssertionError("another input was taken under the id")


async def test_an_id_names_one_content(cluster, nursery):
    await name_one_input(cluster, nursery)


async def test_mutant_that_does_not_check_the_id_of_an_input(cluster, nursery, monkeypatch):
    store = mailbox.store_input

    def store_any(*args):
        status = store(*args)
        return "same" if status == "other" else status

    monkeypatch.setattr(mailbox, "store_input", store_any)
    with pytest.raises(AssertionError):
        await name_one_input(cluster, nursery)


async def read_over_a_takeover(cluster, work, frozen, nursery):
    """Check what a reader sees while an agent moves from a host that goes on for a while."""
    agent, first, second = await spawn_and_freeze(
        cluster, work, frozen, nursery, is_gone=False, **GOES_ON
    )
    read = []

    async def follow(task_status):
        async with agent.subscribe() as chunks:
            async for chunk in chunks:
                read.append(chunk)
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                if isinstance(chunk, Done) and chunk.input_id == "i2":
                    break
        over.set()

    over = trio.Event()
    with trio.fail_after(60):
        await nursery.start(follow)  # it has seen the turn begin on the first host
        await count_as_gone(cluster, first)
        await wait_host(agent, second)
        work.held["a"].set()  # whose turn ends now, and can't be saved
        await agent.ask("more", id="i2")
        await over.wait()
    ends = [(each.inputs, each.status) for each in read if isinstance(each, Done)]
    assert [(ids[-1], status) for ids, status in ends] == [("i1", "completed"), ("i2", "completed")]
    assert [each.missed for each in read if isinstance(each, Lagged)] == [None]


async def test_a_reader_sees_nothing_of_a_host_that_has_lost_its_agent(
    cluster, work, frozen, nursery
):
    await read_over_a_takeover(cluster, work, frozen, nursery)


async def test_mutant_that_goes_on_publishing(cluster, work, frozen, nursery, monkeypatch):
    monkeypatch.setattr(remote_chunks, "_FENCED", "")
    with pytest.raises(AssertionError):
        await read_over_a_takeover(cluster, work, frozen, nursery)


async def go_on_at_an_old_position(cluster, work, frozen, nursery):
    """Check that a position of before a takeover is told to be one, and nothing is skipped."""
    agent, first, _ = await spawn_and_freeze(
        cluster, work, frozen, nursery, is_gone=False, **GOES_ON
    )
    with trio.fail_after(60):
        async with agent.subscribe() as chunks:
            await anext(chunks)
            old = chunks.position
        await count_as_gone(cluster, first)
        await agent.answer("i1")
        await agent.ask("more", id="i2")
        read = []
        async with agent.subscribe(old) as chunks:
            async for chunk in chunks:
                read.append(chunk)
                if isinstance(chunk, Done) and chunk.input_id == "i2":
                    break
    assert read[0] == Lagged(None)
    assert ["i1" in each.inputs for each in read if isinstance(each, Done)] == [True, False]


async def test_an_old_position_is_told_to_be_one(cluster, work, frozen, nursery):
    await go_on_at_an_old_position(cluster, work, frozen, nursery)


async def test_mutant_whose_positions_have_no_epoch(cluster, work, frozen, nursery, monkeypatch):
    subscribe = AgentHandle.subscribe

    def subscribe_in_this_epoch(handle, replay="turn", answers=False):
        if isinstance(replay, tuple):
            replay = (subscribe(handle, "none").position[0], replay[1])
        return subscribe(handle, replay, answers)

    monkeypatch.setattr(AgentHandle, "subscribe", subscribe_in_this_epoch)
    with pytest.raises(AssertionError):
        await go_on_at_an_old_position(cluster, work, frozen, nursery)
