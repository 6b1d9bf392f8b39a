"""JSON from others: characters that are split over two events."""

import re

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ToolUseBlock
from greenroom.core._internal import serde
from greenroom.llm import ModelStreamError
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.json_fields import EventReader
from greenroom.llm.openai.decode import OpenAIDecoder
from tests.llm.wire import anthropic, call, chat, run, text_block, tool_block


def escaped(text):
    """Write each character beyond ASCII as its UTF-16 halves, as many servers do."""

    def escape(match):
        units = match[0].encode("utf-16-be")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return re.sub(r"[^\x00-\x7f]", escape, text)


def joined(*texts):
    """Read events with these texts, written as they are in JSON, and join what arrives."""
    reader = EventReader("acme")
    events = [reader.read(f'{{"index": 1, "delta": {{"text": "{text}"}}}}') for text in texts]
    return "".join(event["delta"]["text"] for event in events)


@given(text=st.text(st.sampled_from("a😀𝄞é€"), max_size=12), chance=st.randoms())
def test_a_text_is_the_same_wherever_it_is_cut(text, chance):
    pieces = [""]
    for unit in re.findall(r"\\u[0-9a-f]{4}|.", escaped(text)):
        pieces += [""] if chance.random() < 0.5 else []
        pieces[-1] += unit
    assert joined(*pieces) == text


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        ((r"a\ud83d", "b"), "a\ufffdb"),
        ((r"a\ud83d", r"\ud83d", r"\ude00"), "a\ufffd😀"),
        (("a", r"\ude00b"), "a\ufffdb"),
        ((r"a\ud83d", "", r"\ude00"), "a😀"),
        ((r"a\ud83d",), "a"),
        ((r"a\\ud83d", r"\\ude00"), r"a\ud83d\ude00"),
        ((r"a\uD83D", r"\uDE00"), "a😀"),
    ],
)
def test_half_a_character_costs_no_other(texts, whole):
    assert joined(*texts) == whole


def test_texts_of_two_places_are_told_apart():
    reader = EventReader("acme")
    first = r'{"calls": [{"index": 1, "text": "\ud83d"}, {"index": 2, "text": "\ud83c"}]}'
    second = r'{"calls": [{"index": 2, "text": "\udf00"}, {"index": 1, "text": "\ude00"}]}'
    assert [each["text"] for each in reader.read(first)["calls"]] == ["", ""]
    assert [each["text"] for each in reader.read(second)["calls"]] == ["🌀", "😀"]


@pytest.mark.parametrize("number", ["12", "1.5", "1e30", "9" * 30, "-0"])
def test_beside_half_a_character_numbers_are_read_as_ever(number):
    plain, half = (
        EventReader("acme").read(f'{{"n": {number}, "text": "{text}"}}')
        for text in ("a", r"\ud83d")
    )
    assert serde.dumps(plain["n"]) == serde.dumps(half["n"])


def test_beside_half_a_character_an_event_must_be_json_and_shallow():
    for bad in ('{"n": NaN, "text": "%s"}', "[" * 300 + '"%s"' + "]" * 300, '{"a": "%s"'):
        with pytest.raises(ModelStreamError):
            EventReader("acme").read(bad % r"\ud83d")


def halves(data):
    return data.replace(b"HIGH", rb"\ud83d").replace(b"LOW", rb"\ude00")


def test_a_character_split_over_two_pieces_of_a_reply_arrives_whole():
    data = chat({"content": "hi HIGH"}, {"content": "LOW!"})
    assert run(OpenAIDecoder(), halves(data))[-1].message.text == "hi 😀!"
    data = anthropic(*text_block(0, "hi HIGH", "LOW!"))
    assert run(AnthropicDecoder(), halves(data))[-1].message.text == "hi 😀!"


def test_a_character_split_over_two_pieces_of_arguments_arrives_whole():
    expected = (ToolUseBlock("c", "Say", {"x": "😀"}),)
    data = chat(call(0, "c", "Say", '{"x": "HIGH'), call(0, arguments='LOW"}'))
    assert run(OpenAIDecoder(), halves(data))[-1].message.tool_uses == expected
    data = anthropic(*tool_block(0, "c", "Say", '{"x": "HIGH', 'LOW"}'))
    assert run(AnthropicDecoder(), halves(data))[-1].message.tool_uses == expected
