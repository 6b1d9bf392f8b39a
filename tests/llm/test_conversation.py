"""Histories as turns, for any history."""

import re
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from greenroom.core import (
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    serde,
)
from greenroom.llm import ModelRequest
from greenroom.llm.anthropic.encode import encode as encode_anthropic
from greenroom.llm.conversation import turns
from greenroom.llm.openai.encode import encode as encode_openai
from greenroom.llm.portable_calls import PLAIN, portable_calls

TEXTS = st.sampled_from(["", " ", "\n", "a", "b c"])
EXTRAS = st.sampled_from([{}, {"x": 1}])
IDS = st.sampled_from(["t1", "t:2", "t_2", "t_2_2", "", "x" * 41, "x" * 42])
BLOCKS = st.one_of(
    st.builds(TextBlock, TEXTS, EXTRAS),
    st.builds(ThinkingBlock, TEXTS, st.sampled_from(["", "sig"])),
    st.builds(RedactedThinkingBlock, TEXTS),
    st.builds(ToolUseBlock, IDS, st.sampled_from(["Read", "", "a.b", "x" * 99]), st.just({})),
    st.builds(ToolResultBlock, IDS, st.tuples(st.builds(TextBlock, TEXTS))),
    st.builds(UnknownBlock, st.just({"type": "new"})),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant"]),
        st.lists(BLOCKS, max_size=4).map(tuple),
        provider=st.sampled_from(["", "anthropic", "openai"]),
    ),
    max_size=8,
)


@given(MESSAGES)
def test_turns_alternate_and_none_is_empty(messages):
    made = turns(messages, "anthropic")
    assert all(turn.blocks for turn in made)
    assert all(one.role != other.role for one, other in pairwise(made))


@given(MESSAGES)
def test_every_call_and_every_result_is_sent(messages):
    sent = [block for turn in turns(messages, "acme") for block in turn.blocks]
    for kind in (ToolUseBlock, ToolResultBlock):
        given_ids = [b.id if kind is ToolUseBlock else b.tool_use_id
                     for m in messages for b in m.content if isinstance(b, kind)]  # fmt: skip
        sent_ids = [b.id if kind is ToolUseBlock else b.tool_use_id
                    for b in sent if isinstance(b, kind)]  # fmt: skip
        assert sorted(sent_ids) == sorted(given_ids)


@given(MESSAGES)
def test_any_history_makes_a_request_without_empty_messages(messages):
    request = ModelRequest(messages=messages)
    theirs = encode_anthropic(request, model="m", max_tokens=1)
    others = encode_openai(request, model="m")
    assert serde.loads(serde.dumps(theirs)) == theirs
    assert serde.loads(serde.dumps(others)) == others
    assert all(message["content"] for message in theirs["messages"])
    assert all(message["role"] for message in others["messages"])


def plain(names, longest):
    return all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", name) for name in names)


@given(MESSAGES)
def test_any_history_is_sent_with_names_and_ids_that_are_taken(messages):
    request = ModelRequest(messages=messages)
    blocks = [
        block
        for message in encode_anthropic(request, model="m", max_tokens=1)["messages"]
        for block in message["content"]
    ]
    theirs = [block for block in blocks if block["type"] == "tool_use"]
    others = [
        call
        for message in encode_openai(request, model="m")["messages"]
        for call in message.get("tool_calls", ())
    ]
    for calls in (theirs, others):
        assert len({call["id"] for call in calls}) == len(calls)
        assert all(0 < len(call["id"]) <= 40 for call in calls)
    assert plain([call["id"] for call in theirs], 40)
    assert plain([call["name"] for call in theirs], 64)
    assert plain([call["function"]["name"] for call in others], 64)


@given(MESSAGES, MESSAGES)
def test_what_is_said_later_changes_no_id_of_what_was_said_before(messages, later):
    def ids(messages):
        made = portable_calls(turns(messages, "acme"), PLAIN)
        return [b.id for turn in made for b in turn.blocks if isinstance(b, ToolUseBlock)]

    # An assistant brings no results: the strategy does so to try what is broken.
    messages, later = ([said_by_its_side(each) for each in part] for part in (messages, later))
    before = ids(messages)
    assert (
        ids([*messages, Message("assistant", (TextBlock("so"),)), *later])[: len(before)] == before
    )


def said_by_its_side(message):
    if message.role == "user":
        return message
    kept = tuple(block for block in message.content if not isinstance(block, ToolResultBlock))
    return msgspec.structs.replace(message, content=kept)
