"""Markdown that streams in, cut into blocks."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from greenroom.cli.markdown_stream import Block, MarkdownStream

TEXT = """\
# Title

A paragraph
of two lines.

1. one

2. two

   still two

```python
x = 1

y = 2
```
Right after the code.

- a

  ~~~
  indented

  fence
  ~~~

````
```
not the end
````

The end"""

BLOCKS = [
    "# Title\n\n",
    "A paragraph\nof two lines.\n\n",
    "1. one\n\n",
    "2. two\n\n   still two\n\n",
    "```python\nx = 1\n\ny = 2\n```\n",
    "Right after the code.\n\n",
    "- a\n\n  ~~~\n  indented\n\n  fence\n  ~~~\n\n",
    "````\n```\nnot the end\n````\n",
    "The end",
]


def pieces_of(text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]


def stream(pieces):
    markdown = MarkdownStream()
    blocks = [block for piece in pieces for block in markdown.feed(piece)]
    return [block.text for block in (*blocks, *markdown.finish())]


def test_a_text_falls_into_its_blocks():
    assert [block.strip("\n") for block in stream([TEXT])] == [b.strip("\n") for b in BLOCKS]


@given(st.lists(st.integers(min_value=0)))
def test_the_blocks_do_not_depend_on_how_the_text_was_cut(cuts):
    assert stream(pieces_of(TEXT, cuts)) == stream([TEXT])


@given(st.text(alphabet="ab `~\n-#1."), st.lists(st.integers(min_value=0)))
def test_nothing_of_any_text_is_lost_or_said_twice(text, cuts):
    found = "".join("".join(stream(pieces_of(text, cuts))).split())
    assert found == "".join(text.split())


def test_the_tail_is_what_may_still_change():
    markdown = MarkdownStream()
    assert markdown.feed("done\n\nnot ye") == []
    assert markdown.feed("t\n") == [Block("done\n\n")]
    assert markdown.tail == "not yet\n"


def test_of_a_very_long_code_block_the_tail_is_its_end_within_a_fence():
    markdown = MarkdownStream()
    markdown.feed("```python\n" + "x = 1\n" * 10_000)
    assert len(markdown.tail) < 5_000
    assert markdown.tail.startswith("```python\nx = 1\n")


def test_of_a_very_long_paragraph_the_tail_is_its_end():
    markdown = MarkdownStream()
    markdown.feed("word word\n" * 10_000)
    assert len(markdown.tail) < 5_000
    assert markdown.tail.startswith("word")


@pytest.mark.parametrize("missed", [0, 3, len("first\n\nsec")])
def test_what_the_stream_has_missed_is_made_up_for_at_the_end(missed):
    whole = "first\n\nsecond\n\nthird"
    markdown = MarkdownStream()
    given = markdown.feed(whole[: len(whole) - missed])
    assert "".join(block.text for block in (*given, *markdown.finish(whole))) == whole


def test_what_follows_a_piece_that_was_missed_is_said_once_with_the_whole():
    markdown = MarkdownStream()
    given = markdown.feed("first\n\nsec")
    markdown.miss()
    assert markdown.feed("rd\n\nfourth\n\n") == []
    rest = markdown.finish("first\n\nsecond\n\nthird\n\nfourth\n\n")
    assert [block.text for block in (*given, *rest)] == [
        "first\n\n",
        "second\n\n",
        "third\n\n",
        "fourth\n\n",
    ]


def test_long_code_comes_in_parts_each_of_which_is_code():
    code = "".join(f"line {number}\n" + "\n" * (number % 20 == 0) for number in range(1000))
    markdown = MarkdownStream()
    blocks = markdown.feed(f"Look:\n```python\n{code}```\nEnd")
    blocks += markdown.finish()
    assert "".join(block.text for block in blocks) == f"Look:\n```python\n{code}```\nEnd"
    assert max(len(block.text) for block in blocks) <= 4_000
    *parts, last, end = blocks
    assert len(parts) > 2
    assert all(block.is_part for block in parts)
    assert all(block.markdown.startswith("```python\n") for block in parts[1:])
    assert last.markdown.startswith("```python\n")
    assert last.markdown.endswith("```\n")
    assert (last.is_part, end) == (False, Block("End"))


def test_no_block_is_so_long_that_it_holds_anything_up():
    markdown = MarkdownStream()
    blocks = [*markdown.feed("a word " * 100_000), *markdown.finish()]
    assert max(len(block.text) for block in blocks) <= 12_000
    assert "".join(block.text for block in blocks) == "a word " * 100_000
