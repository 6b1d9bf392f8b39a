"""What stands around a text that was found."""

import pytest
from hypothesis import given, strategies as st

from greenroom.session.past_sessions import SearchText


@pytest.mark.parametrize(
    ("sought", "text", "snippet"),
    [
        ("roof", "The Roof\n\n  leaks.", "The Roof leaks."),
        ("roof", "a" * 50 + "ROOF" + "b" * 50, "…" + "a" * 40 + "ROOF" + "b" * 40 + "…"),
        ("roof", "a" * 40 + "roof" + "b" * 40, "a" * 40 + "roof" + "b" * 40),
        (
            "STRASSE",
            "ß" * 50 + " Straße, " + "x" * 50,
            "…" + "ß" * 39 + " Straße, " + "x" * 38 + "…",
        ),
        ("ss", "Maß", "Maß"),
        ("s", "ß", "ß"),
        ("ΣΟΦΟΣ", "ὁ σοφός, σοφος", "ὁ σοφός, σοφος"),
        ("two words", "two\nwords", None),
        ("attic", "roof", None),
    ],
)
def test_a_snippet_is_one_line_with_what_was_found_in_it(sought, text, snippet):
    assert SearchText(sought).snippet(text) == snippet


@given(before=st.text(), sought=st.text(min_size=1).filter(str.strip), after=st.text())
def test_what_stands_in_a_text_is_found_and_in_its_snippet(before, sought, after):
    snippet = SearchText(sought).snippet(f"{before}{sought}{after}")
    assert snippet is not None
    wanted = " ".join(sought.split()).casefold()
    assert wanted in snippet.casefold()
