"""Matchers: what one is made of, and the short form in which it is typed and shown."""

import string
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.core._internal import exact
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.permissions.matcher import quote_words, split_words

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))


@pytest.mark.parametrize(
    ("field", "text", "same"),
    [
        ("tool", "Read", ["Read"]),
        ("category", "read", ["read"]),
        ("command_prefix", "git log", ("git log",)),
        ("argv_exact", "git log 'a b'", ("git", "log", "a b")),
        ("path", "src/**", ["src/**"]),
        ("domain", "a.test", ("a.test",)),
        ("regex", "ls .*", ["ls .*"]),
    ],
)
def test_a_plain_string_is_one_pattern(field, text, same):
    assert RuleMatcher(**{field: text}) == RuleMatcher(**{field: same})
    assert getattr(RuleMatcher(**{field: text}), field) == tuple(same)


def test_a_plain_string_is_one_pattern_wherever_a_rule_takes_several():
    matcher = RuleMatcher(command_prefix="make", redirect_to="out/**")
    assert matcher.redirect_to == ("out/**",)
    rule = PermissionRule(decision=ALLOW, matcher=matcher, match="make all", not_match="ls")
    assert (rule.match, rule.not_match) == (("make all",), ("ls",))
    assert replace(rule, match="make x").match == ("make x",)
    assert PermissionRule.allow_bash_prefix("git log") == PermissionRule.allow_command("git log")
    assert PermissionRule.allow_tool("Read", match="Read").match == ("Read",)


@pytest.mark.parametrize(
    ("rule", "command", "decision"),
    [
        ("sudo sort", "sudo sort a", ALLOW),
        ("sudo sort", "sudo sort -o a b", ASK),
        ("sudo sort -o a", "sudo sort -o a b", ALLOW),
        ("sudo env sort", "sudo env sort a", ALLOW),
        ("sudo env sort", "sudo env sort -o a b", ASK),
        ("sudo touch", "sudo touch .git/hooks/pre-commit", ASK),
        ("sudo touch .git/hooks/pre-commit", "sudo touch .git/hooks/pre-commit", ALLOW),
        ("xargs sort", "xargs sort -o a", ASK),
        ("xargs", "xargs wc", ASK),
        ("xargs wc", "xargs wc -l", ALLOW),
    ],
)
def test_a_rule_about_a_wrapper_names_the_risky_words_of_what_it_runs(rule, command, decision):
    manager = PermissionManager([PermissionRule.allow_command(rule)])
    assert manager.check("Bash", {"command": command}, CONTEXT) is decision


@pytest.mark.parametrize(
    ("rule", "call", "decision"),
    [
        (PermissionRule(decision=ALLOW, matcher=RuleMatcher(path="src/**")), "README.md", ASK),
        (PermissionRule(decision=ALLOW, matcher=RuleMatcher(path="src/**")), "src/a", ALLOW),
        (PermissionRule(decision=DENY, matcher=RuleMatcher(path=".env")), ".env", DENY),
    ],
)
def test_a_plain_string_means_what_it_says(rule, call, decision):
    assert PermissionManager([rule]).check("Read", {"file_path": call}, CONTEXT) is decision


def test_a_prefix_in_one_string_is_split_as_a_shell_splits_it():
    manager = PermissionManager([PermissionRule.allow_bash_prefix("git log")])
    for command, decision in (("git log -1", ALLOW), ("git", ASK), ("l", ASK), ("git push", ASK)):
        assert manager.check("Bash", {"command": command}, CONTEXT) is decision


@pytest.mark.parametrize("field", ["tool", "argv_exact", "path", "regex", "redirect_to"])
@pytest.mark.parametrize(
    "given", [None, 7, b"ls", {"a": 1}, {"a"}, [1], ["a", None], ["a", ["b"]], "a\0b", ["\ud800"]]
)
def test_what_is_no_text_is_refused_with_the_field_and_what_was_given(field, given):
    with pytest.raises(RuleFileError) as caught:
        RuleMatcher(**{"command_prefix": "ls", field: given})
    assert field in str(caught.value) or "plain command" in str(caught.value)
    assert repr(given) in str(caught.value)
    assert caught.value.hint


def test_what_is_no_text_is_refused_in_a_rule_and_by_a_builder():
    with pytest.raises(RuleFileError, match="match: not a text"):
        PermissionRule(decision=ALLOW, matcher=RuleMatcher(all=True), match=[7])
    with pytest.raises(RuleFileError, match="tool: not a text"):
        PermissionRule.allow_tool(["Read", "Edit"])


def test_matchers_that_mean_the_same_are_equal():
    assert RuleMatcher(command_prefix="git  'log'") == RuleMatcher(command_prefix="git log")
    assert RuleMatcher(tool="Read", all=True) == RuleMatcher(tool="Read")


@pytest.mark.parametrize(
    ("shown", "matcher"),
    [
        ("Read", {"tool": "Read"}),
        ("Read,Grep", {"tool": ["Read", "Grep"]}),
        ("category:read(**)", {"category": "read", "path": "**"}),
        ("*", {"all": True}),
        ('{"tool":["my tool"]}', {"tool": "my tool"}),
        ("Bash(git status:*)", {"tool": "Bash", "command_prefix": "git status"}),
        ("Bash(git:*, hub:*)", {"tool": "Bash", "command_prefix": ["git", "hub"]}),
        ("*(git:*)", {"command_prefix": "git"}),
        ('{"tool":["Edit"],"path":["a:*"]}', {"tool": "Edit", "path": "a:*"}),
        ("Bash(echo 'a b' c,)", {"tool": "Bash", "argv_exact": ["echo", "a b", "c,"]}),
        ('{"tool":["Bash"],"argv_exact":["a\\nb"]}', {"tool": "Bash", "argv_exact": ["a\nb"]}),
        ("Bash('if')", {"tool": "Bash", "argv_exact": ["if"]}),
        ("Bash(regex:npm (a|b) .*)", {"tool": "Bash", "regex": "npm (a|b) .*"}),
        (
            "Bash(pytest:*, > out.log)",
            {"tool": "Bash", "command_prefix": "pytest", "redirect_to": "out.log"},
        ),
        ("Edit(src/**)", {"tool": "Edit", "path": "src/**"}),
        ("Edit(a b, *.{py,pyi})", {"tool": "Edit", "path": ["a b", "*.{py,pyi}"]}),
        ('{"tool":["Edit"],"path":["a, b"]}', {"tool": "Edit", "path": "a, b"}),
        ("Bash(path:src/**)", {"tool": "Bash", "path": "src/**"}),
        (
            "WebFetch(domain:a.test, domain:*.b.test)",
            {"tool": "WebFetch", "domain": ["a.test", "*.b.test"]},
        ),
    ],
)  # fmt: skip
def test_a_matcher_is_shown_as_it_is_typed(shown, matcher):
    assert str(RuleMatcher(**matcher)) == shown
    assert RuleMatcher.parse(shown) == RuleMatcher(**matcher)


@pytest.mark.parametrize(
    ("typed", "matcher"),
    [
        ("Bash(npm run *)", {"tool": "Bash", "command_prefix": "npm run"}),
        ('Bash(echo "a, b" c)', {"tool": "Bash", "argv_exact": ["echo", "a, b", "c"]}),
        ("Bash(> a,  make:*)", {"tool": "Bash", "command_prefix": "make", "redirect_to": "a"}),
        ("Bash(*)", {"tool": "Bash"}),
        ("Read(it's)", {"tool": "Read", "path": "it's"}),
        ("Read(my *)", {"tool": "Read", "path": "my *"}),
        ("Bash(echo '*')", {"tool": "Bash", "argv_exact": ["echo", "*"]}),
        ("Bash(A=1 ls )", {"tool": "Bash", "argv_exact": ["A=1", "ls"]}),
        ("Edit(path:a)", {"tool": "Edit", "path": "a"}),
    ],
)
def test_other_spellings_are_understood(typed, matcher):
    assert RuleMatcher.parse(typed) == RuleMatcher(**matcher)


@pytest.mark.parametrize(
    "text",
    [
        *("Bash(git, hub:*)", "Bash(git *:*)", "Bash(> a)", "Bash(git * x)", "*, Read", "Bash(ls"),
        *("Bash(ls &)", "Bash(ls;)", "Bash((ls))", "Bash(! ls)", "Bash(ls # x)", "Bash({ ls; })"),
        *("Bash(echo a, b)", "Bash(ls \\)", "*(a)", "Edit(a:*)", '{"x": ["a"]}'),
        *("WebFetch(a.test)", "Read(a, domain:b)", "Bash(regex:(a{999}){999})", '{"tool": 1}', "{"),
    ],
)
def test_what_could_mean_two_things_is_refused(text):
    with pytest.raises(RuleFileError) as caught:
        RuleMatcher.parse(text)
    assert caught.value.hint


def test_a_condition_is_named():
    def condition(tool, data):
        return True

    assert str(RuleMatcher(predicate=condition)) == "* & condition"
    assert str(RuleMatcher(tool="Bash", predicate=condition)) == "Bash & condition"


ODD = st.text(st.sampled_from(" ,&'\"\\$:*>()|;#~!{}[]\t\n\u202e\u00a0é漢" + "ab/.="), max_size=8)
WORDS = st.one_of(
    ODD,
    st.sampled_from(
        ["git", "log", "-f", "--x=a b", "if", "condition", "command:a", "path:", "*", ">"]
    ),
    st.text(max_size=5).filter(lambda text: "\0" not in text and text.isprintable()),
)
PROGRAMS = WORDS.filter(lambda word: word and "=" not in word)
COMMANDS = st.builds(lambda first, more: (first, *more), PROGRAMS, st.lists(WORDS, max_size=3))
PATHS = st.one_of(
    ODD.filter(
        lambda text: text and "{" not in text and "}" not in text and not text.startswith("~")
    ),
    st.sampled_from(["src/**", "~/.ssh/**", "/etc/**", "*.{py,pyi}", "*", "regex:a", "> a", "a:*"]),
).filter(lambda text: ".." not in text)
NAMES = st.one_of(
    st.sampled_from(["Bash", "Read", "WebFetch", "mcp__a__b", "category:read", "a,b", "my tool"]),
    st.text(string.printable, min_size=1, max_size=4).filter(
        lambda text: not set(text) & set("*?[")
    ),
)
HOSTS = st.sampled_from(["a.test", "*.b.test", "localhost", "127.0.0.1"])
EXPRESSIONS = st.one_of(
    st.sampled_from(
        ["ls .*", r"\bcurl\b", "a, b", "x & y", "(a|b), c", "'q'", '"', " a ", "condition"]
    ),
    ODD.filter(lambda text: text and not set(text) & set("*(){}[]\\|$")),
)


def several(values, least=0):
    return st.lists(values, min_size=least, max_size=3).map(tuple)


COMMON = {"tool": several(NAMES), "category": several(NAMES)}
MATCHERS = st.one_of(
    st.fixed_dictionaries(
        {
            **COMMON,
            "command_prefix": several(COMMANDS.map(quote_words)),
            "argv_exact": st.one_of(st.just(()), COMMANDS),
            "regex": several(EXPRESSIONS),
            "redirect_to": several(PATHS),
        }
    ).filter(lambda it: it["command_prefix"] or it["argv_exact"] or it["regex"]),
    st.fixed_dictionaries({**COMMON, "path": several(PATHS, 1)}),
    st.fixed_dictionaries({**COMMON, "domain": several(HOSTS, 1)}),
    st.fixed_dictionaries(COMMON).filter(lambda it: it["tool"] or it["category"]),
    st.just({"all": True}),
)  # fmt: skip


@given(MATCHERS)
def test_a_matcher_as_it_is_shown_is_accepted_and_equal(fields):
    matcher = RuleMatcher(**fields)
    shown = str(matcher)
    assert RuleMatcher.parse(shown) == matcher
    assert "\n" not in shown
    assert exact(shown) == shown
    rule = PermissionRule(decision=ALLOW, matcher=matcher)
    assert PermissionRule.parse(str(rule).removeprefix("allow "), "allow").matcher == matcher


@given(COMMANDS)
def test_words_are_written_so_that_a_shell_reads_them_again(words):
    assert split_words(quote_words(words)) == words
