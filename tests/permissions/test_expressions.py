import re
from functools import partial

import pytest
from hypothesis import assume, given, strategies as st

from greenroom.core import AgentContext, RuleFileError
from greenroom.permissions import PermissionManager, PermissionRule
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
        if "\n" not in text:
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


@pytest.mark.parametrize("pattern", ["(a|aa)+$", "(?=(a|aa)+$).*", r"(a|aa)+\1$"])
def test_what_takes_too_long_allows_nothing_and_denies(pattern):
    text = "a" * 200 + "!"
    assert Expression(pattern).fullmatch(text) is False
    assert Expression(pattern).search(text) is True
    rule = partial(PermissionRule.parse, f"Bash(regex:echo {pattern})")
    context = AgentContext(session_id="s", agent_type="coder")
    for decision, other, expected in (("allow", "ask", "ask"), ("deny", "allow", "deny")):
        rules = PermissionManager([rule(decision), PermissionRule.parse("Bash", other)])
        assert rules.check("Bash", {"command": f"echo {text}"}, context) == expected


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "512"),
        ("a" * 513, "513"),
        ("(", "not a regular expression"),
        ("a{99999999999}", "counts"),
        ("(a{1000}){1000}", "counts"),
        ("(?<=a", "not a regular expression"),
    ],
)
def test_what_the_engine_can_not_take_is_refused_when_it_is_loaded(pattern, words):
    with pytest.raises(RuleFileError, match=words):
        Expression(pattern)
