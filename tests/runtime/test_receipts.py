"""Receipts: what each one promises, and that what has none is refused or reported."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import MailboxFullError, Message
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


class Agent:
    """An agent whose turns last until `gate` is set, and which keeps what it was told."""

    def __init__(self, runtime, *, steer=False, dialogue=False):
        self.gate = trio.Event()
        self.heard = []
        self.steer, self.dialogue = steer, dialogue
        self.handle = runtime.spawn(AgentSession.new("worker"), self.run)

    async def run(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=self.steer):
                self.heard.append(message.text)
                if self.dialogue:
                    self.heard.append((await agent.receive()).text)
                await self.gate.wait()
                await agent.step()
                agent.session.add_message(Message.assistant("done"))


async def test_delivered_where_the_agent_waits_and_queued_behind_that(runtime):
    agent = Agent(runtime)
    await wait_all_tasks_blocked()
    # The agent does not run in between: the first is handed over, the second is behind it.
    receipts = [agent.handle.send_input_nowait(text) for text in "ab"]
    assert [receipt.status for receipt in receipts] == ["delivered", "queued"]
    agent.gate.set()
    await wait_all_tasks_blocked()
    assert agent.heard == ["a", "b"]


async def test_of_senders_that_come_at_once_one_is_told_delivered(runtime):
    agent = Agent(runtime)
    await wait_all_tasks_blocked()
    statuses = []

    async def send():
        statuses.append((await agent.handle.send_input("x")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(send)
    assert sorted(statuses) == ["delivered"] + ["queued"] * 4
    agent.gate.set()
    await wait_all_tasks_blocked()
    assert agent.heard == ["x"] * 5


@pytest.mark.parametrize("steer", [False, True])
async def test_delivered_also_where_it_waits_inside_a_turn(runtime, steer):
    agent = Agent(runtime, steer=steer, dialogue=True)
    await agent.handle.send_input("question")
    await wait_all_tasks_blocked()
    assert (await agent.handle.send_input("answer")).status == "delivered"
    await wait_all_tasks_blocked()
    assert agent.heard == ["question", "answer"]


@pytest.mark.parametrize(("steer", "status"), [(False, "queued"), (True, "steered")])
async def test_during_a_turn_it_is_queued_or_steers_it(runtime, steer, status):
    agent = Agent(runtime, steer=steer)
    await agent.handle.send_input("a")
    await wait_all_tasks_blocked()
    receipts = [await agent.handle.send_input("b"), agent.handle.send_input_nowait("c")]
    assert [receipt.status for receipt in receipts] == [status] * 2
    agent.gate.set()
    await wait_all_tasks_blocked()
    assert agent.heard == (["a"] if steer else ["a", "b", "c"])
    texts = [m.text for m in await agent.handle.history() if m.role == "user"]
    assert texts == ["a", "b", "c"]


async def test_steered_after_the_last_step_gets_a_turn_of_its_own(runtime):
    last_step = trio.Event()

    async def run(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                await agent.step()
                await last_step.wait()

    handle = runtime.spawn(AgentSession.new("worker"), run)
    await handle.send_input("a")
    await wait_all_tasks_blocked()
    assert (await handle.send_input("late")).status == "steered"
    last_step.set()
    await wait_all_tasks_blocked()
    assert [message.text for message in await handle.history()] == ["a", "late"]
    assert (await handle.statistics()).turns == 2


async def test_steered_and_cut_off_by_the_end_it_is_undelivered(runtime):
    agent = Agent(runtime, steer=True)
    await agent.handle.send_input("a")
    await wait_all_tasks_blocked()
    receipt = await agent.handle.send_input("b")
    agent.handle.kill()
    outcome = await agent.handle.wait()
    assert [message.id for message in outcome.undelivered] == [receipt.input_id]


async def test_full_is_an_error_at_once_or_a_wait(runtime):
    limits = RuntimeLimits(mailbox=1)
    async with AgentRuntime(InMemoryStore(), limits) as small:
        agent = Agent(small)
        await agent.handle.send_input("a")
        await wait_all_tasks_blocked()
        agent.handle.send_input_nowait("b")
        with pytest.raises(MailboxFullError, match="holds 1 inputs"):
            agent.handle.send_input_nowait("c")
        with trio.move_on_after(1) as scope:
            await agent.handle.send_input("given up")
        assert scope.cancelled_caught
        agent.gate.set()
        assert (await agent.handle.send_input("d")).status in {"queued", "delivered"}
        await wait_all_tasks_blocked()
        assert agent.heard == ["a", "b", "d"]


async def test_undeliverable_is_an_error_from_the_shutdown_on(runtime):
    agent = Agent(runtime)
    await agent.handle.send_input("a")
    await wait_all_tasks_blocked()
    queued = await agent.handle.send_input("b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.handle.shutdown)
        await wait_all_tasks_blocked()
        with pytest.raises(AgentNotRunningError, match="shutting down"):
            await agent.handle.send_input("c")
        agent.gate.set()
    outcome = await agent.handle.wait()
    assert [message.id for message in outcome.undelivered] == [queued.input_id]
    with pytest.raises(AgentNotRunningError, match="has ended") as raised:
        agent.handle.send_input_nowait("d")
    assert raised.value.outcome is outcome


async def test_what_could_not_be_delivered_because_the_agent_never_began_is_reported(runtime):
    agent = Agent(runtime)
    receipt = agent.handle.send_input_nowait("early")
    assert receipt.status == "queued"
    agent.handle.kill()
    outcome = await agent.handle.wait()
    assert [message.id for message in outcome.undelivered] == [receipt.input_id]
    assert agent.heard == []
