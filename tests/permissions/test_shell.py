import sys

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions.patterns import Anchors, Host, PathPattern
from greenroom.shell.analyser import list_effects
from greenroom.shell.effects import Place
from greenroom.shell.parser import parse

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))
PLACE = Place("/srv/project", "/srv/project")


def decide(command, allow, deny, mode="default"):
    rules = [PermissionRule.allow_command(*allow), PermissionRule.deny_command(*deny)]
    return PermissionManager(rules, mode=mode).check("Bash", {"command": command}, CONTEXT)


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("rm a b", ALLOW),
        ("rm -r a", ALLOW),
        ("rm -- -rf", ALLOW),
        ("rm $X", ASK),
        ("rm -r* a", ASK),
        ("find . -print0 | xargs rm", ASK),
        ("rm -f --recursive a", DENY),
        ("kubectl get pods", ALLOW),
        ("kubectl -n prod delete pod x", DENY),
        ("kubectl --namespace=prod delete x", DENY),
        ("kubectl $X", ASK),
        ("kubectl d*e x", ASK),
        ("kubectl get delete", ALLOW),
        ("git push", ALLOW),
        ("git push --force", DENY),
        ("git push -f", DENY),
        ("git push origin +main -uf", DENY),
        ("git push --force=x", DENY),
        ("frob a", ALLOW),
        ("frob rm -rf a", ASK),
        ("frob a /bin/rm -rf a", ASK),
        ("prog -x", ALLOW),
        ("prog -exec", DENY),
    ],
)
def test_a_narrow_denial_holds_within_a_broad_allowance(command, decision):
    allow = ("rm", "kubectl", "git push", "frob", "xargs", "find", "prog")
    deny = ("rm -rf", "kubectl delete", "git push --force", "prog -exec")
    assert decide(command, allow, deny) is decision


def test_an_exact_rule_is_about_these_words_only():
    rules = [PermissionRule.parse("Bash(make clean)", "deny"), PermissionRule.allow_command("make")]
    manager = PermissionManager(rules)
    for command, decision in (("make clean", DENY), ("make all", ALLOW), ("make $X a", ASK)):
        assert manager.check("Bash", {"command": command}, CONTEXT) is decision


def test_a_rule_for_a_wrapped_command_covers_what_it_wraps():
    assert decide("sudo apt update", ("sudo apt update",), ("rm -rf",)) is ALLOW
    assert decide("sudo apt update", ("sudo",), ("rm -rf",)) is ASK


@pytest.mark.parametrize(
    "command",
    [
        "true; " * 3000 + "rm -rf x",
        "find . " + "-exec ls {} + " * 100 + "-exec rm -rf {} +",
        "bash -c 'bash -c \"rm -rf x\"'",
        "$X " * 3000 + "rm -rf x",
        "$X " * 3000 + "; rm -rf x",
    ],
)
def test_no_length_hides_a_denied_command(command):
    assert decide(command, ("true",), ("rm -rf",)) is DENY


@pytest.mark.parametrize(
    "command",
    [
        "$(" * 3000 + "rm -rf x" + ")" * 3000,
        "( " * 3000 + "rm -rf x" + ")" * 3000,
        'echo "$(' + '"$(' * 300 + "rm -rf x" + ')"' * 301,
        "timeout 1 " * 3000 + "rm -rf x",
        "sudo " * 3000 + "rm -rf x",
        "eval " * 3000 + "rm -rf x",
        "if " * 60 + "rm -rf x",
        "echo `$(" + "$(" * 60 + "rm -rf x" + ")" * 61 + "`",
        "cat <<E\n" + "$(" * 60 + "rm -rf x" + ")" * 60 + "\nE",
    ],
)
def test_what_is_nested_too_deeply_is_asked_about_whatever_is_allowed(command):
    rules = ("true", "timeout", "sudo", "eval", "echo", "cat", "rm")
    for mode in ("default", "bypass"):
        assert decide(command, rules, ("rm -rf",), mode=mode) is not ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("(" * 5000, "((x;" * 3000, "{" * 5000, "`" * 999, "${x:-" * 999, "<(" * 999, "a=(" * 99),
        *(
            "xargs " + "{a,b}" * 20,
            "xargs " + "{,}" * 2000,
            "xargs {" + "{" * 30 + "a,b" + "}" * 31,
        ),
        *("bash -c " * 99, "if " * 999, "case x in " * 99, "echo $((" * 99, "\\\n" * 99, "x=" * 99),
        *("echo $((" + "(" * 200, "xargs " * 20_000 + "ls", "find . -exec " * 2000, "\x00", "'"),
    ],
)
def test_what_is_made_to_be_slow_or_deep_is_asked_about(command):
    assert decide(command, ("ls", "echo", "bash", "xargs"), ("rm -rf",)) is ASK


def test_a_caller_deep_in_its_own_stack_gets_a_question_not_an_error():
    def descend(levels):
        return descend(levels - 1) if levels else list_effects("$(" * 39 + "ls" + ")" * 39, PLACE)

    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    facts = descend(sys.getrecursionlimit() - depth - 60)
    assert "too deeply" in str(facts[-1])


shell = st.lists(
    st.sampled_from(
        [*"abc ;&|<>()${}`'\"\\\n#!*?[]=~-012", "rm ", "$(", "<<E\n", "\nE\n", "if ", "then ", "fi"]
    ),
    max_size=30,
).map("".join)


@given(shell)
def test_no_text_makes_the_parser_raise_and_nothing_is_found_outside_it(text):
    for fact in list_effects(text, PLACE):
        assert str(fact) or text
    assert parse(text) == parse(text)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.none() | st.integers()))
def test_no_input_makes_a_check_raise(data):
    manager = PermissionManager(
        [PermissionRule.deny_path("**/a"), PermissionRule.deny_domain("a.b")]
    )
    for tool in ("Read", "Bash", "WebFetch", "Grep", "Other"):
        assert manager.check(tool, data, CONTEXT) in (ASK, DENY)


@pytest.mark.parametrize(
    ("url", "exact"),
    [
        ("https://a.test/x?y#z", "a.test"),
        ("http://A.Test:8080", "a.test"),
        ("https://[::1]/", "[::1]"),
        *((url, "") for url in ("ftp://a.test", "https://u@a.test", "https://a.test\\@b.test")),
        *((url, "") for url in ("https://a.test:99999/", "https://[::1/", "a.test", "https:///x")),
        *(
            (url, "")
            for url in ("https://\u212aa.test/", "https://\u017fa.test/", "https://a.test:\u0664/")
        ),
        *((url, "") for url in ("https://a%2etest/", "https://а.test/", "https://a.test /", "")),
    ],
)
def test_a_host_is_exact_only_where_every_reader_agrees(url, exact):
    assert Host.of(url).exact == exact


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://0177.0.0.1/"),
        *(
            "http://127.1:80/",
            "http://u:p@127.0.0.1",
            "http:\\\\127.0.0.1\\x",
            "http://127.0.0.1./",
        ),
        *("http://１２７.0.0.1/", "http://127。0。0。1/", "http://[127.0.0.1/", "//127.0.0.1/"),
        *("127.0.0.1:80/x", "127.0.0.1:80", "http:127.0.0.1/", "http:2130706433"),
    ],
)
def test_an_address_is_recognised_in_every_spelling(url):
    assert "127.0.0.1" in Host.of(url).names


def test_numbers_that_are_no_address_are_only_names():
    assert Host.of("http://1.2.3.4.5/").names == {"1.2.3.4.5"}
    assert Host.of("http://99999999999/").names == {"99999999999"}
    assert Host.of("http://" + "a" * 70 + "/").names == {"a" * 70}


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "/w/src/a/b", True),
        ("src/**", "/w/src", False),
        ("**/a/**/b", "/w/x/a/y/z/b", True),
        ("**/a/**/b", "/w/a/b", True),
        ("a/*/c", "/w/a/b/d/c", False),
        ("a?[b-d][!x].py", "/w/azcy.py", True),
        ("~/x", "/home/x", True),
        ("/etc/*", "/etc/passwd", True),
        ("/etc/*", "/w/etc/passwd", False),
        ("{a,b{c,d}}/x", "/w/bd/x", True),
        ("*", "/other/x", False),
    ],
)
def test_path_patterns(pattern, path, matches):
    anchors = Anchors.of("/w", "/home")
    assert PathPattern.parse(pattern).matches(path, anchors) is matches
    assert PathPattern.parse(pattern).touches(path.upper(), anchors) >= matches


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls a 1&>f", ["ls", "a"]),
        ("ls a 2>f", ["ls", "a"]),
        ("ls a #b", ["ls", "a"]),
        ("ls a#b c", ["ls", "a#b", "c"]),
        ("x=1 ls a=2", ["ls", "a=2"]),
        ("(ls a)", ["ls", "a"]),
        ("time ls a", ["ls", "a"]),
        ("ls a&", ["ls", "a"]),
    ],
)
def test_a_row_of_plain_words_ends_where_something_else_begins(command, words):
    found = next(node for node in parse(command).findings if node.words)
    assert [word.text for word in found.words] == words


def test_a_word_tells_which_parts_of_it_are_not_known():
    (command,) = parse("""echo a"$x"b$((1))c '$x' $?""").findings
    assert [word.shape for word in command.words] == ["echo", "a\0b\0c", "$x", "\0"]
    assert [word.unknown for word in command.words] == [False, True, False, False]
