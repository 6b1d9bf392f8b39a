"""What goes over HTTP: pokes, interrupts, questions and chunks, all of them signed."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import (
    ConfigurationError,
    Custom,
    Done,
    Error,
    Lagged,
    Message,
    NetworkError,
    SessionError,
    TextComplete,
)
from greenroom.core._internal import serde, set_clock
from greenroom.distributed import AgentSpec, AgentType, Host, host, mailbox, remote_chunks, signing
from greenroom.distributed.host_client import HostClient, mailbox_path, session_path
from greenroom.distributed.hosted_agent import HostedAgent
from greenroom.distributed.places import Target
from greenroom.distributed.signing import OTHER_HOST, TOO_EARLY, sign
from greenroom.interop import RemoteError, RemoteLostError, remote
from greenroom.interop._internal import RequestRefusedError
from greenroom.net import HttpClient
from greenroom.runtime import AgentNotRunningError, RuntimeLimits
from greenroom.testing import ScriptedProvider, call
from tests.distributed.kinds import ECHO, ENDING, wait_host

SECRET = "a secret of the tests' own"


async def wait(agent):
    """Run until interrupted, in each turn."""
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextComplete("working"))
            await trio.sleep_forever()


async def confirm(agent):
    """Ask a person about each input."""
    async for message in agent.inputs():
        async with agent.turn(message):
            answer = await agent.request_permission("Deploy", f"do {message.text}")
            text = f"{answer.decision}: {answer.message}"
            agent.session.add_message(Message.assistant(text))


WAITING = AgentType("waiting", lambda spec: (wait, ()))
CONFIRMING = AgentType("confirming", lambda spec: (confirm, ()))
TYPES = [ECHO, WAITING, CONFIRMING, ENDING]


@pytest.fixture
async def cluster(make_cluster, monkeypatch):
    async with make_cluster(secret=SECRET) as made:
        monkeypatch.setattr(host, "LOOK", 60.0)  # whatever is quicker came over HTTP
        yield made


@pytest.fixture
async def target(cluster, nursery):
    await nursery.start(Host(cluster, TYPES, name="box").run)
    (info,) = await cluster.hosts()
    return Target(info.id, info.address)


async def test_a_poke_wakes_the_host_and_the_agent(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        assert [(await agent.ask(f"{n}")).text for n in range(3)] == ["0", "1", "2"]


class Careful:
    """Refuses tools, and notes whose turns it sees."""

    def __init__(self):
        self.seen = []

    def before_turn(self, agent, message):
        self.seen.append(agent.agent_type)

    async def before_run(self, agent, call):
        return "not on this host"


class Watch:
    def __init__(self):
        self.seen = []

    def after_turn(self, agent, end):
        self.seen.append(end.status)


async def test_what_watches_and_bounds_a_runtime_does_so_on_a_host(cluster, nursery):
    def look() -> str:
        """Look."""
        return "seen"

    def make(spec):
        return Agent(ScriptedProvider(call("look"), "Well."), tools=[look], name="helper"), ()

    parts = {"limits": RuntimeLimits(ring_chunks=1), "instruments": [Watch()], "gates": [Careful()]}
    await nursery.start(Host(cluster, [AgentType("helper", make)], **parts).run)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("helper"))
        assert (await agent.ask("Go")).text == "Well."
        results = [each.text for message in await agent.history() for each in message.tool_results]
        async with agent.subscribe() as chunks:
            assert isinstance(await anext(chunks), Lagged)
    assert "not on this host" in results[0]
    assert parts["gates"][0].seen == ["helper"]
    assert parts["instruments"][0].seen == ["completed"]


async def test_an_interrupt_has_returned_when_the_turn_is_gone(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("waiting"))
        result = await agent.ask("go", timeout=0.3)
        assert result.status == "interrupted"
        assert (await agent.interrupt()).stopped == ()  # nothing is left
        for bad in ({"mode": "soon"}, {"grace": -1.0}):
            with pytest.raises(ValueError, match=r"mode|seconds"):
                await agent.interrupt(**bad)


async def test_a_timeout_takes_its_own_input_back_and_stops_no_other_turn(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("waiting"))
        first = await agent.send_input("go")
        result = await agent.ask("and me?", timeout=0.1)
        assert (result.status, result.kind) == ("interrupted", "")
        found = await agent._links.database.run(
            lambda each: mailbox.read_answer(each, agent.session_id, first.input_id)
        )
        assert found.status == "waiting"
        await agent.interrupt()
        assert (await agent.answer(first)).status == "interrupted"
        assert (await agent.status()).queued == 0


async def test_a_shutdown_returns_the_outcome_and_ends_the_placement(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        await agent.ask("hello")
        assert (await agent.shutdown()).status == "completed"
        assert (await agent.shutdown()).status == "completed"
        with pytest.raises(AgentNotRunningError):
            await agent.interrupt()
        assert [each.agents for each in await cluster.hosts()] == [0]


async def test_a_question_names_the_machine_and_its_first_answer_counts(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("confirming"))
        assert await agent.pending() == ()
        async with agent.subscribe() as chunks:
            receipt = await agent.send_input("it")
            async for chunk in chunks:
                if getattr(chunk, "request_id", ""):
                    break
        (question,) = await agent.pending()
        assert (question.action, question.host) == ("do it", "box")
        assert await agent.respond_permission(question.request_id, "deny", message="not today")
        assert not await agent.respond_permission(question.request_id, "allow")
        assert (await agent.answer(receipt)).text == "deny: not today"


async def test_a_reader_goes_on_where_the_agent_does(cluster, target, nursery, monkeypatch):
    monkeypatch.setattr(host, "LOOK", 0.02)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        read, chunks = [], agent.subscribe()
        async with chunks:
            await agent.ask("one", id="i1")
            await take_until_done(chunks, read)
            first = chunks.position
            second = await nursery.start(Host(cluster, TYPES).run)
            (old, _) = await cluster.hosts()
            await cluster.drain(old.id, grace=1.0)
            await wait_host(agent, second)
            await agent.ask("two", id="i2")
            await take_until_done(chunks, read)
        done = [each.input_id for each in read if isinstance(each, Done)]
        assert done == ["i1", "i2"]
        assert [each.missed for each in read if isinstance(each, Lagged)] == [None]
        assert chunks.position[0] > first[0]
        async with agent.subscribe(chunks.position) as again:
            await agent.ask("three", id="i3")
            rest = await take_until_done(again, [])
        assert [each.input_id for each in rest if isinstance(each, Done)] == ["i3"]
        assert not any(isinstance(each, Lagged) for each in rest)


async def take_until_done(chunks, read):
    async for chunk in chunks:
        read.append(chunk)
        if isinstance(chunk, Done):
            break
    return read


async def test_a_reader_of_what_comes_next_may_be_there_before_the_agent(
    cluster, target, monkeypatch
):
    settle, may_begin = HostedAgent._settle, trio.Event()

    async def settle_late(hosted):
        await may_begin.wait()
        return await settle(hosted)

    monkeypatch.setattr(HostedAgent, "_settle", settle_late)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        async with agent.subscribe("none") as chunks:
            may_begin.set()
            await agent.send_input("hi")
            await take_until_done(chunks, [])


async def test_a_reader_ends_with_the_agent(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("ending"))
        async with agent.subscribe() as chunks:
            await agent.send_input("bye")
            kinds = [type(chunk).__name__ async for chunk in chunks]
        assert kinds[-1] == "Exited"


async def count(agent):
    """Tell more than is kept for readers, and a gap of its own."""
    async for message in agent.inputs():
        async with agent.turn(message):
            for number in range(int(message.text)):
                await agent.send(Custom("count", {"number": number}, "." * 2_000))
            await agent.send(Lagged(None))


async def test_what_a_reader_has_missed_is_counted_and_the_rest_is_read(cluster, nursery):
    await nursery.start(Host(cluster, [AgentType("counting", lambda spec: (count, ()))]).run)
    agent = await cluster.spawn(AgentSpec("counting"))
    with trio.fail_after(60):
        await agent.ask("5000")
        async with agent.subscribe() as chunks:
            missed, found = (await anext(chunks)).missed, []
            while not isinstance(chunk := await anext(chunks), Done):
                found.append(chunk)
    assert missed + len(found) + 1 == chunks.position[1]
    assert found.count(Lagged(None)) == 1
    numbers = [each.data["number"] for each in found if isinstance(each, Custom)]
    assert numbers == list(range(numbers[0], 5000))


async def test_a_turn_here_ends_though_its_end_was_among_what_was_read_late(
    cluster, nursery, monkeypatch
):
    await nursery.start(Host(cluster, [AgentType("counting", lambda spec: (count, ()))]).run)
    agent = await cluster.spawn(AgentSpec("counting"))
    send_input = agent.send_input

    async def send_and_wait(*args, **named):
        receipt = await send_input(*args, **named)
        await agent.answer(receipt)  # whoever reads has read nothing meanwhile
        return receipt

    monkeypatch.setattr(agent, "send_input", send_and_wait)
    with trio.fail_after(60):
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("counting"), remote(agent))
            assert (await handle.ask("10000")).status == "completed"


async def test_an_interrupt_whose_reply_was_lost_stops_no_later_turn(cluster, target, monkeypatch):
    ask, may_go_on = HostClient.ask, trio.Event()
    lost = []

    async def lose_reply(client, target, method, path, *rest, **more):
        told = await ask(client, target, method, path, *rest, **more)
        if path.endswith("interrupt") and not lost:
            lost.append(path)
            await may_go_on.wait()
            raise NetworkError("the connection broke")
        return told

    monkeypatch.setattr(HostClient, "ask", lose_reply)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("waiting"))
        await agent.send_input("one", id="i1")
        await agent.send_input("two", id="i2")
        async with agent.subscribe() as chunks, trio.open_nursery() as nursery:
            await read_until_working(chunks)
            nursery.start_soon(agent.interrupt)
            await read_until_working(chunks)  # the second turn
            may_go_on.set()
        assert (await agent.answer("i1")).status == "interrupted"
        assert lost
        assert not await agent._links.is_answered(agent.session_id, "i2")
        await agent.shutdown(0.0)


async def read_until_working(chunks):
    async for chunk in chunks:
        if isinstance(chunk, TextComplete):
            return


@pytest.mark.parametrize("order", ["interrupt", "shutdown"])
async def test_an_order_waits_for_an_agent_that_is_only_starting(
    cluster, target, monkeypatch, order
):
    settle, may_begin = HostedAgent._settle, trio.Event()

    async def settle_late(hosted):
        await may_begin.wait()
        return await settle(hosted)

    async def let_it_begin(client, target, method, path, *rest, **more):
        try:
            return await ask(client, target, method, path, *rest, **more)
        except RemoteError as error:
            refusals.append(error.status)
            if error.status == TOO_EARLY:
                may_begin.set()
            raise

    ask, refusals = HostClient.ask, []
    monkeypatch.setattr(HostedAgent, "_settle", settle_late)
    monkeypatch.setattr(HostClient, "ask", let_it_begin)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        await getattr(agent, order)()
        assert TOO_EARLY in refusals
        if order == "interrupt":
            assert (await agent.ask("hello")).text == "hello"
        else:
            assert (await agent.status()).state == "ended"


async def test_an_agent_that_no_host_has_can_be_ended(cluster, target, nursery):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        query = "UPDATE agents SET host = NULL, capabilities = '{none-has}'"
        await cluster.database.run(lambda each: each.execute(query))
        await agent.send_input("never read", id="i1")
        assert (await agent.shutdown()).status == "cancelled"
        assert (await agent.answer("i1")).kind == "AgentNotRunningError"


# ------------------------------------------------------------------------------ bad readers


@pytest.mark.parametrize("replay", ["turn", (1,), (1, -1), ("1", 2), None])
async def test_a_reader_that_begins_nowhere_is_refused(cluster, target, replay):
    agent = await cluster.spawn(AgentSpec("echo"))
    with pytest.raises(ValueError, match="begins at"):
        agent.subscribe(replay)


class Reply:
    """What a host answers to who reads a stream."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def chunks(self):
        return Pieces(self.pieces)


class Pieces:
    """What comes of a reply."""

    def __init__(self, pieces):
        self._rest = list(pieces)

    async def __anext__(self):
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop(0)


async def read_from(agent, monkeypatch, answer):
    """Read an agent's chunks, where its host answers in another way."""

    @asynccontextmanager
    async def open_stream(client, target, session_id, after):
        yield answer()

    monkeypatch.setattr(HostClient, "open_stream", open_stream)
    async with agent.subscribe() as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Error):
                raise StopReadingError


@pytest.mark.parametrize("status", [400, 404, 503])
async def test_a_reader_gives_a_host_up_that_always_refuses(cluster, target, monkeypatch, status):
    def refuse():
        raise RemoteError("go away", status=status)

    monkeypatch.setattr(remote_chunks, "LOST", 0.3)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        kind = RemoteError if status == 400 else RemoteLostError
        with pytest.raises(kind, match="go away"):
            await read_from(agent, monkeypatch, refuse)


async def test_a_reader_gives_a_host_up_that_says_nothing(cluster, target, monkeypatch):
    monkeypatch.setattr(remote_chunks, "LOST", 0.3)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        with pytest.raises(RemoteLostError, match="ended"):
            await read_from(agent, monkeypatch, Reply)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"id: odd.1\ndata: {}\n\n", "not ours"),
        (b"id: 1.odd\nevent: state\ndata: {}\n\n", "not a position"),
        (b"id: 7\nevent: state\ndata: {}\n\n", "not a position"),
        (b"id: 1.1\ndata: {\n\n", "not ours"),
    ],
)
async def test_what_is_no_chunk_is_said_to_be_none(cluster, target, monkeypatch, sent, told):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        with pytest.raises(RemoteError, match=told):
            await read_from(agent, monkeypatch, lambda: Reply(sent))


async def test_chunks_of_kinds_that_only_newer_hosts_know_are_passed_over(
    cluster, target, monkeypatch
):
    newer = b'id: 1.1\ndata: {"type": "hologram", "depth": 3}\n\n'
    end = b"id: 1.2\ndata: " + serde.encode(Error("out of paper")) + b"\n\n"
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        with pytest.raises(StopReadingError):
            await read_from(agent, monkeypatch, lambda: Reply(newer + end))


class StopReadingError(Exception):
    pass


# ------------------------------------------------------------------------------- who may ask


async def ask(target, method, path, secret=SECRET, body=None):
    client = HostClient(secret, "tests")
    try:
        return await client.ask(target, method, path, dict[str, object], body)
    finally:
        await client.aclose()


async def test_another_secret_or_an_old_clock_is_refused(cluster, target):
    path = mailbox_path("mine")
    assert await ask(target, "POST", path, body={}) == {"here": False}
    with pytest.raises(ConfigurationError, match="another secret"):
        await ask(target, "POST", path, "some other secret", {})
    now = datetime.now(UTC)
    for seconds in (-300, 300):
        with pytest.MonkeyPatch.context() as patch:
            moment = now + timedelta(seconds=seconds)
            patch.setattr("greenroom.distributed.host_client.sign", sign_at(moment))
            with pytest.raises(ConfigurationError, match="clocks are"):
                await ask(target, "POST", path, body={})


def sign_at(moment):
    def sign_then(*args):
        before = set_clock(lambda: moment)
        try:
            return sign(*args)
        finally:
            set_clock(before)

    return sign_then


async def test_what_is_not_what_was_signed_is_refused(target):
    path = session_path("mine", "interrupt")

    def signed(path=path, host=target.host):
        return sign(SECRET, host, "POST", path, b"{}", "tests")

    async with HttpClient() as client:

        async def status(method, path, body, authorization):
            headers = {"authorization": authorization} if authorization else {}
            async with client.stream(
                method, f"{target.address}{path}", headers=headers, content=body
            ) as reply:
                await reply.read()
                return reply.status

        once = signed()
        assert await status("POST", path, b"{}", once) == OTHER_HOST  # no such agent here
        assert await status("POST", path, b"{}", once) == TOO_EARLY  # a second time
        assert await status("POST", path, b"{}", signed(host=target.host + 1)) == OTHER_HOST
        for request in (
            ("POST", path, b"{}", ""),
            ("POST", session_path("yours", "interrupt"), b"{}", signed()),
            ("POST", f"{path}?more=1", b"{}", signed()),
            ("GET", path, None, signed()),
            ("POST", path, b"{}", signed().replace("tests", "admin")),
            ("POST", path, b"{}", once.replace("once=", "once=00")),
            ("POST", path, b"{}", "Bearer " + SECRET),
        ):
            assert await status(*request) == 401, request
        path = mailbox_path("mine")
        assert await status("POST", path, b"{}", signed(path)) == 200
        assert await status("POST", path, b"[]", signed(path)) == 401


async def test_words_that_are_used_once_are_bounded_and_forgotten(monkeypatch, autojump_clock):
    monkeypatch.setattr(signing, "_MOST_KEPT", 2)
    seen = signing._Seen()
    seen.add(b"one")
    seen.add(b"two")
    for word, status in ((b"one", TOO_EARLY), (b"three", 503)):
        with pytest.raises(RequestRefusedError) as caught:
            seen.add(word)
        assert caught.value.status == status
    await trio.sleep(121)
    seen.add(b"one")
    assert len(seen._until) == 1


async def test_a_host_starts_no_agent_that_was_not_placed_there(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"), session_id="mine")
        await agent.ask("hello")
    for path, body in (
        ("/api/sessions", {"agent": "echo"}),
        (session_path("mine", "input"), {"content": "past the mailbox"}),
        (session_path("mine", "fork"), {}),
        (session_path("another", "interrupt"), {}),
    ):
        with pytest.raises(RemoteError) as caught:
            await ask(target, "POST", path, body=body)
        assert caught.value.status == (OTHER_HOST if "another" in path else 409)
    told = await ask(target, "GET", session_path("mine"))
    assert [each["role"] for each in told["messages"]] == ["user", "assistant"]


async def test_a_host_for_other_machines_needs_a_secret_and_a_word(cluster, make_cluster):
    with pytest.raises(ConfigurationError, match="not encrypted"):
        Host(cluster, [ECHO], bind="0.0.0.0:0")
    Host(cluster, [ECHO], bind="0.0.0.0:0", insecure=True)
    with pytest.raises(ConfigurationError, match="no secret"):
        Host(make_cluster(), [ECHO], bind="0.0.0.0:0", insecure=True)
    with pytest.raises(ConfigurationError, match="16 characters"):
        make_cluster(secret="short")
    for bad in ("127.0.0.1", ":80", "127.0.0.1:http", "127.0.0.1:70000"):
        with pytest.raises(ValueError, match="not an address"):
            Host(cluster, [ECHO], bind=bad)


async def test_the_secret_that_the_database_keeps_is_enough_on_one_machine(
    make_cluster, nursery, monkeypatch
):
    monkeypatch.delenv("GREENROOM_SECRET", raising=False)
    monkeypatch.setattr(host, "LOOK", 60.0)
    async with make_cluster() as one, make_cluster() as two:
        await nursery.start(Host(one, [ECHO]).run)
        with trio.fail_after(60):
            assert (await (await two.spawn(AgentSpec("echo"))).ask("hello")).text == "hello"
        nursery.cancel_scope.cancel()


async def test_a_host_that_is_gone_is_no_answer(cluster):
    with pytest.raises(NetworkError):
        await ask(Target(1, "http://127.0.0.1:9"), "POST", mailbox_path("mine"), body={})


async def test_a_body_that_is_too_large_is_refused_and_the_host_goes_on(cluster, target):
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"), session_id="mine")
        assert (await agent.ask("one")).text == "one"
        with pytest.raises(RemoteError) as caught:
            await ask(
                target, "POST", session_path("mine", "interrupt"), body={"x": "x" * (64 << 20)}
            )
        assert caught.value.status == 413
        assert (await agent.ask("two")).text == "two"


async def test_tables_of_a_newer_version_are_refused(make_cluster):
    async with make_cluster() as cluster:
        await cluster.hosts()
        query = "UPDATE cluster_about SET version = 99"
        await cluster.database.run(lambda each: each.execute(query))
    async with make_cluster() as cluster:
        with pytest.raises(SessionError, match="version 99"):
            await cluster.hosts()
        with pytest.raises(SessionError, match="version 99"):
            await Host(cluster, [ECHO]).run()


async def test_a_host_ends_when_its_tables_become_those_of_a_newer_version(cluster, monkeypatch):
    monkeypatch.setattr(host, "LOOK", 0.02)
    ended = []

    async def run(task_status):
        with pytest.raises(SessionError, match="version 99") as caught:
            await Host(cluster, [ECHO]).run(task_status=task_status)
        ended.append(caught.value)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            query = "UPDATE cluster_about SET version = 99"
            await cluster.database.run(lambda each: each.execute(query))
    assert ended[0].hint.startswith("upgrade")


async def test_a_program_with_another_secret_is_told_so_once(
    cluster, target, make_cluster, monkeypatch, caplog
):
    monkeypatch.setattr(host, "LOOK", 0.02)
    async with make_cluster(secret="quite another secret") as program:
        with trio.fail_after(60):
            await cluster.spawn(AgentSpec("echo"))  # from now on the host looks often
            agent = await program.spawn(AgentSpec("echo"))
            for text in ("one", "two"):
                assert (await agent.ask(text)).text == text  # through the database alone
            with pytest.raises(ConfigurationError, match="another secret"):
                await agent.interrupt()
    assert caplog.text.count("another secret") == 1
