"""`run(on_busy="queue")`: runs of one session, one behind the other."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom import Agent, AgentRuntime, AgentSession, FileStore, InMemoryStore
from greenroom.agents import session_queue
from greenroom.agents.session_queue import MOST_WAITING
from greenroom.core import ConfigurationError, SelfWaitError, SessionInUseError
from greenroom.testing import ScriptedProvider, call


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert not session_queue._queues


def slow(log, *script):
    async def work(name: str) -> str:
        """Work."""
        log.append(f"begin {name}")
        await trio.sleep(1)
        log.append(f"end {name}")
        return "done"

    return Agent(ScriptedProvider(*script), tools=[work])


def works(log, name):
    return slow(log, call("work", name=name), f"{name} is done.")


def run_jumping(function):
    trio.run(function, clock=MockClock(autojump_threshold=0))


def one_behind_the_other(names):
    return [f"{what} {name}" for name in names for what in ("begin", "end")]


@pytest.mark.parametrize("by", ["id", "object", "runtime"])
def test_runs_of_a_session_take_turns_in_order(by):
    async def main():
        store, log, texts = InMemoryStore(), [], []
        session = AgentSession.new("agent", session_id="shared", store=store)

        async def run(name, runtime):
            options = {"session": "shared", "store": store}
            if by != "id":
                options = {"session": session} | ({"runtime": runtime} if by == "runtime" else {})
            result = await works(log, name).run(f"do {name}", on_busy="queue", **options)
            texts.append(result.output)

        async with AgentRuntime(store=store) as runtime, trio.open_nursery() as nursery:
            for name in "abcd":
                nursery.start_soon(run, name, runtime)
                await wait_all_tasks_blocked(0.01)
        assert log == one_behind_the_other("abcd")
        assert texts == [f"{name} is done." for name in "abcd"]
        stored = await AgentSession.load("shared", store=store)
        inputs = [each.text for each in stored.history if each.text.startswith("do ")]
        assert inputs == ["do a", "do b", "do c", "do d"]

    run_jumping(main)


def test_two_objects_of_one_file_store_are_one_place(tmp_path):
    async def main():
        log = []

        async def run(name):
            store = FileStore(tmp_path)
            await works(log, name).run(name, session="shared", store=store, on_busy="queue")

        async with trio.open_nursery() as nursery:
            for name in "ab":
                nursery.start_soon(run, name)
                await trio.testing.wait_all_tasks_blocked(0.05)
        assert log == one_behind_the_other("ab")

    trio.run(main)


def test_by_default_a_busy_session_is_an_error_and_nobody_overtakes():
    async def main():
        store, log = InMemoryStore(), []

        async def run(name):
            await works(log, name).run(name, session="shared", store=store, on_busy="queue")

        async def refused():
            with pytest.raises(SessionInUseError, match="fork the session"):
                await works(log, "x").run("x", session="shared", store=store)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, "a")
            await wait_all_tasks_blocked(0.01)
            await refused()
            nursery.start_soon(run, "b")
            await wait_all_tasks_blocked(0.01)
            with pytest.raises(SessionInUseError, match="shared"):
                await works(log, "x").run("x", session="shared", store=store)
        assert log == one_behind_the_other("ab")

    run_jumping(main)


def test_at_most_16_wait():
    async def main():
        store, log, refused = InMemoryStore(), [], []

        async def run(number):
            try:
                await works(log, str(number)).run(
                    "go", session="shared", store=store, on_busy="queue"
                )
            except SessionInUseError as error:
                refused.append((number, error.session_id))

        async with trio.open_nursery() as nursery:
            for number in range(MOST_WAITING + 2):
                nursery.start_soon(run, number)
                await wait_all_tasks_blocked(0.001)
        assert refused == [(MOST_WAITING + 1, "shared")]
        assert log == one_behind_the_other(range(MOST_WAITING + 1))

    run_jumping(main)


def test_who_gives_up_or_fails_lets_the_next_one_in():
    async def main():
        store, log = InMemoryStore(), []
        options = {"session": "shared", "store": store, "on_busy": "queue"}

        async def run(agent, seconds=float("inf")):
            with trio.move_on_after(seconds):
                await agent.run("go", **options)

        async def crash(agent):
            with pytest.raises(ConfigurationError):
                await agent.run(None, **{**options, "answers": {"p-none": True}})

        async with trio.open_nursery() as nursery:
            for agent, seconds in ((works(log, "a"), 0.5), (works(log, "b"), 0.2)):
                nursery.start_soon(run, agent, seconds)
                await wait_all_tasks_blocked(0.01)
            nursery.start_soon(crash, works(log, "x"))
            await wait_all_tasks_blocked(0.01)
            nursery.start_soon(run, works(log, "c"))
        assert log == ["begin a", "begin c", "end c"]

    run_jumping(main)


def test_a_run_never_waits_for_the_run_that_it_is_part_of():
    async def main():
        store, raised = InMemoryStore(), []

        async def again(session: str) -> str:
            """Run again."""
            try:
                await Agent(ScriptedProvider("hi")).run("hi", session=session, on_busy="queue")
            except SelfWaitError as error:
                raised.append(session)
                return str(error)
            return "done"

        async def run(own, other):
            agent = Agent(ScriptedProvider(call("again", session=other), "Done."), tools=[again])
            await agent.run("go", session=own, store=store, on_busy="queue")

        await run("own", "own")
        assert raised == ["own"]
        async with trio.open_nursery() as nursery:  # each waits for the other's session
            nursery.start_soon(run, "a", "b")
            nursery.start_soon(run, "b", "a")
        assert len(raised) == 2

    run_jumping(main)


def test_it_is_error_or_queue():
    async def main():
        with pytest.raises(ConfigurationError, match="on_busy"):
            await Agent("offline:").run("hi", on_busy="wait")

    trio.run(main)
