"""Ten commands and agents as people have them for Claude Code, copied as they are, and used."""

import json
import re

import pytest

WORDS = ("--model", "offline:", "--output-format", "json")

# Each file, what is said, what has to be allowed beside, and what the answer or a file then says.
FILES = {
    "commands/fix-issue.md": """---
description: Fix a GitHub issue
argument-hint: [issue-number] [priority]
allowed-tools: Write
---
write issue-$1.txt: issue $1 is $2 (all that was said: $ARGUMENTS)
""",
    "commands/commit.md": """---
allowed-tools: Bash(git init:*), Bash(git add:*), Bash(git status:*)
description: Create a git commit
---
## Context
- Made: !`git init -q .`
- Staged: !`git add README.md`
- Status: !`git status --short`

run git status --short
""",
    "commands/frontend/component.md": """---
description: "Scaffold: a component"
argument-hint: NAME
allowed-tools:
  - Write
  - Bash(ls *)
---
write $1.jsx: export default $1
""",
    "commands/frontend/css/lint.md": "run ls *.css $ARGUMENTS\n",
    "commands/explain.md": """---
description: >
  Explains
  a file.
model: inherit
disable-model-invocation: true
---
Look at it first.

read $ARGUMENTS
""",
    "commands/todo.md": "search TODO\n",
    "agents/reader.md": """---
name: reader
description: |
  Use this agent when a file has to be read. Examples:
  <example>user: "read it" assistant: "I'll use the reader"</example>
tools: Read, Grep, Glob
model: inherit
color: blue
---
You read files.
""",
    "agents/runner.md": """---
name: runner
description: Runs what is harmless. Use PROACTIVELY.
tools: Bash(echo:*), Read, NotebookEdit
permissionMode: acceptEdits
---
You run commands.
""",
    "agents/team/critic.md": """---
name: critic
description: Finds faults
model: sonnet
---
Be harsh.
""",
    "agents/all.md": """---
description: Has all tools
tools: "*"
color: red
---
You may do anything.
""",
}
TABLE = [
    ("/fix-issue 12 high", "Write is done", ("issue-12.txt", "issue 12 is high (all that was")),
    ("/commit", "The command printed", (".git/index", "")),
    ("/frontend:component Button", "Write is done", ("Button.jsx", "export default Button")),
    ("/frontend:css:lint nothing.css", "The command printed|Bash failed", None),
    ("/explain README.md", "A project of ours", None),
    ("/todo", "Matches of TODO", None),
    ("@reader read README.md", "The subagent answered:.*A project of ours", None),
    ("@reader run echo hi", "takes the tool Bash, which I do not have", None),
    ("@runner run echo hi", "The command printed 1 line", None),
    ("@runner run touch x.txt", "Bash failed", None),
    ("@critic write a.txt: x", "Write failed", None),
    ("@all list *.md", "README.md", None),
]


@pytest.fixture(autouse=True)
def files(tmp_path, env):
    for name, text in FILES.items():
        path = tmp_path / "home" / ".config" / "greenroom" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("said", "answer", "written"), TABLE, ids=[row[0] for row in TABLE])
@pytest.mark.every(2)
def test_it_does_in_a_headless_run_what_its_author_meant(run, project, said, answer, written):
    done = run("-p", said, *WORDS)
    assert done.code == 0
    assert re.search(answer, done.json["result"], re.DOTALL), done.json["result"]
    if written:
        name, text = written
        assert text in (project / name).read_text(errors="replace")
    assert not (project / "x.txt").exists()
    assert not (project / "a.txt").exists()


def test_all_are_offered_and_what_has_no_effect_is_told_once(run):
    done = run("-p", "hello", "--model", "offline:", "--output-format", "stream-json")
    first = json.loads(done.out.splitlines()[0])
    assert first["commands"] == [
        "commit", "explain", "fix-issue", "frontend:component", "frontend:css:lint", "init",
        "review", "todo",
    ]  # fmt: skip
    assert first["agents"] == ["all", "critic", "reader", "runner"]
    told = done.err.splitlines()
    [keys] = [line for line in told if "color" in line]
    assert "agents/all.md" in keys
    assert keys.endswith("what stands under color, permissionMode has no effect")
    [keys] = [line for line in told if "disable-model-invocation" in line]
    assert "commands/explain.md: " in keys
    [missing] = [line for line in told if "NotebookEdit" in line]
    assert missing.endswith("runner.md names NotebookEdit, which this run does not have")
    assert sum("sonnet" in line for line in told) == 1
    assert not any("is not used" in line for line in told)


def test_they_work_in_a_terminal_as_well(terminal, project):
    program = terminal("--model", "offline:")
    program.wait_for("idle")
    written = [(said, *row) for said, _, row in TABLE if row]
    for said, *_ in written:
        program.type(f"{said}\r")
    program.type("/todo\r")  # each is answered after those before it
    program.wait_for("Matches of TODO", "idle")
    for _, name, text in written:
        assert text in (project / name).read_text(errors="replace")
    program.type("/explain README.md\r")
    program.wait_for("A project of ours", "idle")
    program.type("@reader read README.md\r")
    program.wait_for("The subagent answered", "idle")
    program.type("/fix")
    program.wait_for("/fix-issue", "Fix a GitHub issue")
