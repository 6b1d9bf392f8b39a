"""Requests on the wire, read into our words and written again."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import NamedTool, serde
from greenroom.testing._internal import request_from_wire, same_request
from tests.llm.dialects import encode_anthropic, encode_openai

ENCODERS = {"anthropic-messages": encode_anthropic, "openai-chat": encode_openai}
MARK = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {}}


def text(said, **fields):
    return {"type": "text", "text": said} | fields


def anthropic_call(call_id, **fields):
    return {"type": "tool_use", "id": call_id, "name": "look_up", "input": {"a": 1}} | fields


def anthropic_result(call_id, **fields):
    return {"type": "tool_result", "tool_use_id": call_id} | fields


ANTHROPIC_BLOCKS = [
    text("hi"),
    text("hi", **MARK),
    text("", citations=[]),
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}} | MARK,
    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a ü"}},
    {"type": "document", "source": {"type": "file", "file_id": "file_2"}, "title": "t"},
    {"type": "document", "source": {"type": "content", "content": [text("a")]}, "title": None},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}},
    {"type": "search_result", "source": "s", "title": "t", "content": [text("found")]},
    {"type": "container_upload", "file_id": "file_3"},
    {"type": "thinking", "thinking": "", "signature": "s"},
    {"type": "thinking", "thinking": "hm", "signature": ""},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
    {"type": "text"},
]
ANTHROPIC_RESULTS = [
    {},
    {"content": ""},
    {"content": "plain"},
    {"content": [text("a"), text("b", **MARK)], "is_error": False},
    {"content": [{"type": "tool_reference", "tool_name": "x"}], "is_error": True} | MARK,
    {"content": [ANTHROPIC_BLOCKS[3], ANTHROPIC_BLOCKS[10], ANTHROPIC_BLOCKS[6]]},
]
ANTHROPIC_TOOLS = [
    {"name": "look_up", "description": "Look it up.", "input_schema": SCHEMA},
    {"name": "bare", "input_schema": SCHEMA},
    {"name": "late", "description": "", "input_schema": SCHEMA, "defer_loading": True} | MARK,
    {"type": "custom", "name": "typed", "description": "d", "input_schema": SCHEMA, "strict": True},
    {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
    {"type": "mcp_toolset", "mcp_server_name": "m"},
]

CHAT_PARTS = [
    text("hi"),
    text("hi", **MARK),
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a"}},
    {"type": "file", "file": {"file_id": "file_1"}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk="}},
]
CHAT_CALLS = [
    {"type": "function", "function": {"name": "look_up", "arguments": '{ "a": 1 }'}},
    {"type": "function", "function": {"name": "look_up", "arguments": ""}},
    {"type": "function", "function": {"name": "look_up", "arguments": '{"a": '}},
    {"type": "function", "function": {"name": "look_up", "arguments": "{}"}, "extra_content": {}},
    {"type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
    {"function": {"name": "look_up", "arguments": "null"}},
]
CHAT_REPLIES = [
    {"content": "hello"},
    {"content": None, "refusal": "No."},
    {"content": "hi", "name": "Bob", "audio": {"id": "a1"}},
    {"content": [text("a"), text("b")]},
    {"content": "", "reasoning": "hm", "reasoning_content": "hm"},
    {"content": " ", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
    {"content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {},
]
CHAT_OTHERS = [
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": [text("a"), text("b")]},
    {"role": "function", "name": "f", "content": "1"},
    {"role": "user", "content": "hi", "name": "Ann"},
    {"role": "user", "content": ""},
]
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "a", "description": "d", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "b", "parameters": SCHEMA, "strict": True}} | MARK,
    {"type": "function", "function": {"name": "c"}},
    {"type": "custom", "custom": {"name": "sql", "format": {"type": "text"}}},
]


@st.composite
def anthropic_steps(draw):
    """Some messages: a user's, a system's, or calls with their results."""
    blocks = st.lists(st.sampled_from(ANTHROPIC_BLOCKS), min_size=1, max_size=3)
    content = st.one_of(st.just("plain"), blocks)
    kind = draw(st.sampled_from(["user", "assistant", "system", "calls"]))
    if kind != "calls":
        return [{"role": kind, "content": draw(content)}]
    ids = ["#a", "#b"][: draw(st.integers(1, 2))]
    results = [anthropic_result(i) | draw(st.sampled_from(ANTHROPIC_RESULTS)) for i in ids]
    return [
        {"role": "assistant", "content": [*draw(blocks), *map(anthropic_call, ids)]},
        {"role": "user", "content": [*results, *draw(st.one_of(st.just([]), blocks))]},
    ]


@st.composite
def chat_steps(draw):
    parts = st.lists(st.sampled_from(CHAT_PARTS), min_size=1, max_size=3)
    kind = draw(st.sampled_from(["user", "reply", "other", "calls"]))
    if kind == "user":
        return [{"role": "user", "content": draw(st.one_of(st.just("plain"), parts))}]
    if kind == "other":
        return [draw(st.sampled_from(CHAT_OTHERS))]
    reply = {"role": "assistant"} | draw(st.sampled_from(CHAT_REPLIES))
    if kind == "reply":
        return [reply]
    calls = [
        {"id": call_id} | draw(st.sampled_from(CHAT_CALLS))
        for call_id in ["#a", "#b"][: draw(st.integers(1, 2))]
    ]
    contents = st.sampled_from(["", "done", [text("a")], [text("a"), text("b")], CHAT_PARTS[2:4]])
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": draw(contents)}
        | draw(st.sampled_from([{}, {"name": "look_up"}]))
        for call in calls
    ]
    return [reply | {"tool_calls": calls}, *results]


def conversation(steps):
    """Put the steps together, each with ids of its own."""
    numbered = (serde.dumps(step).replace(b"#", b"t%d" % n) for n, step in enumerate(steps))
    return [message for step in numbered for message in serde.loads(step)]


def bodies(steps, tools, options):
    return st.builds(
        lambda said, system, given, fields: {
            "model": "m", "messages": [*system, *conversation(said)],
            **({"tools": given} if given else {}), **fields,
        },
        st.lists(steps, min_size=1, max_size=5),
        st.sampled_from([[], [{"role": "system", "content": "s"}]]),
        st.lists(st.sampled_from(tools), unique_by=repr),
        st.fixed_dictionaries({}, optional=options),
    )  # fmt: skip


ANTHROPIC = bodies(
    anthropic_steps(),
    ANTHROPIC_TOOLS,
    {
        "max_tokens": st.just(9), "stream": st.booleans(), "temperature": st.sampled_from([0, 0.5]),
        "system": st.sampled_from(["s", [text("s"), text("t", **MARK)], "", [{"type": "new"}]]),
        "thinking": st.sampled_from(
            [{"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}]
        ),
        "tool_choice": st.sampled_from(
            [{"type": "auto"}, {"type": "any"}, {"type": "none"}, None,
             {"type": "tool", "name": "x", "disable_parallel_tool_use": True}]
        ),
        "stop_sequences": st.sampled_from([[], ["a"]]), "mcp_servers": st.just([]),
    },
)  # fmt: skip
CHAT = bodies(
    chat_steps(),
    CHAT_TOOLS,
    {
        "max_tokens": st.just(9), "max_completion_tokens": st.just(9), "stream": st.booleans(),
        "stream_options": st.just(None), "stop": st.sampled_from(["a", ["a", "b"], None]),
        "n": st.just(2),
        "tool_choice": st.sampled_from(["auto", "required", "none", None,
                                        {"type": "function", "function": {"name": "a"}}]),
        "reasoning_effort": st.just("low"), "logprobs": st.just(True),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("api", "all_bodies"), [("anthropic-messages", ANTHROPIC), ("openai-chat", CHAT)]
)
@given(data=st.data())
def test_any_request_is_written_again_as_it_was(api, all_bodies, data):
    body = data.draw(all_bodies)
    assert same_request(ENCODERS[api](request_from_wire(body, api)), body)


def test_what_has_a_typed_place_stands_there():
    said = [
        {"role": "user", "content": [text("look"), *ANTHROPIC_BLOCKS[3:6], ANTHROPIC_BLOCKS[6]]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, anthropic_call("t1"),
        ]},
        {"role": "user", "content": [anthropic_result("t1", **ANTHROPIC_RESULTS[4])]},
    ]  # fmt: skip
    body = {"model": "m", "messages": said, "tools": ANTHROPIC_TOOLS[4:] + ANTHROPIC_TOOLS[:1],
            "tool_choice": {"type": "tool", "name": "look_up"}, "max_tokens": 9}  # fmt: skip
    request = request_from_wire(body, "anthropic-messages")
    assert request.messages[0].content == (
        TextBlock("look"),
        ImageBlock("image/png", "aGk="),
        ImageBlock(url="https://example.com/a.png", extra=MARK),
        ImageBlock(extra={"source": {"type": "file", "file_id": "file_1"}}),
        DocumentBlock("text/plain", "YSDDvA=="),
    )
    assert request.messages[1].content == (
        ThinkingBlock("hm", "s"),
        ToolUseBlock("t1", "look_up", {"a": 1}),
    )
    reference = UnknownBlock({"type": "tool_reference", "tool_name": "x"})
    assert request.messages[2].content == (ToolResultBlock("t1", (reference,), True, MARK),)
    assert [tool.name for tool in request.tools] == ["look_up"]
    assert request.options["tools"] == [*ANTHROPIC_TOOLS[4:], {"name": "look_up"}]
    assert (request.tool_choice, request.max_tokens) == (NamedTool("look_up"), 9)


def test_messages_that_are_none_are_kept_as_they_are():
    body = {"model": "m", "max_tokens": 9, "messages": ["Invalid"]}
    assert encode_anthropic(request_from_wire(body, "anthropic-messages"))["messages"] == [
        "Invalid"
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"content": "a"}, {"content": [text("a")]}, True),
        ({"content": "a"}, {"content": [text("a", **MARK)]}, False),
        ({"arguments": '{"a": 1}'}, {"arguments": '{"a":1}'}, True),
        ({"arguments": "{"}, {"arguments": "{ "}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"content": None}, {}, False),
    ],
)
def test_requests_are_the_same_where_their_vendors_say_so(one, other, same):
    assert same_request({"messages": [one]}, {"messages": [other]}) is same


@pytest.mark.parametrize("api", ENCODERS)
@pytest.mark.parametrize(
    "fields", [{"tools": None}, {"tools": []}, {"model": None}, {"stream": None}]
)
def test_fields_that_are_null_or_empty_stay_so(api, fields):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]} | fields
    assert same_request(ENCODERS[api](request_from_wire(body, api)), body)


def test_an_api_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="telegraph"):
        request_from_wire({}, "telegraph")
