"""The meaning of replies: a corpus, replies written by hand, and properties of any text."""

import json
import sys
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from greenroom.flow import Action, FinalAnswer, parse_action
from greenroom.flow._internal import Fault
from tests.flow.handwritten import FAULTS, READ
from tests.flow.replies import ANSWERS, CALLS, FAMILIES, corpus


def meaning(outcome):
    """What an outcome says, without its thought."""
    match outcome:
        case Action(tool, arguments):
            # As JSON, since `1 == True` to Python.
            return tool, json.dumps(arguments, sort_keys=True)
        case FinalAnswer(text):
            return (text,)
        case _:
            return None


@pytest.mark.checkpoint("2.2 actions in many spellings")
def test_the_corpus_is_read_and_nothing_wrong():
    cases = corpus()
    found = {case.name: meaning(parse_action(case.text)) for case in cases}
    assert len(found) == len(cases) >= 500
    assert len(FAMILIES) >= 5
    wrong = [case.name for case in cases if found[case.name] not in (None, meaning(case.means))]
    assert wrong == []
    unread = Counter(case.name.rpartition(", ")[2] for case in cases if found[case.name] is None)
    # A brace may be missing behind a number, which may have been cut off.
    assert set(unread) == {"a brace missing"}
    assert unread.total() <= len(cases) / 100


@pytest.mark.parametrize("text", READ)
def test_what_was_written_by_hand_is_read(text):
    assert meaning(parse_action(text)) == meaning(READ[text])


@pytest.mark.parametrize("text", FAULTS)
def test_what_is_not_plain_is_a_fault_with_its_reason(text):
    found = parse_action(text)
    assert isinstance(found, Fault)
    assert FAULTS[text] in found.reason


@pytest.mark.parametrize("tool", ["tool", "tool_name", "action"])
@pytest.mark.parametrize("arguments", ["arguments", "args", "action_input"])
def test_each_spelling_of_the_keys(tool, arguments):
    text = json.dumps({tool: "add", arguments: {"a": 1}})
    assert parse_action(f"Action: {text}") == Action("add", {"a": 1})
    assert parse_action(text.title().replace("Add", "add").replace('"A"', '"a"')) == Action(
        "add", {"a": 1}
    )


def test_the_thought_is_what_was_said_before():
    thought = "I look, with {care}."
    for text in (f"Thought: {thought}\nAction: ", f"<think>hm</think>**Thought:** {thought}\n\n"):
        assert parse_action(text + '{"tool": "look", "args": {}}').thought == thought
    assert parse_action(f"Thought: {thought}\nFinal Answer: 3").thought == thought
    assert parse_action(f"Thought: {thought}").thought == thought


PIECES = (
    *(
        '{"tool": "a", "arguments": {',
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        "\\",
        ",",
        ":",
        "“",
        "”",
        '"""',
    ),
    *("Action: ", "\nFinal Answer: ", "\nObservation: ", "Action Input: ", "Thought: ", "\n", " "),
    *(
        "<think>",
        "</think>",
        "```json\n",
        "```",
        "<tool_call>",
        "[TOOL_CALLS]",
        "search",
        "(",
        "x=",
    ),
    *('\\"', '{\\"tool', "/*", "*/", "#", "functools["),
    *("1", "-2.5e3", "true", "None", "//", "\ud800", "\x00", "：", "é", "**", "<function="),
)
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
plain_texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_texts
    | st.sampled_from(PIECES[:26]).map(lambda text: text * 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_texts, inner, max_size=3),
    max_leaves=5,
)


@given(texts)
def test_no_text_raises(text):
    assert isinstance(parse_action(text), Action | FinalAnswer | Fault)


@given(st.dictionaries(plain_texts, values, max_size=4), st.booleans())
def test_json_is_read_as_what_it_is(arguments, plain):
    written = json.dumps({"tool": "t", "arguments": arguments}, ensure_ascii=plain)
    found = parse_action(f"Thought: hm\nAction: {written}\nObservation: x")
    assert meaning(found) == meaning(Action("t", arguments))


def holds(whole, part):
    """Whether a value is the other, or less of it; a text or a number is never less."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and holds(whole[key], part[key]) for key in part)
    if isinstance(whole, list) and isinstance(part, list):
        return len(part) <= len(whole) and all(map(holds, whole, part))
    return whole == part


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_of_a_reply_that_is_cut_off_no_text_is_read_that_is_not_whole(number):
    tool, arguments = CALLS[number]
    whole = f"Thought: hm\nAction: {json.dumps({'tool': tool, 'arguments': arguments})}"
    for end in range(len(whole)):
        found = parse_action(whole[:end])
        assert not isinstance(found, FinalAnswer)
        if isinstance(found, Action):
            assert found.tool == tool
            assert holds(arguments, found.arguments)


def places(text, chars):
    """Return where one of these characters is outside of strings."""
    in_text = escaped = False
    for place, char in enumerate(text):
        is_quote = char == '"' and not escaped
        in_text ^= is_quote
        if char in chars and (is_quote or not in_text):
            yield place
        escaped = char == "\\" and not escaped


@pytest.mark.parametrize("char", ['"', ":", ","])
@pytest.mark.parametrize("times", [0, 2], ids=["lost", "doubled"])
def test_a_character_that_is_lost_or_doubled_is_never_read_wrong(char, times):
    for tool, arguments in CALLS:
        whole = json.dumps({"tool": tool, "arguments": arguments})
        for place in places(whole, char):
            text = f"Action: {whole[:place]}{char * times}{whole[place + 1 :]}\nObservation: 7"
            assert meaning(parse_action(text)) in {None, meaning(Action(tool, arguments))}


def steps(text):
    """How many lines of Python run to read a text."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse_action(text)
    finally:
        sys.settrace(before)
    return count


HARD = {
    "braces": "{",
    "braces and names": '{"a": ',
    "objects": '{"a": 1} ',
    "objects in a row": '{"a": 1,',
    "loose quotes": '{"a": "b" c ',
    "quotes": '"',
    "single quotes": "{'",
    "quotes and commas": '", "',
    "labels": "Action: ",
    "labels and names": "\nAction: search\n",
    "inputs": "Action Input: {",
    "thoughts": "<think></think>",
    "open thoughts": "<think>",
    "fences": "```json\n",
    "blanks": "\n \t",
    "backslashes": "\\",
    "comments in a line": '{"a": "b"//',
    "comments": '{"a": //\n',
    "actions that are none": "Action: {tool: ",
    "brackets": '{"a": [[',
    "doubled braces": "{{",
    "labels in a line": "x. Final Answer ",
    "comments in blocks": '{"a": /* {',
    "escaped quotes": '{\\"a\\": {',
    "calls in lists": "\n[a(b=",
    "actions in a sentence": "an action: {",
    "mentions of answers": "a Final Answer: ",
    "mentions": 'so {"tool": "a", "args": {}} ',
}


@pytest.mark.every(3)
@pytest.mark.parametrize("piece", HARD.values(), ids=HARD)
@pytest.mark.parametrize("begin", ["", 'Action: {"tool": "a", "arguments": {"text": "'])
def test_ten_times_the_text_takes_at_most_twelve_times_the_steps(piece, begin):
    short, long = (begin + piece * (size // len(piece)) for size in (2_000, 20_000))
    assert steps(long) <= 12 * steps(short)


@pytest.mark.parametrize("case", corpus()[::500], ids=lambda case: case.name)
def test_a_hundred_kilobytes_take_at_most_twelve_times_the_steps_of_ten(case):
    short, long = (case.text * (size // len(case.text) or 1) for size in (10_000, 100_000))
    assert steps(long) <= 12 * steps(short)


def test_a_long_text_is_read_whole():
    text = "word " * 20_000
    call = json.dumps({"tool": "write", "arguments": {"text": text}})
    assert parse_action(f"Action: {call}") == Action("write", {"text": text})
    assert steps(f"Action: {call}") < 1_000
    assert parse_action(f"Final Answer: {text}") == FinalAnswer(text.strip())
    assert any(len(answer) > 10_000 for answer in ANSWERS)
