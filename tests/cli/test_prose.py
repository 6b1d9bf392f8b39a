"""Paragraphs without marks look the same on the short way as by way of Markdown and rich."""

import random

import pytest
from rich.console import Group

from greenroom.cli.markdown_view import _Document, render_markdown
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.cli.rows import PlainProse, read_plain
from tests.cli import replies
from tests.conftest import few

SCHEME = ColorScheme()
PLAIN = """the of render, (props) state: a I don't 3.14 1. 2) 42 x=1 - + # > | = --- ! ] ```
    über naïve çok 漢字 かな 한국어 नि ไทย ⚠️ 👍🏽 “so”"""
CODE = ("`code`", "`a b`", "`` ` ``", "` x `", "`  `", "`a", "`" + "y" * 60 + "`")
WORDS = (*PLAIN.split(), *CODE, "\u3164", "a\u0301", "a  b", "x" * 50, "漢" * 30)


def paint_both(text, width, colors):
    painter = Painter(colors)
    usual = painter.paint([Group(_Document(text, SCHEME))], width)
    return painter.paint([render_markdown(text, SCHEME)], width), usual


def paragraphs(rng):
    lines = rng.randrange(1, 4)
    words = [[rng.choice(WORDS) for _ in range(rng.randrange(1, 30))] for _ in range(lines)]
    gap = rng.choice(("\n", "\n", "\n\n", "\n \n\n"))
    return gap.join(" ".join(line) + " " * rng.randrange(3) for line in words) + "\n\n"


def test_the_short_way_gives_what_markdown_and_rich_give():
    plain = 0
    for seed in range(few(1_500)):
        rng = random.Random(seed)
        text = paragraphs(rng) if seed % 4 else replies.words(rng, 20)
        width, colors = rng.choice((20, 33, 80, 150)), rng.choice((None, "256", "truecolor"))
        if read_plain(text, SCHEME.code_span) is not None:
            short, usual = paint_both(text, width, colors)
            assert short == usual, (seed, text)
            plain += 1
    assert plain > 100


@pytest.mark.parametrize(
    "text",
    [
        *("- item", "1. item", "2) item", "# head", "> said", "    code", "```\ncode\n```", "***"),
        *("a\n---", "a\n===", "a\n- b", "`a\nb`", "<p>", "a <b>", "&amp;", "a_b_ c"),
        *(
            "**a**",
            "[a](b)",
            "a\\",
            "~~a~~",
            "a\x1b[2J",
            "a\u202e",
            "a | b\n--|--",
            "",
            "\n",
            "a\tb",
        ),
    ],
)
def test_what_may_be_more_than_a_paragraph_takes_the_usual_way(text):
    assert read_plain(text, "") is None


def test_a_paragraph_within_something_else_is_drawn_by_rich():
    prose = render_markdown("some `code` of a long line", SCHEME)
    assert isinstance(prose, PlainProse)
    painter = Painter("256")
    assert painter.paint([Group(prose)], 20) == painter.paint([prose], 20)
