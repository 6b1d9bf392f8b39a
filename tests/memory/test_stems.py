"""Porter's stemmer, beside the one of SQLite."""

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from greenroom.memory.stems import stem

DOCS = Path(__file__).parents[2] / "docs"
ENDINGS = [
    *("ational", "tional", "enci", "izer", "ousness", "biliti", "ologi", "icate", "ness", "bly"),
    *(
        "ed",
        "ing",
        "eed",
        "s",
        "sses",
        "ies",
        "ll",
        "e",
        "y",
        "ion",
        "tion",
        "ement",
        "ible",
        "bly",
    ),
]
made_up = st.lists(
    st.tuples(
        st.text("abeioulstyzncp", min_size=3, max_size=6),
        st.sampled_from(["", *ENDINGS]),
        st.sampled_from(["", *ENDINGS]),
    ).map("".join),
    min_size=1,
    max_size=50,
)


@pytest.fixture(scope="module")
def sqlite_stems():
    """The stems of words as SQLite finds them."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE said USING fts5 (word, tokenize='porter ascii')")
    database.execute("CREATE VIRTUAL TABLE stems USING fts5vocab (said, instance)")

    def find(words):
        database.execute("DELETE FROM said")
        database.executemany("INSERT INTO said (rowid, word) VALUES (?, ?)", enumerate(words))
        found = dict(database.execute("SELECT doc, term FROM stems"))
        return [found[number] for number in range(len(words))]

    yield find
    database.close()


def test_the_words_of_our_pages_have_the_stems_that_sqlite_finds(sqlite_stems):
    pages = " ".join(page.read_text() for page in DOCS.rglob("*.md"))
    words = sorted(set(re.findall("[a-z]{4,63}", pages.lower())))
    assert len(words) > 3_000
    assert [stem(word) for word in words] == sqlite_stems(words)


@given(made_up)
def test_any_word_has_the_stem_that_sqlite_finds(sqlite_stems, words):
    assert [stem(word) for word in words] == sqlite_stems(words)


@pytest.mark.parametrize("word", ["", "is", "x86", "8080", "café", "北京", "z" * 64])
def test_what_is_no_english_word_stays_as_it_is(word):
    assert stem(word) == word
