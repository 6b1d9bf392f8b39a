"""Topics: one order, once for each member, and no wait for a member that does not read."""

import os
import random
from collections import Counter
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import (
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    MailboxFullError,
    RuntimeLimits,
)
from greenroom.core._internal import InvalidJSONError
from greenroom.flow import AgentMessage, TaskRequest, Topic
from greenroom.flow._internal import DeliveryStatus
from greenroom.testing import Scenario, cancel_at_every_checkpoint
from tests.conftest import few

DELIVERED, DROPPED, FULL, ENDED, LEFT, CANCELLED = (
    DeliveryStatus[name] for name in ("DELIVERED", "DROPPED", "FULL", "ENDED", "LEFT", "CANCELLED")
)
IS_LONG = os.environ.get("GREENROOM_TOPICS") == "long"


class Member:
    """An agent that records its inputs; a frozen one takes none until its gate opens."""

    def __init__(self, runtime, name="member", *, is_frozen=False):
        self.heard = []
        self.gate = trio.Event()
        if not is_frozen:
            self.gate.set()
        self.handle = runtime.spawn(AgentSession.new("member"), self.run, name=name)
        self.id = self.handle.session_id

    async def run(self, agent):
        await self.gate.wait()
        async for message in agent.inputs():
            if message.text == "crash":
                raise OSError("crashed")
            self.heard.append(message.metadata["number"] if message.metadata else message.text)
            await trio.lowlevel.checkpoint()


@pytest.fixture
async def runtime():
    limits = RuntimeLimits(mailbox=3, watchdog=None)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        yield runtime
        for node in runtime.tree().agents:
            runtime.get(node.session_id).kill()


def pair(runtime, **options):
    """A topic with a frozen member, and a member that reads."""
    topic = Topic("news", **options)
    frozen, member = Member(runtime, is_frozen=True), Member(runtime)
    topic.join(frozen.handle)
    topic.join(member.handle)
    return topic, frozen, member


async def test_all_members_get_what_is_published_as_input_with_its_sender(runtime):
    seen = []

    async def listener(agent):
        async for message in agent.inputs():
            seen.append(message)  # noqa: PERF401 (they are looked at meanwhile)

    topic = Topic[str]("news")
    handles = [runtime.spawn(AgentSession.new("listener"), listener) for _ in range(2)]
    for handle in [*handles, handles[0]]:
        topic.join(handle)
    delivery = await topic.publish("It rains.", sender="weather")
    await wait_all_tasks_blocked()
    assert delivery.number == 1
    assert delivery.delivered == tuple(handle.session_id for handle in handles)
    assert delivery.missed == {}
    assert [(each.sender, each.text) for each in seen] == [("weather", "It rains.")] * 2
    assert seen[0].metadata["topic"] == "news"
    assert AgentMessage.of(seen[0]) == topic.log[0]
    assert topic.leave(handles[0])
    assert not topic.leave(handles[0])
    assert (await topic.publish("It snows.")).delivered == (handles[1].session_id,)
    assert [message.content for message in topic.log] == ["It rains.", "It snows."]


def test_a_request_is_responded_to_and_nothing_else_is():
    request = AgentMessage("lead", "writer", content=TaskRequest("t1", "Edit."))
    response = request.respond({"pages": 3}, "partial")
    assert (response.kind, response.to, response.result) == ("task_response", "lead", {"pages": 3})
    assert (response.payload.task_id, response.payload.status) == ("t1", "partial")
    assert request.result is None
    with pytest.raises(ValueError, match="not a task_request"):
        response.respond()


async def test_a_message_goes_to_whom_it_is_for_and_its_author_gets_none_of_its_own(runtime):
    desk = Topic[AgentMessage]("desk")
    heard = []

    async def worker(agent):
        async for message in agent.inputs():
            request = AgentMessage.of(message)
            heard.append((agent.context.name, message.text))
            if request.kind == "task_request":
                await desk.publish(request.respond("done"))

    for name in ("lead", "writer", "writer", "editor"):
        desk.join(runtime.spawn(AgentSession.new(name), worker))
    editor = desk.members[-1].session_id
    task = TaskRequest("t1", "Edit.")
    assert (await desk.publish(AgentMessage("lead", editor, content=task))).delivered == (editor,)
    await desk.publish(AgentMessage("editor", content="to all"))
    await wait_all_tasks_blocked()
    answer = 'task_response: {"task_id":"t1","result":"done"}'
    request = 'task_request: {"task_id":"t1","description":"Edit."}'
    assert ("editor", request) in heard
    assert ("lead", answer) in heard
    # A message from outside goes to all, also to those of its sender's name.
    assert Counter(name for name, text in heard if text == "to all") == {
        "lead": 1,
        "writer": 2,
        "editor": 1,
    }
    assert (await desk.publish(AgentMessage("lead", "nobody", content=1))).delivered == ()


async def test_an_agent_speaks_under_its_name_and_does_not_hear_itself(runtime):
    topic = Topic[str]("news")
    member = Member(runtime)

    async def speaker(agent):
        async for message in agent.inputs():
            await topic.publish(f"I heard: {message.text}")

    handle = runtime.spawn(AgentSession.new("speaker"), speaker)
    topic.join(handle)
    topic.join(member.handle)
    await handle.send_input("a word")
    await wait_all_tasks_blocked()
    assert [(each.sender, each.content) for each in topic.log] == [("speaker", "I heard: a word")]
    assert member.heard == [1]


async def test_with_refuse_only_the_full_member_misses_it(runtime):
    topic, frozen, member = pair(runtime, when_full="refuse")
    deliveries = []
    for number in range(5):
        deliveries.append(await topic.publish(number))
        await wait_all_tasks_blocked()
    assert deliveries[2].delivered == (frozen.id, member.id)
    assert deliveries[3].missed == {frozen.id: FULL}
    frozen.gate.set()
    await wait_all_tasks_blocked()
    assert (frozen.heard, member.heard) == ([1, 2, 3], [1, 2, 3, 4, 5])
    counts = topic.statistics().members
    assert counts == {frozen.id: {DELIVERED: 3, FULL: 2}, member.id: {DELIVERED: 5}}


async def test_with_drop_oldest_the_full_member_hears_the_newest_and_keeps_what_others_sent(
    runtime,
):
    topic, frozen, member = pair(runtime, when_full="drop_oldest")
    frozen.handle.send_input_nowait("from a person")
    for number in range(5):
        assert (await topic.publish(number)).missed == {}
        await wait_all_tasks_blocked()
    frozen.gate.set()
    await wait_all_tasks_blocked()
    assert (frozen.heard, member.heard) == (["from a person", 4, 5], [1, 2, 3, 4, 5])
    assert topic.statistics().members[frozen.id] == {DELIVERED: 5, DROPPED: 3}


async def test_with_drop_oldest_a_mailbox_that_is_full_of_others_has_no_room(runtime):
    topic, frozen, _ = pair(runtime, when_full="drop_oldest")
    for _ in range(3):
        frozen.handle.send_input_nowait("from a person")
    assert (await topic.publish("news")).missed == {frozen.id: FULL}
    with pytest.raises(MailboxFullError):
        frozen.handle.send_input_nowait("another")


async def test_with_wait_the_publisher_waits_once_all_others_have_it(runtime):
    topic, frozen, member = pair(runtime)
    done = []

    async def publish(number):
        done.append((await topic.publish(number)).delivered)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            await publish(number)
        for number in (3, 4):  # the second one does not overtake the first
            nursery.start_soon(publish, number)
            await wait_all_tasks_blocked()
        assert len(done) == 3
        assert member.heard == [1, 2, 3, 4, 5]
        assert topic.statistics().waiting == 2
        frozen.gate.set()
    await wait_all_tasks_blocked()
    assert done == [(frozen.id, member.id)] * 3 + [(member.id, frozen.id)] * 2
    assert frozen.heard == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", ["crash", "kill", "leave", "cancel"])
async def test_with_wait_whoever_goes_frees_the_publisher(runtime, end):
    topic, frozen, member = pair(runtime)
    found, publishers = [], 2 if end == "kill" else 1

    async def publish():
        with trio.CancelScope() as scopes[len(found)]:
            found.append(await topic.publish("x"))

    scopes = {}
    if end == "crash":
        frozen.handle.send_input_nowait("crash")
    for _ in range(2 if end == "crash" else 3):
        await topic.publish("x")
    async with trio.open_nursery() as nursery:
        for _ in range(publishers):
            nursery.start_soon(publish)
        await wait_all_tasks_blocked()
        match end:
            case "crash":
                frozen.gate.set()
            case "kill":
                frozen.handle.kill()
            case "leave":
                topic.leave(frozen.handle)
            case "cancel":
                scopes[0].cancel()
    await wait_all_tasks_blocked()
    why = {"leave": LEFT, "cancel": CANCELLED}.get(end, ENDED)
    if end == "crash":  # there was room before it ended
        assert found[0].delivered == (member.id, frozen.id)
        assert (await topic.publish("y")).missed == {frozen.id: ENDED}
    elif end == "cancel":
        assert found == []
        assert topic.statistics().members[frozen.id][CANCELLED] == 1
        return
    else:
        assert found[0].missed == {frozen.id: why}
    assert [handle.session_id for handle in topic.members] == [member.id]
    assert topic.statistics().former[why] == publishers
    assert (await topic.publish("z")).missed == {}


async def test_a_session_that_goes_on_in_another_agent_may_join_again(runtime):
    topic = Topic("news")
    first = Member(runtime)
    topic.join(first.handle)
    await topic.publish("one")
    await wait_all_tasks_blocked()
    first.handle.kill()
    await first.handle.wait()
    session = AgentSession.new("member", session_id=first.id)
    second = runtime.spawn(session, Member.run.__get__(first))
    topic.join(second)
    assert (await topic.publish("two")).delivered == (first.id,)
    await wait_all_tasks_blocked()
    assert first.heard == [1, 2]
    statistics = topic.statistics()
    assert statistics.members == {first.id: {DELIVERED: 1}}
    assert statistics.former == {DELIVERED: 1}


async def test_a_restart_ends_no_membership(autojump_clock, runtime):
    topic = Topic("news")
    lives = []

    async def fragile(agent):
        lives.append([])
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "crash":
                    raise OSError("crashed")
                lives[-1].append(message.text)

    supervisor = runtime.supervisor()
    session = AgentSession.new("fragile")
    topic.join(supervisor.spawn(session, fragile, restart="transient"))
    for text in ("a", "crash", "b"):
        assert (await topic.publish(text)).missed == {}
    await trio.sleep(5)
    assert lives == [["a"], ["b"]]


async def test_what_can_t_be_published_is_refused_before_anybody_gets_it(runtime):
    topic, _, member = pair(runtime, when_full="refuse", keep=1)
    for content in (object(), float("nan"), {1: 2}, ("a",)):
        with pytest.raises(InvalidJSONError):
            await topic.publish(content)
    with pytest.raises(ValueError, match="can't name a sender"):
        await topic.publish("x", sender="[x]")
    await topic.publish("a")
    message = AgentMessage(content=["b"])
    await topic.publish(message)
    with pytest.raises(TypeError, match="frozen"):
        message.content.append("c")
    await wait_all_tasks_blocked()
    assert member.heard == [1, 2]
    assert [message.content for message in topic.log] == [["b"]]
    for options in ({"keep": -1}, {"when_full": "explode"}, {"name": ""}):
        with pytest.raises(ConfigurationError):
            Topic(**{"name": "x", **options})


def publishing_agent(when_full):
    """An agent that publishes to a slow reader."""

    async def slow(agent):
        async for _ in agent.inputs():
            await trio.sleep(1)

    async def publisher(agent):
        topic = Topic("news", when_full=when_full)
        topic.join(agent.spawn(AgentSession.new("slow"), slow, scope="agent", report=False))
        async for message in agent.inputs():
            async with agent.turn(message):
                for number in range(6):
                    await topic.publish(number)
            statistics = topic.statistics()
            counts = sum(map(Counter, [*statistics.members.values(), statistics.former]), Counter())
            assert statistics.waiting == 0
            assert counts.total() - counts[DROPPED] == statistics.published

    return Scenario(publisher, inputs="Go.", limits=RuntimeLimits(mailbox=2, watchdog=None))


@pytest.mark.parametrize("when_full", ["wait", "drop_oldest"])
def test_a_publisher_may_be_cancelled_at_any_checkpoint(when_full):
    report = cancel_at_every_checkpoint(lambda: publishing_agent(when_full), at_most=few(15))
    assert report.violations == ()


class Crowd:
    """Members that come, go and crash at random, one of them frozen, and what each must get."""

    def __init__(self, seed, members, messages, when_full):
        self.random = random.Random(seed)
        self.size, self.messages = members, messages
        self.topic = Topic("crowd", when_full=when_full)
        self.present, self.all = [], []
        self.expected = {}  # by member, the numbers that its deliveries promised
        self.chances = Counter()  # by member, how many publications there were while it was one

    def add(self, runtime, **options):
        member = Member(runtime, **options)
        self.all.append(member)
        self.present.append(member)
        self.expected[member.id] = []
        self.topic.join(member.handle)
        return member

    async def run(self, runtime):
        self.frozen = self.add(runtime, is_frozen=True)
        for _ in range(self.size - 1):
            self.add(runtime)
        for _ in range(self.messages):
            await self.disturb(runtime)
            asked = [member.id for member in self.present]
            # Nobody waits for the frozen one: there is but one checkpoint in a publication.
            delivery = await self.publish()
            for member_id in asked:
                self.chances[member_id] += 1
            for member_id in delivery.delivered:
                self.expected[member_id].append(delivery.number)
            assert set(asked) == {*delivery.delivered, *delivery.missed}
            gone = [each for each, why in delivery.missed.items() if why is ENDED]
            self.present = [member for member in self.present if member.id not in gone]
        await wait_all_tasks_blocked()

    async def publish(self):
        if self.topic._when_full != "wait":
            return await self.topic.publish("x")
        if self.topic.statistics().members[self.frozen.id].get(DELIVERED, 0) >= 3:
            self.frozen.gate.set()
        return await self.topic.publish("x")

    async def disturb(self, runtime):
        chance = self.random.random()
        if chance < 0.02:
            self.add(runtime)
        elif chance < 0.04 and len(self.present) > 2:
            member = self.random.choice(self.present[1:])
            self.present.remove(member)
            self.topic.leave(member.handle)
        elif chance < 0.06 and len(self.present) > 2:
            with suppress(MailboxFullError):
                self.random.choice(self.present[1:]).handle.send_input_nowait("crash")
        elif chance < 0.5:
            await trio.lowlevel.checkpoint()
            if self.random.random() < 0.2:
                await wait_all_tasks_blocked()

    def check(self):
        statistics = self.topic.statistics()
        total = Counter(statistics.former)
        for counts in statistics.members.values():
            total.update(counts)
        dropped = total.pop(DROPPED, 0)
        assert sum(total.values()) == sum(self.chances.values())
        assert total[DELIVERED] == sum(map(len, self.expected.values()))
        lost = 0
        for member in self.all:
            expected, heard = self.expected[member.id], member.heard
            assert heard == sorted(set(heard))  # in order, and once
            assert set(heard) <= set(expected)
            missing = len(expected) - len(heard)
            outcome = member.handle._actor.outcome
            untaken = outcome.undelivered if outcome else member.handle._actor.mailbox._items
            lost += missing - sum(message.text != "crash" for message in untaken)
        assert lost == dropped  # each is accounted for


@pytest.mark.parametrize("when_full", ["refuse", "drop_oldest", "wait"])
@pytest.mark.parametrize("seed", range(5 if IS_LONG else 2))
async def test_each_gets_each_once_and_in_order_while_members_come_go_and_crash(seed, when_full):
    members, messages = (100, 10_000) if IS_LONG else (20, few(150))
    crowd = Crowd(seed, members, messages, when_full)
    limits = RuntimeLimits(mailbox=8, watchdog=None)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        await crowd.run(runtime)
        crowd.check()
        for member in crowd.all:
            member.handle.kill()


@pytest.mark.parametrize("seed", range(2))
async def test_all_hear_the_same_order_from_publishers_that_wait_beside_each_other(seed):
    """Members that take several inputs at once, and publishers that wait for room."""
    chance, topic = random.Random(seed), Topic("talk", keep=200)

    async def pause(most):
        for _ in range(chance.randrange(most)):
            await trio.lowlevel.checkpoint()

    async def listener(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                await pause(5)
                await agent.step()  # takes all that waits

    async def publish(name):
        for number in range(40):
            await pause(8)
            await topic.publish(f"{name}: {number}")

    limits = RuntimeLimits(mailbox=3, watchdog=None)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        for _ in range(4):
            topic.join(runtime.spawn(AgentSession.new("listener"), listener))
        async with trio.open_nursery() as nursery:
            for name in range(5):
                nursery.start_soon(publish, name)
        await wait_all_tasks_blocked()
        histories = [await handle.history() for handle in topic.members]
    said = [message.content for message in topic.log]
    assert len(said) == 200
    assert [[message.text for message in history] for history in histories] == [said] * 4
