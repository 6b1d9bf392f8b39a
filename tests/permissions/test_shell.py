"""Commands, URLs and paths in odd shapes: narrow rules hold, and nothing raises or hides."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions.patterns import Anchors, PathPattern
from greenroom.programs._internal import Host
from greenroom.shell._internal import Place, analyse

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


@pytest.mark.parametrize(
    "command",
    [
        *("bash -c 'ls; pwd'", "eval ls", "trap ls EXIT", "export A=1", "let a=1", ". a"),
        *("printf -v a b", "test -v 'x[_]'", "[ -v 'x[_]' ]", "test -R x", "read 'a[_]'"),
    ],
)
def test_what_runs_a_text_or_changes_the_shell_is_allowed_by_its_exact_words(command):
    rules = [PermissionRule.parse(f"Bash({command})", "allow"), PermissionRule.deny_command("rm")]
    whole = PermissionRule.allow_tool("Bash")
    for manager, decision in (
        (PermissionManager(rules), ALLOW),
        (PermissionManager([whole]), ALLOW),
        (PermissionManager([whole, rules[1]]), ASK),
        (PermissionManager([PermissionRule.allow_command(command.split()[0])]), ASK),
    ):
        assert manager.check("Bash", {"command": command}, CONTEXT) is decision


def test_no_subscript_is_evaluated_past_a_denial_in_any_mode():
    deny = PermissionRule.deny_command("rm", final=True)
    for command in ("true 'a[$(rm x)]'; test -v 'x[_]'", "true 'a[$(rm x)]'; [ -v 'x[_]' ]"):
        for mode in ("default", "accept-edits", "bypass"):
            for rules in ([deny], [deny, PermissionRule.allow_all()]):
                manager = PermissionManager(rules, mode=mode)
                assert manager.check("Bash", {"command": command}, CONTEXT) is ASK


@pytest.mark.parametrize(
    "command",
    [
        "echo touch | \"$(cat 3<<'E'\nls\nE\n)\" P",
        "echo touch | \"$(cat 0<<'E'\nls\nE\n)\" P",
        'git commit -m "$(cat | head)"',
        'git commit -m "$(cat)"',
        "cat $(wc -l 2>&1 < ' secrets/key ')",
        "sed p $(wc -l 2>&1 < ' -i a.txt ')",
        "head -n $(wc -l < a) b",
        'cat "$PWD"/{secrets,x}/$X',
    ],
)
def test_what_only_a_run_would_tell_is_asked_about(command):
    allow = ("cat", "echo", "git commit", "head", "ls", "sed p", "wc", "touch")
    assert decide(command, allow, ("sudo",)) is ASK


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ('cat "$PWD"/{secrets,x}/key', DENY),
        ("cat $PWD/{x,secrets}/key", DENY),
        ("cat {$HOME,$PWD/secrets}/key", DENY),
        ('cat "$PWD"/{public,x}/key', ALLOW),
    ],
)
def test_braces_behind_a_folder_are_written_out_before_denials(command, decision):
    rules = [
        PermissionRule.allow_command("cat"),
        PermissionRule.deny_path("secrets/**", final=True),
    ]
    assert PermissionManager(rules).check("Bash", {"command": command}, CONTEXT) is decision


def test_a_rule_for_a_wrapped_command_covers_what_it_wraps():
    assert decide("sudo apt update", ("sudo apt update",), ("rm -rf",)) is ALLOW
    assert decide("sudo apt update", ("sudo",), ("rm -rf",)) is ASK


@pytest.mark.parametrize(
    "command",
    [
        "$(" * 3000 + "rm -rf x" + ")" * 3000,
        "( " * 3000 + "rm -rf x" + ")" * 3000,
        'echo "$(' + '"$(' * 300 + "rm -rf x" + ')"' * 301,
        "timeout 1 " * 3000 + "rm -rf x",
        "eval " * 3000 + "rm -rf x",
        "cat <<E\n" + "$(" * 60 + "rm -rf x" + ")" * 60 + "\nE",
    ],
)
def test_what_is_nested_too_deeply_is_asked_about_whatever_is_allowed(command):
    rules = ("true", "timeout", "sudo", "eval", "echo", "cat", "rm")
    for mode in ("default", "bypass"):
        assert decide(command, rules, ("rm -rf",), mode=mode) is not ALLOW


shell = st.lists(
    st.sampled_from(
        [*"abc ;&|<>()${}`'\"\\\n#!*?[]=~-012", "rm ", "$(", "<<E\n", "\nE\n", "if ", "then ", "fi"]
    ),
    max_size=30,
).map("".join)


@given(shell)
def test_no_text_makes_an_analysis_raise_and_each_has_effects(text):
    found = analyse(text, PLACE)
    assert analyse(text, PLACE) == found
    assert all(map(str, found.effects))
    assert bool(text) <= bool(found.effects)


@given(shell)
def test_a_text_that_is_not_plain_is_allowed_by_no_rule_about_commands(text):
    manager = PermissionManager([PermissionRule.parse("Bash(regex:.*)", "allow")])
    found = manager.explain("Bash", {"command": text}, CONTEXT, files=False)
    assert (found.decision is ALLOW) <= bool(found.runs_as)


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
