"""Agents elsewhere: what is told, asked and answered here is what is there."""

import os
import random
from zlib import crc32

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, ConfigurationError, InMemoryStore, tool
from greenroom.core import (
    AgentContext,
    Custom,
    Message,
    PermissionRequest,
    SubAgentOutput,
    TextBlock,
    TextDelta,
    ToolProgress,
    TurnStart,
)
from greenroom.interop import RemoteError, RemoteLostError, ServerLimits, remote, remote_server
from greenroom.interop.remote_server import RemoteServer
from greenroom.runtime import RuntimeLimits
from greenroom.runtime._internal import calling_internals
from greenroom.testing import call
from tests.interop.serving.remotes import (
    Partition,
    Proxy,
    find_far,
    here,
    keep,
    plain,
    standing_between,
)
from tests.interop.serving.services import until
from tests.interop.serving.test_agui import agent, make_steps, run_child

TURNS = int(os.environ.get("GREENROOM_REMOTE_TURNS", "6"))
SEED = int(os.environ.get("GREENROOM_REMOTE_SEED", "41"))


async def test_a_turn_is_told_here_as_it_is_there(serve):
    async with serve() as service, here(service.link) as (handle, chunks):
        result = await handle.ask("hello")
        assert (str(result.status), result.text) == ("completed", "hello")
        assert (await handle.ask("again")).text == "again"
        told = "".join(each.text for each in chunks if isinstance(each, TextDelta))
        assert told == "helloagain"
        far = find_far(service, "echo")
        assert [each.text for each in await far.history()] == ["hello"] * 2 + ["again"] * 2
        assert await handle.history() == await far.history()
        starts = [each for each in chunks if isinstance(each, TurnStart)]
        assert [each.text for each in starts] == ["hello", "again"]


async def test_a_question_shows_the_machine_and_its_answer_goes_back(serve):
    async with serve() as service, here(service.link, agent="asker") as (handle, chunks):
        receipt = await handle.send_input("go")

        async def find():
            return await handle.pending()

        (request,) = await until(find)
        assert request.host == f"{service.host}:{service.port}"
        assert await handle.respond_permission(request.request_id, "allow", message="fine")
        assert (await handle.answer(receipt)).text == "allow: fine by ann"
        assert sum(isinstance(each, PermissionRequest) for each in chunks) == 1


async def test_a_question_that_is_answered_there_is_asked_here_no_more(serve):
    async with serve() as service, here(service.link, agent="asker") as (handle, _):
        receipt = await handle.send_input("go")

        async def find():
            return await handle.pending()

        await until(find)
        far = find_far(service, "asker")
        (asked,) = await far.pending()
        await far.respond_permission(asked.request_id, "deny", message="no", by="bob")
        assert (await handle.answer(receipt)).text == "deny: no by bob"
        assert await handle.pending() == ()


async def test_an_interrupt_has_returned_when_the_far_agent_has_stopped(serve):
    stopped = []

    async def slow(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await agent.send(TextDelta("working"))
                    await trio.sleep_forever()
                finally:
                    stopped.append(message.text)

    agents = {"slow": slow}
    async with serve(agents=agents) as service, here(service.link) as (handle, chunks):
        receipt = await handle.send_input("go")

        async def is_told():
            return any(isinstance(each, TextDelta) for each in chunks)

        await until(is_told)
        report = await handle.interrupt(grace=5)
        assert (stopped, report.abandoned) == (["go"], ())
        assert str((await handle.answer(receipt)).status) == "interrupted"
        receipt = await handle.send_input("more")
        await until(lambda: is_processing(service))
        await handle.interrupt(grace=5)
        assert stopped == ["go", "more"]


async def is_processing(service):
    return find_far(service, "slow").state.kind == "processing"


async def test_cut_at_random_bytes_nothing_is_told_twice_or_missed(serve):
    order = random.Random(SEED)
    text = "".join(order.choice("abcdef é") for _ in range(400 if TURNS > 6 else 150))
    async with serve() as service, trio.open_nursery() as nursery:
        proxy = Proxy(service, order)
        link = await nursery.start(proxy.serve)
        service.server._guard._hosts.add("127.0.0.1")
        async with here(link) as (handle, chunks):
            for _ in range(2):
                chunks.clear()
                assert (await handle.ask(text)).text == text
                told = "".join(each.text for each in chunks if isinstance(each, TextDelta))
                assert told == text
            assert proxy.cuts > 5
            far = find_far(service, "echo")
            said = [each for each in await far.history() if each.role == "user"]
            assert [each.text for each in said] == [text] * 2  # each input was taken once
        nursery.cancel_scope.cancel()


async def test_a_server_that_is_lost_fails_the_turn_and_a_later_one_works(serve, monkeypatch):
    monkeypatch.setattr(remote_server, "LOST", 0.3)
    async with serve() as service, trio.open_nursery() as nursery:
        proxy = Proxy(service, random.Random(SEED))
        link = await nursery.start(proxy.serve)
        async with here(link) as (handle, _):
            proxy.is_open = False
            result = await handle.ask("hello")
            assert (str(result.status), result.kind) == ("failed", "RemoteLostError")
            proxy.is_open = True
            assert (await handle.ask("hello")).text == "hello"
        nursery.cancel_scope.cancel()


async def test_a_caller_that_is_resumed_finds_the_far_session_again(serve):
    own = AgentSession.new("far", store=InMemoryStore())
    async with serve() as service:
        async with here(service.link, own=own) as (handle, _):
            await handle.ask("one")
        again = await AgentSession.load(own.session_id, store=own.store)
        async with here(service.link, own=again) as (handle, _):
            assert [each.text for each in await handle.history()] == ["one", "one"]
            await handle.ask("two")
        async with service.client() as client:
            (listed,) = (await client.get("/api/sessions")).json()["sessions"]
            shown = (await client.get(f"/api/sessions/{listed['id']}")).json()
        said = [each["content"][0]["text"] for each in shown["messages"]]
        assert said == ["one", "one", "two", "two"]


@pytest.mark.parametrize("target", ["", "host", "ftp://host", "http://", "http://a:b@host"])
def test_what_is_no_address_is_refused(target):
    with pytest.raises(ConfigurationError):
        remote(target)


async def test_an_answer_that_makes_no_sense_is_an_error(serve):
    async def lie(stream):
        await stream.receive_some()
        await stream.send_all(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\n{}"
        )

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, lie, listeners)
        server = RemoteServer(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}", "secret")
        with pytest.raises(RemoteError) as caught:
            await server.check()
        assert not isinstance(caught.value, RemoteLostError)
        assert "secret" not in str(caught.value)
        await server.aclose()
        nursery.cancel_scope.cancel()


class Stalls:
    """A tool that never ends, by itself or in a subagent, and how many of its calls are alive."""

    def __init__(self):
        self.alive = self.ended = 0

    async def stall(self, context: AgentContext, below: bool = False) -> str:
        """Stall."""
        if below:
            handle = calling_internals().spawn(AgentSession.new("stalled"), self.stall_below)
            return (await handle.ask("go")).text
        context.progress("stalled")
        return await self.sleep()

    async def stall_below(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(Custom("stalled", {}, "stalled"))
                await self.sleep()

    async def sleep(self):
        self.alive += 1
        try:
            await trio.sleep_forever()
        finally:
            self.alive -= 1
            self.ended += 1


def make_turns(order, turns=TURNS):
    """Make the steps of turns, some of which stall or ask until they are interrupted."""
    steps = []
    for _ in range(turns):
        if order.random() < 0.4:
            steps.append([TextBlock("now: "), call("stall", below=order.random() < 0.5)])
        steps += make_steps(order)
    return steps


class Person:
    """Answers by what is asked, now and then late, and interrupts what stalls."""

    def __init__(self, handle, stalls, is_idle):
        self.handle, self.stalls, self.is_idle, self.interrupts = handle, stalls, is_idle, 0

    async def run(self, task_status):
        async with self.handle.subscribe("none", answers=True) as chunks:
            task_status.started()
            async for chunk in chunks:
                said = chunk
                while isinstance(said, SubAgentOutput):
                    said = said.chunk
                if isinstance(said, PermissionRequest):
                    await self.answer(said)
                elif isinstance(said, ToolProgress) or getattr(said, "kind", "") == "stalled":
                    await self.interrupt()

    async def answer(self, request):
        """Decide by what it is about, so that it is the same whatever its order."""
        number = crc32(request.tool_use_id.encode())
        for _ in range(number % 50):
            await trio.lowlevel.checkpoint()  # a person who is slow
        decision = "allow" if number % 2 or request.tool_name == "stall" else "deny"
        await self.handle.respond_permission(request.request_id, decision, by="ann")

    async def interrupt(self):
        self.interrupts += 1
        report = await self.handle.interrupt(grace=10)
        assert report.abandoned == ()
        assert self.stalls.alive == 0
        assert self.is_idle()

    async def ask_all(self, turns=TURNS):
        """Run turns, and return their results."""
        found = []
        async with trio.open_nursery() as nursery:
            await nursery.start(self.run)
            for _ in range(turns):
                result = await self.handle.ask("go")
                found.append((result.status, result.text, result.stop_reason, result.error))
            nursery.cancel_scope.cancel()
        return found


def make_twins(steps):
    """Return an agent for here and one for elsewhere, each with what its stalling tool counts."""
    stalls = [Stalls(), Stalls()]
    twins = [
        agent(*steps, tools=[tool(run_child, name="child"), tool(each.stall, name="stall")])
        for each in stalls
    ]
    return zip(twins, stalls, strict=True)


async def run_here(function, stalls, turns=TURNS):
    """Run turns of an agent here; return their results, what was told, and the conversation."""
    chunks = []
    limits = RuntimeLimits(ring_chunks=100_000)
    async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:
        handle = runtime.spawn(AgentSession.new("scripted"), function)
        async with handle.subscribe("all") as reader, trio.open_nursery() as nursery:
            nursery.start_soon(keep, reader, chunks)
            person = Person(handle, stalls, lambda: handle.state.kind == "idle")
            results = await person.ask_all(turns)
            nursery.cancel_scope.cancel()
        return results, chunks, await handle.history()


async def test_random_turns_are_told_as_those_of_a_local_agent(serve):
    (local, at_home), (far, away) = make_twins(make_turns(random.Random(SEED)))
    expected, chunks, history = await run_here(local, at_home)
    limits = RuntimeLimits(ring_chunks=100_000)
    options = {"runtime_options": {"limits": limits}, "seconds": 600}
    async with (
        serve(agents={"scripted": far}, **options) as service,
        here(service.link) as (handle, told),
    ):
        person = Person(handle, away, lambda: find_far(service, "scripted").state.kind == "idle")
        assert await person.ask_all() == expected
        assert person.interrupts == at_home.ended == away.ended > 0
        there = find_far(service, "scripted")
        assert [each.text for each in await there.history()] == [each.text for each in history]
        assert plain(told) == plain(chunks)


async def test_agents_that_forward_to_each_other_end_after_eight(serve):
    async def loop(agent):
        await remote(links[0], agent="loop", token="token-of-ann")(agent)

    links = []
    async with serve(agents={"loop": loop}) as service:
        links.append(service.link)
        async with here(service.link) as (handle, _):
            result = await handle.ask("go")
        assert (str(result.status), result.kind) == ("failed", "RemoteError")
        assert "8 agents elsewhere forward to each other" in result.error
        async with service.client() as client:
            made = (await client.get("/api/sessions?limit=50")).json()["sessions"]
        assert len(made) == 8


async def test_a_session_that_forwards_is_in_no_list(serve):
    own = AgentSession.new("far", store=InMemoryStore())
    async with serve() as service, here(service.link, own=own) as (handle, _):
        await handle.ask("hello")
    assert (await own.store.list_page(archived=False)).sessions == ()
    assert [each.session_id for each in await own.store.list_all()] == [own.session_id]


async def test_a_far_subagent_is_shown_by_a_handle_of_its_own(serve):
    far = agent(call("child", text="go"), "Done.", tools=[tool(run_child, name="child")])
    async with serve(agents={"scripted": far}) as service, here(service.link) as (handle, _):
        assert await handle.history() == ()  # there is no session yet
        async with trio.open_nursery() as nursery:
            await nursery.start(Person(handle, Stalls(), bool).run)
            await handle.ask("go")
            nursery.cancel_scope.cancel()
        (below,) = await handle.children()
        async with here(service.link, session=below) as (child, _):
            assert [each.text for each in await child.history()] == ["go", "deny"]
            assert await child.children() == ()
        await handle.shutdown()
        assert len(await handle.history()) == 4  # also when its connections are closed


async def test_a_stream_that_breaks_after_a_long_silence_is_opened_again(serve, monkeypatch):
    monkeypatch.setattr(remote_server, "LOST", 0.6)
    go_on = trio.Event()

    async def quiet(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("working"))
                await go_on.wait()
                agent.session.add_message(Message.assistant("done"))

    limits = ServerLimits(heartbeat=0.05)
    async with serve(agents={"quiet": quiet}, limits=limits) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, here(link) as (handle, chunks):
            receipt = await handle.send_input("go")
            begun = trio.current_time()

            async def is_later():
                return trio.current_time() - begun > 1

            await until(is_later)  # longer than it is tried
            parted.begin("cut", 0.05)
            go_on.set()
            assert (await handle.answer(receipt)).text == "done"
            assert not any(isinstance(each, Custom) for each in chunks)  # it was short
