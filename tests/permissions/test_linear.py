"""A check takes work in proportion to the length of the command, whatever its shape.

Work is counted in calls of Python functions, not in time; `benchmarks/permissions.py` has the
times.
"""

import sys

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

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
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        manager.check("Bash", {"command": command}, CONTEXT)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_length_takes_about_four_times_the_work(shape, manager):
    make = SHAPES[shape]
    work(manager, make(10))  # what is kept between checks
    small, large = work(manager, make(150)), work(manager, make(600))
    assert large <= 4.6 * small + 2000


def test_values_of_variables_are_not_written_out_without_end(manager):
    long = "a" * 2000
    for command in (f"v={long}; " + "ls $v; " * 2000, f"v={long}; ls " + "$v" * 20_000):
        assert manager.check("Bash", {"command": command}, CONTEXT) is RuleDecision.ASK
    nested = "".join(f"v{n}=$v{n - 1}$v{n - 1}; " for n in range(1, 60)) + "ls $v59"
    assert manager.check("Bash", {"command": f"v0=a; {nested}"}, CONTEXT) is RuleDecision.ASK
    assert manager.check("Bash", {"command": "for f in a b; do ls $f; done"}, CONTEXT) is (
        RuleDecision.ALLOW
    )


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
