"""Interrupts of agents elsewhere: they stop the far turn of their own input, and no other."""

from collections import Counter

import trio

from greenroom.core import Message, TextDelta
from tests.interop.serving.remotes import Partition, find_far, here, standing_between, told_text
from tests.interop.serving.services import until


class Slow:
    """Works at each input until it is let go, and knows what it is working at."""

    def __init__(self):
        self.alive, self.given, self.go_on = set(), Counter(), trio.Event()

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                self.given[message.text] += 1
                self.alive.add(message.text)
                try:
                    await agent.send(TextDelta(message.text))
                    await self.go_on.wait()
                finally:
                    self.alive.discard(message.text)
                agent.session.add_message(Message.assistant(f"did {message.text}"))


async def test_an_interrupt_that_cannot_reach_the_far_turn_says_so_and_is_made_up_for(serve):
    slow = Slow()
    async with serve(agents={"slow": slow}) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, here(link) as (handle, chunks):
            receipt = await handle.send_input("one")

            async def is_told():
                return told_text(chunks) == "one"

            await until(is_told)
            parted.begin("cut")
            report = await handle.interrupt(grace=0.2)
            host = link.removeprefix("http://")
            assert report.abandoned == (f"the turn at {host}",)
            assert str((await handle.answer(receipt)).status) == "interrupted"
            assert slow.alive == {"one"}
            parted.end()
            receipt = await handle.send_input("two")

            async def is_second():
                return slow.alive == {"two"}

            await until(is_second)
            slow.go_on.set()
            assert (await handle.answer(receipt)).text == "did two"
            far = find_far(service, "slow")
            assert "did one" not in [each.text for each in await far.history()]
            assert slow.given == {"one": 1, "two": 1}


async def test_an_interrupt_stops_the_turn_of_nobody_else(serve):
    slow = Slow()
    async with serve(agents={"slow": slow}) as service:
        session = await service.create("slow", "theirs")
        async with here(service.link, session=session) as (handle, _):

            async def is_alive():
                return slow.alive

            await until(is_alive)
            receipt = await handle.send_input("mine")
            far = find_far(service, "slow")

            async def is_queued():
                return (await far.statistics()).mailbox

            await until(is_queued)
            assert not (await handle.interrupt(grace=5)).abandoned
            assert slow.alive == {"theirs"}
            assert str((await handle.answer(receipt)).status) == "interrupted"
            slow.go_on.set()

            async def is_idle():
                return far.state.kind == "idle"

            await until(is_idle)
            assert slow.given == {"theirs": 1}


async def test_an_input_that_comes_after_its_interrupt_is_refused(serve):
    async with serve() as service, service.client() as client:
        session = await service.create("echo")
        path = f"/api/sessions/{session}"
        body = {"input": "i-late", "grace": 1}
        assert (await client.post(f"{path}/interrupt", json=body)).status_code == 200
        body = {"content": "hello", "id": "i-late"}
        assert (await client.post(f"{path}/input", json=body)).status_code == 409
        assert (await client.get(path)).json()["messages"] == []


async def test_an_interrupt_after_a_step_lets_the_far_turn_end_its_step(serve):
    gates = [trio.Event() for _ in range(4)]

    async def stepper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for number, gate in enumerate(gates):
                    await agent.step()
                    await agent.send(TextDelta(str(number)))
                    await gate.wait()
                    agent.session.add_message(Message.assistant(f"step {number}"))

    async with (
        serve(agents={"stepper": stepper}) as service,
        here(service.link) as (handle, chunks),
    ):
        receipt = await handle.send_input("go")

        async def is_told(text):
            return told_text(chunks) == text

        async def is_ordered(handle):
            return handle._actor.turns.current.interruption.is_ordered

        await until(lambda: is_told("0"))
        reports = []
        async with trio.open_nursery() as nursery:

            async def interrupt():
                reports.append(await handle.interrupt("after_step"))

            nursery.start_soon(interrupt)
            await until(lambda: is_ordered(handle))
            gates[0].set()  # the next chunk passes the order on
            await until(lambda: is_told("01"))
            far = find_far(service, "stepper")
            await until(lambda: is_ordered(far))
            gates[1].set()
        assert told_text(chunks) == "01"
        assert reports[0].abandoned == ()
        result = await handle.answer(receipt)
        assert (str(result.status), result.text) == ("interrupted", "step 1")
