"""Markdown that streams in, cut into blocks."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from greenroom.cli.markdown_stream import MarkdownStream

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
    return blocks + markdown.finish()


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
    assert markdown.feed("t\n") == ["done\n\n"]
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
    assert "".join([*given, *markdown.finish(whole)]) == whole
