import re

import pytest
from hypothesis import assume, given, strategies as st

from greenroom.core import RuleFileError
from greenroom.permissions.patterns import MAX_TEXT, Expression

ATOMS = [
    *"abc. -",
    "[ab]",
    "[^a]",
    r"\w",
    r"\s",
    r"\.",
    "(?i:A)",
    r"\x61",
    "[]a]",
    "a{",
    ".*",
    ".{,3}",
]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?=a)", r"(?!b.)", "(?<=a)", "(?<!ab)", "(?=.*a$)"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{,2}", "{2,}", "{0}"]


def larger(inner):
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!", "(?s-m:", "(?i:"]), inner).map(
            lambda pair: f"{pair[0]}{pair[1]})"
        ),
    )


expressions = st.recursive(st.sampled_from(ATOMS + PLACES), larger, max_leaves=12).filter(bool)
texts = st.text(alphabet="aabbc A.-\n", max_size=9)


@given(expressions, st.lists(texts, min_size=1, max_size=4))
def test_an_expression_allows_what_python_matches_and_finds_no_less(pattern, samples):
    try:
        expression = Expression(pattern)
    except RuleFileError:
        assume(False)
    model = re.compile(pattern)
    for text in samples:
        assert expression.fullmatch(text) is (model.fullmatch(text) is not None)
        assert expression.search(text) or not model.search(text)
        if "\n" not in text and len(text) <= expression.search_limit:
            assert expression.search(text) is (model.search(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "part"),
    [
        ("npm run (lint|test)( .*)?", "npm run test -x", True, True),
        ("npm run (lint|test)( .*)?", "npm run tests", False, True),
        (".*--force.*", "git push --force", True, True),
        ("git (?!push).*", "git push", False, False),
        ("git (?!push).*", "git log", True, True),
        ("a.*b.*c", "a c b", False, False),
        ("a.*b.*c", "a b b c", True, True),
        ("a.+a", "aa", False, False),
        ("a.{2,}a", "x a..a x", False, True),
        ("rm.*-rf", "rm a\n-rf", False, True),
        ("ls .*|pwd", "pwd", True, True),
        (r"(?<!-)\bforce\b", "push --force", False, False),
        ("(?i)RM", "rm", True, True),
        ("(?s)a.b", "a\nb", True, True),
        ("(?m)^b$", "a\nb\nc", False, True),
        (r"(?P<verb>\w+) (?P<rest>\S+)", "ls x", True, True),
        ("(?-i:A)(?ia:B)", "Ab", True, True),
        (r"\N{BULLET}\u2022", "\u2022\u2022", True, True),
    ],
)
def test_usual_expressions_are_understood(pattern, text, whole, part):
    assert Expression(pattern).fullmatch(text) is whole
    assert Expression(pattern).search(text) is part


@pytest.mark.parametrize(
    ("pattern", "found", "other"),
    [
        (r".*a\.*", "xa..", "b"),
        (r".*?a.*", "xa", "b"),
        (r".*", "", None),
        (r"a|.*", "b", None),
        (r"(?s).*a\\.*", "xa\\", "xa"),
    ],
)
def test_a_search_leaves_out_what_may_be_anything_at_either_end(pattern, found, other):
    expression = Expression(pattern)
    assert expression.search(found)
    assert other is None or expression.search(other) is False


def test_a_text_that_is_too_long_is_not_allowed_and_can_not_be_told():
    expression = Expression("echo .*")
    assert expression.fullmatch("echo " + "a" * (MAX_TEXT - 5)) is True
    assert expression.fullmatch("echo " + "a" * MAX_TEXT) is False
    assert expression.search("echo " + "a" * MAX_TEXT) is None


@pytest.mark.parametrize(
    ("pattern", "limit", "search_limit"),
    [
        ("rm -rf", 4096, 4096),
        (".*--force.*", 2000, 4096),
        ("git push .*--force", 4096, 2000),
        ("a{2,}b", 4096, 1414),
        (r"(a)\1", 4096, 2000),
        ("[ab]*a[ab]{200}c", 4096, 141),
        ("(.*/)?rm( .*)?", 1000, 99),
        ("(?=.*a).*b", 2000, 158),
        (r"\S+ \S+ \S+", 158, 44),
        ("(a|b|c|d)" * 5, 1953, 1953),
    ],
)
def test_the_weight_of_an_expression_bounds_its_texts(pattern, limit, search_limit):
    expression = Expression(pattern)
    assert (expression.limit, expression.search_limit) == (limit, search_limit)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "512"),
        ("a" * 513, "513"),
        ("(", "regular expression"),
        ("a{99999999999}", "regular expression"),
        ("(?x) a", "flag x"),
        ("(?ix: a)", "flag x"),
        ("(a+)(?#)+", "comments"),
        *((each, "holds a repeat") for each in ("(a+)+b", "(a|aa)+$", "(a?){40}a{40}", "(a*)*!")),
        *(
            (each, "holds a repeat")
            for each in ("((a*)b?)*c", "(x+x+)+y", r"(\w+\s?)*!", "((a|b))*")
        ),
        *(
            (each, "holds a repeat")
            for each in ("(?=(a+)+b)a", "(a|b)*a", "(.*a){20}b", r"([(]a*)*")
        ),
        *((each, "holds a repeat") for each in (r"(\(a*)*", "(?P<x>a*)*", "(a*)*+", "(?>a|b)+")),
        *((each, "too many ways") for each in ("a*a*a*a*b", "a?" * 26 + "b", "(a|b)" * 26)),
        *((each, "too many ways") for each in ("a{50000000}", "(a{3000})a{3000}", r"(a*)\1\1\1")),
        ("(?P<x>a*)(?P=x)(?P=x)(?P=x)", "too many ways"),
    ],
)
def test_what_a_text_could_slow_down_is_refused_with_a_hint(pattern, words):
    with pytest.raises(RuleFileError, match=words) as caught:
        Expression(pattern)
    assert bool(caught.value.hint) is (words not in ("512", "513", "regular expression"))
