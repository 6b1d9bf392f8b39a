"""Histories as turns, for any history."""

from itertools import pairwise

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

TEXTS = st.sampled_from(["", " ", "\n", "a", "b c"])
EXTRAS = st.sampled_from([{}, {"x": 1}])
BLOCKS = st.one_of(
    st.builds(TextBlock, TEXTS, EXTRAS),
    st.builds(ThinkingBlock, TEXTS, st.sampled_from(["", "sig"])),
    st.builds(RedactedThinkingBlock, TEXTS),
    st.builds(ToolUseBlock, st.sampled_from(["t1", "t:2"]), st.just("Read"), EXTRAS),
    st.builds(ToolResultBlock, st.just("t1"), st.tuples(st.builds(TextBlock, TEXTS))),
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
