"""Agents elsewhere that speak A2A, on the SDK of its makers."""

from contextlib import asynccontextmanager

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import Custom, Message, PermissionRequest, TextComplete
from greenroom.interop import A2AServer, RemoteError, remote
from greenroom.interop.a2a_peer import A2APeer
from greenroom.interop.remote_depth import count_remotes
from greenroom.testing import ScriptedProvider
from tests.interop.serving.a2a_sdk_server import SdkServer
from tests.interop.serving.services import until
from tests.interop.serving.test_remote import here


@pytest.fixture(scope="module", params=[True, False], ids=["streams", "polls"])
def far(request):
    with SdkServer(streaming=request.param) as server:
        yield server


@asynccontextmanager
async def talk(link):
    """Run a forwarding agent that has a person, for at most a minute."""
    with trio.fail_after(60):
        async with here(link) as found:
            yield found


async def wait_question(handle):
    return (await until(handle.pending))[0]


async def test_a_turn_and_the_next_one_in_the_same_context(far):
    async with talk(far.link) as (handle, chunks):
        result = await handle.ask("echo hello")
        assert (str(result.status), result.text) == ("completed", "echo hello")
        assert (await handle.ask("message hi")).text == "hi"
        contexts = {context for context, _ in far.agent.said[-2:]}
        assert len(contexts) == 1

        async def is_told():
            told = [each.text for each in chunks if isinstance(each, TextComplete)]
            return [each for each in told if each != "on it"] == ["echo hello", "hi"]

        await until(is_told)
        assert await handle.history() == ()
    assert set(far.agent.tokens) == {"Bearer token-of-ann"}


async def test_what_is_made_is_kept_here_and_is_the_reply_where_there_is_no_other(far):
    async with talk(far.link) as (handle, chunks):
        assert (await handle.ask("draw two")).text == "one two"

        async def find_made():
            return [each for each in chunks if isinstance(each, Custom)]

        (made,) = await until(find_made)
        assert (made.kind, made.data["name"]) == ("artifact", "a_b.txt")


async def test_a_question_is_asked_here_and_its_answer_goes_on_with_the_task(far):
    async with talk(far.link) as (handle, chunks):
        receipt = await handle.send_input("ask colour")
        request = await wait_question(handle)
        assert (request.tool_name, request.action) == ("obedient", "Which colour?")
        assert request.host in far.link
        await handle.respond_permission(request.request_id, "allow", message="echo red")
        assert (await handle.answer(receipt)).text == "echo red"
        receipt = await handle.send_input("ask size")
        request = await wait_question(handle)
        await handle.respond_permission(request.request_id, "deny")
        assert "declines" in (await handle.answer(receipt)).text
        assert sum(isinstance(each, PermissionRequest) for each in chunks) == 2


async def test_a_task_that_fails_there_fails_here(far):
    async with talk(far.link) as (handle, _):
        with pytest.raises(RemoteError, match="failed: no luck"):
            await ask(handle, "fail luck")
        with pytest.raises(RemoteError, match="log in first"):
            await ask(handle, "authorize me")
        assert (await handle.ask("echo on")).text == "echo on"


async def ask(handle, text):
    result = await handle.ask(text)
    assert str(result.status) == "failed"
    assert result.kind == "RemoteError"
    raise RemoteError(result.error)


async def test_an_interrupt_has_returned_when_the_task_has_ended_there(far):
    async with talk(far.link) as (handle, _):
        receipt = await handle.send_input("wait")

        async def is_running():
            return far.agent.running == 1

        await until(is_running)
        report = await handle.interrupt(grace=5)
        assert report.abandoned == ()

        async def has_stopped():  # which the SDK's server says a moment before
            return far.agent.running == 0

        await until(has_stopped)
        assert str((await handle.answer(receipt)).status) == "interrupted"
        assert (await handle.ask("echo on")).text == "echo on"


@pytest.mark.parametrize("refused", ["CancelTask", "every request"])
async def test_an_interrupt_names_a_task_that_could_not_be_stopped(monkeypatch, refused):
    call = A2APeer.call

    async def refuse(peer, method, *rest):
        if refused in (method, "every request"):
            raise RemoteError("it is busy")
        return await call(peer, method, *rest)

    with SdkServer() as far:
        async with talk(far.link) as (handle, _):
            receipt = await handle.send_input("wait")

            async def is_running():
                return far.agent.running == 1

            await until(is_running)
            monkeypatch.setattr(A2APeer, "call", refuse)
            report = await handle.interrupt(grace=5)
            assert report.abandoned == (f"the task at {far.link.partition('//')[2]}",)
            assert str((await handle.answer(receipt)).status) == "interrupted"


async def test_a_resumed_agent_goes_on_in_the_same_context(far):
    store = InMemoryStore()
    async with AgentRuntime(store) as runtime:
        session = AgentSession.new("far")
        await runtime.spawn(session, remote(far.link)).ask("echo one")
    async with AgentRuntime(store) as runtime:
        session = await AgentSession.load(session.session_id, store=store)
        await runtime.spawn(session, remote(far.link)).ask("echo two")
    assert (await store.list_page(archived=False)).sessions == ()
    one, two = far.agent.said[-2:]
    assert (one[1], two[1], one[0]) == ("echo one", "echo two", two[0])


async def test_our_own_server_is_spoken_to_by_a2a_at_the_path_of_an_agent(serve):
    async with serve(a2a=True) as service, talk(f"{service.link}/a2a/asker") as (handle, _):
        receipt = await handle.send_input("go")
        request = await wait_question(handle)
        assert request.action == "deploy it"
        assert request.details.startswith("in /")
        await handle.respond_permission(request.request_id, "allow", message="allow")
        assert (await handle.answer(receipt)).text == "allow:  by ann"


async def test_an_agent_without_a_card_or_with_a_name_is_refused(far):
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("far"), remote(f"{far.link}/nobody"))
        with pytest.raises(RemoteError, match="answers 404"):
            await ask(handle, "echo x")
        handle = runtime.spawn(AgentSession.new("far"), remote(far.link, agent="x"))
        with pytest.raises(RemoteError, match="not a Greenroom server"):
            await ask(handle, "echo x")


async def test_a_turn_that_is_cut_off_leaves_a_doubt_and_one_that_ends_none(nursery):
    store = InMemoryStore()
    with SdkServer() as far:
        function = remote(far.link)
        async with AgentRuntime(store) as runtime:
            session = AgentSession.new("far")
            handle = runtime.spawn(session, function)
            await handle.ask("echo x")
            assert function.inspect(session).kind == "nothing"
            await handle.send_input("wait")

            async def is_running():
                return far.agent.running == 1

            await until(is_running)
            # What a kill would leave behind at this moment:
            left = await AgentSession.load(session.session_id, store=store, keep_open=True)
            await handle.interrupt(grace=5)
            assert function.inspect(session).kind == "nothing"
        assert function.inspect(left).kind == "unsure"
        assert far.link in function.inspect(left).doubt


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_server_that_goes_away_is_a_lost_turn(streaming):
    with SdkServer(streaming=streaming) as far:
        async with talk(far.link) as (handle, _):
            receipt = await handle.send_input("wait")

            async def is_running():
                return far.agent.running == 1

            await until(is_running)
            await trio.to_thread.run_sync(far.stop)
            result = await handle.answer(receipt)
            assert (str(result.status), result.kind) == ("failed", "RemoteLostError")


async def test_a_server_that_speaks_a2a_alone_is_spoken_to_by_that():
    async with AgentRuntime(InMemoryStore()) as elsewhere, trio.open_nursery() as nursery:
        server = A2AServer(elsewhere, Agent(ScriptedProvider("Hi!", "Bye."), name="helper"))
        address, _, token = (await nursery.start(server.serve)).partition("/#token=")
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("far"), remote(address, token=token))
            assert (await handle.ask("hello")).text == "Hi!"
            assert (await handle.ask("go")).text == "Bye."
        nursery.cancel_scope.cancel()


async def test_a_client_counts_no_agents_below_none():
    async def count(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_message(Message.assistant(str(count_remotes(agent))))

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("counter"), count)
        for given, counted in ((-1_000, "1"), (3, "4"), ("many", "1")):
            assert (await handle.ask("go", metadata={"remotes": given})).text == counted


async def test_agents_that_forward_to_each_other_by_a2a_end_after_eight(serve):
    async def loop(agent):
        await remote(links[0], token="token-of-ann")(agent)

    links = []
    async with serve(agents={"loop": loop}, a2a=True) as service:
        links.append(f"{service.link}/a2a/loop")
        async with talk(links[0]) as (handle, _):
            result = await handle.ask("go")
        assert (str(result.status), result.kind) == ("failed", "RemoteError")
        assert "8 agents elsewhere forward to each other" in result.error
        assert len(service.runtime.list_active()) <= 9
