"""The text of a reply that is shown while it streams."""

import pytest
from hypothesis import given, strategies as st

from greenroom.flow.parse_action import EVENT
from greenroom.flow.text_tools import LiveText

WORDS = (
    "I ",
    "Action",
    "Final Answer",
    ": ",
    "\n",
    "**",
    "`",
    "{",
    "}",
    "a",
    " ",
    ". ",
    "<",
    "fin",
    "[1]",
)
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=80), max_size=30).map("".join)


def show(text, size):
    live = LiveText()
    given = [live.add(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join(said for said, _ in given), "".join(answer for _, answer in given)


@given(texts, st.integers(1, 50))
def test_what_is_shown_is_what_was_said(text, size):
    said, answer = show(text, size)
    if not EVENT.search(text):
        assert text.startswith(said)
        assert len(text) - len(said) <= 60 + size
        assert answer == ""


@pytest.mark.parametrize("size", [1, 2, 5, 11, 1000])
@pytest.mark.parametrize(
    ("text", "said", "answer"),
    [
        ("I look. Action: search\nAction Input: x", "I look.", ""),
        ('I look.\n```json\n{"tool": 1}\n```\nDone.', "I look.\n", ""),
        ("<think>Final Answer: no</think>I know it.\nFinal Answer: 3 {x}", "I know it.\n", "3 {x}"),
        ("To act is fun; the final answer follows.\n**Final Answer:** yes", None, "yes"),
        ("It is **bold**, `code` and [1], <b>, a and final.", None, ""),
        ("I look.\n[send(to='Ann', text='" + "so " * 50 + "')]", "I look.\n", ""),
        ("Final Answer:\n\n  3", "", "3"),
    ],
)
def test_an_action_is_held_back_and_an_answer_is_not(text, said, answer, size):
    shown = show(text, size)
    assert shown[1] == answer
    if said is not None:
        assert shown[0] == said
