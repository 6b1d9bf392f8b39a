"""Sessions as Markdown: everything is in it, and nothing gets out of its place."""

import pytest
from hypothesis import given
from markdown_it import MarkdownIt

from greenroom.core import Message, TextBlock
from greenroom.export.markdown import LONGEST_PROSE, quote, to_markdown
from tests.export.talk import EVERYTHING, content, messages, reply, texts


def markdown(*messages, **fields):
    return "".join(to_markdown(content(*messages, **fields)))


def top_level(text):
    """The tokens that stand in no quote: their kinds, tags and, of headings, the words."""
    return [
        (token.type, token.tag)
        for token in MarkdownIt("commonmark", {"maxNesting": 10_000}).parse(text)
        if token.level == 0
    ]


def test_every_part_of_a_conversation_is_there():
    page = markdown(*EVERYTHING, model="m-1", provider="anthropic")
    for part in (
        "- Model: `anthropic:m-1`",
        "> # not a heading",
        "> *Thinking:*\n>\n> > Hmm.",
        "*Thinking, which its provider keeps to itself*",
        "> I *will* read.",
        "**Read** `a.py`\n",
        "````\nx = ```1```\n````",
        "**Bash** ``ls `pwd` rm x`` (failed)\n\n- `timeout`: `3`",
        "```sh\nls `pwd`\nrm x\n```",
        "```\nno such file\n```",
        "```\nedited a.py: 1 replaced\n```\n\n```diff\n--- a.py",
        "**Odd** (interrupted)\n\nInput that could not be used: a key occurs twice\n\n"
        '```\n{"a":1,"a":2}',
        "> go on",
        "*Something of a kind unknown here:*\n\n```json",
        "*stopped: max tokens*",
        "*1,400 tokens in (200 cached), 30 out, \\$0.5000*",
        "*Image, image/png, 8 bytes*",
        "*Image, https://example.com/i.png*",
        "*Document “Plan \\*B\\*”, application/pdf, 5 bytes*",
        "**A result without a call**\n\n```\nof no call\n```",
        "**Task** (no result)",
    ):
        assert part in page


def test_a_side_that_speaks_twice_has_one_heading():
    page = markdown(Message.user("a"), reply(TextBlock("b")), reply(TextBlock("c")))
    assert page.count("## coder") == 1


def test_a_sender_speaks_under_its_own_name():
    page = markdown(
        Message.user("a"), Message.user("b", sender="_plan_"), Message.user("c", sender="_plan_")
    )
    assert page.endswith("## User\n\n> a\n\n## \\_plan\\_\n\n> b\n\n> c\n")


def test_subagents_follow_one_level_deeper():
    child = content(Message.user("look"), session_id="child", parent_session_id="mine")
    page = markdown(Message.user("go"), subagents=(child,), child_session_ids=("child", "gone"))
    assert "\n## child\n" in page
    assert "- Subagent of: `mine`" in page
    assert "- Subagents not in here: `gone`" in page
    assert (
        page.index("> go")
        < page.index("\n## child")
        < page.index("\n### User")
        < page.index("> look")
    )


@pytest.mark.parametrize(
    ("key", "name"), [("forked_from", "Forked"), ("imported_from", "Imported")]
)
def test_the_session_that_it_comes_from_is_named(key, name):
    page = markdown(metadata={key: {"session_id": "older", "at": 3}, "title": "A *title*"})
    assert page.startswith("# A \\*title\\*\n")
    assert f"- {name} from: `older`" in page


@pytest.mark.parametrize("strange", [3, {}, {"session_id": 3}])
def test_an_origin_that_makes_no_sense_is_left_out(strange):
    assert " from:" not in markdown(metadata={"forked_from": strange, "title": strange})


@given(texts, texts)
def test_what_was_said_stays_inside_of_its_quote(question, answer):
    plain = top_level(markdown(Message.user("a"), reply(TextBlock("b"))))
    said = top_level(markdown(Message.user("a" + question), reply(TextBlock("b" + answer))))
    assert said == plain


@pytest.mark.parametrize(
    "text",
    [
        "</blockquote>",
        "a <b> c",
        "<!-- a",
        "[x]: https://example.com",
        "> " * 100 + "<b>",
        "<b>" + "x" * LONGEST_PROSE,
    ],
)
def test_what_would_reach_beyond_its_quote_is_shown_as_source(text):
    assert quote(text) == "> ```markdown\n> " + text + "\n> ```"


@pytest.mark.parametrize("text", ["`<b>`", "    <b>", "a < b", "<https://x.org>", "```\n<b>\n```"])
def test_what_only_looks_like_it_is_quoted_as_it_is(text):
    assert quote(text) == "> " + text.replace("\n", "\n> ")


@given(messages, messages)
def test_no_message_makes_a_heading_or_raw_html(first, second):
    tokens = MarkdownIt("commonmark", {"maxNesting": 10_000}).parse(markdown(first, second))
    inline = [child for token in tokens for child in token.children or ()]
    assert not [token for token in (*tokens, *inline) if token.type.startswith("html")]
    headings = [
        tokens[at + 1].content
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    assert headings[0] == "mine"
    assert set(headings[1:]) <= {"User", "coder"}
    assert not [
        token for token in inline if token.type in ("link_open", "image") and token.level < 0
    ]


@given(messages)
def test_nothing_that_a_terminal_would_obey_is_in_it(message):
    page = markdown(message)
    assert not any(ord(each) < 32 and each not in "\n\t" for each in page)
    assert "\u202e" not in page
    page.encode()
