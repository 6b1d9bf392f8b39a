"""Where agents go: the least loaded host that has their type, their capabilities, and room."""

import pytest
import trio

from greenroom.core import ConfigurationError, SessionLockedError
from greenroom.distributed import AgentSpec, AgentType, Host, NoHostError
from greenroom.distributed.places import look as look_once
from tests.distributed.kinds import ECHO

GRADER = AgentType("grader", ECHO.make)


async def test_an_agent_goes_to_the_least_loaded_host_that_can_run_it(cluster, frozen):
    async with trio.open_nursery() as nursery:
        plain = await nursery.start(Host(cluster, [ECHO], max_agents=4).run)
        gifted = await nursery.start(Host(cluster, [ECHO], capabilities=["gpu", "gym"]).run)
        frozen.update({plain, gifted})  # a host that looks just then is passed over
        agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
        hosts = [(await agent.status()).host for agent in agents]
        assert sorted(hosts) == [plain, plain, gifted, gifted]
        wanting = await cluster.spawn(AgentSpec("echo", capabilities=("gpu",)))
        assert (await wanting.status()).host == gifted
        known = {each.id: each for each in await cluster.hosts()}
        assert (known[plain].agents, known[gifted].agents) == (2, 3)
        assert known[gifted].capabilities == ("gpu", "gym")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("spec", "missing", "told"),
    [
        (AgentSpec("poet"), "type", "echo, grader"),
        (AgentSpec("grader", capabilities=("gpu",)), "capabilities", "gpu"),
        (AgentSpec("echo", capabilities=("gpu", "gym")), "capabilities", "gym"),
        (AgentSpec("grader"), "room", "1 hosts"),
    ],
)
async def test_an_agent_that_no_host_can_run_is_refused_and_told_why(cluster, spec, missing, told):
    async with trio.open_nursery() as nursery:
        await nursery.start(Host(cluster, [ECHO], capabilities=["gpu"]).run)
        await nursery.start(Host(cluster, [GRADER], max_agents=1).run)
        await cluster.spawn(AgentSpec("grader"))
        with pytest.raises(NoHostError, match=told) as caught:
            await cluster.spawn(spec)
        assert caught.value.missing == missing
        assert caught.value.retryable
        nursery.cancel_scope.cancel()


async def test_placements_side_by_side_never_exceed_a_hosts_room(cluster):
    placed, refused = [], []

    async def place():
        try:
            placed.append(await cluster.spawn(AgentSpec("echo")))
        except NoHostError:
            refused.append(1)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            await nursery.start(Host(cluster, [ECHO], max_agents=5).run)
        async with trio.open_nursery() as spawning:
            for _ in range(16):
                spawning.start_soon(place)
        assert (len(placed), len(refused)) == (10, 6)
        assert [each.agents for each in await cluster.hosts()] == [5, 5]
        nursery.cancel_scope.cancel()


async def test_one_session_has_one_agent_whoever_asks(cluster, make_cluster):
    async with trio.open_nursery() as nursery, make_cluster() as other:
        await nursery.start(Host(cluster, [ECHO]).run)
        agent = await cluster.spawn(AgentSpec("echo"), session_id="mine")
        with pytest.raises(SessionLockedError, match="runs already"):
            await other.spawn(AgentSpec("echo"), session_id="mine")
        found = await other.get("mine")
        assert (found.session_id, found.agent_type) == ("mine", "echo")
        assert (await agent.ask("hello")).text == "hello"
        assert [each.text for each in await found.history()] == ["hello", "hello"]
        assert await other.get("yours") is None
        nursery.cancel_scope.cancel()


async def test_agents_are_listed_by_pages(cluster):
    async with trio.open_nursery() as nursery:
        await nursery.start(Host(cluster, [ECHO]).run)
        for each in "cab":
            await cluster.spawn(AgentSpec("echo"), session_id=each)
        first = await cluster.agents(limit=2)
        rest = await cluster.agents(after=first[-1].session_id, limit=2)
        assert [each.session_id for each in (*first, *rest)] == ["a", "b", "c"]
        with pytest.raises(ValueError, match="1 to 1,000"):
            await cluster.agents(limit=0)
        nursery.cancel_scope.cancel()


async def test_options_that_the_type_refuses_end_the_agent_and_say_so(cluster):
    async with trio.open_nursery() as nursery:
        await nursery.start(Host(cluster, [ECHO]).run)
        agent = await cluster.spawn(AgentSpec("echo", {"loud": True}))
        with trio.fail_after(60):
            outcome = await agent.wait()
        assert outcome.status == "crashed"
        assert "unknown options: {'loud'}" in str(outcome.error)
        again = await cluster.spawn(AgentSpec("echo"), session_id=agent.session_id)
        assert (await again.ask("so?")).text == "so?"
        nursery.cancel_scope.cancel()


async def test_what_can_not_be_a_spec_or_a_host_is_refused(cluster):
    with pytest.raises(ValueError, match="not a name"):
        AgentSpec("")
    with pytest.raises(ValueError, match="on_cut_off"):
        AgentSpec("echo", on_cut_off="perhaps")
    with pytest.raises(ValueError, match="workspace"):
        AgentSpec("echo", workspace="moon")
    with pytest.raises(ValueError, match="unattended"):
        AgentSpec("echo", unattended="suspend")
    for budget in ({"concurrency": 0}, {"money": 1}, {"cost": -1.0}):
        with pytest.raises(ValueError, match="budget"):
            AgentSpec("echo", budget=budget)
    assert AgentSpec("echo", budget={"tokens": 10, "cost": 0.5}).budget["cost"] == 0.5
    with pytest.raises(ConfigurationError, match="at least one type"):
        Host(cluster, [])
    with pytest.raises(ConfigurationError, match="another name"):
        Host(cluster, [ECHO, ECHO])
    with pytest.raises(ValueError, match="at least one agent"):
        Host(cluster, [ECHO], max_agents=0)


async def test_agents_of_a_host_that_is_gone_all_find_one_in_the_next_look_of_each(
    cluster, nursery, frozen
):
    numbers = [await nursery.start(Host(cluster, [ECHO]).run) for _ in range(3)]
    frozen.update(numbers)
    for _ in range(12):
        await cluster.spawn(AgentSpec("echo"))
    assert [each.agents for each in await cluster.hosts()] == [4, 4, 4]
    database = cluster.database
    query = "UPDATE hosts SET seen = seen - interval '1 hour' WHERE id = %s"
    await database.run(lambda each: each.execute(query, [numbers[2]]))
    query = "SELECT holder FROM hosts WHERE id = %s"
    for number in numbers[:2]:

        def look(connection, number=number):
            (holder,) = connection.execute(query, [number]).fetchone()
            return look_once(connection, database.rules, number, holder, sweeps=True, takes=True)

        found = await database.run(look)
        assert len(found.agents) == 6
    assert [each.agents for each in await cluster.hosts()] == [6, 6]
