"""Thoughts and calls in the text of a reply, taken apart however it is cut."""

import gc
import weakref
from itertools import pairwise

from hypothesis import given, strategies as st

from greenroom.agents import Agent
from greenroom.core import StopReason, TextBlock, ThinkingBlock, ToolUseBlock
from greenroom.llm import BlockDelta, OpenAIProvider
from greenroom.llm._internal import HOSTS
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.openai.reasoning import TaggedText
from greenroom.session import AgentSession, InMemoryStore
from tests.llm.server import Answer, model_server
from tests.llm.wire import call, chat, run

LS = '<tool_call>\n{"name": "ls", "arguments": {"path": "a"}}\n</tool_call>'
CAT = '<tool_call>{"name": "cat", "arguments": "{\\"path\\": \\"b\\"}"}'
LIST, SHOW = ("ls", {"path": "a"}), ("cat", {"path": "b"})

REPLIES = [
    ("<think>\nHm?\n</think>\n\nSix.", "Hm?\n", "Six.", []),
    ("\n <thinking>Hm?</thinking>Six.", "Hm?", "Six.", []),
    ("<think></think>\n\nSix.", "", "Six.", []),
    ("<think>Is 1 < 2, </thin or <think>?</think>Yes.", "Is 1 < 2, </thin or <think>?", "Yes.", []),
    ("<think>Never ends", "Never ends", "", []),
    ("<thinker> is a tag.", "", "<thinker> is a tag.", []),
    ("The tag <think> opens.</think>", "", "The tag <think> opens.</think>", []),
    ("  Six.", "", "  Six.", []),
    (" \n", "", " \n", []),
    ("<thi", "", "<thi", []),
    ("</think>Six.", "", "</think>Six.", []),
    (LS, "", "", [LIST]),
    (f"<think>Hm.</think>\n{LS}", "Hm.", "", [LIST]),
    (f"Let me look.\n{LS}\n{CAT}", "", "Let me look.\n", [LIST, SHOW]),
    (f"Let me look.\n{LS}{CAT}</tool_call>\n", "", "Let me look.\n", [LIST, SHOW]),
    (f"Write {LS}", "", f"Write {LS}", []),
    (f"```\n{LS}\n```", "", f"```\n{LS}\n```", []),
    (f"{LS}\nis a call, and {CAT}", "", f"{LS}\nis a call, and {CAT}", []),
    ("a <\n<tool", "", "a <\n<tool", []),
    ("<tool_call>{}</tool_call>", "", "<tool_call>{}</tool_call>", []),
    ("<tool_call>oops", "", "<tool_call>oops", []),
]


def read(*pieces, **options):
    deltas = [{"content": piece} for piece in pieces]
    return run(OpenAIDecoder(has_tags=True), chat(*deltas, **options))


def cut(text, places):
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@given(st.sampled_from(REPLIES), st.lists(st.integers(0, 200), max_size=12))
def test_a_reply_is_taken_apart_wherever_it_is_cut(reply, places):
    whole, thought, text, calls = reply
    events = read(*cut(whole, places))
    message = events[-1].message
    assert "".join(b.thinking for b in message.content if isinstance(b, ThinkingBlock)) == thought
    assert message.text == text
    assert [(use.name, use.input) for use in message.tool_uses] == calls
    assert message.stop_reason is (StopReason.TOOL_USE if calls else StopReason.END_TURN)
    said = [each for each in events if isinstance(each, BlockDelta) and each.kind == "text"]
    assert "".join(each.text for each in said) == text


@given(st.text(st.sampled_from("<>/think tool_call\n{}"), max_size=60))
def test_without_a_tag_at_the_beginning_or_a_call_nothing_is_lost(text):
    tags = TaggedText()
    pieces = [pair for letter in text for pair in tags.feed(letter)]
    rest, calls = tags.finish()
    assert not calls
    whole = "".join(piece for _, piece in [*pieces, *rest])
    assert whole == text or text.lstrip().startswith("<think")


def test_thoughts_and_text_are_streamed():
    events = read("<think>", "One, ", "two.", "</think>", "Th", "ree.")
    deltas = [(each.kind, each.text) for each in events if isinstance(each, BlockDelta)]
    assert deltas == [
        ("thinking", "One, "), ("thinking", "two."), ("text", "Th"), ("text", "ree."),
    ]  # fmt: skip


def test_an_answer_in_one_piece_is_taken_apart_too():
    message = {"content": f"<think>Hm.</think>{LS}"}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    reply = list(OpenAIDecoder(has_tags=True).whole(answer))[-1].message
    assert reply.content[0] == ThinkingBlock("Hm.")
    assert [(use.name, use.input) for use in reply.tool_uses] == [LIST]


def test_calls_beside_tags_keep_their_own_arguments():
    deltas = [{"content": LS}, call(0, "c1", "Now", "{}")]
    reply = run(OpenAIDecoder(has_tags=True), chat(*deltas))[-1].message
    assert reply.tool_uses[0] == ToolUseBlock("c1", "Now")
    assert (reply.tool_uses[1].name, reply.tool_uses[1].input) == LIST


def test_servers_that_parse_tags_themselves_are_believed():
    text = "<think>Hm.</think>Six."
    assert run(OpenAIDecoder(), chat({"content": text}))[-1].message.content == (TextBlock(text),)
    local = {name for name, host in HOSTS.items() if host.has_tags}
    assert local == {"ollama", "litellm", "vllm", "sglang", "lmstudio", "llamacpp"}


async def test_a_thought_in_a_text_is_no_answer_and_does_not_go_back():
    answer = Answer.stream(chat({"content": "<think>Five?"}, {"content": "</think>Six."}))
    async with model_server(answer) as server:
        llm = OpenAIProvider("m", base_url=server.url + "/v1", env={})
        session = AgentSession.new("a", store=InMemoryStore())
        for _ in range(2):
            assert (await Agent(llm).run("How many?", session=session)).output == "Six."
        await llm.aclose()
    assert session.history[1].content[0] == ThinkingBlock("Five?")
    asked = [each.body for each in server.requests if each.path.endswith("/chat/completions")]
    assert asked[1]["messages"][1] == {"role": "assistant", "content": "Six."}


def test_it_is_freed_without_the_garbage_collector():
    tags = TaggedText()
    assert list(tags.feed("<think>Hm.</think>Yes."))
    reference = weakref.ref(tags)
    gc.disable()
    try:
        del tags
        assert reference() is None
    finally:
        gc.enable()
