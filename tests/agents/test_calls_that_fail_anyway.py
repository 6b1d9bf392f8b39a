"""Nobody is asked about a call that can't succeed, and nothing is told of files that are kept."""

import os
import re
from pathlib import Path

import pytest
import trio

from greenroom.core import PermissionRequest, RuleDecision, ToolError, ToolInfo, ToolResult
from greenroom.permissions import PermissionRule, RuleMatcher
from greenroom.testing import Reply, call
from greenroom.tools import Bash, Edit, Read, Write
from tests.agents.test_tool_calls import Stage

READING = PermissionRule.allow_category("read")
SEE = call("Read", file_path="a.txt")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\ntwo\n")
    (folder / "secret.txt").write_text("token\n")
    return Path(os.path.realpath(folder))


async def attempt(root, *replies, rules=(READING,), tools=(), answer="deny"):
    """Run replies, with one answer to every question; how many there were, and the results."""
    every = [Read(), Edit(), Write(), Bash(), *tools]

    async def answer_all(stage):
        async for chunk in stage.handle.subscribe("all", answers=True):
            if isinstance(chunk, PermissionRequest):
                await stage.handle.respond_permission(chunk.request_id, answer)

    async with Stage(every, *replies, "done", rules=list(rules), workspace=root) as stage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all, stage)
            with trio.fail_after(60):
                await stage.handle.ask("go")
            nursery.cancel_scope.cancel()
    return len(stage.seen(PermissionRequest)), stage.llm.requests[-1].messages[-1].tool_results


def edit(path="a.txt", old="one", new="1"):
    return call("Edit", file_path=path, old_string=old, new_string=new)


@pytest.mark.parametrize(
    ("attempted", "reason"),
    [
        (edit("b.txt"), "there is no file b.txt"),
        (edit(old="zz"), "is not in a.txt"),
        (edit(old="two"), "occurs 2 times"),
        (edit(new="one"), "are the same"),
        (edit("."), "is a folder"),
        (edit("secret.txt"), "was not read yet"),
        (edit("a.txt/b"), "Not a directory|there is no file"),
        (call("Write", file_path="secret.txt", content="x"), "was not read yet"),
        (call("Write", file_path=".", content="x"), "is a folder"),
        (call("Write", file_path="a.txt/b", content="x"), "is not a folder"),
        (call("Write", file_path="c.txt", content="\ud800"), "not valid Unicode"),
    ],
)
async def test_what_can_be_known_is_said_before_anyone_is_asked(root, attempted, reason):
    asked, (result,) = await attempt(root, SEE, attempted)
    assert asked == 0
    assert result.is_error
    assert re.search(reason, result.text)


@pytest.mark.parametrize(
    "attempted",
    [edit(), call("Write", file_path="new/b.txt", content="x")],
)
async def test_a_call_that_may_succeed_is_asked_about(root, attempted):
    asked, (result,) = await attempt(root, SEE, attempted)
    assert asked == 1
    assert result.is_error


async def test_nothing_is_told_of_what_is_outside_and_not_allowed(root):
    for path in ("/etc/hostname", "/etc/no-such-file"):
        asked, _ = await attempt(root, edit(path), rules=())
        assert asked == 1
        asked, _ = await attempt(root, edit(path))  # may be read, so it may be looked at
        assert asked == 0


async def test_a_file_that_changed_since_it_was_read_is_told(root):
    change = call("Bash", command="echo more >> a.txt")
    rules = [READING, PermissionRule.allow_tool("Bash")]
    asked, (result,) = await attempt(root, SEE, change, edit(), rules=rules)
    assert asked == 0
    assert "has changed since it was read" in result.text


async def test_a_file_that_may_not_be_written_is_told(root, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    for attempted in (edit(), call("Write", file_path="b.txt", content="")):
        asked, (result,) = await attempt(root, SEE, attempted)
        assert asked == 0
        assert "read-only" in result.text


READ_SECRET = RuleMatcher(tool=("Read",), path=("secret.txt",))


@pytest.mark.parametrize("decision", [RuleDecision.DENY, RuleDecision.ASK])
@pytest.mark.parametrize(
    "attempted",
    [
        edit("secret.txt", "guess"),
        edit("./secret.txt", "guess"),
        edit("link.txt", "guess"),
        call("Write", file_path="secret.txt", content="x"),
    ],
)
async def test_nothing_is_told_of_a_file_that_a_rule_keeps_from_reading(root, decision, attempted):
    (root / "link.txt").symlink_to("secret.txt")
    rules = [PermissionRule(decision=decision, matcher=READ_SECRET), READING]
    there = await attempt(root, SEE, attempted, rules=rules)
    (root / "secret.txt").unlink()
    gone = await attempt(root, SEE, attempted, rules=rules)
    assert there[0] == gone[0] == 1
    assert there[1][0].text == gone[1][0].text


@pytest.mark.parametrize(
    "calls",
    [
        [SEE, edit()],
        [call("Write", file_path="b.txt", content="x"), edit("b.txt", "x")],
        [edit(new="three"), edit(old="three")],
        [call("Bash", command="echo three >> a.txt"), edit(old="three")],
    ],
)
async def test_a_call_that_has_not_run_yet_may_make_another_possible(root, calls):
    first = [] if calls[0] is SEE else [SEE]
    rules = [READING, PermissionRule.allow_tool("Bash")]
    asked, results = await attempt(root, *first, Reply(calls), rules=rules, answer="allow")
    assert asked == sum(each.name in {"Edit", "Write"} for each in calls)
    if calls[0].name != "Bash":  # which changes a file that was read
        assert [result.is_error for result in results] == [False, False]


async def test_one_that_only_reads_another_file_changes_nothing(root):
    calls = [call("Read", file_path="secret.txt"), edit(old="three")]
    asked, results = await attempt(root, SEE, Reply(calls))
    assert asked == 0
    assert [result.is_error for result in results] == [False, True]


async def test_a_call_that_was_denied_changes_nothing_either(root):
    calls = [call("Bash", command="echo three >> a.txt"), edit(old="three")]
    asked, results = await attempt(root, SEE, Reply(calls))
    assert asked == 1
    assert "is not in a.txt" in results[1].text


class Picky:
    """A tool of a program's own that knows before it runs."""

    name = "Picky"
    description = "Take a number."
    category = "write"
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }

    def info(self, data):
        return ToolInfo("Take", str(data["n"]))

    async def precheck(self, data, context):
        if data["n"] < 0:
            raise ToolError("it is negative")
        if data["n"] == 0:
            raise ValueError("a fault of the check")

    async def execute(self, data, context):
        return ToolResult.ok("taken")


@pytest.mark.parametrize(("n", "asked"), [(-1, 0), (0, 1), (1, 1)])
async def test_a_tool_of_one_s_own_may_look_first(root, n, asked):
    found, (result,) = await attempt(root, call("Picky", n=n), rules=(), tools=[Picky()])
    assert found == asked
    assert ("it is negative" in result.text) is (n < 0)
