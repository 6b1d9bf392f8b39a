"""Sessions as an HTML page: all is in it, it needs nothing else, and no text becomes markup."""

import base64
import hashlib
import itertools
import re

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ImageBlock, Message, TextBlock, ThinkingBlock, ToolUseBlock
from greenroom.core._internal import valid_unicode
from greenroom.export import html as prose
from greenroom.export.content import make_printable
from greenroom.export.html import STYLE, render_prose, to_html
from tests.export.page import Page
from tests.export.talk import EVERYTHING, content, messages, reply, result, texts, user

OURS = """
html head meta link title style body header main footer nav h1 h2 h3 h4 h5 h6 a small dl dt dd
div section details summary p pre code span b ins del figure figcaption img ol ul li em strong
s blockquote hr br table thead tbody tr th td
"""
ATTRIBUTES = """
lang charset http-equiv content name rel href class id open alt src start dir aria-label
"""


def html(*messages, **fields):
    return "".join(to_html(content(*messages, **fields)))


def page(*messages, **fields):
    return Page(html(*messages, **fields))


def is_inside(address):
    return address.startswith("#") or re.match(r"data:(,|image/\w+;base64,)", address)


def test_every_part_of_a_conversation_is_there():
    found = page(*EVERYTHING, model="m-1", provider="anthropic", metadata={"title": "A talk"})
    for part in (
        "A talk",
        "anthropic:m-1",
        "2026-01-14 10:30 UTC",
        "# not a heading\n```\nnot a fence",
        "Hmm.",
        "Thinking, which its provider keeps to itself",
        "Read a.py",
        "x = ```1```",
        "ls `pwd`\nrm x",
        "failed",
        "no such file",
        "-old\n+new",
        "a key occurs twice",
        "interrupted",
        "go on",
        '"type": "hologram"',
        "stopped: max tokens",
        "1,400 tokens in (200 cached), 30 out, $0.5000",
        "https://example.com/i.png",
        "Document “Plan *B*”, application/pdf, 5 bytes",
        "A result without a call",
        "of no call",
        "no result",
    ):
        assert part in found.text
    assert {"em", "ul"} <= {tag for tag, _ in found.elements}
    assert found.is_whole


def test_a_sender_speaks_in_a_section_of_its_own():
    text = html(
        Message.user("a"), Message.user("b", sender="a<b>"), Message.user("c", sender="a<b>")
    )
    assert re.findall(r"<h2><a[^>]*>([^<]*)</a>", text) == ["User", "a&lt;b&gt;"]
    assert text.count("<section") == 2


def test_it_needs_nothing_but_itself():
    found = page(*EVERYTHING)
    assert all(is_inside(address) for address in found.addresses)
    assert not found.all("script", "iframe", "object", "embed", "form", "base", "audio", "video")
    assert "@import" not in STYLE
    assert "url(" not in STYLE


def test_its_policy_allows_its_own_style_and_images_in_it_and_nothing_else():
    text = html()
    [policy] = [m["content"] for m in Page(text).all("meta") if "http-equiv" in m]
    style = re.search("<style>(.*)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


@given(st.lists(messages, max_size=3), texts)
def test_whatever_was_said_the_page_holds_no_markup_but_its_own(said, title):
    found = page(*said, metadata={"title": title})
    assert found.is_whole
    assert {tag for tag, _ in found.elements} <= set(OURS.split())
    assert {name for _, attrs in found.elements for name in attrs} <= set(ATTRIBUTES.split())
    assert all(is_inside(address) for address in found.addresses)


@given(texts)
def test_what_a_person_typed_is_shown_as_it_was_typed_and_adds_no_element(text):
    plain, typed = page(Message.user("a.")), page(Message.user(f"a.{text}."))
    assert typed.elements == plain.elements
    assert make_printable(valid_unicode(f"a.{text}.")) in typed.text


@given(texts)
def test_what_a_tool_printed_adds_no_element(text):
    def called(output):
        return reply(ToolUseBlock("t", "Bash", {"a": output})), user(result("t", output))

    typed = page(*called(f"a.{text}."))
    plain = page(*called("a."))
    marks = {"ins", "del", "span", "pre", "details", "summary"}  # of diffs, and of blank parts
    assert {tag for tag, _ in typed.elements} - marks == {tag for tag, _ in plain.elements} - marks
    assert make_printable(f"a.{text}.") in typed.text


@given(texts)
def test_no_word_of_a_reply_is_lost(text):
    words = re.findall(r"[^\W\d_]+", make_printable(text))  # lists are numbered anew
    found = Page(render_prose(text)).text
    # Entities are what they stand for, and addresses are written as a browser would.
    lost = [word for word in words if word not in found]
    assert not lost or "&" in text or "](" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](https://x.org)", "a (https://x.org)"),
        ("<https://x.org>", "https://x.org"),
        ("[a](javascript:alert(1))", "[a](javascript:alert(1))"),
        ("![a](https://x.org/a.png)", "[image: a] (https://x.org/a.png)"),
        ("[x]: https://x.org\n\n[x]", "[x]: https://x.org[x]"),
        ("<b onclick=a>b</b>", "<b onclick=a>b</b>"),
        ("a\n\n<script>alert(1)</script>", "a<script>alert(1)</script>"),
        ("&lt;b&gt; &#x202e;", "<b> \\u{202e}"),
        ("a\\\nb", "ab"),
        ("a\nb", "a\nb"),
        ("3. three", "three"),
        ("~~gone~~", "gone"),
        ("    code", "code"),
        ("```py x\ncode\n```", "py xcode\n"),
    ],
)
def test_markdown_of_a_reply_is_shown_without_anything_to_click_or_to_fetch(text, shown):
    found = Page(render_prose(text))
    assert found.text.strip() == shown.strip()
    assert found.addresses == []
    assert found.is_whole


def test_headings_and_tables_of_a_reply_stand_below_those_of_the_page():
    found = Page(render_prose("# one\n\n##### five\n\n| a |\n| --- |\n| b |\n\n---\n\n> q"))
    tags = [tag for tag, _ in found.elements]
    assert tags[1:4] == ["h4", "h6", "div"]
    assert {"table", "th", "td", "hr", "blockquote"} <= set(tags)
    assert found.is_whole


@pytest.mark.parametrize("text", ["> " * 500 + "deep", "- " * 300 + "deep", "[" * 3000 + "deep"])
def test_what_is_nested_too_deep_is_shown_all_the_same(text):
    assert "deep" in Page(render_prose(text)).text


def test_what_is_too_long_to_be_prose_is_shown_as_it_is(monkeypatch):
    monkeypatch.setattr(prose, "LONGEST_PROSE", 10)
    assert render_prose("*so* <b> it is") == (
        '<div class="plain" dir="auto">*so* &lt;b&gt; it is</div>'
    )


def test_a_call_that_changed_a_file_is_open_and_its_diff_is_marked():
    found = page(*EVERYTHING[3:5])
    [call, _] = found.all("details")
    assert "open" in call
    assert len(found.all("ins")) == len(found.all("del")) == 1


def test_a_changed_line_that_looks_like_the_head_of_a_diff_is_marked_as_changed():
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n--- old\n+++ new"
    found = page(reply(ToolUseBlock("t", "Edit", {})), user(result("t", diff)))
    assert len(found.all("ins")) == len(found.all("del")) == 1


def test_other_calls_and_thinking_are_fold():
    assert not any("open" in each for each in page(*EVERYTHING[:3]).all("details"))


@pytest.mark.parametrize(
    ("image", "is_shown"),
    [
        (ImageBlock("image/png", "iVBORw0KGgo="), True),
        (ImageBlock("image/svg+xml", "iVBORw0KGgo="), False),
        (ImageBlock("image/png", '"><script>'), False),
        (ImageBlock("image/png", "iVBORw0KGgo=\n"), False),
        (ImageBlock("image/png", url="https://x.org/a.png"), False),
        (ImageBlock('image/png"', "iVBORw0KGgo="), False),
    ],
)
def test_only_images_that_the_session_holds_are_shown(image, is_shown):
    found = page(user(image))
    assert len(found.all("img")) == is_shown
    assert all(each["alt"] for each in found.all("img"))
    assert "Image" in found.text


def test_a_subagent_stands_where_it_was_called_and_others_at_the_end():
    called = content(
        Message.user("look"), session_id="s-1", parent_tool_use_id="t4", parent_session_id="mine"
    )
    other = content(Message.user("stray"), session_id="s-2", parent_session_id="mine")
    found = page(*EVERYTHING, Message.user("thanks"), subagents=(other, called))
    text = found.text
    assert text.index("Task") < text.index("look") < text.rindex("thanks") < text.index("stray")
    places = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(places) == len(set(places))
    assert {"m1", "s-1-m1", "s-2-m1"} <= set(places)
    assert found.is_whole


def test_headings_go_down_in_steps_of_one_and_every_one_of_them_can_be_reached():
    child = content(Message.user("look"), session_id="s-1", parent_tool_use_id="t4")
    found = page(*EVERYTHING, subagents=(child,))
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(len(found.all(tag)) == 1 for tag in ("h1", "main", "header", "footer"))
    places = {attrs["id"] for _, attrs in found.elements if "id" in attrs}
    assert {each["href"][1:] for each in found.all("a")} <= places


def test_the_contents_list_what_the_user_said_and_stop_somewhere():
    assert not page(Message.user("a"), Message.user("b")).all("nav")
    few = page(*(Message.user(f"prompt {n} " + "x" * 100) for n in range(3)))
    assert len([each for each in few.all("a") if each["href"] != "#conversation"]) == 3 + 1
    assert "x…" in few.text
    many = page(*(Message.user(f"prompt {n}") for n in range(210)))
    assert "… and 10 more" in many.text


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_every_text_stands_out_from_what_is_behind_it(scheme):
    block = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", block))
    pairs = [("good", "good-tint"), ("bad", "bad-tint")]
    pairs += [(name, "paper") for name in ("ink", "quiet", "accent", "bad", "late")]
    pairs += [(name, "tint") for name in ("ink", "quiet", "accent")]
    # 4.5 is what the WCAG ask for at level AA.
    assert min(contrast(colours[text], colours[behind]) for text, behind in pairs) >= 4.5


def test_empty_parts_take_no_place():
    found = page(user(TextBlock(" ")), reply(ThinkingBlock("  "), TextBlock("\n")), reply())
    assert not found.all("details", "pre")
    assert found.is_whole
