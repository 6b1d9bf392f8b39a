"""Agents of a cluster as agents here: `remote(agent)` tells, asks and stops what they do.

`GREENROOM_HOST_TURNS` is how many random turns are compared with those of an agent here.
"""

import os
import random
from contextlib import asynccontextmanager

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, ConfigurationError, InMemoryStore
from greenroom.core import Done, Lagged
from greenroom.distributed import AgentSpec, AgentType, Host
from greenroom.interop import remote
from tests.distributed.kinds import (
    ECHO,
    asked,
    count_as_gone,
    spawn_and_freeze,
    wait_for,
    wait_host,
)
from tests.distributed.test_api import CONFIRMING, WAITING, read_until_working
from tests.interop.serving.remotes import keep, plain
from tests.interop.serving.test_remote import Person, make_turns, make_twins, run_here

TURNS = int(os.environ.get("GREENROOM_HOST_TURNS", "6"))
SEED = int(os.environ.get("GREENROOM_HOST_SEED", "43"))


@asynccontextmanager
async def spawn_here(function, **options):
    """Run an agent here, with a reader of its chunks; yield its handle and what is told."""
    chunks = []
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("far"), function, **options)

        async def read(task_status):
            async with handle.subscribe("all", answers=True) as reader:
                task_status.started()
                await keep(reader, chunks)

        await nursery.start(read)
        with trio.fail_after(60 + TURNS):
            yield handle, chunks
        nursery.cancel_scope.cancel()


async def test_turns_of_an_agent_on_a_host_are_told_here(cluster, nursery):
    await nursery.start(Host(cluster, [ECHO]).run)
    far = await cluster.spawn(AgentSpec("echo", {"prefix": "> "}))
    async with spawn_here(remote(far)) as (handle, chunks):
        results = [await handle.ask(word) for word in ("one", "two")]
        assert [(str(each.status), each.text) for each in results] == [
            ("completed", "> one"),
            ("completed", "> two"),
        ]
        assert await asked(far) == ["one", "two"]
        assert await handle.history() == await far.history()
        assert sum(isinstance(each, Done) for each in chunks) == 2


async def test_a_question_is_asked_here_with_the_machine_and_its_answer_goes_there(
    cluster, nursery
):
    await nursery.start(Host(cluster, [CONFIRMING], name="box").run)
    far = await cluster.spawn(AgentSpec("confirming"))
    async with spawn_here(remote(far)) as (handle, _):
        receipt = await handle.send_input("it")
        (request,) = await wait_for(handle.pending)
        assert (request.action, request.host) == ("do it", "box")
        assert request.cwd
        assert await handle.respond_permission(request.request_id, "deny", message="not today")
        assert (await handle.answer(receipt)).text == "deny: not today"


async def test_an_interrupt_here_has_returned_when_the_turn_there_is_gone(cluster, nursery):
    await nursery.start(Host(cluster, [WAITING]).run)
    far = await cluster.spawn(AgentSpec("waiting"))
    async with spawn_here(remote(far)) as (handle, _):
        receipt = await handle.send_input("go")
        async with handle.subscribe() as reader:
            await read_until_working(reader)
        report = await handle.interrupt(grace=5)
        assert report.abandoned == ()
        assert (await handle.answer(receipt)).status == "interrupted"
        assert (await far.status()).queued == 0


async def test_an_input_that_waits_there_is_taken_back_by_an_interrupt_here(cluster, nursery):
    await nursery.start(Host(cluster, [WAITING]).run)
    far = await cluster.spawn(AgentSpec("waiting"))
    async with far.subscribe() as chunks, spawn_here(remote(far)) as (handle, _):
        first = await far.send_input("of somebody else")
        await read_until_working(chunks)
        receipt = await handle.send_input("mine", id="mine")

        async def is_queued():
            return (await far.status()).queued == 2

        await wait_for(is_queued)
        await handle.interrupt(grace=5)
        assert (await handle.answer(receipt)).status == "interrupted"
        assert (await far.answer("mine")).status == "interrupted"
        assert not await far._links.is_answered(far.session_id, first.input_id)
        await far.shutdown(0.0)


@pytest.mark.parametrize("on_cut_off", ["continue", "ask"])
async def test_a_turn_here_outlives_the_host_that_does_it(
    cluster, work, frozen, nursery, on_cut_off
):
    options = {"workspace": "shared", "on_cut_off": on_cut_off}
    far, first, second = await spawn_and_freeze(
        cluster, work, frozen, nursery, is_gone=False, **options
    )
    work.held["a"].set()
    await far.answer("i1")
    work.hold("a")
    async with spawn_here(remote(far)) as (handle, chunks):
        receipt = await handle.send_input("more", id="i2")
        async with handle.subscribe() as reader:
            async for chunk in reader:
                if getattr(chunk, "input_id", "") == "i2":
                    break
        await work.wait(2)
        await count_as_gone(cluster, first)
        await wait_host(far, second)
        if on_cut_off == "ask":
            (request,) = await wait_for(handle.pending)
            assert "cut off" in request.action
            assert await handle.respond_permission(request.request_id, "allow")
        result = await handle.answer(receipt)
        assert (str(result.status), result.text) == ("completed", "done by b")
        assert [each.missed for each in chunks if isinstance(each, Lagged)] in ([None], [])
    assert await asked(far) == ["go", "more"]


async def test_random_turns_tell_the_same_as_those_of_an_agent_here(cluster, nursery):
    (local, at_home), (far, away) = make_twins(make_turns(random.Random(SEED), TURNS))
    expected, chunks, history = await run_here(local, at_home, TURNS)
    await nursery.start(Host(cluster, [AgentType("scripted", lambda spec: (far, ()))]).run)
    there = await cluster.spawn(AgentSpec("scripted"))
    async with spawn_here(remote(there)) as (handle, told):
        person = Person(handle, away, lambda: True)
        assert await person.ask_all(TURNS) == expected
        assert person.interrupts == at_home.ended == away.ended > 0
        assert [each.text for each in await there.history()] == [each.text for each in history]
        assert plain(told) == plain(chunks)


async def test_what_remote_does_not_need_is_refused(cluster, nursery):
    await nursery.start(Host(cluster, [ECHO]).run)
    far = await cluster.spawn(AgentSpec("echo"))
    with pytest.raises(ConfigurationError, match="needs no token"):
        remote(far, token="t")
    assert "in the session" in repr(remote(far))
