"""A check takes work in proportion to the length of the command, whatever its shape.

Work is counted in calls of Python functions, not in time; `benchmarks/permissions.py` has the times.
"""

import sys

import pytest

from greenroom.core import AgentContext, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

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
    "an unknown program": lambda n: "frobnicate " + "rm " * n,
}


@pytest.fixture(scope="module")
def manager():
    return PermissionManager(
        [
            PermissionRule.allow_command("echo", "ls", "cat", "find", "timeout", "frobnicate"),
            PermissionRule.deny_command("rm -rf", "sudo"),
            PermissionRule.deny_path("**/.env"),
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
