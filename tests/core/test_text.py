"""Text is valid, visible, and cut on character borders."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import clip, valid_unicode, visible


@given(st.text())
def test_any_text_becomes_valid(text):
    valid_unicode(text).encode()


@pytest.mark.parametrize("hidden", ["\r", "\x1b", "\x00", "\x9b", "\u202e", "\u200b", "\ufeff"])
def test_hidden_characters_are_shown(hidden):
    shown = visible(f"a{hidden}b")
    assert hidden not in shown
    assert f"{{{ord(hidden):x}}}" in shown


def test_tabs_newlines_and_other_scripts_stay():
    assert visible("a\tb\nжыр 漢字 é") == "a\tb\nжыр 漢字 é"


@given(st.text(max_size=300), st.integers(40, 200))
def test_clipping_keeps_whole_characters_and_counts_the_rest(text, limit):
    cut = clip(text, limit)
    if len(text) <= limit:
        assert cut == text
        return
    assert len(cut) <= limit
    head, note, tail = cut.rpartition("\n… ")[0], cut, cut.rsplit("…\n", 1)[1]
    missing = int(note.rsplit("\n… ", 1)[1].split()[0])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + missing == len(text)
