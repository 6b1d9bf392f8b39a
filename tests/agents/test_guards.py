"""Guards: rejected text exists nowhere, and no text is held back longer than necessary."""

import dataclasses
import logging
import random
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import (
    Agent,
    AgentRuntime,
    ConfigurationError,
    Custom,
    FileStore,
    Guard,
    InMemoryStore,
    Reject,
    Rewrite,
    RunContext,
    TextBlock,
    TextComplete,
    TextDelta,
    ThinkingBlock,
    ToolUseBlock,
)
from greenroom.agents._internal import GuardError
from greenroom.agents.guards import GuardedStream, Guards
from greenroom.core import Message, StopReason
from greenroom.core._internal import serde
from greenroom.llm import BlockDelta, BlockEnd, ModelStream, ModelStreamError, StreamEnd, resilient
from greenroom.llm._internal import ANSWER_TOOL, events_of
from greenroom.testing import Reply, ScriptedProvider, call

SECRET = "sk-1234567890"
SECONDS = 60


def no_keys(context, text):
    return Reject("it holds a key") if SECRET in text else None


def redact(context, text):
    return Rewrite(text.replace(SECRET, "[key]")) if SECRET in text else None


class Cut:
    """A model whose reply comes in pieces of given lengths."""

    name, model = "cut", "cut"

    def __init__(self, text, cuts, *, stop_reason=StopReason.END_TURN):
        self.text, self.cuts = text, cuts
        self.message = Message("assistant", (TextBlock(text),), stop_reason=stop_reason)

    def events(self):
        start = 0
        for end in (*self.cuts, len(self.text)):
            yield BlockDelta(0, "text", self.text[start:end])
            start = end
        yield BlockEnd(0, TextBlock(self.text))
        yield StreamEnd(self.message)

    @asynccontextmanager
    async def stream(self, request):
        await trio.lowlevel.checkpoint()
        yield _Pieces(self.events())

    async def generate(self, request):
        raise NotImplementedError

    async def aclose(self):
        pass


class _Pieces(ModelStream):
    def __init__(self, events):
        super().__init__("cut")
        self._events = events

    async def receive(self):
        await wait_all_tasks_blocked()  # a reader has read what there is
        return (next(self._events),)


class Bug(logging.Handler):
    """Everything that is logged, as text."""

    def __init__(self):
        super().__init__(0)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


def cuts_of(rng, length, largest):
    found, at = [], 0
    while (at := at + rng.randint(1, largest)) < length:
        found.append(at)
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("guard", ["text", "output"])
@pytest.mark.every(4)
async def test_what_is_rejected_exists_in_no_chunk_file_or_log(seed, guard, tmp_path):
    rng = random.Random(seed)
    place = rng.choice([0, 1, 199, 200, 201, 5_000, 9_986, rng.randrange(9_987)])
    text = "".join(rng.choices("abc d", k=10_000 - len(SECRET)))
    text = text[:place] + SECRET + text[place:]
    window = rng.choice([len(SECRET), 50, 200])
    model = Cut(text, cuts_of(rng, len(text), rng.choice([3, 20, 60, 4_000])))
    bug = Bug()
    logging.getLogger().addHandler(bug)
    logging.getLogger("greenroom").setLevel(0)
    try:
        agent = Agent(model, guards=[Guard(no_keys, on=guard, window=window)])
        async with agent.stream("Go", store=FileStore(tmp_path)) as run:
            chunks = [chunk async for chunk in run]
            partial = await run.handle.partial_text()
    finally:
        logging.getLogger().removeHandler(bug)
        logging.getLogger("greenroom").setLevel(logging.NOTSET)
    result = run.result
    assert (result.status, type(result.error)) == ("failed", GuardError)
    assert [chunk.data for chunk in chunks if isinstance(chunk, Custom)]
    published = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    assert text.startswith(published)
    assert len(published) <= place
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    told = b"".join(map(serde.encode, chunks)) + repr(result).encode() + partial.encode()
    # Not the secret, and not its first half either, where that was still held back.
    for part in (SECRET, text[place : place + len(SECRET)]):
        assert part.encode() not in whole + told + "".join(bug.lines).encode()


@pytest.mark.parametrize("largest", [1, 7, 300, 2_000])
async def test_text_lags_by_the_window_and_costs_as_much_as_it_is_long(largest):
    rng, window, length = random.Random(largest), 200, 2_000
    text = "".join(rng.choices("abcdefgh ", k=length))
    given, looked_at, calls, published = 0, 0, 0, ""

    def look(context, piece):
        nonlocal looked_at, calls
        looked_at, calls = looked_at + len(piece), calls + 1

    model = Cut(text, cuts_of(rng, length, largest))
    sent = model.events

    def events():
        nonlocal given
        for event in sent():
            if isinstance(event, BlockDelta):
                # Before the next piece comes, all but the window of the last one was seen.
                assert len(published) == max(given - window, 0)
                given += len(event.text)
            yield event

    model.events = events
    async with Agent(model, guards=[Guard(look, on="text", window=window)]).stream("Go") as run:
        async for piece in run.text():
            published += piece
    assert published == run.result.output == text
    assert calls == len(model.cuts) + 1
    assert looked_at <= length + calls * window


@pytest.mark.parametrize("largest", [1, 5, 40, 10_000])
async def test_what_is_rewritten_is_published_and_kept_rewritten(largest, tmp_path):
    rng = random.Random(largest)
    text = f"The key is {SECRET}, and {'x' * 500} {SECRET}{SECRET} again."
    model = Cut(text, cuts_of(rng, len(text), largest))
    agent = Agent(model, guards=[Guard(redact, on="text", window=len(SECRET))])
    async with agent.stream("Go", store=FileStore(tmp_path)) as run:
        chunks = [chunk async for chunk in run]
    expected = text.replace(SECRET, "[key]")
    assert run.result.output == expected
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == expected
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextComplete)] == [expected]
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in whole


async def test_several_guards_look_one_after_the_other():
    async def shout(context, text):
        await trio.lowlevel.checkpoint()
        return Rewrite(text.upper())

    guards = [Guard(redact, on="text", window=20), Guard(shout, on="text", window=5)]
    guards.append(Guard(lambda context, text: Rewrite(f"<{text}>"), on="output"))
    text = f"the key is {SECRET}"
    result = await Agent(Cut(text, range(1, len(text))), guards=guards).run("Go")
    assert result.output == "<THE KEY IS [KEY]>"


async def test_an_output_guard_looks_at_the_last_reply_alone():
    seen = []

    def look() -> str:
        """Look."""
        return "rain"

    def check(context: RunContext[str], text: str) -> None:
        seen.append((context.deps, context.step, text))

    script = [TextBlock("Let me look."), call("look")], "It rains."
    agent = Agent(ScriptedProvider(*script), tools=[look], guards=[Guard(check)], deps_type=str)
    async with agent.stream("Go", deps="ada") as run:
        texts = [piece async for piece in run.text()]
    assert seen == [("ada", 2, "It rains.")]
    assert "".join(texts) == "Let me look.It rains."


async def test_a_guard_does_not_look_at_thinking():
    script = [ThinkingBlock(f"It is {SECRET}."), TextBlock("I can't say.")]
    result = await Agent(ScriptedProvider(script), guards=[Guard(no_keys, on="text")]).run("Go")
    assert result.output == "I can't say."
    assert SECRET in result.messages[-1].content[0].thinking


@pytest.mark.parametrize("is_slow", [False, True])
async def test_an_input_that_is_rejected_is_stored_nowhere(is_slow, tmp_path):
    async def check(context, text):
        await trio.lowlevel.checkpoint()
        return no_keys(context, text)

    store, model = FileStore(tmp_path), ScriptedProvider("Hello.")
    guard = Guard(check if is_slow else no_keys, on="input")
    first = await Agent(model, guards=[guard]).run(f"It is {SECRET}", session="s", store=store)
    assert (first.status, first.steps, model.requests) == ("failed", 0, [])
    again = await Agent(model, guards=[guard]).run("Hi", session="s", store=store)
    assert again.output == "Hello."
    told = [message.text for message in model.requests[0].messages]
    assert told == ["[check has rejected the input: it holds a key]", "Hi"] or not is_slow
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in whole


async def test_an_input_is_rewritten_before_anybody_sees_it():
    model = ScriptedProvider("Hello.")
    result = await Agent(model, guards=[Guard(redact, on="input")]).run(f"It is {SECRET}")
    assert [message.text for message in model.requests[0].messages] == ["It is [key]"]
    assert result.messages[0].text == "It is [key]"


async def test_a_memory_is_asked_only_about_what_the_guards_have_passed():
    class Shelf:
        queries: list[str] = []

        async def recall(self, query, *, limit=5, threshold=0.0, where=None):
            self.queries.append(query)
            return []

        add = forget = clear = recall  # of which nothing is called

    model = ScriptedProvider("Hello.")
    guards = [Guard(redact, on="input")]
    await Agent(model, guards=guards, memory=Shelf()).run(f"It is {SECRET}")
    assert Shelf.queries == ["It is [key]"]


async def test_an_input_is_kept_where_its_guard_is_interrupted():
    async def check(context, text):
        began.set()
        await trio.sleep_forever()

    began = trio.Event()
    with trio.fail_after(SECONDS):
        async with Agent("offline:", guards=[Guard(check, on="input")]).stream("Hi") as run:
            await began.wait()
            await run.handle.interrupt()
    assert (run.result.status, [m.text for m in run.result.messages]) == ("interrupted", ["Hi"])


async def test_what_the_model_had_said_is_not_in_its_error_either():
    error = ModelStreamError("broken", provider="scripted")
    agent = Agent(
        ScriptedProvider(Reply(f"Key: {SECRET}", error=error)), guards=[Guard(redact, on="text")]
    )
    result = await agent.run("Go")
    assert result.error is error
    assert SECRET not in repr(error.partial)
    assert SECRET not in repr(result.messages)


async def test_a_reply_that_begins_anew_is_looked_at_anew(autojump_clock):
    error = ModelStreamError("broken", provider="scripted")
    model = ScriptedProvider(Reply("The key is sk-123", error=error), "4567890 is a number.")
    llm = resilient(model, after_output="restart")
    result = await Agent(llm, guards=[Guard(no_keys, on="text", window=20)]).run("Go")
    assert result.output == "4567890 is a number."


def blocks(*texts):
    """A model whose reply comes in blocks of text, each in pieces of two characters."""
    model = Cut("", [])
    model.message = Message(
        "assistant", tuple(map(TextBlock, texts)), stop_reason=StopReason.END_TURN
    )

    def events():
        for index, text in enumerate(texts):
            for at in range(0, len(text), 2):
                yield BlockDelta(index, "text", text[at : at + 2])
            yield BlockEnd(index, TextBlock(text))
        yield StreamEnd(model.message)

    model.events = events
    return model


@pytest.mark.parametrize("at", [1, 5, len(SECRET) - 1])
async def test_a_text_is_one_in_however_many_blocks_it_comes(at, tmp_path):
    texts = f"The key is {SECRET[:at]}", SECRET[at:], ", and so on."
    for guard in (no_keys, redact):
        agent = Agent(blocks(*texts), guards=[Guard(guard, on="text", window=20)])
        async with agent.stream("Go", store=FileStore(tmp_path)) as run:
            chunks = [chunk async for chunk in run]
        told = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
        if guard is redact:
            assert run.result.output == told == "The key is [key], and so on."
        else:
            assert (run.result.status, "sk-1"[:at] in told) == ("failed", False)
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in whole


@pytest.mark.parametrize("order", [[0, 1, 0, 1], [1, 0, 1, 0]])
async def test_blocks_whose_pieces_are_mixed_are_looked_at_as_what_they_are(order):
    model, halves = blocks("sk-1234", "567890"), {0: ["sk-", "1234"], 1: ["567", "890"]}

    def events():
        for index in order:
            yield BlockDelta(index, "text", halves[index].pop(0))
        yield BlockEnd(0, TextBlock("sk-1234"))
        yield BlockEnd(1, TextBlock("567890"))
        yield StreamEnd(model.message)

    model.events = events
    agent = Agent(model, guards=[Guard(redact, on="text", window=20)])
    async with agent.stream("Go") as run:
        chunks = [chunk async for chunk in run]
    assert run.result.output == "[key]"
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextComplete)] == ["[key]"]


async def test_blocks_that_pass_stay_as_they_are():
    cited = Message(
        "assistant",
        (TextBlock("It rains", extra={"citations": ["a"]}), TextBlock(" in Tokyo.")),
        stop_reason=StopReason.END_TURN,
    )
    model = blocks("It rains", " in Tokyo.")
    model.message = cited
    result = await Agent(model, guards=[Guard(no_keys, on="text")]).run("Go")
    assert [block.text for block in result.messages[-1].content] == ["It rains", " in Tokyo."]


@pytest.mark.parametrize("on", ["text", "output"])
@pytest.mark.parametrize("is_valid", [True, False])
async def test_a_value_is_looked_at_by_whatever_way_it_is_given(on, is_valid, tmp_path):
    answer = call(ANSWER_TOOL, value=SECRET)
    if not is_valid:
        raw = f'{{"value": "{SECRET}'
        answer = ToolUseBlock("toolu-1", ANSWER_TOOL, {}, invalid="no JSON", raw_input=raw)
    store, script = FileStore(tmp_path), [TextBlock("Here it is."), answer]
    for guard, fits in ((no_keys, False), (redact, is_valid)):
        model = ScriptedProvider(script, call(ANSWER_TOOL, value="again"))
        agent = Agent(model, output_type=Annotated[str, "the key"], guards=[Guard(guard, on=on)])
        result = await agent.run("Go", store=store)
        if guard is no_keys:
            assert isinstance(result.error, GuardError)
        else:
            assert result.output == ("[key]" if fits else "again")
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in whole


async def test_an_output_guard_looks_at_a_last_reply_that_calls_something_all_the_same(tmp_path):
    def look() -> str:
        """Look."""
        return "rain"

    said = [TextBlock(f"The key is {SECRET}"), call("look")]
    agent = Agent(ScriptedProvider(said), tools=[look], max_steps=1, guards=[Guard(no_keys)])
    result = await agent.run("Go", store=FileStore(tmp_path))
    assert (type(result.error), result.text) == (GuardError, "")
    whole = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET.encode() not in whole


async def test_what_an_output_guard_has_passed_is_kept_where_it_is_cut_off():
    said = Message("assistant", (ThinkingBlock("Hm.", "sig"), TextBlock("Hello.")))
    guards = Guards([Guard(no_keys)], lambda: None)
    stream = GuardedStream(_Pieces(events_of(said)), guards, is_last=False)
    async for event in stream:
        if isinstance(event, BlockDelta) and event.kind == "text":
            break
    assert stream.partial().content == said.content


class _AtOnce(ModelStream):
    """A stream whose events have all arrived."""

    def __init__(self, events):
        super().__init__("acme")
        self._events = deque(events)

    async def receive(self):
        return [self._events.popleft() for _ in range(min(self.wanted, len(self._events)))]


@pytest.mark.parametrize("on", ["text", "output"])
async def test_a_guarded_reply_is_the_same_in_batches(on):
    said = Message("assistant", (TextBlock("It rains in " + "many " * 50 + "places."),))
    guards = Guards([Guard(no_keys, on=on)], lambda: None)
    single = GuardedStream(_AtOnce(events_of(said)), guards, is_last=False)
    expected = [event async for event in single]
    batched = GuardedStream(_AtOnce(events_of(said)), guards, is_last=False)
    found = []
    while batch := await batched.take():
        found += batch
    assert found[:-1] == expected[:-1]
    assert batched.message.content == single.message.content


async def test_what_a_guard_has_passed_does_not_wait_for_what_it_looks_at_next():
    async def look(context, text):
        if "slow" in text:
            began.set()
            await trio.sleep_forever()

    began = trio.Event()
    said = Message("assistant", (TextBlock("It is quick. It is slow. It rains."),))
    guards = Guards([Guard(look, on="text", window=0)], lambda: None)
    stream = GuardedStream(_AtOnce(events_of(said)), guards, is_last=False)
    found = []

    async def read():
        while batch := await stream.take():
            found.extend(batch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        with trio.fail_after(60):
            await began.wait()
        nursery.cancel_scope.cancel()
    assert "quick" in "".join(event.text for event in found if isinstance(event, BlockDelta))
    assert "quick" in stream.partial().text


async def test_what_an_output_guard_has_not_seen_is_no_output():
    def look() -> str:
        """Look."""
        return "rain"

    script = [TextBlock("Let me look."), call("look")], Reply(""), Reply("")
    agent = Agent(ScriptedProvider(*script), tools=[look], guards=[Guard(no_keys)])
    assert (await agent.run("Go")).output == ""


@pytest.mark.parametrize("ends", ["interrupt", "crash"])
async def test_an_input_that_no_guard_has_passed_is_looked_at_before_a_model_sees_it(
    ends, tmp_path
):
    async def check(context, text):
        if not began.is_set():
            began.set()
            if ends == "crash":
                raise ZeroDivisionError
            await trio.sleep_forever()
        return no_keys(context, text)

    began, model, store = trio.Event(), ScriptedProvider("Hello."), FileStore(tmp_path)
    agent = Agent(model, guards=[Guard(check, on="input")])
    with trio.fail_after(SECONDS), suppress(ZeroDivisionError):
        async with agent.stream(f"It is {SECRET}", session="s", store=store) as run:
            await began.wait()
            await run.handle.interrupt()
    again = await agent.run("Go on.", session="s", store=store)
    assert again.output == "Hello."
    said = [message.text for message in model.requests[0].messages]
    assert said == ["[check has rejected the input: it holds a key]", "Go on."]
    model = ScriptedProvider("Once more.")
    more = await dataclasses.replace(agent, llm=model).run("And?", session="s", store=store)
    assert [message.text for message in more.messages] == ["And?", "Once more."]


async def test_a_bug_of_a_guard_is_raised_and_nothing_has_passed():
    def broken(context, text):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        await Agent(ScriptedProvider("Hi"), guards=[Guard(broken, on="text")]).run("Go")
    with pytest.raises(TypeError, match="returned bool"):
        await Agent(ScriptedProvider("Hi"), guards=[Guard(lambda c, t: True)]).run("Go")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"on": "tool"}, "a guard on 'tool'"),
        ({"window": -1}, "window is -1"),
        ({"check": 1}, "1 is"),
    ],
)
def test_what_is_no_guard_is_refused(options, match):
    with pytest.raises(ConfigurationError, match=match):
        Guard(**{"check": no_keys, **options})


def test_agents_take_guards_and_their_deps():
    def check(context: RunContext[int], text: str) -> None: ...

    with pytest.raises(ConfigurationError, match="not a guard"):
        Agent("offline:", guards=[no_keys])
    with pytest.raises(TypeError, match="the guard check wants"):
        Agent("offline:", guards=[Guard(check)])


async def test_a_guard_may_ask_another_agent():
    judge = Agent(ScriptedProvider("no", "yes"), name="judge")

    async def ask(context, text):
        return Reject("the judge says so") if (await judge.run(text)).output == "yes" else None

    agent = Agent(ScriptedProvider("One.", "Two."), guards=[Guard(ask)])
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        assert (await agent.run("Go", runtime=runtime)).output == "One."
        second = await agent.run("Go", runtime=runtime)
    assert "the judge says so" in str(second.error)
    assert second.usage.total > 0
