"""The offline model."""

import pytest

from greenroom.core import (
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.llm import BlockDelta, LLMProvider, ModelRequest, OfflineProvider
from greenroom.llm.offline import EXAMPLES, answer, parse

NAMES = ("Read", "Glob", "Grep", "Bash", "Write", "Edit", "Task")
TOOLS = [ToolDefinition(name, "", {}) for name in NAMES]


async def reply_to(*messages, tools=TOOLS, **fields):
    return await OfflineProvider().generate(ModelRequest(messages=messages, tools=tools, **fields))


def result_of(call, text, is_error=False):
    content = (TextBlock(text),) if text else ()
    return Message.user([ToolResultBlock(call.id, content, is_error)])


@pytest.mark.parametrize(
    ("request_", "tool", "arguments"),
    [
        ("read README.md", "Read", {"file_path": "README.md"}),
        ("Please read the file src/a.py.", "Read", {"file_path": "src/a.py"}),
        ("show me `a b.txt`", None, None),
        ("cat 'a.txt'", "Read", {"file_path": "a.txt"}),
        ("read .", "Read", {"file_path": "."}),
        ("list *.py", "Glob", {"pattern": "*.py"}),
        ("list files", "Glob", {"pattern": "*"}),
        ("List all files in src/", "Glob", {"pattern": "src/*"}),
        ("ls", "Glob", {"pattern": "*"}),
        ("search TODO", "Grep", {"pattern": "TODO"}),
        ("submit the plan: 1. x", "SubmitPlan", {"plan": "1. x"}),
        (
            "ask the agent a:b to read x",
            "Task",
            {"agent": "a:b", "description": "read x", "prompt": "read x"},
        ),
        ("Search the web for trio.", "WebSearch", {"query": "trio."}),
        ("search for 'def main' in src", "Grep", {"pattern": "def main", "path": "src"}),
        ("grep x", "Grep", {"pattern": "x"}),
        ("run ls -la", "Bash", {"command": "ls -la"}),
        ('run `echo "a" && echo b`', "Bash", {"command": 'echo "a" && echo b'}),
        ("$ pwd", "Bash", {"command": "pwd"}),
        ("write notes.txt: hello", "Write", {"file_path": "notes.txt", "content": "hello"}),
        ("write a.txt:\n1: x\n2: y", "Write", {"file_path": "a.txt", "content": "\n1: x\n2: y"}),
        (
            "edit a.txt: replace old words with new ones",
            "Edit",
            {"file_path": "a.txt", "old_string": "old words", "new_string": "new ones"},
        ),
        (
            "replace 'a' by 'b' in c.txt",
            "Edit",
            {"file_path": "c.txt", "old_string": "a", "new_string": "b"},
        ),
        (
            "ask a subagent to read README.md",
            "Task",
            {"description": "read README.md", "prompt": "read README.md"},
        ),
        ("Some context.\nread b.md\n", "Read", {"file_path": "b.md"}),
        ("What is love?", None, None),
        ("", None, None),
    ],
)
def test_orders_are_understood(request_, tool, arguments):
    order = parse(request_)
    assert (order and order.tool) == tool
    assert (order and order.arguments) == arguments


@pytest.mark.parametrize("example", EXAMPLES)
async def test_each_example_of_the_help_is_understood_and_calls_its_tool(example):
    reply = await reply_to(Message.user(example))
    assert len(reply.tool_uses) == 1
    assert reply.stop_reason is StopReason.TOOL_USE


async def test_it_says_that_it_is_no_language_model_and_what_it_understands():
    reply = await reply_to(Message.user("help"))
    assert "no language model" in reply.text
    assert all(example in reply.text for example in EXAMPLES)
    assert "ANTHROPIC_API_KEY" in reply.text
    assert reply.stop_reason is StopReason.END_TURN


async def test_its_first_reply_says_who_it_is_and_later_ones_do_not():
    first = await reply_to(Message.user("read a"))
    assert "no language model" in first.text
    later = await reply_to(Message.user("read a"), first, Message.user("read b"))
    assert later.text == "I will read b."
    assert later.tool_uses[0].id != first.tool_uses[0].id


async def test_it_calls_no_tool_that_it_was_not_given():
    for fields in ({"tools": TOOLS[1:]}, {"tool_choice": "none"}):
        reply = await reply_to(Message.user("read a"), **fields)
        assert reply.tool_uses == ()
        assert "takes the tool Read, which I do not have" in reply.text


async def test_it_asks_for_the_lines_that_match_where_the_tool_can_give_them():
    parameters = {"type": "object", "properties": {"pattern": {}, "output_mode": {}}}
    tools = [ToolDefinition("Grep", "", parameters)]
    call = (await reply_to(Message.user("search TODO"), tools=tools)).tool_uses[0]
    assert call.input == {"pattern": "TODO", "output_mode": "content"}


async def test_it_answers_from_the_results_of_its_tools():
    asked = Message.user("read a.txt")
    call = await reply_to(asked)
    reply = await reply_to(asked, call, result_of(call.tool_uses[0], "one\ntwo"))
    assert reply.text == "a.txt, 2 lines:\n\n```\none\ntwo\n```"
    assert reply.stop_reason is StopReason.END_TURN


async def test_it_says_what_failed_and_why():
    asked = Message.user("run rm x")
    call = await reply_to(asked)
    denied = result_of(call.tool_uses[0], "Denied by the user", is_error=True)
    reply = await reply_to(asked, call, denied)
    assert "Bash failed" in reply.text
    assert "Denied by the user" in reply.text


async def test_an_order_that_comes_with_a_result_is_carried_out():
    asked = Message.user("read a")
    call = await reply_to(asked)
    steered = Message.user([*result_of(call.tool_uses[0], "x").content, TextBlock("read b")])
    assert (await reply_to(asked, call, steered)).tool_uses[0].input == {"file_path": "b"}


async def test_a_result_without_its_call_is_not_answered():
    lost = Message.user([ToolResultBlock("nobody", (TextBlock("x"),))])
    assert "no language model" in (await reply_to(lost)).text
    assert "no language model" in (await reply_to()).text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Glob", "a\nb", "Files that match *, 2 lines:"),
        ("Grep", "a:1:x", "Matches of *, 1 line:"),
        ("Bash", "ok", "The command printed 1 line:"),
        ("Bash", "", "The command printed nothing."),
        ("Write", "Wrote a.txt", "Write is done."),
        ("Task", "I read it.", "The subagent answered:"),
    ],
)
def test_each_tool_has_its_answer(name, text, expected):
    call = ToolUseBlock("t1", name, {"pattern": "*"})
    content = (TextBlock(text), ImageBlock(url="http://a")) if text else ()
    said = answer(call, ToolResultBlock("t1", content))
    assert said.splitlines()[0] == expected
    assert text in said


def test_a_long_result_is_quoted_from_its_beginning_and_counted():
    call = ToolUseBlock("t1", "Read", {"file_path": "a"})
    said = answer(call, ToolResultBlock("t1", (TextBlock("line\n" * 500),)))
    assert said.startswith("a, 500 lines:")
    assert said.endswith("and 480 lines more.")


def test_a_quote_holds_whatever_back_ticks_stand_in_it():
    call = ToolUseBlock("t1", "Read", {"file_path": "a"})
    said = answer(call, ToolResultBlock("t1", (TextBlock("```\ncode\n```"),)))
    assert said.endswith("````\n```\ncode\n```\n````")


async def test_it_streams_its_text_in_pieces_and_the_same_each_time():
    provider = OfflineProvider()
    assert isinstance(provider, LLMProvider)
    runs = []
    for _ in range(2):
        async with provider.stream(ModelRequest(messages=[Message.user("help")])) as stream:
            runs.append([event async for event in stream])
    assert runs[0] == runs[1]
    assert sum(isinstance(event, BlockDelta) for event in runs[0]) > 20
    await provider.aclose()


@pytest.mark.parametrize("sender", ["hook", "memory"])
async def test_what_a_hook_or_a_memory_adds_is_not_what_was_asked(sender):
    added = Message.user("Be brief. Then read it.", sender=sender)
    order = Message.user("read README.md")
    reply = await reply_to(order, added)
    [call] = reply.tool_uses
    assert call.input == {"file_path": "README.md"}
    report = await reply_to(order, reply, result_of(call, "the last line"), added)
    assert "the last line" in report.text


async def test_what_a_hook_asks_is_done_where_the_input_asks_nothing():
    reply = await reply_to(Message.user("/look"), Message.user("read a.txt", sender="hook"))
    assert [call.input for call in reply.tool_uses] == [{"file_path": "a.txt"}]


async def test_what_a_hook_alone_says_is_asked():
    done = Message.assistant("Done.")
    reply = await reply_to(Message.user("hello"), done, Message.user("read a.txt", sender="hook"))
    assert [call.input for call in reply.tool_uses] == [{"file_path": "a.txt"}]
