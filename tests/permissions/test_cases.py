"""Cases by the thousand, as text in `cases/`, a case a line.

`=` begins a rule, and the first one behind a case a new set of rules; `@` names the tool, which is
Bash at the beginning of a file. Any other line is a case, and begins with what must become of it:
`+` allow, `?` ask, `-` deny, `~` ask or deny. A line's end in it is written ⏎, a tab ⇥, a character
that can't be seen «its number».
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

FOLDER = Path(__file__).with_name("cases")
EXPECTED = {"+": ("allow",), "?": ("ask",), "-": ("deny",), "~": ("ask", "deny")}
WORDS = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "Grep": "path",
    "Glob": "path",
    "WebFetch": "url",
}


def rule(line):
    """Read `= allow git status, git log` or `= deny path **/.env`."""
    decision, _, rest = line.partition(" ")
    kind, _, values = rest.partition(" ")
    if kind in ("path", "domain", "regex", "tool", "category"):
        matcher = RuleMatcher(**{kind: tuple(values.split(" OR "))})
    else:
        matcher = RuleMatcher(command_prefix=tuple(rest.split(", ")))
    return PermissionRule(
        decision=RuleDecision(decision), matcher=matcher, priority=int(decision == "deny")
    )


def decoded(text):
    text = text.replace("⏎", "\n").replace("⇥", "\t")
    return re.sub("«([0-9a-f]+)»", lambda found: chr(int(found[1], 16)), text)


def cases():
    for path in sorted(FOLDER.glob("*.txt")):
        rules, fresh, tool = [], False, "Bash"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark, _, text = line.partition(" ")
            if mark == "=":
                rules, fresh = ([] if fresh else rules), False
                rules.append(text)
            elif mark == "@":
                tool = text
            elif mark in EXPECTED:
                fresh = True
                yield path.stem, number, tuple(rules), tool, mark, decoded(text)


# Large and deep: what is denied is found at any size, and nothing takes long.
_END = "rm -rf x"
STRESS = {
    "+": [
        *(
            "echo a; " * 12_000,
            "echo " + "a " * 50_000,
            "echo " + "x" * 100_000,
            "echo a | " * 9_000 + "cat",
        ),
        *(
            "echo '" + "y" * 100_000 + "'",
            "\n".join(f"echo {n}" for n in range(10_000)),
            "true && " * 9_000 + "ls",
        ),
        *(
            "cat <<'E'\n" + "$(rm -rf x)\n" * 8_000 + "E",
            "echo " + "'a' \"b\" " * 9_000,
            "# " + "c" * 99_000 + "\nls",
        ),
        *(
            "echo " + "$(echo " * 12 + "a" + ")" * 12,
            "( " * 12 + "ls" + " )" * 12,
            "ls " + "\\\n " * 20_000 + "a",
            "echo {" + "a," * 40_000 + "b}",
            "echo " + "{a,b}" * 20_000,
        ),
        *(
            "for i in " + "a " * 20_000 + "; do echo $i; done",
            "if true; then " * 9 + "ls" + "; fi" * 9,
        ),
    ],
    "-": [
        *(
            "echo a; " * 12_000 + _END,
            "true && " * 10_000 + _END,
            "\n" * 99_000 + _END,
            "true | " * 9_000 + _END,
        ),
        *(
            "echo " + "a " * 40_000 + "; " + _END,
            "echo '" + "y" * 90_000 + "'; " + _END,
            "#" * 90_000 + "\n" + _END,
        ),
        *(
            "rm " + "a " * 40_000 + "-rf",
            "sudo " * 9_000 + _END,
        ),
        *(
            "cat <<E\n" + "a\n" * 20_000 + "E\n" + _END,
            "echo `" + "a " * 9_000 + f"; {_END}`",
        ),
        *(
            "cat <<E\n" + "a\n" * 20_000 + f"$({_END})\nE",
            "ls; " * 60 + _END,
            "true\n" * 10_000 + _END,
        ),
        *(
            "x" * (1 << 20) + "y",
            "find . " + "-exec ls {} + " * 2_000 + f"-exec {_END} {{}} +",
            "! " * 9_000 + _END,
        ),
    ],
    "?": [
        *(
            "(" * 100_000,
            "$(" * 40_000,
            "`" * 99_999,
            "{" * 100_000,
            '"' * 99_999,
            "'" * 99_999,
            "((" * 40_000,
        ),
        *(
            "if " * 30_000,
            "<(" * 40_000,
        ),
        *(
            "echo a; " * 9_000 + "frob",
            "echo " + "${x:-" * 20_000,
            "case a in " * 9_000,
            "cat <<E\n" * 9_000,
        ),
        *(
            "echo a > " * 9_000,
            "FOO=1 " * 9_000 + "ls",
            "\\" * 99_999,
            "a=(" * 30_000,
            "\n" * 99_000,
            " " * 99_000,
        ),
        *(
            "echo $((" + "(" * 50_000,
            "((x;" * 25_000,
            "echo a\x00" * 9_000,
            "f() { " * 9_000,
            "\ud800" * 9_000,
        ),
    ],
    "~": [
        *(
            "timeout 1 " * 5_000 + _END,
            "eval " * 9_000 + _END,
            "if " * 9_000 + _END,
        ),
        *(
            "( " * 30_000 + _END,
            "(" * 30_000 + _END + ")" * 30_000,
            "$(" * 20_000 + _END + ")" * 20_000,
            "{ " * 9_000 + _END + "; }" * 9_000,
        ),
        *("$X " * 30_000 + _END, f"$X {_END} " * 5_000, "x" * 90_000 + f" {_END}"),
    ],
}
STRESS_RULES = ("allow echo, cat, true, ls", "deny rm -rf, sudo")

CASES = list(cases())
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/proj"))


SETS = {}
for group, number, rules, tool, mark, text in CASES:
    SETS.setdefault((group, rules), []).append((number, tool, mark, text))


@pytest.mark.parametrize(
    ("key", "found"),
    SETS.items(),
    ids=[f"{group}-{number}" for number, (group, _) in enumerate(SETS)],
)
def test_every_case_is_decided_as_its_mark_says(key, found):
    manager = PermissionManager([rule(each) for each in key[1]])
    wrong = []
    for number, tool, mark, text in found:
        decision = manager.check(tool, {WORDS.get(tool, "x"): text}, CONTEXT)
        if decision not in EXPECTED[mark]:
            wrong.append(f"{key[0]} line {number}: {decision}, not {mark}: {text[:200]}")
    assert wrong == []


@pytest.mark.parametrize(
    ("mark", "text"),
    [(mark, text) for mark, texts in STRESS.items() for text in texts],
    ids=[f"{mark}{number}" for mark, texts in STRESS.items() for number, _ in enumerate(texts)],
)
def test_a_large_command_is_decided_as_its_mark_says(mark, text):
    manager = PermissionManager([rule(each) for each in STRESS_RULES])
    found = manager.explain("Bash", {"command": text}, CONTEXT)
    assert found.decision in EXPECTED[mark], (text[:200], found.reason[:200])


def test_there_are_cases_of_every_group():
    groups = Counter(group for group, *_ in CASES)
    assert len(CASES) > 2000
    expected = (
        "benign chain denials dynamic env flags lexing path quote redir regex subst tool url wrap"
    )
    assert set(groups) == set(expected.split())
