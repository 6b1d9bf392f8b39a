"""How long a permission check takes: usual calls, many rules, and texts made to be slow.

Run it as `python benchmarks/permissions.py`; it prints milliseconds for one check.
"""

import time

from greenroom.core import AgentContext, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))
RULES = (
    PermissionRule.allow_command("git status", "echo", "ls", "cat", "find", "xargs", "eval"),
    PermissionRule.deny_command("rm -rf", "sudo"),
    PermissionRule.deny_path("**/.env"),
)
USUAL = {
    "one command": "git status -s",
    "a line of work": "cd src && git status && ls -la | head -3 > out.txt",
    "a loop": "for f in a.py b.py; do echo $f; cat $f | xargs -n1 echo; done",
}
LARGE = {
    "list": "echo a; " * 12_000,
    "arguments": "echo " + "a " * 50_000,
    "one word": "echo " + "x" * 100_000,
    "substitutions": "$(" * 30_000 + "ls" + ")" * 30_000,
    "open substitutions": '"$(' * 30_000,
    "process substitutions": "<(" * 50_000,
    "parentheses": "(" * 100_000,
    "arithmetic": "((x;" * 25_000,
    "backticks": "`" * 99_999,
    "parameters": "${x:-" * 20_000,
    "braces": "{" * 100_000,
    "brace lists": "echo " + "{a,b}" * 20_000,
    "keywords": "if " * 30_000,
    "here-documents": "ls <<A <<B\n" * 9_000,
    "assignments": "x=1 " * 25_000,
    "redirections": "ls >a " * 16_000,
    "eval": "eval " * 20_000 + "ls",
    "wrappers": "timeout 1 " * 10_000 + "ls",
    "xargs": "xargs " * 16_000 + "ls",
    "find": "find . -exec " * 8_000,
    "shells": "bash -c '" * 10_000,
    "unknown program": "frob " + "rm " * 30_000,
    "sed": "sed -n '" + "{" * 90_000 + "'",
    "awk": "awk '" + "print(" * 16_000 + "'",
    "paths": "cat " + "a/../" * 20_000,
    "folders": "cd a;" * 20_000,
}


def milliseconds(manager, tool, data, times=1):
    begin = time.perf_counter()
    for _ in range(times):
        manager.check(tool, data, CONTEXT)
    return (time.perf_counter() - begin) * 1000 / times


def main():
    manager = PermissionManager(RULES)
    for name, command in USUAL.items():
        print(f"{milliseconds(manager, 'Bash', {'command': command}, 200):9.3f}  {name}")
    many = PermissionManager([PermissionRule.allow_tool(f"Tool{n}") for n in range(100)])
    print(f"{milliseconds(many, 'Read', {'file_path': 'a'}, 500):9.3f}  100 rules for other tools")
    paths = PermissionManager([PermissionRule.deny_path(f"d{n}/**") for n in range(100)])
    print(f"{milliseconds(paths, 'Read', {'file_path': 'a'}, 200):9.3f}  100 rules for paths")
    for name, command in LARGE.items():
        size = len(command) // 1000
        print(f"{milliseconds(manager, 'Bash', {'command': command}):9.1f}  {size} KB of {name}")


if __name__ == "__main__":
    main()
