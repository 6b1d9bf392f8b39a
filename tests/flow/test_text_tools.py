"""`TextTools`: requests, replies, and requests to reformat."""

from contextlib import asynccontextmanager

import pytest
import trio

from greenroom import Message, TextBlock, Usage
from greenroom.core import (
    ImageBlock,
    Price,
    StopReason,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import NamedTool
from greenroom.flow import TextTools
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    LLMProvider,
    ModelOutputError,
    ModelOverloadedError,
    ModelRequest,
    StreamEnd,
    generate_structured,
    resilient,
)
from greenroom.llm._internal import ReplayStream, StreamRestart
from greenroom.resilience import Retry
from greenroom.testing import Reply, ScriptedProvider
from tests.conftest import take_sample
from tests.flow.replies import corpus

ADD = ToolDefinition(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
)
ACT = 'Thought: I add.\nAction: {"tool": "add", "arguments": {"a": 1}}'
DONE = "Thought: I know.\nFinal Answer: 3"


def request(*messages, tools=(ADD,), **options):
    return ModelRequest(messages=messages or [Message.user("1 + 2?")], tools=tools, **options)


async def read(llm, asked=None):
    """Read a stream to its end, and return its events and its message."""
    async with llm.stream(asked or request()) as stream:
        events = [event async for event in stream]
        return events, stream.message


def said(events):
    return "".join(e.text for e in events if isinstance(e, BlockDelta) and e.kind == "text")


def told(events, kind):
    return [
        event.data
        for event in events
        if getattr(event, "kind", "") == kind and hasattr(event, "data")
    ]


PROMPT = """Be brief.

You work with tools. To call one, write a thought and one action, and then stop:

Thought: what you want to find out or do next
Action: {"tool": "NAME", "arguments": {"KEY": "VALUE"}}

An action is one JSON object. You are then told its result as "Observation: …"; never write an
observation yourself. When you know the answer, write:

Thought: why you are done
Final Answer: the answer

The tools, each with the JSON Schema of its arguments:
- add: Add two numbers.
  {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"""


async def test_the_prompt_has_the_goal_the_history_the_tools_and_the_format():
    inner = ScriptedProvider(ACT, DONE)
    llm = TextTools(inner)
    assert isinstance(llm, LLMProvider)
    goal = Message.user("1 + 2? The answer is one number.")
    reply = await llm.generate(request(goal, system="Be brief."))
    [call] = reply.tool_uses
    results = Message.user([ToolResultBlock(call.id, (TextBlock("3"),))])
    await llm.generate(request(goal, reply, results, system="Be brief."))
    first, second = inner.requests
    assert first.system == second.system == PROMPT
    assert first.tools == second.tools == ()
    assert [message.text for message in second.messages] == [
        "1 + 2? The answer is one number.",
        'Thought: I add.\nAction: {"tool": "add", "arguments": {"a":1}}',
        "Observation: 3",
    ]


async def test_a_prompt_of_blocks_keeps_its_marks():
    inner = ScriptedProvider(DONE)
    marked = TextBlock("Be brief.", {"cache_control": {"type": "ephemeral"}})
    await TextTools(inner).generate(request(system=[marked]))
    assert inner.requests[0].system[0] is marked
    assert inner.requests[0].system[1].text in PROMPT


async def test_errors_images_and_answers_in_the_history():
    inner = ScriptedProvider("Final Answer: hello")
    image = ImageBlock(media_type="image/png", data="aGk=")
    history = [
        Message.user("?"),
        Message.assistant([TextBlock("I see."), ToolUseBlock("1", "a"), ToolUseBlock("2", 'b"')]),
        Message.user(
            [
                ToolResultBlock("1", (TextBlock("gone"),), is_error=True),
                ToolResultBlock("2", (image,)),
                TextBlock("And hurry."),
            ]
        ),
        Message.assistant([ThinkingBlock("Thought: hm"), TextBlock("So be it.")]),
        Message.assistant([ThinkingBlock("mine", "signature"), TextBlock("Yes.")]),
        Message.user("!"),
    ]
    await TextTools(inner).generate(request(*history))
    sent = inner.requests[0].messages
    assert sent[0] is history[0]
    assert sent[1].text == (
        'I see.\nAction: {"tool": "a", "arguments": {}}\nAction: {"tool": "b\\"", "arguments": {}}'
    )
    assert sent[2].text == "Observation: Error: gone\nObservation: \nAnd hurry."
    assert image in sent[2].content
    assert sent[3].text == "Thought: hm\nFinal Answer: So be it."
    assert sent[4].content == (ThinkingBlock("mine", "signature"), TextBlock("Final Answer: Yes."))
    assert sent[5] is history[5]


async def test_a_message_is_the_same_object_in_each_request():
    inner = ScriptedProvider(ACT, ACT, DONE)
    llm = TextTools(inner)
    messages = [Message.user("?")]
    for _ in range(3):
        reply = await llm.generate(request(*messages))
        results = [ToolResultBlock(call.id, (TextBlock("3"),)) for call in reply.tool_uses]
        messages += [reply, Message.user(results or "!")]
    before, after = (inner.requests[number].messages for number in (1, 2))
    assert all(old is new for old, new in zip(before, after, strict=False))


async def test_without_tools_a_request_goes_on_as_it_is():
    inner = ScriptedProvider("Just words.")
    reply = await TextTools(inner).generate(request(tools=(), system="Be brief."))
    assert reply.text == "Just words."
    assert inner.requests[0].system == "Be brief."


@pytest.mark.parametrize(
    ("choice", "note"),
    [("none", "can't call"), ("any", "Call a tool"), (NamedTool("add"), "tool add")],
)
async def test_a_choice_is_told_at_the_end(choice, note):
    inner = ScriptedProvider(DONE)
    await TextTools(inner).generate(request(tool_choice=choice))
    assert note in inner.requests[0].messages[-1].text
    assert inner.requests[0].tool_choice == "auto"


async def test_an_action_is_a_call_and_what_was_said_before_is_text():
    events, reply = await read(TextTools(ScriptedProvider(ACT)))
    [call] = reply.tool_uses
    assert (call.name, call.input, reply.stop_reason) == ("add", {"a": 1}, StopReason.TOOL_USE)
    assert reply.content == (TextBlock("Thought: I add."), call)
    assert said(events).strip() == "Thought: I add."
    assert told(events, "react.thought") == [{"text": "I add."}]
    assert told(events, "react.action") == [{"id": call.id, "tool": "add", "arguments": {"a": 1}}]


async def test_an_answer_is_text_and_what_was_said_before_is_a_thought():
    events, reply = await read(TextTools(ScriptedProvider(DONE)))
    assert reply.content == (ThinkingBlock("Thought: I know."), TextBlock("3"))
    assert reply.stop_reason is StopReason.END_TURN
    assert said(events) == "Thought: I know.\n3"


async def test_an_answer_streams_word_by_word():
    words = " ".join(f"word{number}" for number in range(50))
    events, _ = await read(TextTools(ScriptedProvider(f"Final Answer: {words}")))
    pieces = [e.text for e in events if isinstance(e, BlockDelta)]
    assert len(pieces) >= 45
    assert "".join(pieces) == words


@pytest.mark.parametrize("size", [1, 3, 7, 40])
async def test_no_action_is_seen_as_text_however_it_is_cut(size):
    for case in take_sample(corpus()[::40], 3):
        pieces = [case.text[at : at + size] for at in range(0, len(case.text), size)]
        events, reply = await read(TextTools(_Cut(case.text, pieces)))
        if not reply.tool_uses:
            continue
        shown = said(events)
        assert '"arguments"' not in shown
        assert "Action Input" not in shown
        before = reply.text.replace(" ", "").replace("\n", "").replace("\r", "")
        assert before.startswith(shown.replace(" ", "").replace("\n", "").replace("\r", "")[:40])


class _Cut(ScriptedProvider):
    """Says a text in given pieces."""

    def __init__(self, text, pieces):
        super().__init__(text)
        self._pieces = pieces

    @asynccontextmanager
    async def stream(self, request):
        await trio.lowlevel.checkpoint()
        text = "".join(self._pieces)
        deltas = [BlockDelta(0, "text", piece) for piece in self._pieces]
        end = StreamEnd(Message.assistant(text))
        yield ReplayStream("cut", [*deltas, BlockEnd(0, TextBlock(text)), end])


async def test_a_plain_input_is_that_of_the_only_parameter():
    llm = TextTools(
        ScriptedProvider("Action: add\nAction Input: 7", "Action: other\nAction Input: 7")
    )
    assert (await llm.generate(request())).tool_uses[0].input == {"a": "7"}
    assert (await llm.generate(request())).tool_uses[0].input == {"input": "7"}


async def test_observations_are_told_before_the_next_reply():
    results = Message.user([ToolResultBlock("1", (TextBlock("3"),), is_error=True)])
    joined = Message.user("And hurry.")
    events, _ = await read(TextTools(ScriptedProvider(DONE)), request(results, joined))
    assert told(events[:1], "react.observation") == [{"id": "1", "text": "3", "is_error": True}]


async def test_a_cancel_leaves_what_was_said_and_no_action(autojump_clock):
    llm = TextTools(ScriptedProvider(Reply(ACT, hangs=True)))
    with trio.move_on_after(1):
        async with llm.stream(request()) as stream:
            async for _ in stream:
                pass
    assert stream.partial().text.strip() == "Thought: I add."
    assert stream.partial().stop_reason is StopReason.INTERRUPTED


async def test_a_model_that_has_calls_after_all():
    call = ToolUseBlock("1", "add", {"a": 1})
    reply = await TextTools(ScriptedProvider(call)).generate(request())
    assert reply.tool_uses == (call,)
    events, _ = await read(TextTools(ScriptedProvider([TextBlock("I look."), call])))
    assert said(events) == "I look."


@pytest.mark.parametrize(
    "reason", [StopReason.REFUSAL, StopReason.CONTENT_FILTER, StopReason.PAUSE]
)
async def test_a_refusal_is_not_asked_again(reason):
    inner = ScriptedProvider(Reply("I can't help with that.", stop_reason=reason))
    events, reply = await read(TextTools(inner))
    assert (reply.text, reply.stop_reason) == ("I can't help with that.", reason)
    assert said(events).strip() == reply.text[: len(said(events).strip())]


async def test_what_no_utf8_can_carry_does_not_stay_in_the_history():
    reply = await TextTools(ScriptedProvider("Action: add\nAction Input: a\ud800")).generate(
        request()
    )
    assert reply.tool_uses[0].input == {"a": "a\ufffd"}


async def test_a_type_is_asked_for_by_a_tool():
    answer = 'Action: {"tool": "final_answer", "arguments": {"value": 42}}'
    assert await generate_structured(TextTools(ScriptedProvider(answer)), request(), int) == 42


async def test_a_reply_that_can_not_be_read_is_asked_for_again():
    inner = ScriptedProvider("Hm.", 'Action: {"tool": "add', "Final Answer: 3")
    events, reply = await read(TextTools(inner))
    assert reply.text == "3"
    assert [data["attempt"] for data in told(events, "react.reformat")] == [1, 2]
    first, second, third = inner.requests
    assert len(second.messages) == len(third.messages) == len(first.messages) + 2
    assert third.messages[-2].text == 'Action: {"tool": "add'
    assert "closing quote is missing" in third.messages[-1].text
    assert third.system == first.system
    # What was used is told with each attempt that is dropped.
    dropped = [event.partial for event in events if isinstance(event, StreamRestart)]
    assert [message.usage.total for message in dropped] == [15, 15]


async def test_it_is_asked_for_at_most_three_times_more():
    inner = ScriptedProvider(*["I need to think more"] * 9)
    with pytest.raises(ModelOutputError, match="4 replies of script could not be read") as caught:
        await TextTools(inner).generate(request())
    assert len(inner.requests) == 4
    assert caught.value.partial.text == "I need to think more"
    assert "neither" in caught.value.errors[0]


async def test_a_reply_of_blanks_is_shown_as_empty():
    inner = ScriptedProvider("\n ", DONE)
    await TextTools(inner).generate(request())
    assert inner.requests[1].messages[-2].text == "(empty)"


async def test_at_the_last_step_words_are_an_answer():
    inner = ScriptedProvider("The capital is Paris.")
    events, reply = await read(TextTools(inner), request(tool_choice="none"))
    assert reply.content == (TextBlock("The capital is Paris."),)
    assert said(events) == "The capital is Paris."


async def test_an_action_that_was_cut_off_is_not_run():
    cut = ACT[:-2] + ', "b": "2"'  # where a bracket is missing, an argument may be
    inner = ScriptedProvider(Reply(cut, stop_reason=StopReason.MAX_TOKENS), ACT)
    events, reply = await read(TextTools(inner))
    assert reply.tool_uses[0].input == {"a": 1}
    assert "cut off" in told(events, "react.reformat")[0]["reason"]


async def test_an_action_before_the_cut_is_run():
    text = f"{ACT}\nObservation: 3\nThought: and so"
    reply = await TextTools(
        ScriptedProvider(Reply(text, stop_reason=StopReason.MAX_TOKENS))
    ).generate(request())
    assert reply.tool_uses[0].input == {"a": 1}


async def test_an_answer_that_was_cut_off_says_so():
    reply = await TextTools(
        ScriptedProvider(Reply(DONE, stop_reason=StopReason.MAX_TOKENS))
    ).generate(request())
    assert (reply.text, reply.stop_reason) == ("3", StopReason.MAX_TOKENS)


async def test_a_retry_inside_begins_anew(autojump_clock):
    broken = Reply("Thought: I a", error=ModelOverloadedError("busy"))
    inner = resilient(
        ScriptedProvider(broken, ACT), retry=Retry(attempts=2), after_output="restart"
    )
    reply = await TextTools(inner).generate(request())
    assert reply.content[0] == TextBlock("Thought: I add.")


async def test_the_cost_is_known():
    price = Price(input=1.0, output=1.0)
    inner = ScriptedProvider("Hm.", Reply(ACT, usage=Usage(1_000_000, 0)), price=price)
    llm = TextTools(inner)
    assert (llm.price, llm.name, llm.model) == (price, "scripted", "script")
    events, reply = await read(llm)
    assert reply.usage.cost == pytest.approx(1.0)
    [dropped] = [event.partial.usage for event in events if isinstance(event, StreamRestart)]
    assert dropped.cost == pytest.approx(15 / 1_000_000)
    assert TextTools(ScriptedProvider()).price is None


def test_a_model_may_be_given_by_its_name():
    assert TextTools("offline:").name == "offline"
