"""Where requests to Anthropic are marked for its cache."""

import pytest

from greenroom.core import (
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.llm import ModelRequest
from tests.llm.dialects import encode_anthropic

MARK = {"type": "ephemeral"}
TOOLS = [ToolDefinition(name, "…", {"type": "object"}) for name in ("Read", "Write")]


def step(number):
    call = ToolUseBlock(f"t{number}", "Read", {})
    result = ToolResultBlock(f"t{number}", (TextBlock("x"),))
    return [Message.assistant([call]), Message.user([result])]


HISTORY = [Message.user("Go."), *step(1), *step(2), *step(3)]


def encode(messages=HISTORY, system="Be brief.", tools=TOOLS, **fields):
    return encode_anthropic(ModelRequest(messages=messages, system=system, tools=tools, **fields))


def marks(body):
    """Where the marks stand: the part of the body, and the places of its blocks from the end."""
    found = []
    for name in ("tools", "system"):
        blocks = body.get(name, [])
        found += [(name, at - len(blocks)) for at, b in enumerate(blocks) if "cache_control" in b]
    messages = body["messages"]
    for number, message in enumerate(messages):
        for at, block in enumerate(message["content"]):
            if "cache_control" in block:
                assert block["cache_control"] == MARK
                found.append((number - len(messages), at - len(message["content"])))
    return found


def test_tools_system_and_the_last_two_turns_of_the_user_are_marked():
    assert marks(encode()) == [("tools", -1), ("system", -1), (-3, -1), (-1, -1)]
    assert marks(encode(HISTORY[:1])) == [("tools", -1), ("system", -1), (-1, -1)]
    assert marks(encode(HISTORY[:1], system="", tools=())) == [(-1, -1)]


def test_a_mark_that_a_request_set_is_one_that_the_next_repeats():
    before, after = encode(HISTORY[:5]), encode(HISTORY)
    last = before["messages"][-1]["content"][-1]
    assert last["cache_control"] == MARK
    assert after["messages"][len(before["messages"]) - 1]["content"][-1] == last


def test_turns_that_are_alike_get_no_more_marks():
    again = [Message.user("Go."), Message.assistant("Yes.")]
    assert len(marks(encode([*again, *again, *again, again[0]]))) == 4


def test_what_follows_the_users_last_turn_is_not_marked():
    assert marks(encode([*HISTORY, Message.assistant("So")]))[2:] == [(-4, -1), (-2, -1)]


def test_a_block_that_takes_no_mark_leaves_it_to_the_one_before():
    odd = UnknownBlock({"type": "container_upload", "file_id": "f1"})
    thought = ThinkingBlock("hm", "sig")
    assert marks(encode([Message.user([TextBlock("a"), odd])]))[2:] == [(-1, -2)]
    assert marks(encode([Message.user([odd, thought, TextBlock("a")])]))[2:] == [(-1, -1)]
    assert marks(encode([Message.user([odd])]))[2:] == []
    # A turn that takes none does not use up a mark.
    assert marks(encode([*HISTORY, Message.assistant("So?"), Message.user([odd])]))[2:] == [
        (-5, -1),
        (-3, -1),
    ]
    deferred = {"tools": [{"name": "a"}, {"name": "b", "defer_loading": True}]}
    assert marks(encode(options=deferred))[0] == ("tools", -2)


OWN = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
INNER = {"type": "text", "text": "a", **OWN}


@pytest.mark.parametrize(
    "fields",
    [
        {"cache": False},
        {"options": OWN},
        {"options": {"tools": [{"name": "Read", **OWN}]}},
        {"system": [TextBlock("a", OWN), TextBlock("b")]},
        {"messages": [Message.user([TextBlock("a", OWN)]), *HISTORY[1:]]},
        {"messages": [*HISTORY, Message.user([TextBlock("a", OWN)])]},
        {"messages": [Message.user([ToolResultBlock("t", (TextBlock("a", OWN),))])]},
        {"messages": [Message.user([UnknownBlock({"type": "text", "text": "a", **OWN})])]},
        {"messages": [Message.user([UnknownBlock({"type": "tool_result", "content": [INNER]})])]},
        {"messages": [Message.user([ToolResultBlock("t", extra={"content": [INNER]})])]},
        {"messages": [Message("user", (TextBlock("a"),), extra={"content": [INNER]})]},
    ],
)
def test_a_request_that_brings_marks_gets_no_others(fields):
    body = encode(**fields)
    assert not [mark for mark in marks_of(body) if mark == MARK]


def marks_of(value):
    if isinstance(value, list):
        for each in value:
            yield from marks_of(each)
    elif isinstance(value, dict):
        yield from [value["cache_control"]] if "cache_control" in value else []
        for each in value.values():
            yield from marks_of(each)


def test_messages_of_the_options_are_sent_as_they_are():
    messages = [{"role": "user", "content": "hi"}]
    assert encode(options={"messages": messages})["messages"] == messages
