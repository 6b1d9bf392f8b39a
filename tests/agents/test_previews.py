"""What a person is shown of a change before they answer: the file's own diff, or why it is not."""

from pathlib import Path

import pytest
import trio

from greenroom.core import PermissionRequest, RuleDecision, ToolError, ToolInfo, ToolResult
from greenroom.permissions import PermissionRule
from greenroom.testing import call
from greenroom.tools import Bash, Edit, Read, Write
from tests.agents.test_tool_calls import Stage

READING = PermissionRule.allow_category("read")
LINES = "".join(f"line {number}\n" for number in range(1, 41))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "a.txt").write_text(LINES)
    (tmp_path / "b.txt").write_text("x\nx\ny\n")
    return Path(tmp_path).resolve()


async def ask(root, *calls, rules=(READING,), tools=(), answer="allow", first=("a.txt", "b.txt")):
    """Let the model make calls in one reply; return the questions about them."""
    reads = [[call("Read", file_path=name) for name in first]] if first else []
    script = [*reads, list(calls), "done"]

    async def answer_all(stage):
        async for chunk in stage.handle.subscribe("all", answers=True):
            if isinstance(chunk, PermissionRequest):
                await stage.handle.respond_permission(chunk.request_id, answer)

    every = [Read(), Edit(), Write(), Bash(), *tools]
    async with Stage(every, *script, rules=list(rules), workspace=root) as stage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all, stage)
            with trio.fail_after(60):
                await stage.handle.ask("go")
            nursery.cancel_scope.cancel()
    return stage.seen(PermissionRequest)


def edit(old, new, path="a.txt", **words):
    return call("Edit", file_path=path, old_string=old, new_string=new, **words)


async def test_an_edit_is_shown_with_its_place_in_the_file_and_the_lines_around_it(root):
    [asked] = await ask(root, edit("line 20", "line twenty"))
    assert asked.diff.splitlines() == [
        "--- a.txt",
        "+++ a.txt",
        "@@ -17,7 +17,7 @@",
        *[f" line {number}" for number in (17, 18, 19)],
        "-line 20",
        "+line twenty",
        *[f" line {number}" for number in (21, 22, 23)],
    ]


async def test_an_edit_of_every_occurrence_says_how_many_there_are(root):
    [asked] = await ask(root, edit("x", "z", "b.txt", replace_all=True))
    assert asked.details == "b.txt (2 occurrences)"
    assert asked.diff.splitlines()[3:] == ["-x", "-x", "+z", "+z", " y"]


async def test_a_write_over_a_file_is_shown_as_what_it_changes_there(root):
    [asked] = await ask(root, call("Write", file_path="b.txt", content="x\nnew\ny\n"))
    assert asked.action == "Replace a file"
    assert asked.diff.splitlines()[2:] == ["@@ -1,3 +1,3 @@", " x", "-x", "+new", " y"]
    [asked] = await ask(root, call("Write", file_path="c.txt", content="x\n"))
    assert asked.action == "Write a new file"
    assert asked.diff.splitlines()[2:] == ["@@ -0,0 +1 @@", "+x"]


async def test_several_edits_of_one_file_are_each_shown_as_the_file_is_by_then(root):
    first, second = await ask(root, edit("line 20", "line 20\nmore"), edit("line 30\n", ""))
    assert "@@ -18,6 +18,7 @@" in first.diff
    assert "@@ -28,7 +28,6 @@" in second.diff


async def test_edits_of_other_files_do_not_keep_an_edit_from_being_shown(root):
    calls = [edit("line 1\n", "1\n"), edit("y", "yy", "b.txt")]
    _, second = await ask(root, *calls, answer="deny")
    assert second.diff.splitlines()[2:] == ["@@ -1,3 +1,3 @@", " x", " x", "-y", "+yy"]


@pytest.mark.parametrize(
    ("rules", "path", "before", "why"),
    [
        ([PermissionRule.allow_category("read")], "a.txt", [call("Bash", command="sleep 600")],
         "a call before this one may change it first"),
        ([], "/etc/hostname", [], "it is outside the workspace, and no rule allows it to be read"),
        ([PermissionRule.deny_tool("Read")], "a.txt", [], "a rule keeps it from being read"),
    ],
)  # fmt: skip
async def test_what_is_not_shown_is_said(root, rules, path, before, why):
    allow_sleep = PermissionRule.allow_tool("Bash")
    edits = [*before, edit("line 20", "line twenty", path)]
    found = await ask_first_edit(root, edits, [*rules, allow_sleep])
    shown = found.diff.splitlines()
    assert shown[2:5] == ["@@ -1 +1 @@", "-line 20", "+line twenty"]
    assert shown[-1] == f"\\ What the file holds now is not shown: {why}"


async def ask_first_edit(root, calls, rules):
    """Return the first question about an edit; the turn is interrupted then."""
    reads = [call("Read", file_path="a.txt")]
    script = [reads, list(calls), "done"]
    tools = [Read(), Edit(), Bash()]
    async with Stage(tools, *script, rules=list(rules), workspace=root) as stage:
        chunks = stage.handle.subscribe("all", answers=True)
        stage.handle.send_input_nowait("go")
        with trio.fail_after(60):
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    if chunk.tool_name == "Edit":
                        break
                    await stage.handle.respond_permission(chunk.request_id, "allow")
            await stage.handle.interrupt()
    return chunk


class Deploy:
    """A tool that can look before it runs, and may fail at it."""

    name, description, category = "Deploy", "Deploy.", "execute"
    parameters: dict[str, object] = {"type": "object", "properties": {}}

    def __init__(self, error=None):
        self.error = error

    def info(self, input):
        return ToolInfo("Deploy", "somewhere")

    async def preview(self, input, context):
        if self.error:
            raise self.error
        return ToolInfo("Deploy", "to \u202eprod", "+3 machines")

    async def execute(self, input, context):
        return ToolResult.ok("done")


async def test_a_tool_of_ones_own_shows_what_it_would_do_and_hides_nothing(root):
    [asked] = await ask(root, call("Deploy"), tools=[Deploy()], first=())
    assert (asked.details, asked.diff) == ("to \\u{202e}prod", "+3 machines")


@pytest.mark.parametrize("error", [ToolError("no"), RuntimeError("a bug")])
async def test_a_preview_that_fails_leaves_what_the_input_says(root, error):
    [asked] = await ask(root, call("Deploy"), tools=[Deploy(error)], first=())
    assert (asked.details, asked.diff) == ("somewhere", "")
    assert asked.parts[0].decision is RuleDecision.ASK
