"""A check takes work in proportion to the length of the command, whatever its shape.

Work is counted in calls of Python functions, not in time; `benchmarks/permissions.py` has the
times.
"""

import subprocess
import sys

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.fs._internal import fold
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.permissions.patterns import Anchors, PathPattern
from greenroom.programs._internal import Host
from tests.counted_calls import count_calls

DEEP = "$(" * 80 + "ls" + ")" * 80
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
SHAPES = {
    "a list": lambda n: "echo a; ls " * n,
    "different parts": lambda n: "".join(f"echo {i}; " for i in range(n)),
    "arguments": lambda n: "echo " + "a 'b' " * n,
    "different arguments": lambda n: "echo " + " ".join(map(str, range(n))),
    "a pipeline": lambda n: "cat | " * n + "cat",
    "substitutions": lambda n: "echo " + "$(ls) " * n,
    "nested substitutions": lambda n: "$(" * n + "ls" + ")" * n,
    "open substitutions": lambda n: "$(" * n,
    "backticks": lambda n: "echo " + "`ls` " * n,
    "open quotes": lambda n: "echo '" * n,
    "parentheses": lambda n: "( " * n + "ls" + " )" * n,
    "arithmetic": lambda n: "echo " + "$((1 + x)) " * n,
    "parameters": lambda n: "echo " + "${x:-y} " * n,
    "braces": lambda n: "echo " + "{a,b} " * n,
    "open braces": lambda n: "{ " * n,
    "here-documents": lambda n: "cat <<E\na $(ls)\nE\n" * n,
    "here-documents without an end": lambda n: "$(cat <<E\n" * n,
    "redirections": lambda n: "ls >a " * n,
    "different redirections": lambda n: "ls " + "".join(f">f{i} " for i in range(n)),
    "assignments": lambda n: "x=1 " * n,
    "different assignments": lambda n: "".join(f"x{i}=1 " for i in range(n)),
    "loops": lambda n: "for i in a b; do echo $i; done; " * n,
    "a loop of many values": lambda n: "for i in " + "a " * n + "; do echo $i; done",
    "wrappers": lambda n: "timeout 1 " * n + "ls",
    "actions of find": lambda n: "find . " + "-exec ls {} + " * n,
    "texts for shells": lambda n: "bash -c 'ls'; " * n,
    "keywords": lambda n: "if " * n,
    "errors": lambda n: ") ; " * n,
    "folders": lambda n: "cd a; " * n,
    "dynamic names": lambda n: "$X " * n,
    "functions": lambda n: "f() { ls; }; " * n,
    "comments": lambda n: "# c\nls\n" * n,
    "deep substitutions in a row": lambda n: f"{DEEP} " * (n // 15),
    "deep substitutions in quotes": lambda n: f'"{DEEP}" ' * (n // 15),
    "one find after the other": lambda n: "find . -exec ls {} \\; " * n,
    "redirections that an expression covers": lambda n: "true " + "a >out/b " * n,
    "shells that are fed": lambda n: "echo ls | sh; " * n,
    "different folders": lambda n: "".join(f"cd d{i}; " for i in range(n)),
    "files in many folders": lambda n: "cd a; cd b; cat " + " ".join(f"w{i}" for i in range(n)),
    "different values": lambda n: "".join(f"v=a{i}; ls $v; " for i in range(100, 100 + n)),
    "patterns of names": lambda n: "ls " + " ".join(f"*a{i}" for i in range(n)),
    "hosts": lambda n: "".join(f"curl https://h{i}.test; " for i in range(n)),
    "an unknown program": lambda n: "frobnicate " + "rm " * n,
}


@pytest.fixture(scope="module")
def manager():
    return PermissionManager(
        [
            PermissionRule.allow_command("echo", "ls", "cat", "find", "timeout", "frobnicate"),
            PermissionRule.deny_command("rm -rf", "sudo"),
            PermissionRule.deny_path("**/.env", "**/*.pem", "~/.ssh/**", "/etc/**"),
            PermissionRule.deny_domain("evil.test"),
            PermissionRule(
                decision=RuleDecision.ALLOW,
                matcher=RuleMatcher(regex=("(find|true) .*",), redirect_to=("out/**",)),
            ),
            PermissionRule(
                decision=RuleDecision.DENY, matcher=RuleMatcher(regex=(r"curl .*\|.*sh", "[ab]+c"))
            ),
        ]
    )


def work(manager, command):
    """Count the calls of Python functions that one check takes."""
    return count_calls(manager.check, "Bash", {"command": command}, CONTEXT)


@pytest.mark.every(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_length_takes_about_four_times_the_work(shape, manager):
    make = SHAPES[shape]
    work(manager, make(10))  # what is kept between checks
    small, large = work(manager, make(150)), work(manager, make(600))
    assert large <= 4.6 * small + 2000


def test_the_same_command_is_judged_again_where_something_has_changed(manager):
    def check(command):
        return manager.check("Bash", {"command": command}, CONTEXT)

    assert check("cat ssl/a; cat ssl/a") is RuleDecision.ALLOW
    assert check("cat id; cd ~/.ssh; cat id") is RuleDecision.DENY


@pytest.mark.parametrize(
    "command",
    ["9" * 100_000 + "%", "make '" + " " * 100_000 + "'", "make 'x" + " " * 100_000 + "'"],
)
def test_no_expression_takes_minutes_over_a_long_row_of_one_character(command):
    rules = [PermissionRule.allow_command("make")]
    assert PermissionManager(rules).explain("Bash", {"command": command}, CONTEXT).digest


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
