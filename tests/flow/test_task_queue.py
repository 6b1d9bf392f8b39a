"""Requests to an agent: their order, their deadlines, and the ids of their replies."""

from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

import pytest
import trio
import trio.testing

from greenroom import AgentRuntime, AgentSession, ConfigurationError, InMemoryStore
from greenroom.core import MailboxFullError, utc_now
from greenroom.flow import AgentMessage, TaskQueue, TaskRequest


@asynccontextmanager
async def worker(seconds=10, **options):
    """Start an agent that takes some seconds for each task; yield its queue and what it saw."""
    seen = []

    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                request = AgentMessage.of(message)
                seen.append(request)
                await trio.sleep(seconds)
                if request.payload.description == "fail":
                    raise ValueError("broken")
                turn.set_result({"did": request.payload.task_id})

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("worker"), work)
        yield TaskQueue(handle, **options), seen
        await handle.shutdown(grace=0)


def due(seconds):
    return utc_now() + timedelta(seconds=seconds)


async def ask_all(queue, *tasks):
    replies = {}

    async def ask(task):
        replies[task.task_id] = await queue.request(task, sender="lead")

    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(ask, task)
            await trio.testing.wait_all_tasks_blocked()
    return replies


async def test_the_most_urgent_request_is_next(autojump_clock):
    async with worker() as (queue, seen):
        await ask_all(
            queue,
            TaskRequest("running", ""),
            TaskRequest("low", "", priority=-1),
            TaskRequest("later", ""),
            TaskRequest("last", ""),
            TaskRequest("due", "", deadline=due(1000)),
            TaskRequest("high", "", priority=5),
        )
    order = [each.payload.task_id for each in seen]
    assert order == ["running", "high", "due", "later", "last", "low"]


async def test_a_reply_has_the_correlation_id_of_its_request(autojump_clock):
    async with worker() as (queue, seen):
        replies = await ask_all(queue, TaskRequest("a", ""), TaskRequest("b", ""))
        named = await queue.request(TaskRequest("c", ""), correlation_id="c1")
    assert [replies[each.payload.task_id].correlation_id for each in seen[:2]] == [
        each.correlation_id for each in seen[:2]
    ]
    assert len({each.correlation_id for each in seen}) == 3
    reply = replies["a"]
    assert (reply.sender, reply.to, reply.kind) == ("worker", "lead", "task_response")
    assert (reply.payload.status, reply.payload.result) == ("success", {"did": "a"})
    assert named.correlation_id == seen[2].correlation_id == "c1"


async def test_a_request_that_is_late_is_interrupted_or_not_sent_at_all(autojump_clock):
    async with worker() as (queue, seen):
        start = trio.current_time()
        replies = await ask_all(
            queue,
            TaskRequest("slow", "", deadline=due(8)),
            TaskRequest("waits", "", deadline=due(5), priority=-1),
            TaskRequest("past", "", deadline=due(-60)),
            TaskRequest("fine", "", deadline=due(100)),
        )
        assert trio.current_time() - start == pytest.approx(18, abs=2)
        idle = await queue.request(TaskRequest("past", "", deadline=due(-60)))
        assert idle.payload.status == "failed"
    assert [each.payload.task_id for each in seen] == ["slow", "fine"]
    status = {id_: reply.payload.status for id_, reply in replies.items()}
    late = dict.fromkeys(("slow", "waits", "past"), "failed")
    assert status == {**late, "fine": "success"}
    assert "it was not done by 20" in replies["slow"].payload.result


async def test_an_agent_that_fails_fails_the_request(autojump_clock):
    async with worker() as (queue, _):
        reply = await queue.request(TaskRequest("a", "fail"))
        assert reply.payload.status == "failed"
        assert "worker did not answer" in reply.payload.result
        after = await queue.request(TaskRequest("b", ""))  # it is not running any more
        assert after.payload.status == "failed"


async def test_who_is_cancelled_leaves_the_queue(autojump_clock):
    async with worker() as (queue, seen):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.request, TaskRequest("a", ""))
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await queue.request(TaskRequest("b", "", priority=1))
            nursery.start_soon(queue.request, TaskRequest("c", ""))
        assert [each.payload.task_id for each in seen] == ["a", "c"]
        with trio.move_on_after(1):
            await queue.request(TaskRequest("d", ""))
        assert (await queue.request(TaskRequest("e", ""))).payload.status == "success"


async def test_a_queue_has_a_limit(autojump_clock):
    async with worker(max_waiting=1) as (queue, _), trio.open_nursery() as nursery:
        for name in ("running", "waits"):
            nursery.start_soon(partial(queue.request, TaskRequest(name, "")))
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(MailboxFullError, match="1 requests wait for worker"):
            await queue.request(TaskRequest("c", ""))
    with pytest.raises(ConfigurationError, match="max_waiting is 0"):
        TaskQueue(None, max_waiting=0)


def test_a_deadline_has_a_time_zone():
    with pytest.raises(ValueError, match="a deadline needs a time zone"):
        TaskRequest("a", "", deadline=datetime(2030, 1, 1))  # noqa: DTZ001
