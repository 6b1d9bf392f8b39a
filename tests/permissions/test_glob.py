import subprocess
import sys
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st

from greenroom.permissions.patterns import Anchors, Host, PathPattern, fold
from greenroom.shell.name_patterns import NamePattern

PARTS = [*"ab-*?", "**", "[ab]", "[!a]", "[a-b]", "[-a]", "[]a]", "[", "]"]


@given(st.lists(st.sampled_from(PARTS), max_size=7).map("".join), st.text("ab-][", max_size=7))
def test_a_pattern_fits_the_names_that_the_shell_would_say(pattern, name):
    assert NamePattern(pattern).fits(name) is fnmatchcase(name, pattern)


def test_a_set_is_negated_as_the_shell_does_it():
    for pattern in ("x[^a]", "x[!a]", "x[^]a]"):
        assert NamePattern(pattern).fits("xb")
        assert not NamePattern(pattern).fits("xa")
    assert NamePattern("[[^]").fits("^")


@pytest.mark.parametrize(
    ("pattern", "head", "tail", "plain"),
    [
        ("a.py", "a.py", "a.py", True),
        ("a*b?c", "a", "c", False),
        ("[ab]c", "", "c", False),
        ("*", "", "", False),
        ("a[", "a", "", False),
        ("", "", "", True),
        ("a**", "a", "", False),
    ],
)
def test_what_stands_before_and_behind_the_stars_is_known(pattern, head, tail, plain):
    glob = NamePattern(pattern)
    assert (glob.head, glob.tail, glob.plain) == (head, tail, plain)


def test_no_pattern_of_a_rule_is_slow_on_any_name():
    anchors = Anchors.of("/w", "/home")
    pattern = PathPattern.parse("**/" + "*a" * 200 + "b")
    assert not pattern.touches("/w/" + "a" * 3000, anchors)
    assert pattern.touches("/w/" + "a" * 3000 + "b", anchors)
    assert not PathPattern.parse("[b-a]").matches("/w/b", anchors)


def test_long_names_are_compared_without_being_composed():
    marks = "\u0301\u0323"
    assert fold("A\u0301") == fold("\u00e1") == "\u00e1"
    assert fold("A" + marks * 600) == "a" + marks * 600
    assert Host.of("https://a.test/" + marks * 600).exact == ""
    assert Host.of("https://B" + marks * 600).names == {"b" + marks * 600}


LONG = r"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

context = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
spelling = RuleMatcher(regex=(r"a+\bx", r".*.*.*!"))
manager = PermissionManager(
    [
        PermissionRule.deny_path("**/.env", "**/*a*a*a*a*b", "/etc/**"),
        PermissionRule.deny_domain("evil.test"),
        PermissionRule.deny_command("rm -rf", "kubectl delete"),
        PermissionRule(decision=RuleDecision.DENY, matcher=spelling),
        PermissionRule.allow_all(),
    ]
)
n = 30_000
for command in (
    f"cat {'a' * 2 * n}", f"cat {'[' * n}", f"cat [[{'a' * n}", f"cat {'*a' * n}", f"rm -{'r' * n}",
    f"declare -{'i' * n}!", f"declare -{'n' * n}!", f"kubectl {'*e' * n}", f"cat {'a/' * n}",
    f"cd {'a/' * n}; cat {'x ' * n}",
    f"cat a{chr(0x301) + chr(0x323)}" + (chr(0x301) + chr(0x323)) * n, f"x={'a' * n}; ls $x $x",
    f"curl https://a{(chr(0x301) + chr(0x323)) * n}", f"curl https://{'a.' * n}!",
    f"cat {'a:' * n}//",
    f"time{' ' * n}-x", f"echo '{'e ' * n}", f"sed '{'/a' * n}'", f"awk '{'e ' * n}'",
    f"ls {'!' * n}",
    f"echo {'{' * n}", f"echo ${'x' * n}", f"ls {chr(92) * n}", f"LD_{'A' * n}=1",
    f"{'A' * n}x=1 ls",
    f"[[ {'a' * n} ]]", f"cat <<{'A' * n}", f"date +{'%Y' * n}!", f"git log --format={'%h' * n}!",
):
    manager.check("Bash", {"command": command}, context)
manager.check("Read", {"file_path": "a" * n + "/" + (chr(0x301) + chr(0x323)) * n}, context)
manager.check("WebFetch", {"url": "https://" + "a-" * n}, context)
"""


def test_nothing_hangs_on_a_word_of_any_length():
    # What is quadratic takes many seconds for some of these; each takes some milliseconds. So all
    # get ten of the processor, which are as many on a busy machine.
    subprocess.run([sys.executable, "-c", LONG], check=True)
