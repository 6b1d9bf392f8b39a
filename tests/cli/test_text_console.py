"""Text is drawn without rich's console as it is with it."""

import os
import re

import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console
from rich.text import Text

from greenroom.cli import paint_console
from greenroom.cli.painter import (
    LastRows,
    Painter,
    Prefixed,
    Quoted,
    detect_colors,
    draw_text,
    hang_indent,
)
from greenroom.cli.rows import PlainProse

COLORS = (None, "standard", "256", "truecolor")
STYLES = ("", "bold", "dim italic", "#123456 on red", "code", "no such style", "link http://a/")
LETTERS = "ab \t\n漢é👩‍👩‍👧️-ـ\x00"
EXAMPLES = int(os.environ.get("GREENROOM_DRAWN", "40"))

words = st.text(LETTERS, max_size=60)


@st.composite
def texts(draw):
    text = Text(
        draw(words),
        draw(st.sampled_from(STYLES)),
        no_wrap=draw(st.sampled_from([None, True])),
        overflow=draw(st.sampled_from([None, "fold", "ellipsis", "crop"])),
        justify=draw(st.sampled_from([None, "left", "right", "center"])),
    )
    for _ in range(draw(st.integers(0, 3))):
        text.append(draw(words), draw(st.sampled_from(STYLES)))
    return text


def contents():
    prefix = st.sampled_from([Text("> ", "bold"), Text("漢 "), Text("…")])
    prose = st.builds(PlainProse, st.just((("one ", "two", " three" * 30), ())), st.just("cyan"))
    whole = texts() | prose | st.builds(Quoted, prefix, texts())
    return st.recursive(
        whole,
        lambda inner: (
            st.builds(Prefixed, prefix, inner) | st.builds(LastRows, inner, st.integers(1, 3))
        ),
        max_leaves=3,
    )


def without_ids(drawn):
    """Leave out what tells one link from another, which is random."""
    return re.sub(r"\x1b]8;id=[^;]*;", "", drawn)


@given(st.lists(contents(), max_size=4), st.integers(20, 60), st.sampled_from(COLORS))
@settings(max_examples=EXAMPLES, deadline=None)
def test_text_is_drawn_as_rich_draws_it(renderables, width, colors):
    drawn = draw_text(renderables, width, colors)
    assert without_ids(drawn) == without_ids(paint_console.draw(renderables, width, colors))


def test_text_and_what_is_no_text_are_painted_in_their_order():
    parts = [Text("one"), "two", hang_indent(Text("> "), Text("three")), Text(""), "four"]
    assert Painter(None).paint(parts, 20) == "one\ntwo\n> three\n\nfour\n"


@pytest.mark.parametrize(
    "term", ["xterm", "xterm-256color", "xterm-kitty", "a-16color", "dumb", ""]
)
@pytest.mark.parametrize("depth", [None, "truecolor", "24bit", "yes"])
def test_the_colours_of_a_terminal_are_those_that_rich_finds(term, depth):
    env = {"TERM": term} | ({"COLORTERM": depth} if depth else {})
    assert detect_colors(env) == Console(force_terminal=True, _environ=env).color_system
