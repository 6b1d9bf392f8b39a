"""Models with one key learn from each other's refusals, and share the pace that is left."""

from collections import deque
from contextlib import asynccontextmanager
from operator import itemgetter

import pytest
import trio

from greenroom.core import Message
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequest,
    OpenAIProvider,
    resilient,
)
from greenroom.llm._internal import collect
from greenroom.llm.model_attempt import gate_of
from greenroom.llm.stream import Announcement
from greenroom.resilience import ConcurrencyLimit, RateLimit, Retry
from greenroom.resilience._internal import Gate, take_ticket
from greenroom.resilience.gate import shared_gate
from greenroom.testing import Reply, ScriptedProvider

HELLO = ModelRequest(messages=[Message.user("hi")])


class Server:
    """Accepts ten requests a minute; `window` is how it counts, `says` how it asks to wait."""

    def __init__(self, window, says):
        self.window, self.says = window, says
        self.accepted, self.log = deque(), []
        self.tokens, self.period, self.last = 10.0, 0, trio.current_time()

    async def answer(self, request):
        wait = self._count(trio.current_time())
        self.log.append((trio.current_time(), request.conversation, not wait))
        await trio.sleep(0.2)
        if wait:
            raise ModelRateLimitError("slow down", retry_after=wait if self.says else None)
        await trio.sleep(2)
        return "hello"

    def _count(self, now):
        """Return how long to wait, or 0 for a request that is accepted."""
        match self.window:
            case "sliding":
                while self.accepted and self.accepted[0] + 60 <= now:
                    self.accepted.popleft()
                if len(self.accepted) >= 10:
                    return self.accepted[0] + 60 - now
            case "fixed":
                while self.accepted and self.accepted[0] // 60 < now // 60:
                    self.accepted.popleft()
                if len(self.accepted) >= 10:
                    return (now // 60 + 1) * 60 - now
            case "bucket":
                self.tokens = min(10.0, self.tokens + (now - self.last) / 6)
                self.last = now
                if self.tokens < 1 - 1e-6:
                    return (1 - self.tokens) * 6
                self.tokens -= 1
        self.accepted.append(now)
        return 0


class Model(ScriptedProvider):
    """A model of a server, opened anew by each agent with the same key."""

    def __init__(self, server, account):
        super().__init__()
        self.server, self.account = server, account

    @asynccontextmanager
    async def stream(self, request):
        text = await self.server.answer(request)
        async with ScriptedProvider(text).stream(request) as stream:
            yield stream


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("window", ["sliding", "fixed", "bucket"])
async def test_fifty_agents_share_what_a_key_allows_in_order_and_with_few_refusals(
    window, says, autojump_clock
):
    server, ended, known = Server(window, says), [], []

    async def agent(number):
        await trio.sleep(number / 100)
        model = resilient(Model(server, f"50 agents {window} {says}"))
        request = ModelRequest(messages=HELLO.messages, conversation=str(number))
        async with model.stream(request) as stream:
            async for event in stream:
                if isinstance(event, Announcement) and event.kind == "model.retry" and not known:
                    known.append(trio.current_time())
        assert stream.message.text == "hello"
        ended.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(agent, number)
    after = [each for each in server.log if each[0] >= known[0]]
    necessary = sum(accepted for _, _, accepted in after)
    assert len(ended) == 50
    assert len(after) <= 1.3 * necessary
    assert max(sum(at <= other < at + 1 for other, _, _ in after) for at, _, _ in after) <= 10
    for place, number in enumerate(ended):
        assert sum(other > number for other in ended[:place]) <= 20
    assert trio.current_time() < 400  # of the 300 that ten a minute take


async def test_three_minutes_of_overload_are_one_reply(autojump_clock):
    def answer(request):
        if trio.current_time() < 180:
            raise ModelOverloadedError("overloaded", status=529)
        return "hello"

    llm = ScriptedProvider(*[answer] * 50)
    assert (await resilient(llm).generate(HELLO)).text == "hello"
    assert 180 <= trio.current_time() < 215
    assert len(llm.requests) < 20


@pytest.mark.parametrize("kind", [ModelRateLimitError, ModelOverloadedError])
async def test_what_one_call_was_told_to_wait_the_others_wait_too(kind, autojump_clock):
    def refuse(request):
        raise kind("busy", retry_after=60.0)

    llm = ScriptedProvider(refuse, "first", "second", "third")
    times, told = [], []

    async def ask():
        async with resilient(llm).stream(HELLO) as stream:
            told.extend(
                [
                    (event.kind, trio.current_time(), event.data["seconds"])
                    async for event in stream
                    if isinstance(event, Announcement)
                ]
            )
        times.append((stream.message.text, trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(20)
        nursery.start_soon(ask)
        await trio.sleep(1)
        nursery.start_soon(ask)
    assert sorted(told, key=itemgetter(1)) == [
        ("model.retry", 0, 60),
        ("model.wait", 20, 40),
        ("model.wait", 21, 39),
    ]
    assert times[0] == ("first", 60)
    assert len(llm.requests) == 4


async def test_a_call_that_could_not_go_through_in_its_time_is_not_sent_and_says_why(
    autojump_clock,
):
    def refuse(request):
        raise ModelRateLimitError("busy", retry_after=500.0)

    llm = ScriptedProvider(refuse, "never")
    model = resilient(llm, retry=Retry(deadline=30))
    with pytest.raises(ModelRateLimitError, match="busy"):
        await model.generate(HELLO)
    with pytest.raises(ModelRateLimitError, match=r"refuses calls with this key.*30 s in which"):
        await model.generate(HELLO)
    assert (len(llm.requests), trio.current_time()) == (1, 0)


async def test_a_probe_that_fails_or_is_given_up_makes_the_next_call_the_probe(autojump_clock):
    gate = Gate()
    (await gate.enter()).refuse(5.0)
    ticket = take_ticket()
    (await gate.enter(ticket)).abandon()
    assert trio.current_time() == 5
    probe = await gate.enter(ticket)
    with trio.move_on_after(9) as scope:
        await gate.enter()
    assert scope.cancelled_caught
    later = await gate.enter()  # the probe has not been answered for ten seconds
    assert trio.current_time() == 15
    later.accept()
    probe.accept()
    await gate.enter()


async def test_refusals_of_calls_that_were_sent_before_the_first_one_count_once(autojump_clock):
    gate = Gate()
    passages = [await gate.enter() for _ in range(20)]
    for passage in passages[:10]:
        passage.accept()
    for passage in passages[10:]:
        passage.refuse(10.0)
    await trio.sleep(4)
    assert gate.wait_time() == 6
    (await gate.enter()).accept()
    await gate.enter()
    assert trio.current_time() == 16  # as ten in a minute


async def test_after_a_minute_without_a_refusal_calls_come_closer_until_none_waits(autojump_clock):
    gate = Gate()
    for _ in range(10):
        (await gate.enter()).accept()
    (await gate.enter()).refuse(10.0)
    times = []
    for _ in range(80):
        (await gate.enter()).accept()
        times.append(trio.current_time())
    assert times[:11] == [10 + 6 * n for n in range(11)]
    assert times[-1] == times[-2] < 140


async def test_a_program_that_has_just_begun_is_not_slowed_to_one_call_a_minute(autojump_clock):
    gate = Gate()
    (await gate.enter()).refuse(1.0)
    for _ in range(10):
        (await gate.enter()).accept()
    assert trio.current_time() == 1 + 9 * 6


async def test_a_key_that_allows_fewer_than_ten_a_minute_is_slowed_further(autojump_clock):
    gate = Gate()
    (await gate.enter()).refuse(1.0)
    for _ in range(5):
        (await gate.enter()).accept()
    (await gate.enter()).refuse(36.0)
    times = []
    for _ in range(4):
        (await gate.enter()).accept()
        times.append(trio.current_time())
    assert [later - times[0] for later in times] == [0, 12, 24, 36]


async def test_a_request_that_is_wrong_neither_opens_nor_closes_a_gate(autojump_clock):
    def step(request):
        raise ModelBadRequestError("no")

    llm = ScriptedProvider(step, "hello")
    model = resilient(llm)
    with pytest.raises(ModelBadRequestError):
        await model.generate(HELLO)
    assert (await model.generate(HELLO)).text == "hello"
    assert trio.current_time() == 0


async def test_a_refusal_within_a_reply_is_waited_for_too(autojump_clock):
    refused = Reply("", error=ModelRateLimitError("slow down"))
    llm = ScriptedProvider(refused, refused, "hello")
    assert (await resilient(llm).generate(HELLO)).text == "hello"
    assert 3 <= trio.current_time() <= 6  # as after any other error


async def test_calls_that_wait_for_a_limit_when_a_gate_closes_are_not_sent(autojump_clock):
    def refuse(request):
        raise ModelRateLimitError("busy", retry_after=30.0)

    llm, limit = ScriptedProvider(refuse, *["hello"] * 4), ConcurrencyLimit(1)
    times, told = [], []

    async def ask():
        async with resilient(llm, limits=limit).stream(HELLO) as stream:
            told.append([event.kind async for event in stream if isinstance(event, Announcement)])
        times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    assert (len(llm.requests), min(times)) == (5, 30)
    # The wait at the gate is told to those, too, who had been told of the one for the limit.
    assert [kinds for kinds in told if kinds.count("model.wait") > 1]


async def test_a_call_counts_in_a_limit_when_it_is_sent_and_not_at_all_if_it_never_is(
    autojump_clock,
):
    def refuse(request):
        raise ModelRateLimitError("busy", retry_after=50.0)

    llm, limit = ScriptedProvider(refuse, *["hello"] * 9), RateLimit(requests=3, period=60)
    times = []

    async def ask(seconds=1000):
        with trio.move_on_after(seconds):
            await resilient(llm, limits=limit).generate(HELLO)
            times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(1)
        nursery.start_soon(ask)
        nursery.start_soon(ask, 10)
        await trio.sleep(20)
        assert limit.statistics().requests == 3  # one was sent, two wait to be
    await ask()
    await ask()
    # Requests are sent at 0, 50, 56, 60 (that at 0 counts no more) and 110: three in any minute.
    assert times == [50, 56, 62, 110]


async def test_a_resilient_model_in_another_one_goes_through_one_gate(autojump_clock):
    def refuse(request):
        raise ModelRateLimitError("busy", retry_after=7.0)

    llm = ScriptedProvider(refuse, "hello")
    await collect(resilient(resilient(llm), fallback=[ScriptedProvider("spare")]).stream(HELLO))
    assert len(llm.requests) == 2
    assert 7 <= trio.current_time() < 10


async def test_one_gate_is_that_of_a_key_at_a_host_whatever_the_model():
    def gate(provider, key, base="http://127.0.0.1:1"):
        return gate_of(provider("m", api_key=key, base_url=base))

    assert gate(AnthropicProvider, "k-1") is gate(AnthropicProvider, "k-1")
    assert gate(AnthropicProvider, "k-1") is not gate(AnthropicProvider, "k-2")
    assert gate(OpenAIProvider, "k-1") is not gate(OpenAIProvider, "k-1", "http://127.0.0.1:2")
    assert "k-1" not in AnthropicProvider("m", api_key="k-1").account


def test_gates_of_keys_that_are_not_used_any_more_are_forgotten():
    first = shared_gate("forgotten 0")
    for number in range(1, 600):
        shared_gate(f"forgotten {number}")
    assert shared_gate("forgotten 0") is not first
