"""Input: bounded, in order, nothing lost, and an out-of-band lane that takes no input's place."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Interrupt,
    MailboxFullError,
    Message,
    Shutdown,
    SubAgentResult,
    TextBlock,
    TurnError,
    UserInput,
)
from greenroom.core._internal import EndStatus
from greenroom.core.serde import InvalidJSONError
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits
from greenroom.runtime.mailbox import Mailbox
from greenroom.session import AgentSession, InMemoryStore


def new():
    return AgentSession.new("worker")


def small(**limits):
    return AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(**limits))


async def listener(agent, seen):
    async for message in agent.inputs():
        seen.append(message.text)


async def everything(agent, seen):
    while not seen or seen[-1] != Shutdown():
        seen.append(await agent.receive())


async def gated(agent, gate, seen):
    await gate.wait()
    await listener(agent, seen)


async def test_input_arrives_in_order(runtime):
    seen = []
    handle = runtime.spawn(new(), listener, seen)
    receipts = [await handle.send_input(str(n)) for n in range(10)]
    await wait_all_tasks_blocked()
    assert seen == [str(n) for n in range(10)]
    assert len({receipt.input_id for receipt in receipts}) == 10


async def test_what_was_an_input_is_a_message_of_the_same_id(runtime):
    async def boss(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                handle.send_input_nowait("and")
                await agent.step()
                agent.session.add_message(Message.assistant("done"))
                if message.text == "do":
                    agent.spawn(new(), listener, []).kill()

    handle = runtime.spawn(new(), boss)
    receipt = await handle.send_input("do")
    await wait_all_tasks_blocked()
    history = await handle.history()
    assert [message.text.partition("(")[0] for message in history] == [
        "do",
        "and",
        "done",
        "[The subagent worker ",
        "and",
        "done",
    ]
    assert history[0].id == receipt.input_id
    assert [message.id[:2] for message in history] == ["i-", "i-", "m-", "i-", "i-", "m-"]
    assert len({message.id for message in history}) == 6


async def test_a_receipt_says_whether_the_agent_was_waiting(runtime):
    gate = trio.Event()
    handle = runtime.spawn(new(), gated, gate, [])
    assert (await handle.send_input("a")).status == "queued"
    gate.set()
    await wait_all_tasks_blocked()
    assert handle.send_input_nowait("b").status == "delivered"
    await wait_all_tasks_blocked()
    assert (await handle.send_input("c")).status == "delivered"


async def test_a_full_mailbox_refuses_or_lets_wait_and_keeps_the_senders_order():
    seen, gate = [], trio.Event()
    async with small(mailbox=2) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(new(), gated, gate, seen)
        for text in "ab":
            handle.send_input_nowait(text)
        with pytest.raises(MailboxFullError):
            handle.send_input_nowait("x")
        for text in "cdef":
            nursery.start_soon(handle.send_input, text)
            await wait_all_tasks_blocked()
        gate.set()
        await wait_all_tasks_blocked()
        assert seen == list("abcdef")


async def test_nobody_overtakes_a_sender_that_was_promised_a_place():
    mailbox = Mailbox(1)
    mailbox.put_nowait(UserInput((TextBlock("a"),)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.put, UserInput((TextBlock("b"),)))
        await wait_all_tasks_blocked()
        assert mailbox.take_all()[0].text == "a"
        # The waiting sender has been woken and has not run yet.
        with pytest.raises(MailboxFullError):
            mailbox.put_nowait(UserInput((TextBlock("c"),)))
        assert (await mailbox.next_input()).text == "b"


async def test_those_who_wait_for_room_are_served_in_turn_and_before_all_others():
    for _ in range(20):  # trio runs what is woken at once in any order
        mailbox = Mailbox(2)
        for text in "ab":
            mailbox.put_nowait(UserInput((TextBlock(text),)))
        async with trio.open_nursery() as nursery:
            for text in "cd":
                nursery.start_soon(mailbox.put, UserInput((TextBlock(text),)))
                await wait_all_tasks_blocked()
            assert [item.text for item in mailbox.take_all()] == ["a", "b"]
            with pytest.raises(MailboxFullError):  # though neither has run yet
                mailbox.put_nowait(UserInput((TextBlock("e"),)))
        assert [item.text for item in mailbox.take_all()] == ["c", "d"]


async def test_a_sender_that_gives_up_leaves_nothing_behind():
    seen, gate = [], trio.Event()
    async with small(mailbox=1) as runtime:
        handle = runtime.spawn(new(), gated, gate, seen)
        await handle.send_input("a")
        with trio.move_on_after(1):
            await handle.send_input("never")
        gate.set()
        await handle.send_input("b")
        await wait_all_tasks_blocked()
        assert seen == ["a", "b"]


async def test_blocked_senders_are_told_of_a_shutdown():
    refused = []

    async def sender(handle):
        try:
            await handle.send_input("late")
        except AgentNotRunningError as error:
            refused.append(error)

    async with small(mailbox=1) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(new(), gated, trio.Event(), [])
        await handle.send_input("a")
        nursery.start_soon(sender, handle)
        nursery.start_soon(sender, handle)
        await wait_all_tasks_blocked()
        await handle.shutdown(grace=1)
        assert len(refused) == 2
    outcome = await handle.wait()
    assert [message.text for message in outcome.undelivered] == ["a"]


async def test_input_that_is_queued_at_a_shutdown_is_reported_and_not_delivered(runtime):
    seen, gate = [], trio.Event()
    handle = runtime.spawn(new(), gated, gate, seen)
    receipts = [await handle.send_input(text) for text in "ab"]
    with trio.move_on_after(0):
        await handle.shutdown()
    gate.set()
    outcome = await handle.wait()
    assert (seen, outcome.status) == ([], EndStatus.COMPLETED)
    assert [message.id for message in outcome.undelivered] == [r.input_id for r in receipts]


async def test_input_that_waits_can_be_withdrawn_and_makes_room(autojump_clock):
    seen = []

    async def worker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(message.text)
                await trio.sleep(1)

    async with small(mailbox=2) as runtime:
        handle = runtime.spawn(new(), worker)
        taken = await handle.send_input("taken")
        await wait_all_tasks_blocked()
        second, third = [await handle.send_input(text) for text in ("second", "third")]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.send_input, "fourth")
            await wait_all_tasks_blocked()
            ids = (third.input_id, taken.input_id, "unknown")
            assert await handle.withdraw_inputs(*ids) == (third.input_id,)
            assert await handle.withdraw_inputs(*ids) == ()
        await handle.interrupt()
        await trio.sleep(5)
        assert seen == ["taken", "second", "fourth"]
        assert await handle.withdraw_inputs(second.input_id) == ()


async def test_where_there_is_no_room_an_input_may_take_the_place_of_one_that_waits(autojump_clock):
    seen, gate, answers = [], trio.Event(), []

    async def ask(handle):
        answers.append(await handle.ask("asked"))

    async with small(mailbox=3) as runtime:
        handle = runtime.spawn(new(), gated, gate, seen)
        async with trio.open_nursery() as nursery:
            for text in "ab":
                assert not handle.send_input_nowait(text, instead_of=lambda _: True).replaced
            nursery.start_soon(ask, handle)
            await wait_all_tasks_blocked()
            nursery.start_soon(handle.send_input, "waits")
            await wait_all_tasks_blocked()
            with pytest.raises(MailboxFullError):
                handle.send_input_nowait("c", instead_of=lambda waiting: waiting.text == "waits")
            receipt = handle.send_input_nowait("c", instead_of=lambda each: each.text > "aa")
            second = handle.send_input_nowait("d", instead_of=lambda each: each.text == "asked")
            assert receipt.replaced != second.replaced != ""
            await wait_all_tasks_blocked()
            assert answers[0].error == "the input was withdrawn"
            gate.set()
        await wait_all_tasks_blocked()
        assert seen == ["a", "c", "d", "waits"]


async def test_ten_thousand_messages_from_many_senders_none_lost():
    seen = []

    async def loop(agent):
        async for message in agent.inputs():
            seen.append(message.text)
            if len(seen) % 7 == 0:
                await trio.sleep(0.001)
            if len(seen) % 11 == 0:
                agent.session.set_metadata("n", len(seen))

    async def sender(handle, name):
        for n in range(1000):
            await handle.send_input(f"{name} {n}")
            if n % 13 == 0:
                handle.interrupt_nowait()

    async with small(mailbox=8) as runtime:
        handle = runtime.spawn(new(), loop)
        async with trio.open_nursery() as nursery:
            for name in range(10):
                nursery.start_soon(sender, handle, name)
    outcome = await handle.wait()
    seen += [message.text for message in outcome.undelivered]
    assert len(seen) == len(set(seen)) == 10_000
    for name in range(10):
        mine = [text for text in seen if text.startswith(f"{name} ")]
        assert mine == [f"{name} {n}" for n in range(1000)]


async def test_receive_sees_an_idle_interrupt_and_one_shutdown(runtime):
    seen = []
    handle = runtime.spawn(new(), everything, seen)
    await handle.send_input("a")
    await wait_all_tasks_blocked()
    await handle.interrupt()
    await wait_all_tasks_blocked()
    await handle.shutdown()
    assert [type(message) for message in seen] == [UserInput, Interrupt, Shutdown]


async def test_an_interrupt_has_one_slot(runtime):
    seen = []
    handle = runtime.spawn(new(), everything, seen)
    for _ in range(3):
        handle.interrupt_nowait()
    await handle.shutdown()
    assert seen == [Interrupt(), Shutdown()]


async def test_nothing_follows_a_shutdown(runtime):
    seen = []

    async def stubborn(agent):
        while True:
            seen.append(await agent.receive())

    handle = runtime.spawn(new(), stubborn)
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.shutdown, 3)
        await wait_all_tasks_blocked()
        handle.interrupt_nowait()
    assert seen == [Shutdown()]
    assert (await handle.wait()).status is EndStatus.CANCELLED


async def test_an_interrupt_while_idle_ends_nothing(runtime):
    seen = []
    handle = runtime.spawn(new(), listener, seen)
    await handle.send_input("a")
    await wait_all_tasks_blocked()
    assert (await handle.interrupt()).stopped == ()
    await handle.send_input("b")
    await wait_all_tasks_blocked()
    assert seen == ["a", "b"]


async def test_an_old_interrupt_is_not_kept_for_later(runtime):
    seen, gate = [], trio.Event()

    async def loop(agent):
        await gate.wait()
        async for message in agent.inputs():
            seen.append(message.text)
            break
        seen.append(await agent.receive())

    handle = runtime.spawn(new(), loop)
    handle.interrupt_nowait()
    gate.set()
    await handle.send_input("a")
    await handle.send_input("b")
    await handle.wait()
    assert seen[0] == "a"
    assert isinstance(seen[1], UserInput)


async def test_blocks_are_taken_as_they_are_and_bad_ones_refused_at_the_door(runtime):
    seen = []
    handle = runtime.spawn(new(), listener, seen)
    await handle.send_input([TextBlock("a"), TextBlock("b")])
    for send in (handle.send_input, handle.ask):
        with pytest.raises(InvalidJSONError):
            await send([TextBlock("x", {"bad": object()})])
    with pytest.raises(InvalidJSONError):
        handle.send_input_nowait([TextBlock("x", {"bad": object()})])
    for no_block in (["a text"], [1]):
        with pytest.raises(TypeError, match="is not a block: write TextBlock"):
            await handle.send_input(no_block)
    await handle.send_input("lone \ud800 surrogate")
    await wait_all_tasks_blocked()
    assert seen == ["ab", "lone � surrogate"]


async def test_ask_of_an_agent_that_opens_no_turn_says_so(runtime):
    handle = runtime.spawn(new(), listener, [])
    with pytest.raises(TurnError, match="no turn"):
        await handle.ask("hello")


async def test_a_message_taken_inside_a_turn_belongs_to_that_turn(runtime):
    async def dialogue(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answer = await agent.receive()
                assert answer.text == "an answer"

    handle = runtime.spawn(new(), dialogue)
    await handle.send_input("a question")
    await wait_all_tasks_blocked()
    assert (await handle.ask("an answer")).status == "completed"


async def test_a_subagent_s_result_always_finds_room_and_is_counted():
    mailbox = Mailbox(1)
    mailbox.put_nowait(UserInput(()))
    mailbox.put_result(SubAgentResult("s-1", "worker", EndStatus.COMPLETED))
    assert (len(mailbox), mailbox.count(SubAgentResult)) == (2, 1)
    mailbox.close()
    assert mailbox.take_all() == []
    assert len(mailbox.drain()) == 2


async def test_senders_wait_while_results_fill_the_mailbox_beyond_its_limit():
    mailbox = Mailbox(1)
    mailbox.put_nowait(UserInput((TextBlock("a"),)))
    for _ in range(2):
        mailbox.put_result(SubAgentResult("s-1", "worker", EndStatus.COMPLETED))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.put, UserInput((TextBlock("b"),)))
        await wait_all_tasks_blocked()
        for left in (2, 1):
            await mailbox.next_input()
            assert len(mailbox) == left
            await wait_all_tasks_blocked()
        await mailbox.next_input()
        assert (await mailbox.next_input()).text == "b"
