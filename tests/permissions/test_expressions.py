import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.core import RuleFileError
from greenroom.permissions.expressions import automaton
from greenroom.permissions.expressions.expression import Expression

ATOMS = [*"abc. -", "[ab]", "[^a]", r"\w", r"\s", r"\.", "(?i:A)", r"\x61", r"\141", "[]a]", "a{"]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?=a)", r"(?!b.)", "(?<=a)", "(?<!ab)", "(?=.*a$)"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{,2}", "{2,}", "{0}"]


def larger(inner):
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!", "(?s-m:", "(?i:"]), inner).map(
            lambda pair: f"{pair[0]}{pair[1]})"
        ),
    )


expressions = st.recursive(st.sampled_from(ATOMS + PLACES), larger, max_leaves=12).filter(bool)
texts = st.text(alphabet="aabbc A.-\n", max_size=9)


@given(expressions, st.lists(texts, min_size=1, max_size=4))
def test_an_expression_matches_what_it_matches_in_python(pattern, samples):
    expression, model = Expression(pattern), re.compile(pattern)
    for text in samples:
        assert expression.fullmatch(text) is (model.fullmatch(text) is not None)
        assert expression.search(text) is (model.search(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "part"),
    [
        ("npm run (lint|test)( .*)?", "npm run test -x", True, True),
        ("npm run (lint|test)( .*)?", "npm run tests", False, True),
        (".*--force.*", "git push --force", True, True),
        ("git (?!push).*", "git push", False, False),
        ("git (?!push).*", "git log", True, True),
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


SLOW = [
    *("((a+))+$", "(a|a)*$", "(a|aa)+$", "(a+)+b", "a*a*a*a*a*b", ".*.*.*.*.*x", "((a*)b?)*c"),
    *(
        "(a?){40}a{40}",
        "(.*a){20}b",
        "(a|b)*a(a|b){100}c",
        "(x+x+)+y",
        r"(\w+\s?)*!",
        "(a*)*(b*)*!",
    ),
    *(
        ".*a.{200}b",
        "(?=(a+)+b)a",
        "(?<!ab)(a|a)*$",
        "(()*)*!",
        "(((a{9}){9}){5})*b",
        "[ab]{1,250}c",
    ),
]
LONG = ["a" * 2000, "ab" * 1000, ("a" * 37 + "b") * 52, "x" * 2000, "a a" * 700]


def visits(pattern, text, monkeypatch):
    """Count the states that are looked at in the steps that had to be worked out."""
    counted = [0]
    real = automaton.Automaton._step

    def step(self, stand, key):
        following = real(self, stand, key)
        counted[0] += len(stand.states) + len(following.states)
        return following

    with monkeypatch.context() as patch:
        patch.setattr(automaton.Automaton, "_step", step)
        expression = Expression(pattern)
        expression.fullmatch(text), expression.search(text)
    return counted[0]


@pytest.mark.parametrize("pattern", SLOW)
def test_no_text_makes_an_expression_slow(pattern, monkeypatch):
    # A whole match, a search, and an assertion in each.
    passes = 4
    most = automaton.MAX_VISITS + automaton.MAX_STATES
    for text in LONG:
        allowed = passes * (most + automaton.MAX_VISITS_EACH * len(text))
        assert visits(pattern, text, monkeypatch) <= allowed


@given(expressions, texts, st.integers(1, 200))
def test_whatever_the_expression_and_the_text_the_work_is_bounded(pattern, text, times):
    with pytest.MonkeyPatch.context() as patch:
        passes = 2 + 2 * pattern.count("(?")
        long = text * times
        most = automaton.MAX_VISITS + automaton.MAX_STATES + automaton.MAX_VISITS_EACH * len(long)
        assert visits(pattern, long, patch) <= passes * most


def test_what_would_be_too_much_work_is_not_allowed_and_can_not_be_told():
    expression = Expression("[ab]*a[ab]{200}c")
    text = "".join("ab"[n * n % 7919 % 2] for n in range(20_000))
    assert expression.search(text) is None
    assert expression.fullmatch(text) is False
    assert expression.search("ab" * 20 + "c") is False


def test_an_expression_that_has_seen_many_texts_forgets_and_matches_as_before():
    expression = Expression("(.)*!")
    for n in range(0x400, 0x400 + 2 * automaton.MAX_KNOWN):
        assert expression.fullmatch(f"{chr(n)}!") is True
    assert expression.fullmatch("a") is False


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "512"),
        ("a" * 513, "513"),
        ("(", "regular expression"),
        ("a{99999999999}", "regular expression"),
        (r"(a)\1", "one pass"),
        ("(?P<x>a)(?P=x)", "one pass"),
        ("a*+", "one pass"),
        ("a{2}+b", "one pass"),
        ("(?>a)", "one pass"),
        ("(a)?(?(1)b|c)", "one pass"),
        ("(?x) a", "flag x"),
        ("(?x: a)", "one pass"),
        ("a{1000}", "more than 512"),
        ("(a{100}){100}", "too large"),
        ("(()" + "{500}){500}", "too large"),
        ("(" * 60 + "a" + ")" * 60, "nested"),
        ("(" * 250 + "a" + ")" * 250, "nested"),
    ],
)
def test_what_is_no_regular_expression_of_a_usual_size_is_refused(pattern, words):
    with pytest.raises(RuleFileError, match=words):
        Expression(pattern)
