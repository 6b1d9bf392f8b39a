"""`resilient`: retries, limits, circuit and fallbacks of one model, without a network."""

import random
import signal
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from greenroom.core import ConfigurationError, GreenroomError, Message, Price, Usage
from greenroom.llm import (
    BlockDelta,
    LLMProvider,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelConnectionError,
    ModelContextTooLongError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequest,
    ModelStreamError,
    RecordedProvider,
    resilient,
)
from greenroom.llm._internal import (
    Announcement,
    ModelContentFilterError,
    ModelIdleTimeoutError,
    ModelNotFoundError,
    ModelPermissionError,
    ModelQuotaError,
    StreamRestart,
    collect,
)
from greenroom.llm.model_attempt import ModelAttempt
from greenroom.resilience import (
    Backoff,
    CircuitBreaker,
    CircuitOpenError,
    ConcurrencyLimit,
    RateLimit,
    Retry,
)
from greenroom.resilience._internal import CircuitState
from greenroom.testing import Reply, ScriptedProvider
from tests.llm import wire
from tests.llm.server import Answer, model_server

HELLO = ModelRequest(messages=[Message.user("hi")])
EVEN = Retry(attempts=4, backoff=Backoff(first=1.0, jitter=0))


def fails(kind=ModelOverloadedError, text="busy", **facts):
    """A step of a script: the request fails before anything has come."""

    def step(request):
        raise kind(text, **facts)

    return step


def broken(text, kind=ModelStreamError):
    """A step of a script: the reply breaks off after this text."""
    return Reply(text, error=kind("broke off"))


async def read(model, request=HELLO):
    """Read a reply; return its message, what was announced and when, and the text of its deltas."""
    told, text = [], ""
    async with model.stream(request) as stream:
        async for event in stream:
            if isinstance(event, Announcement):
                told.append((event.kind, trio.current_time()))
            elif isinstance(event, BlockDelta):
                text += event.text
            elif isinstance(event, StreamRestart):
                text = ""
        return stream.message, told, text


async def error_of(model, kind):
    with pytest.raises(kind) as caught:
        await read(model)
    return caught.value


async def test_three_failures_and_a_success_are_one_reply_and_each_wait_is_told_before_it(
    autojump_clock,
):
    llm = ScriptedProvider(fails(), fails(), fails(), "hello there")
    model = resilient(llm, retry=EVEN)
    assert isinstance(model, LLMProvider)
    message, told, text = await read(model)
    assert message.text == text == "hello there"
    assert (message.provider, message.model) == ("scripted", "script")
    assert told == [("model.retry", 0), ("model.retry", 1), ("model.retry", 3)]
    assert (len(llm.requests), trio.current_time()) == (4, 7)


async def test_what_is_told_has_the_facts_and_one_readable_line(autojump_clock):
    model = resilient(
        ScriptedProvider(fails(ModelRateLimitError, "slow\ndown", retry_after=7.0), "hello"),
        retry=EVEN,
    )
    async with model.stream(HELLO) as stream:
        event = await anext(stream)
        assert trio.current_time() == 0
    assert event == Announcement(
        "model.retry",
        {
            "provider": "scripted",
            "model": "script",
            "reason": "slow down",
            "error": "ModelRateLimitError",
            "seconds": 7.0,
            "attempt": 2,
            "attempts": 4,
        },
        "slow down; attempt 2 of 4 in 7.0 s",
    )


async def test_generate_retries_too_and_begins_anew_also_after_output(autojump_clock):
    llm = ScriptedProvider(fails(), broken("half a"), "whole")
    assert (await resilient(llm, retry=EVEN).generate(HELLO)).text == "whole"
    assert trio.current_time() == 3


async def test_when_all_attempts_are_used_up_the_last_error_is_raised(autojump_clock):
    llm = ScriptedProvider(*[fails()] * 4)
    error = await error_of(resilient(llm, retry=EVEN), ModelOverloadedError)
    assert error.hint == "try again later; 4 attempts failed"


@pytest.mark.parametrize(
    "kind",
    [ModelBadRequestError, ModelAuthenticationError, ModelQuotaError, ModelContextTooLongError],
)
async def test_what_waiting_does_not_cure_is_raised_at_once(kind, autojump_clock):
    llm = ScriptedProvider(fails(kind), "never")
    await error_of(resilient(llm, retry=EVEN), kind)
    assert (len(llm.requests), trio.current_time()) == (1, 0)


@pytest.mark.parametrize("bug", [ZeroDivisionError, GreenroomError, trio.TooSlowError])
async def test_a_bug_is_never_retried_whatever_the_retry_says(bug, autojump_clock):
    llm = ScriptedProvider(fails(bug), "never")
    everything = Retry(retryable=lambda _: True)
    with pytest.raises(bug):
        await read(resilient(llm, retry=everything, fallback=[ScriptedProvider("never")]))
    assert len(llm.requests) == 1


async def test_a_retry_inside_a_retry_inside_a_retry_makes_the_attempts_of_one(autojump_clock):
    llm = ScriptedProvider(*[fails()] * 100)
    model = resilient(resilient(llm, retry=EVEN), retry=EVEN)
    with pytest.raises(ModelOverloadedError):
        await EVEN.call(model.generate, HELLO)
    assert len(llm.requests) == 4
    await error_of(model, ModelOverloadedError)
    assert len(llm.requests) == 8


async def test_inside_an_attempt_the_fallbacks_are_still_asked_once_each(autojump_clock):
    first, second = ScriptedProvider(*[fails()] * 9), ScriptedProvider(*[fails()] * 9)
    model = resilient(first, retry=EVEN, fallback=[second])
    with pytest.raises(ModelOverloadedError):
        await Retry(attempts=2, backoff=Backoff(first=0)).call(model.generate, HELLO)
    assert (len(first.requests), len(second.requests)) == (2, 2)


async def test_a_cancel_ends_a_wait_at_once(autojump_clock):
    llm = ScriptedProvider(fails(ModelRateLimitError, retry_after=50.0), "never")
    with trio.CancelScope() as scope:
        async with resilient(llm).stream(HELLO) as stream, trio.open_nursery() as nursery:
            assert isinstance(await anext(stream), Announcement)
            nursery.start_soon(anext, stream)
            await trio.sleep(1)
            scope.cancel()
    assert trio.current_time() == 1
    assert stream.partial().content == ()


async def test_once_something_was_read_a_failure_is_raised_and_the_partial_reply_kept(
    autojump_clock,
):
    llm = ScriptedProvider(fails(), broken("half a reply"), "never")
    spare = ScriptedProvider("never")
    stream = resilient(llm, retry=EVEN, fallback=[spare]).stream(HELLO)
    with pytest.raises(ModelStreamError):
        await collect(stream)
    assert stream.partial().text == "half a reply"
    assert spare.requests == []


async def test_what_had_come_on_an_error_is_the_reply_of_the_model_that_broke_off(autojump_clock):
    spare = ScriptedProvider(broken("half a reply"), name="spare")
    model = resilient(ScriptedProvider(fails()), retry=Retry(attempts=1), fallback=[spare])
    error = await error_of(model, ModelStreamError)
    assert (error.partial.text, error.partial.provider) == ("half a reply", "spare")


async def test_a_reply_that_broke_off_before_its_first_words_is_retried_silently(autojump_clock):
    llm = ScriptedProvider(broken(""), "hello")
    message, told, _ = await read(resilient(llm, retry=EVEN))
    assert message.text == "hello"
    assert [kind for kind, _ in told] == ["model.retry"]


async def test_on_request_it_begins_anew_and_what_was_read_is_not_in_the_reply(autojump_clock):
    llm = ScriptedProvider(broken("half a reply"), "a whole one")
    model = resilient(llm, retry=EVEN, after_output="restart")
    events, partials = [], []
    async with model.stream(HELLO) as stream:
        async for event in stream:
            events.append(event)
            partials.append(stream.partial().text)
    assert stream.message.text == "a whole one"
    at = next(n for n, event in enumerate(events) if isinstance(event, StreamRestart))
    assert (partials[at - 1], partials[at]) == ("half a reply", "")
    assert events[at].partial.text == "half a reply"
    assert [event.kind for event in events[at + 1 : at + 3]] == ["reply.restarted", "model.retry"]
    assert partials[-1] == "a whole one"


async def test_what_a_failed_attempt_has_used_is_told_with_its_own_price(autojump_clock):
    million = Usage(1_000_000, 0)
    first = ScriptedProvider(
        Reply("", usage=million, error=ModelStreamError("broke off")), price=Price(2, 2)
    )
    second = ScriptedProvider(Reply("whole", usage=million), name="spare", price=Price(5, 5))
    model = resilient(first, retry=Retry(attempts=1), fallback=[second], after_output="restart")
    async with model.stream(HELLO) as stream:
        events = [event async for event in stream]
    (restart,) = (event for event in events if isinstance(event, StreamRestart))
    assert (restart.partial.usage.cost, restart.partial.provider) == (2, "scripted")
    assert (stream.message.usage.cost, stream.message.provider) == (5, "spare")


async def test_models_are_asked_one_after_the_other_and_the_reply_says_who_answered(autojump_clock):
    first = ScriptedProvider(*[fails()] * 4)
    second = ScriptedProvider(fails(ModelQuotaError, "no credit"), name="second")
    third = ScriptedProvider(fails(), "from the third", name="third", model="m-3")
    model = resilient(first, retry=EVEN, fallback=[second, third])
    message, told, _ = await read(model)
    assert message.text == "from the third"
    assert (message.provider, message.model) == ("third", "m-3")
    assert (model.name, model.model) == ("scripted", "script")
    retry, fallback = ("model.retry", "model.fallback")
    assert told == [(retry, 0), (retry, 1), (retry, 3), (fallback, 7), (fallback, 7), (retry, 7)]


@pytest.mark.parametrize(
    "kind",
    [
        ModelAuthenticationError,
        ModelPermissionError,
        ModelQuotaError,
        ModelNotFoundError,
        ModelOverloadedError,
        ModelRateLimitError,
        ModelIdleTimeoutError,
        ModelConnectionError,
        ModelStreamError,
        CircuitOpenError,
    ],
)
async def test_what_another_model_may_not_have_is_passed_on(kind, autojump_clock):
    spare = ScriptedProvider("hello", name="spare")
    model = resilient(ScriptedProvider(fails(kind)), retry=Retry(attempts=1), fallback=[spare])
    message, told, _ = await read(model)
    assert message.provider == "spare"
    assert [kind for kind, _ in told] == ["model.fallback"]


@pytest.mark.parametrize(
    "kind", [ModelBadRequestError, ModelContentFilterError, ModelContextTooLongError]
)
async def test_what_is_about_the_request_is_not_passed_on(kind, autojump_clock):
    spare = ScriptedProvider("never")
    await error_of(resilient(ScriptedProvider(fails(kind)), fallback=[spare]), kind)
    assert spare.requests == []


async def test_when_no_model_answers_the_first_one_s_error_tells_of_all(autojump_clock):
    second = ScriptedProvider(fails(ModelAuthenticationError, "no key"))
    third = ScriptedProvider(fails(ModelNotFoundError, "no such model"))
    model = resilient(ScriptedProvider(fails()), retry=Retry(attempts=1), fallback=[second, third])
    error = await error_of(model, ModelOverloadedError)
    assert error.hint == (
        "try again later; then ModelAuthenticationError: no key; "
        "then ModelNotFoundError: no such model"
    )
    assert isinstance(error.__cause__, ModelNotFoundError)


async def test_a_wait_that_is_too_long_is_a_reason_to_ask_another_model(autojump_clock):
    llm = ScriptedProvider(fails(ModelRateLimitError, retry_after=3600.0))
    message, _, _ = await read(resilient(llm, fallback=[ScriptedProvider("hello", name="spare")]))
    assert (message.provider, trio.current_time()) == ("spare", 0)


@pytest.mark.parametrize(
    ("prices", "price"),
    [
        ((Price(1, 2), Price(3, 4)), Price(1, 2)),
        ((Price(0, 0), Price(3, 4)), Price(3, 4)),
        ((Price(0, 0), Price(0, 0)), Price(0, 0)),
        ((Price(1, 2), None), None),
        ((None, Price(1, 2)), None),
    ],
)
def test_it_has_a_price_where_each_model_has_one(prices, price):
    first, second = (ScriptedProvider(price=each) for each in prices)
    assert resilient(first, fallback=[second]).price == price


async def test_an_open_circuit_sends_nothing_and_the_fallback_answers_without_a_wait(
    autojump_clock,
):
    breaker = CircuitBreaker("vendor", failures=2, cooldown=30)
    llm = ScriptedProvider(fails(), fails(), "it is back")
    spare = ScriptedProvider("one", "two", name="spare")
    model = resilient(llm, retry=Retry(attempts=1), fallback=[spare], breaker=breaker)
    for _ in range(2):
        assert (await read(model))[0].provider == "spare"
    assert breaker.state is CircuitState.OPEN
    spare = ScriptedProvider("three", name="spare")
    model = resilient(llm, retry=EVEN, fallback=[spare], breaker=breaker)
    assert (await read(model))[0].text == "three"
    assert (len(llm.requests), trio.current_time()) == (2, 0)
    await trio.sleep(30)
    assert (await read(model))[0].text == "it is back"
    assert breaker.state is CircuitState.CLOSED


async def test_without_a_fallback_it_waits_until_the_circuit_lets_it_through(autojump_clock):
    breaker = CircuitBreaker("vendor", failures=1, cooldown=30)
    llm = ScriptedProvider(fails(), "it is back")
    message, told, _ = await read(resilient(llm, retry=EVEN, breaker=breaker))
    assert (message.text, told) == ("it is back", [("model.retry", 0), ("model.retry", 1)])
    assert trio.current_time() == 32


async def test_a_reader_that_leaves_or_crashes_says_nothing_about_the_model(autojump_clock):
    breaker = CircuitBreaker("vendor", failures=1)
    model = resilient(ScriptedProvider("one two", "three four"), breaker=breaker)
    async with model.stream(HELLO) as stream:
        await anext(stream)
    with suppress(KeyError):
        async with model.stream(HELLO) as stream:
            await anext(stream)
            raise KeyError
    statistics = breaker.statistics()
    assert (statistics.running, statistics.failed, statistics.succeeded) == (0, 0, 0)


async def test_a_wait_for_the_rate_limit_is_told_and_usage_takes_the_place_of_the_estimate(
    autojump_clock,
):
    limit = RateLimit(tokens=1000, period=60)
    llm = ScriptedProvider(
        Reply("one", usage=Usage(900, 50)), Reply("two", usage=Usage(40, 10)), "three"
    )
    model = resilient(llm, limits=limit)
    request = ModelRequest(messages=[Message.user("x" * 400)])
    assert (await read(model, request))[1] == []
    assert limit.statistics().tokens == 950
    message, told, _ = await read(model, request)
    assert (message.text, told) == ("two", [("model.wait", 0)])
    assert (limit.statistics().tokens, trio.current_time()) == (50, 60)


async def test_the_estimate_learns_from_what_is_reported(autojump_clock):
    limit = RateLimit(tokens=1000, period=60)
    used = Reply("ok", usage=Usage(600, 0))
    model = resilient(ScriptedProvider(used, used, used), limits=limit)
    request = ModelRequest(messages=[Message.user("a few words")])
    assert (await read(model, request))[1] == []
    # By its length it would fit in beside the first.
    assert (await read(model, request))[1] == [("model.wait", 0)]


@pytest.mark.parametrize("most", [None, 3000, 30_000])
@pytest.mark.parametrize("agents", [1, 20])
async def test_replies_count_in_the_limit_before_they_are_known(agents, most, autojump_clock):
    used, chance = [], random.Random(agents)

    class Model(ScriptedProvider):
        @asynccontextmanager
        async def stream(self, request):
            reply = chance.randint(200, 2000)
            used.append((trio.current_time(), 1000))
            await trio.sleep(reply / 100)
            used.append((trio.current_time(), reply))
            usage = Usage(1000, reply)
            async with ScriptedProvider(Reply("ok", usage=usage)).stream(request) as stream:
                yield stream

    model = resilient(Model(), limits=RateLimit(tokens=20_000))
    request = ModelRequest(messages=[Message.user("word " * 1000)], max_tokens=most)

    async def agent():
        for _ in range(60 // agents):
            await model.generate(request)

    async with trio.open_nursery() as nursery:
        for _ in range(agents):
            nursery.start_soon(agent)
    for at, _ in used:
        assert sum(tokens for other, tokens in used if at <= other < at + 60 - 1e-6) <= 22_000
    # A reserve that is too large costs time, but not a whole minute for each call.
    assert sum(tokens for _, tokens in used) / trio.current_time() > 20_000 / 60 / 3


async def test_a_further_attempt_and_another_model_are_warnings_in_the_log(autojump_clock, caplog):
    flaky = ScriptedProvider(fails(), fails(), name="flaky")
    spare = ScriptedProvider("here", name="spare")
    retry = Retry(attempts=2, backoff=Backoff(first=1.0, jitter=0))
    await resilient(flaky, fallback=[spare], retry=retry).generate(HELLO)
    told = [(each.name, each.levelname, each.message) for each in caplog.records]
    assert [each[:2] for each in told] == [("greenroom.llm", "WARNING")] * 2
    assert "attempt 2 of 2 in 1.0 s" in told[0][2]
    assert "spare" in told[1][2]


async def test_a_request_larger_than_the_limit_goes_alone_with_a_warning(autojump_clock, caplog):
    model = resilient(ScriptedProvider("one", "two"), limits=RateLimit(tokens=1000))
    await model.generate(HELLO)
    await model.generate(ModelRequest(messages=[Message.user("word " * 3000)]))
    assert trio.current_time() == 60
    (record,) = caplog.records
    assert "exceeds RateLimit(tokens=1000, period=60) alone" in record.message


async def test_each_attempt_counts_and_gives_its_slot_back_while_it_waits(autojump_clock):
    slots, rate = ConcurrencyLimit(1), RateLimit(requests=10)
    flaky = resilient(ScriptedProvider(fails(), "slow"), retry=EVEN, limits=[slots, rate])
    other = resilient(ScriptedProvider("quick"), limits=slots)
    order = []

    async def ask(model):
        order.append((await model.generate(HELLO)).text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, flaky)
        await trio.sleep(0.5)
        nursery.start_soon(ask, other)
    assert order == ["quick", "slow"]
    assert rate.statistics().requests == 2
    assert slots.is_free


async def test_a_wait_for_other_calls_is_told(autojump_clock):
    slots = ConcurrencyLimit(1)
    model = resilient(ScriptedProvider("hello"), limits=slots)
    async with trio.open_nursery() as nursery:
        async with slots:
            nursery.start_soon(read, model)
            async with model.stream(HELLO) as stream:
                event = await anext(stream)
        assert event.text == "scripted:script waits for other calls to end"
    assert slots.is_free


class Watched:
    """A model that knows which of its streams are open."""

    name, model = "watched", "m"

    def __init__(self, *script):
        self._llm, self.open, self.closed = ScriptedProvider(*script), 0, 0

    @asynccontextmanager
    async def stream(self, request):
        async with self._llm.stream(request) as stream:
            self.open += 1
            try:
                yield stream
            finally:
                self.open -= 1

    async def generate(self, request):
        return await self._llm.generate(request)

    async def aclose(self):
        self.closed += 1
        await trio.lowlevel.checkpoint()


async def test_leaving_the_block_closes_the_stream_that_is_open_and_a_failed_one_is_closed_before(
    autojump_clock,
):
    llm = Watched(broken("one two"), "three four")
    async with resilient(llm, retry=EVEN, after_output="restart").stream(HELLO) as stream:
        async for event in stream:
            if isinstance(event, Announcement):
                assert llm.open == 0
            if isinstance(event, BlockDelta) and trio.current_time() > 0:
                break
        assert llm.open == 1
    assert llm.open == 0
    assert stream.partial().text == "three"


@pytest.mark.parametrize("kind", [ModelOverloadedError, ModelAuthenticationError])
async def test_a_reply_that_has_failed_for_good_is_not_asked_for_again(kind, autojump_clock):
    llm = ScriptedProvider(fails(kind), fails(kind), "late")
    async with resilient(llm, retry=Retry(attempts=1)).stream(HELLO) as stream:
        for _ in range(2):
            with pytest.raises(kind):
                await anext(stream)
    assert len(llm.requests) == 1


async def test_closing_closes_every_model(autojump_clock):
    models = [Watched(), Watched()]
    await resilient(models[0], fallback=models[1:]).aclose()
    assert [model.closed for model in models] == [1, 1]


async def test_a_recording_can_be_replayed_through_it():
    model = resilient(RecordedProvider([Message.assistant("as it was")]))
    assert (await model.generate(HELLO)).text == "as it was"
    assert repr(model) == "resilient(RecordedProvider(<1 replies>))"
    with pytest.raises(ModelBadRequestError, match="has ended"):
        await model.generate(HELLO)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigurationError, match="after_output"):
        resilient(ScriptedProvider(), after_output="again")
    with pytest.raises(ConfigurationError, match="not the name of a known model"):
        resilient(ScriptedProvider(), fallback=["nobody's model"])


async def test_models_are_taken_by_name_as_they_are_and_closed_with_the_wrapper(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    model = resilient("gpt-5.4", fallback=["offline:"])
    assert repr(model) == "resilient(OpenAIResponsesProvider('gpt-5.4'), OfflineProvider())"
    await model.aclose()


async def test_three_overloaded_answers_of_a_server_and_then_a_reply():
    from greenroom.llm import AnthropicProvider

    reply = wire.anthropic(*wire.text_block(0, "Hel", "lo"))
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answers = [Answer.error(529, body)] * 3 + [Answer.stream(reply)]
    async with model_server(lambda _: answers.pop(0)) as server:
        llm = AnthropicProvider("m-1", api_key="k", base_url=server.url)
        quick = Retry(backoff=Backoff(first=0))
        message, told, text = await read(resilient(llm, retry=quick))
        await llm.aclose()
    assert message.text == text == "Hello"
    assert [kind for kind, _ in told] == ["model.retry"] * 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(ConcurrencyLimit, "acquire", id="taken"),
        pytest.param(ModelAttempt, "_settle", id="settled"),
        pytest.param(ConcurrencyLimit, "release", id="released"),
    ],
)
def test_a_ctrl_c_leaves_no_place_of_a_limit_taken(monkeypatch, owner, name):
    real, limit = getattr(owner, name), ConcurrencyLimit(1)

    def interrupt(*arguments):
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    async def main():
        await resilient(ScriptedProvider("hello"), limits=limit).generate(HELLO)
        await trio.sleep_forever()

    async def interrupt_after(*arguments):
        await real(*arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(owner, name, interrupt_after if name == "acquire" else interrupt)
    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert limit.is_free


def test_a_ctrl_c_ends_the_end_of_a_provider_s_own_block_that_would_go_on_for_good():
    limit, went_on = ConcurrencyLimit(1), []

    class Endless(ScriptedProvider):
        @asynccontextmanager
        async def stream(self, request):
            async with super().stream(request) as opened:
                yield opened
            signal.raise_signal(signal.SIGINT)
            went_on.append(True)  # for good, in the code of a program

    async def main():
        await resilient(Endless("hello"), limits=limit).generate(HELLO)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert not went_on
    assert limit.is_free
