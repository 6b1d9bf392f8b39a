"""How texts become words."""

import pytest
from hypothesis import given, strategies as st

from greenroom.memory.word_index import content_words, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Ann's dog", ["ann", "s", "dog"]),
        ("Straße, ÜBER", ["strasse", "uber"]),
        ("max_age", ["maxage", "max", "age"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("port 8080", ["port", "8080"]),
        ("北京大学", ["北京", "京大", "大学"]),
        ("日", ["日"]),
        ("__", []),
        ("x" * 100, ["x" * 64]),
        ('"a" OR b* NEAR(c)', ["a", "or", "b", "near", "c"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text())
def test_a_word_holds_nothing_that_a_query_language_knows(text):
    for word in words(text):
        assert word
        assert not set(word) & set(' "*()^:+-')
        assert len(word) <= 64


def test_stop_words_count_only_where_there_are_no_others():
    assert content_words("who is the author of it") == ["author"]
    assert content_words("who is it") == ["who", "is", "it"]
