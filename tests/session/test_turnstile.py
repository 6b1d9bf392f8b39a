"""Saves, opens and closes of one session happen one after the other, in order."""

import signal

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from greenroom.core import Message
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session.turnstile import Turnstile


async def test_who_is_alone_passes_without_a_checkpoint():
    turnstile = Turnstile()
    for _ in range(3):
        with assert_no_checkpoints():
            await turnstile.enter()
        turnstile.leave()


async def test_the_others_pass_one_at_a_time_in_the_order_in_which_they_came(nursery):
    turnstile, inside, passed = Turnstile(), [], []

    async def go(name):
        await turnstile.enter()
        inside.append(name)
        assert inside == [name]
        await trio.lowlevel.checkpoint()
        inside.remove(name)
        passed.append(name)
        turnstile.leave()

    await turnstile.enter()
    for name in "abc":
        nursery.start_soon(go, name)
        await wait_all_tasks_blocked()
    turnstile.leave()
    # It was handed over: who comes now can't overtake.
    await go("d")
    assert passed == list("abcd")


async def test_a_cancel_of_one_who_waits_lets_the_next_one_pass(nursery):
    turnstile, passed = Turnstile(), trio.Event()

    async def go():
        await turnstile.enter()
        turnstile.leave()
        passed.set()

    await turnstile.enter()
    scope = trio.CancelScope()

    async def give_up():
        with scope:
            await turnstile.enter()

    nursery.start_soon(give_up)
    await wait_all_tasks_blocked()
    nursery.start_soon(go)
    await wait_all_tasks_blocked()
    scope.cancel()
    await wait_all_tasks_blocked()
    turnstile.leave()
    await wait_all_tasks_blocked()
    assert passed.is_set()
    with assert_no_checkpoints():
        await turnstile.enter()


@pytest.mark.parametrize("method", ["save", "open", "close"])
def test_a_ctrl_c_behind_a_turnstile_leaves_it_free(monkeypatch, method):
    enter, session = Turnstile.enter, AgentSession.new("coder", store=InMemoryStore())

    async def interrupt(turnstile):
        await enter(turnstile)
        monkeypatch.setattr(Turnstile, "enter", enter)
        signal.raise_signal(signal.SIGINT)

    async def main():
        session.add_message(Message.user("hello"))
        monkeypatch.setattr(Turnstile, "enter", interrupt)
        await getattr(session, method)()
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert not session.journal._turnstile.is_taken
