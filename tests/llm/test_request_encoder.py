"""Requests of conversations that grow, are rewound, compacted, branched and edited."""

import threading
from types import MappingProxyType

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import (
    DocumentBlock,
    Message,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import serde
from greenroom.llm import ModelBadRequestError, ModelRequest, request_encoder
from greenroom.llm.anthropic.encode import MessagesDialect
from greenroom.llm.gemini.encode import GeminiDialect
from greenroom.llm.openai.encode import ChatDialect
from greenroom.llm.request_encoder import ConversationEncoder, RequestEncoder, encode_request
from greenroom.llm.responses.encode import ResponsesDialect
from tests.llm.test_merged_messages import MESSAGES

DIALECTS = [MessagesDialect("m", 9), ChatDialect("m"), ResponsesDialect("m"), GeminiDialect("m")]


async def check(encoder, dialect, messages):
    request = ModelRequest(messages=messages)
    assert (await encoder.encode(request)).content == encode_request(dialect, request)


IDS = st.sampled_from(["c", "c:2", "c_2"])
KINDS = st.sampled_from([{}, {"type": "custom_tool_call"}])
USES = st.builds(
    ToolUseBlock, IDS, st.sampled_from(["Read", "a.b"]), st.just({"x": 1}), extra=KINDS
)
TEXTS = st.builds(TextBlock, st.sampled_from(["", " ", "a", "b", "[from x]"]))
RESULTS = st.builds(ToolResultBlock, IDS, st.tuples(TEXTS))
FIELDS = st.sampled_from([{}, {}, {}, {"name": "Ann"}])
ASKED = st.builds(
    Message,
    st.just("user"),
    st.lists(TEXTS | RESULTS, max_size=2).map(tuple),
    extra=FIELDS,
    sender=st.sampled_from(["", "plan"]),
)
REPLIED = st.builds(
    Message,
    st.just("assistant"),
    st.lists(TEXTS | USES, max_size=2).map(tuple),
    extra=FIELDS,
    provider=st.sampled_from(["", "anthropic", "openai", "google"]),
)
STEPS = st.lists(st.tuples(REPLIED, ASKED), min_size=1, max_size=3).map(
    lambda pairs: sum(pairs, ())
)
NEW = STEPS | STEPS | st.lists(ASKED | REPLIED, max_size=3).map(tuple) | MESSAGES.map(tuple)


@st.composite
def histories(draw):
    """Histories one after another, each made from one before it, most of them from the last."""
    known = [draw(STEPS)]
    sent = [*known]
    for _ in range(draw(st.integers(2, 6))):
        history = draw(st.sampled_from(known[-1:] * 3 + known))
        new = draw(NEW)
        at = draw(st.integers(0, len(history)))
        match draw(
            st.sampled_from(["grow", "grow", "remind", "rewind", "compact", "edit", "copy"])
        ):
            case "grow":
                sent += [history + new[:at] for at in range(draw(st.integers(0, 2)), len(new))]
                history += new
            case "remind":  # a message at the end that the next history does not have
                sent.append((*history, Message.user("mind the time")))
                history += new
            case "rewind":
                history = history[:at] + new
            case "compact":
                history = (Message.user("So far: a lot."), *history[at:])
            case "edit":
                history = history[:at] + new[:1] + history[at + 1 :]
            case "copy":  # the same to ==, though not on the wire
                history = tuple(map(with_true_for_one, history[:at])) + history[at:]
        known.append(history)
        sent.append(history)
    return sent


def with_true_for_one(message):
    return serde.decode(serde.encode(message).replace(b'{"x":1}', b'{"x":true}'), Message)


@given(sent=histories())
def test_what_goes_on_from_what_was_said_equals_what_is_said_anew(sent):
    async def main():
        encoders = [(RequestEncoder(dialect), dialect) for dialect in DIALECTS]
        for messages in sent:
            for encoder, dialect in encoders:
                await check(encoder, dialect, messages)

    trio.run(main)


class Counting(MessagesDialect):
    """Counts the messages that are written, and knows in which threads that was."""

    model: str = "m"
    max_tokens: int = 9
    written: list[threading.Thread] = []
    bodies: list[ModelRequest] = []

    def write(self, message):
        self.written.append(threading.current_thread())
        return super().write(message)

    def body(self, request, *, is_marked):
        self.bodies.append(request)
        return super().body(request, is_marked=is_marked)


def step(number):
    call = ToolUseBlock("call_0", "Read", {"n": number})
    result = ToolResultBlock("call_0", (TextBlock(f"of {number}"),))
    return Message.assistant([call]), Message.user([result])


def conversation(steps, said="Go."):
    return (Message.user(said), *(message for n in range(steps) for message in step(n)))


async def count_written(encoder, dialect, messages):
    """Encode, compare with a fresh encoding, and return how many messages were written."""
    del dialect.written[:]
    content = (await encoder.encode(ModelRequest(messages=messages))).content
    count = len(dialect.written)
    assert content == encode_request(MessagesDialect("m", 9), ModelRequest(messages=messages))
    return count


def read(pieces):
    return serde.loads(b"[" + b",".join(filter(None, pieces)) + b"]")


@given(st.sampled_from(DIALECTS), st.lists(STEPS, min_size=1, max_size=8), st.integers(0, 50))
def test_what_follows_a_message_can_be_sent_alone(dialect, steps, cut):
    messages = sum(steps, ())
    encoder = ConversationEncoder(dialect)
    encoder.encode(messages[: cut % len(messages)])
    conversation = encoder.encode(messages, min(cut % len(messages), len(messages)))
    whole = read(conversation.pieces())
    counts = [count for count, _ in conversation.ends]
    assert read(conversation.pieces_after(0)) == whole
    for count in range(1, len(messages)):
        if count in counts:
            head = read(ConversationEncoder(dialect).encode(messages[:count]).pieces())
            assert head + read(conversation.pieces_after(count)) == whole
        else:
            with pytest.raises(ValueError, match=f"after {count} messages"):
                conversation.pieces_after(count)


async def test_each_message_is_written_once():
    dialect, messages = Counting(), conversation(40)
    encoder = RequestEncoder(dialect)
    counts = [
        await count_written(encoder, dialect, messages[:length])
        for length in range(1, len(messages))
    ]
    assert counts == [1] * len(counts)
    assert await count_written(encoder, dialect, messages[:-1]) == 0


async def test_a_reminder_at_the_end_of_each_request_costs_the_last_message_alone():
    dialect, messages = Counting(), conversation(40)
    encoder = RequestEncoder(dialect)
    counts = [
        await count_written(encoder, dialect, (*messages[:length], Message.user("mind the time")))
        for length in range(1, len(messages), 2)
    ]
    assert max(counts) == 3  # the message with the reminder, now without it, and the two after it


async def test_a_long_beginning_is_encoded_in_a_thread_and_what_follows_is_not():
    dialect, messages = Counting(), conversation(200)
    encoder = RequestEncoder(dialect)
    assert await count_written(encoder, dialect, messages) == len(messages)
    assert threading.current_thread() not in dialect.written
    assert await count_written(encoder, dialect, (*messages, *step(200))) == 2
    assert set(dialect.written) == {threading.current_thread()}


async def test_a_large_message_is_encoded_in_a_thread():
    dialect = Counting()
    large = Message.user([ToolResultBlock("t", (TextBlock("x" * 2_000_000),))])
    assert await count_written(RequestEncoder(dialect), dialect, (large,)) == 1
    assert threading.current_thread() not in dialect.written


async def test_requests_at_the_same_time_do_not_disturb_each_other():
    dialect, messages = MessagesDialect("m", 9), conversation(200)
    encoder = RequestEncoder(dialect)
    with trio.fail_after(60):
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for length in (401, 399, 401, 350, 3):
                    nursery.start_soon(check, encoder, dialect, messages[:length])
            messages += step(200)


async def test_what_was_not_used_for_longest_goes_first(monkeypatch):
    monkeypatch.setattr(request_encoder, "_MAX_ENCODERS", 2)
    dialect = Counting()
    encoder = RequestEncoder(dialect)
    first, second, third = (conversation(5, said) for said in "abc")
    assert [await count_written(encoder, dialect, each) for each in (first, second)] == [11, 11]
    assert [await count_written(encoder, dialect, each) for each in (first, third)] == [0, 11]
    assert [await count_written(encoder, dialect, each) for each in (first, second)] == [0, 11]


async def test_what_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(request_encoder, "_MAX_BYTES", 1000)
    dialect = Counting()
    encoder = RequestEncoder(dialect)
    small, large = conversation(1), conversation(10, "x")
    assert [await count_written(encoder, dialect, each) for each in (large, large)] == [21, 21]
    assert [await count_written(encoder, dialect, each) for each in (small, small)] == [3, 0]


async def test_a_request_that_can_not_be_written_spoils_no_other():
    dialect, messages = MessagesDialect("m", 9), conversation(3)
    encoder = RequestEncoder(dialect)
    await check(encoder, dialect, messages)
    wrong = Message.user([DocumentBlock("text/plain", "é")])
    with pytest.raises(ModelBadRequestError):
        await encoder.encode(ModelRequest(messages=(*messages, Message.assistant("So?"), wrong)))
    await check(encoder, dialect, (*messages, *step(3)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: type(each).__name__)
async def test_what_surrounds_the_messages_is_written_as_each_request_has_it(dialect):
    encoder, messages = RequestEncoder(dialect), conversation(2)
    look, find = (ToolDefinition(name, "", {"type": "object"}) for name in ("look", "find"))
    mark = TextBlock("Be brief.", {"cache_control": {"type": "ephemeral"}})
    for changed in (
        {"system": "Be brief."},
        {"system": "Be very brief."},
        {"system": (mark,)},
        {"tools": (look,)},
        {"tools": (look, find)},
        {"tools": (find,)},
        {"options": {"logprobs": 1}},
        {"options": {"logprobs": True}},
        {"temperature": 1},
        {"cache": False},
        {},
    ):
        for _ in range(2):
            messages += step(1)
            request = ModelRequest(messages=messages, **changed)
            assert (await encoder.encode(request)).content == encode_request(dialect, request)


async def test_options_that_are_a_view_of_a_dict_are_sent_as_they_are_now():
    encoder, messages = RequestEncoder(MessagesDialect("m", 9)), conversation(1)
    options = {}
    view = MappingProxyType(options)
    for number in (1, 2):
        options["top_k"] = number
        request = ModelRequest(messages=messages, options=view)
        assert serde.loads((await encoder.encode(request)).content)["top_k"] == number


async def test_marks_in_a_message_end_those_of_ours_around_it():
    dialect, messages = MessagesDialect("m", 9), conversation(2)
    encoder = RequestEncoder(dialect)
    marked = Message.user([TextBlock("Well?", {"cache_control": {"type": "ephemeral"}})])
    for message in (Message.assistant("No."), marked, Message.assistant("Yes.")):
        messages = (*messages, message)
        request = ModelRequest(messages=messages, system="Be brief.")
        content = (await encoder.encode(request)).content
        assert content == encode_request(dialect, request)
        assert content.count(b"cache_control") == (1 if marked in messages else 3)


async def test_what_surrounds_the_messages_is_written_once_while_it_is_the_same():
    dialect, messages = Counting(), conversation(2)
    encoder = RequestEncoder(dialect)
    tool = ToolDefinition("look", "", {"type": "object"})
    for number in range(3):
        words = f"Be {dialect.model}."  # another object each time, as templates make
        await encoder.encode(ModelRequest(messages=messages, system=words, tools=[tool]))
        assert len(dialect.bodies) == 1
        messages += step(number)
    await encoder.encode(ModelRequest(messages=messages, system="Be kind.", tools=[tool]))
    assert len(dialect.bodies) == 2


async def test_what_surrounds_the_messages_counts_for_what_is_kept(monkeypatch):
    monkeypatch.setattr(request_encoder, "_MAX_BYTES", 1000)
    dialect = Counting()
    encoder = RequestEncoder(dialect)
    small = conversation(1)
    for system, written in (("a" * 1000, [3, 3]), ("a", [3, 0])):
        for count in written:
            del dialect.written[:]
            await encoder.encode(ModelRequest(messages=small, system=system))
            assert len(dialect.written) == count


async def test_the_last_message_and_marks_count_for_what_is_kept(monkeypatch):
    monkeypatch.setattr(request_encoder, "_MAX_BYTES", 1000)
    dialect = Counting()
    encoder = RequestEncoder(dialect)
    for length, cache, again in ((1000, False, 1), (500, True, 1), (500, False, 0)):
        request = ModelRequest(messages=[Message.user("a" * length)], cache=cache)
        for count in (1, again):
            del dialect.written[:]
            await encoder.encode(request)
            assert len(dialect.written) == count, (length, cache)
