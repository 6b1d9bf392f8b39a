"""Cases by the thousand, as text in `cases/`.

`=` begins a rule, and the first one behind cases a new set of rules; `@` names the tool, which is
Bash at the beginning of a file. Any other row is one of cases, with ` ¦ ` between them; it goes on
in indented lines, and begins with what must become of them: `+` allow, `?` ask, `-` deny, `~` ask
or deny. In a case ⏎ is the end of a line, ⇥ a tabulator, and «a0» the character of that number.
"""

from collections import Counter
from pathlib import Path

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.fs.file_lookup import FileLookup
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from tests.permissions.tables import decode

FOLDER = Path(__file__).with_name("cases")
EXPECTED = {"+": ("allow",), "?": ("ask",), "-": ("deny",), "~": ("ask", "deny")}
WORDS = {
    "Bash": "command",
    "WebFetch": "url",
    **dict.fromkeys(("Read", "Write", "Edit"), "file_path"),
    **dict.fromkeys(("Grep", "Glob"), "path"),
}
ROOT = "/srv/proj"  # stands for the workspace
FILES = (
    *(".env", "a/.env", "a.txt", "b.pem", "certs/a.pem", "conf/x.pem", "notes.md", "secrets/key"),
    *("src/a.py", "src/b.ts", "vault/a"),
)


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


def cases():
    """List the cases: their file, rules and tool, the mark, and the text."""
    for path in sorted(FOLDER.glob("*.txt")):
        rules, fresh, tool = [], False, "Bash"
        for row in path.read_text().replace("\n    ", " ").splitlines():
            mark, _, text = row.partition(" ")
            if mark == "=":
                rules, fresh = ([] if fresh else rules), False
                rules.append(text)
            elif mark == "@":
                tool = decode(text)
            elif mark in EXPECTED:
                fresh = True
                for each in text.split(" ¦ "):
                    yield path.stem, tuple(rules), tool, mark, decode(each)


CASES = list(cases())
SETS = {}
for group, rules, tool, mark, text in CASES:
    SETS.setdefault((group, rules), []).append((tool, mark, text))


@pytest.fixture(scope="module", autouse=True)
def programs():
    """Let every program be there, whatever this machine has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileLookup, "find_program", lambda _self, name, _path: f"/usr/bin/{name}")
        yield


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    root = tmp_path_factory.mktemp("srv") / "proj"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return AgentContext(session_id="s", agent_type="a", workspace=Workspace(root))


@pytest.mark.parametrize(
    ("key", "found"),
    SETS.items(),
    ids=[f"{group}-{number}" for number, (group, _) in enumerate(SETS)],
)
def test_every_case_is_decided_as_its_mark_says(context, key, found):
    manager = PermissionManager([rule(each) for each in key[1]], read_only=False)
    wrong = []
    for tool, mark, text in found:
        data = {WORDS.get(tool, "x"): text.replace(ROOT, str(context.workspace.root))}
        decision = manager.check(tool, data, context)
        if decision not in EXPECTED[mark]:
            wrong.append(f"{decision}, not {mark}: {text[:200]}")
    assert wrong == []


def test_there_are_cases_of_every_group():
    groups = Counter(group for group, *_ in CASES)
    assert len(CASES) > 3000
    assert set(groups) == {path.stem for path in FOLDER.iterdir()}


# Large and deep: what is denied is found at any size, and nothing takes long.
_END = "rm -rf x"
STRESS = {
    "+": [
        *("echo a; " * 256, "true && " * 255 + "ls", "echo a | " * 255 + "cat"),
        *("echo " + "a " * 30_000, "echo " + "x" * 65_000, "echo '" + "y" * 65_000 + "'"),
        *("echo " + "'a' \"b\" " * 8_000, "cat <<'E'\n" + "$(rm -rf x)\n" * 5_000 + "E"),
        *("# " + "c" * 65_000 + "\nls", "ls " + "\\\n " * 16_000 + "a", "\n" * 65_000 + "ls"),
        *("echo {" + "a," * 4_000 + "b}", "echo " + "{a,b}" * 12),
    ],
    "-": [
        *("echo a; " * 12_000 + _END, "true && " * 10_000 + _END, "true | " * 9_000 + _END),
        *("ls; " * 60 + _END, "true\n" * 10_000 + _END, "\n" * 99_000 + _END),
        *("echo " + "a " * 40_000 + "; " + _END, "echo '" + "y" * 90_000 + "'; " + _END),
        *("rm " + "a " * 40_000 + "-rf", "sudo " * 9_000 + _END, "! " * 9_000 + _END),
        *("cat <<E\n" + "a\n" * 20_000 + "E\n" + _END, "echo `" + "a " * 9_000 + f"; {_END}`"),
        *("cat <<E\n" + "a\n" * 20_000 + f"$({_END})\nE", "#" * 90_000 + "\n" + _END),
        *("x" * (1 << 20) + "y", "((ls) );" * 20 + _END, ") ls\n" * 60 + _END),
        *("{rm,-rf," + ",".join("a" * 300) + "}", "$(" * 90 + _END + ")" * 90),
        "find . " + "-exec ls {} + " * 2_000 + f"-exec {_END} {{}} +",
    ],
    "?": [
        *("echo a; " * 257, "echo " + "x" * 65_536, "echo " + "{a,b}" * 13),
        *("(" * 100_000, "$(" * 40_000, "`" * 99_999, "{" * 100_000, '"' * 99_999, "'" * 99_999),
        *("echo " + "\\' " * 20_000, "((" * 40_000, "if " * 30_000, "<(" * 40_000, "((x;" * 25_000),
        *("echo " + "${x:-" * 20_000, "echo a; " * 9_000 + "frob", "case a in " * 9_000),
        *("cat <<E\n" * 9_000, "a=(" * 30_000),
        *("echo a > " * 9_000, "FOO=1 " * 9_000 + "ls", "\\" * 99_999, "\n" * 99_000, " " * 99_000),
        *("echo $((" + "(" * 50_000, "echo a\x00" * 9_000, "f() { " * 9_000, "\ud800" * 9_000, ""),
    ],
    "~": [
        *("timeout 1 " * 5_000 + _END, "eval " * 9_000 + _END, "if " * 9_000 + _END),
        *("( " * 30_000 + _END, "(" * 30_000 + _END + ")" * 30_000),
        *("$(" * 20_000 + _END + ")" * 20_000, "{ " * 9_000 + _END + "; }" * 9_000),
        *("$X " * 30_000 + _END, f"$X {_END} " * 5_000, "x" * 90_000 + f" {_END}"),
        *("watch " * 15 + f"'{_END}'", "bash -c '" + "timeout 5 " * 20 + f"{_END}'"),
        "".join(f"echo {number}; " for number in range(9_000)) + _END,
    ],
}  # fmt: skip
STRESS_RULES = ("allow echo, cat, true, ls", "deny rm -rf, sudo")


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("mark", "text"),
    [(mark, text) for mark, texts in STRESS.items() for text in texts],
    ids=[f"{mark}{number}" for mark, texts in STRESS.items() for number, _ in enumerate(texts)],
)
def test_a_large_command_is_decided_as_its_mark_says(context, mark, text):
    manager = PermissionManager([rule(each) for each in STRESS_RULES])
    found = manager.explain("Bash", {"command": text}, context)
    assert found.decision in EXPECTED[mark], (text[:200], found.reason[:200])
