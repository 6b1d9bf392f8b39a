"""A check takes work in proportion to the length of a command, counted in calls, not in seconds."""

import sys

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))
SPELLING = RuleMatcher(regex=(r"curl .*\|.*sh", r"(a+)+b"))
MANAGER = PermissionManager(
    [
        PermissionRule.allow_command("ls", "cat", "find", "xargs", "echo", "timeout"),
        PermissionRule.deny_command("rm -rf", "git push --force", "sudo"),
        PermissionRule.deny_path("**/.env", "**/*.pem", "~/.ssh/**", "/etc/**"),
        PermissionRule.deny_domain("evil.test"),
        PermissionRule(decision=RuleDecision.DENY, matcher=SPELLING),
    ]
)
LENGTH = 2500
DEEP = "$(" * 80 + "ls" + ")" * 80
REPEATED = {
    "commands": "ls; ",
    "lines": "ls -l\n",
    "pipes": "cat a | ",
    "actions of find": "find . -exec ls {} \\; ",
    "deep substitutions": f"{DEEP} ; ",
    "deep substitutions in a row": f"{DEEP} ",
    "deep substitutions in quotes": f'"{DEEP}" ',
    "open substitutions": '"$(',
    "process substitutions": "<(",
    "arithmetic": "$((x+1)) ",
    "backticks": "echo `ls`;",
    "parameters": '"${x:-$(ls)}" ',
    "brace lists": "{a,b} ",
    "keywords": "if ",
    "loops": "for i in a; do ls $i; done; ",
    "functions": "f() { ls; }; ",
    "here-documents": "cat <<A\nx\nA\n",
    "assignments": "x=1 ",
    "redirections": "ls >a; ",
    "wrappers": "timeout 1 ",
    "texts": "bash -c 'ls'; ",
    "shells": "echo ls | sh; ",
    "errors": "ls ) \n",
    "comments": "# x\n",
    "urls": "curl https://a.test/x; ",
    "folders up and down": "cat a/../",
}
NUMBERED = {
    "different commands": "tool{n} a{n}; ",
    "different folders": "cd d{n}; ",
    "different files": "w{n} ",
    "different redirections": "ls >f{n}; ",
    "different variables": "v{n}=$v{n}; ",
    "different values": "v=a{n}; ls $v; ",
    "different hosts": "curl https://h{n}.test; ",
    "different loops": "for v{n} in a; do ls $v{n}; done; ",
}


def text_of(name, length):
    if name in REPEATED:
        unit = REPEATED[name]
        return unit * (length // len(unit) + 1)
    unit = NUMBERED[name]
    return "".join(unit.format(n=n) for n in range(10_000, 10_000 + length // len(unit) + 1))


def work(command):
    """Count the calls that a check makes, of Python functions and of built-in ones."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        MANAGER.check("Bash", {"command": command}, CONTEXT)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", [*REPEATED, *NUMBERED])
def test_twice_the_length_is_twice_the_work(name):
    MANAGER.check("Bash", {"command": text_of(name, 500)}, CONTEXT)
    short, long = text_of(name, LENGTH), text_of(name, 2 * LENGTH)
    assert work(long) < 2.3 * work(short) + 2000


def test_no_text_is_looked_at_more_than_a_few_hundred_times_per_character():
    """The work per character has a bound, so that no kind of text is slow by a factor."""
    for name in (*REPEATED, *NUMBERED):
        assert work(text_of(name, LENGTH)) < 400 * LENGTH


def test_values_of_variables_are_not_written_out_without_end():
    long = "a" * 2000
    for command in (f"v={long}; " + "ls $v; " * 2000, f"v={long}; ls " + "$v" * 20_000):
        assert MANAGER.check("Bash", {"command": command}, CONTEXT) is RuleDecision.ASK
    nested = "".join(f"v{n}=$v{n - 1}$v{n - 1}; " for n in range(1, 60)) + "ls $v59"
    assert MANAGER.check("Bash", {"command": f"v0=a; {nested}"}, CONTEXT) is RuleDecision.ASK
    assert MANAGER.check("Bash", {"command": "for f in a b; do ls $f; done"}, CONTEXT) is (
        RuleDecision.ALLOW
    )


def test_the_same_command_is_judged_again_where_something_has_changed():
    def check(command):
        return MANAGER.check("Bash", {"command": command}, CONTEXT)

    assert check("cat ssl/a; cat ssl/a") is RuleDecision.ALLOW
    assert check("cat id; cd ~/.ssh; cat id") is RuleDecision.DENY
    assert check("cat <<< 'ls' | bash; cat <<< 'rm -rf x' | bash") is RuleDecision.DENY
    assert check("ls $f; f=.env; cat $f") is RuleDecision.DENY
