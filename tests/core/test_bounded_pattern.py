"""Expressions from outside mean what they mean to `re`, and each match ends in time."""

import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from greenroom.core import ConfigurationError
from greenroom.core._internal import BoundedPattern
from greenroom.core.bounded_pattern import MATCH_SECONDS, MAX_PATTERN, MAX_TEXT
from tests.conftest import EXAMPLES

ATOMS = [*"abc-_ .", r"\.", r"\w", r"\d", r"\s", r"\W", "[a-c]", "[^ab]", r"[\w.-]", r"\x61"]
PLACES = ["^", "$", r"\b", r"\B", "(?=a)", "(?!b)", "(?<=a)", "(?<!ab)"]
COUNTS = ["*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{,2}", "{2,}", "{1,255}"]


def larger(inner):
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(COUNTS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda each: f"^{each}$"),
    )


plain = st.recursive(st.sampled_from(ATOMS + PLACES), larger, max_leaves=10).filter(bool)
# In an empty text, `\B` matches only with `regex`, and from 3.14 on with `re`.
texts = st.text(alphabet="aabbc1 .-_A", min_size=1, max_size=12)


@settings(max_examples=EXAMPLES * 5)
@given(plain, texts)
def test_a_plain_pattern_means_what_it_means_to_python(pattern, text):
    pattern_of_ours = BoundedPattern(pattern)
    assert pattern_of_ours.search(text) is (re.search(pattern, text) is not None)
    assert pattern_of_ours.fullmatch(text) is (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^([a-z]+)*$", "a" * 60 + "!"),
        (r"^(a|aa)+$", "a" * 200 + "!"),
        (r"^(a+)+$", "a" * 5_000 + "!"),
        (r"(a{0,60000}){0,60000}b", "a" * MAX_TEXT),
        (r"^(a*)*\1$", "a" * 80 + "b"),
        (r"(a(?1)*)*c", "a" * 2_000),
        ("a?" * 390 + "a" * 390, "a" * 390),
        ("b" + "a" * 390, "a" * MAX_TEXT),
        ("(?i)b" + "a" * 390, "a" * MAX_TEXT),
        ("ba{10000}", "a" * MAX_TEXT),
    ],
)
def test_a_match_that_takes_too_long_has_no_answer(pattern, text):
    made = BoundedPattern(pattern)
    start = time.process_time()
    assert made.search(text) is not True
    assert time.process_time() - start < 20 * MATCH_SECONDS


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "not a regular expression"),
        ("a" * (MAX_PATTERN + 1), "characters"),
        ("(a{1000}){1000}", "counts"),
        ("(a{1000,}){1000,2000}", "counts"),
        ("(?:a|b){1000000}", "counts"),
        ("b" + "a" * 400, "plain text"),
        ("(?:aaaa)" * 101, "plain text"),
        ("(?i:aaaa)" * 101, "plain text"),
        ("[a]" * 401, "plain text"),
        (r"\x61" * 450, "plain text"),
        ("(?x)(a{1000} # [\n){1000} # ]", "counts"),
        ("(" * 500 + "a" + ")*" * 500, "not a regular expression"),
    ],
)
def test_what_the_engine_can_not_hold_is_refused_at_once(pattern, words):
    with pytest.raises(ConfigurationError, match=words):
        BoundedPattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\w{1,255}$",
        r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$",
        r"^(?:[\w-]{1,64}\.){1,8}[a-z]{2,63}$",
        r"^a{10000}$",
        r"^[\p{L}\p{N} ]{1,100}$",
    ],
)
def test_usual_counts_are_taken(pattern):
    assert BoundedPattern(pattern).search("?") is False


def test_a_text_that_is_too_long_has_no_answer():
    assert BoundedPattern("a").search("a" * MAX_TEXT) is True
    assert BoundedPattern("a").search("a" * (MAX_TEXT + 1)) is None


def test_what_python_does_not_know_is_understood():
    assert BoundedPattern(r"^\p{Lu}\p{Ll}+$").search("Zoë")
    assert BoundedPattern(r"^(?<year>\d{4})\/\-$").search("2026/-")
