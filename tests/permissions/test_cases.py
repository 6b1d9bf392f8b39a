"""Cases by the thousand, as text in `cases/`, a case a line.

`=` begins a rule, and the first one behind a case a new set of rules; `@` names the tool, which is
Bash at the beginning of a file. Any other line is a case, and begins with what must become of it:
`+` allow, `?` ask, `-` deny, `~` ask or deny. A line's end in it is written ⏎, a tab ⇥, a character
that can't be seen «its number».
"""

import re
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


CASES = list(cases())
MANAGERS = {rules: PermissionManager([rule(each) for each in rules]) for _, _, rules, *_ in CASES}
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/proj"))


@pytest.mark.parametrize(
    ("rules", "tool", "mark", "text"),
    [case[2:] for case in CASES],
    ids=[f"{group}-{number}" for group, number, *_ in CASES],
)
def test_a_case_is_decided_as_its_mark_says(rules, tool, mark, text):
    found = MANAGERS[rules].explain(tool, {WORDS.get(tool, "x"): text}, CONTEXT)
    assert found.decision in EXPECTED[mark], (text, found.reason)
