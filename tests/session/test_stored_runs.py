"""Plans, workflows, teams and conversations that an earlier version left, finished or killed.

`stored_runs` says how they were made. Each is read as it was read then, and goes on to its goal:
no effect comes twice, and a person is asked about the calls that may have had theirs.
"""

import json
import shutil
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

from greenroom.core._internal import PermissionRecord, serde
from greenroom.flow.orchestrator_crew import Stint
from greenroom.flow.plan_run import PlanStep
from greenroom.flow.unit import NodeRecord, WorkflowBegin
from greenroom.flow.workflow_run import WorkflowStep
from greenroom.session import FileStore, SQLiteStore
from greenroom.session.entries import DecisionEntry, OpenQuestion, RecordEntry, decode_kinds
from tests.session.stored_runs import describe, open_run

SETS = Path(__file__).parent / "formats" / "runs"
LEFT = sorted(each.relative_to(SETS).as_posix() for each in SETS.glob("*/*"))
KILLED = [each for each in LEFT if "finished" not in each]

ASKED = {
    "conversation-before-reserve": ["Run reserve again", "Use pay"],
    "conversation-behind-reserve": ["Run reserve again", "Use pay"],
    "conversation-asked-pay": ["Use pay"],
    "plan-before-fly": ["Run the subtask fly again"],
    "plan-behind-stay": ["Run the subtask stay again"],
    "plan-before-stay": ["Run the subtask stay again"],
    "reviewed-asked-plan": ["Start this plan"],
    "reviewed-before-fly": ["Run the subtask fly again"],
    "workflow-behind-ship-1": ["Run the node ship[0] again", "Run the node ship[1] again"],
    "workflow-before-seal": ["Run the node seal again"],
    "combined-before-second": ["Run both again"],
    "handoff-before-refund": ["Run act again"],
    "team-before-hotel": ["Run the subtask hotel again"],
    "team-behind-flight": ["Run the subtask flight again"],
}
"""What a person is asked, beside what a workflow asks in any case; nothing in other runs."""

LOST = {
    "thoughts-before-look": {"look"},
    "combined-before-second": {"second"},
}
"""Effects that never come: a new input tells the model that a call was cut off, or a person says
that the call has run, whose second half has not."""

EFFECTS = {
    "conversation": {"reserve", "pay"},
    "plan": {"fly", "stay", "eat", "drive"},
    "reviewed": {"fly", "stay"},
    "thoughts": {"look"},
    "workflow": {"pay", "write", "ship[0]", "ship[1]", "fold", "seal"},
    "team": {"flight", "hotel", "car"},
    "loop": {"again"},
    "handoff": {"refund"},
}

BEGIN_AGAIN = {"sequence", "parallel", "committee"}
"""Kinds that record no end of a member, so that all of them are asked again."""

REPLIES = {
    "conversation": "It is paid.",
    "reviewed": "All is booked.",
    "thoughts": "I looked.",
    "team": "All is booked.",
    "sequence": "done",
    "parallel": '{"first":"done","second":"done"}',
    "loop": "good",
    "combined": "done",
    "handoff": "done",
}

RECORDS = {
    "plan.step": PlanStep,
    "workflow.step": WorkflowBegin | WorkflowStep,
    "workflow.node": NodeRecord,
    "team.work": Stint,
    "permission.question": OpenQuestion,
}


@asynccontextmanager
async def open_copy(left, folder):
    """A copy of what a run left, its name without that of its store, and the store."""
    shutil.copytree(SETS / left, folder, dirs_exist_ok=True)
    name = Path(left).name
    if (folder / "database.zip").exists():
        with ZipFile(folder / "database.zip") as archive:
            archive.extractall(folder)
        async with SQLiteStore(folder / "sessions.db") as store:
            yield name.removesuffix("-db"), store
    else:
        yield name, FileStore(folder / "sessions")


@pytest.mark.parametrize("left", LEFT)
async def test_what_was_left_is_read_as_it_was_then(left, tmp_path):
    async with open_copy(left, tmp_path) as (_, store):
        assert await describe(store) == json.loads((SETS / left / "read.json").read_text())


@pytest.mark.parametrize("left", KILLED)
async def test_a_run_that_was_killed_reaches_its_goal(left, tmp_path):
    async with open_copy(left, tmp_path) as (name, store):
        kind = name.partition("-")[0]
        run = open_run(tmp_path, kind, store)
        result = await run.run()
    assert result.status == "completed"
    if kind == "workflow":
        assert result.state["shipped"] == ["a", "b"]
        assert (result.state["name"], result.state["round"]) == ("seal is done", 2)
    elif kind == "committee":
        assert result.output.value == "done"
    else:
        done = EFFECTS.get(kind, set()) - LOST.get(name, set())
        plan = ", ".join(each for each in ("fly", "stay", "eat", "drive") if each in done)
        assert result.text == REPLIES.get(kind, plan)
    asked = [each for each in run.asked if each != "Send it"]
    assert sorted(asked) == ASKED.get(name, [])
    assert run.asked.count("Send it") == (2 if kind == "workflow" else 0)
    effects = Counter(run.effects)
    assert set(effects) == EFFECTS.get(kind, {"first", "second"}) - LOST.get(name, set())
    assert kind in BEGIN_AGAIN or max(effects.values(), default=1) == 1


@pytest.mark.parametrize("left", [each for each in LEFT if each not in KILLED])
async def test_a_run_that_had_finished_goes_on(left, tmp_path):
    """A goal that was answered is a new job; a conversation, a plan and a workflow have ended."""
    async with open_copy(left, tmp_path) as (name, store):
        kind = name.partition("-")[0]
        run = open_run(tmp_path, kind, store)
        before = Counter(run.effects)
        result = await run.run()
    assert result.status == "completed"
    again = Counter(run.effects) - before
    ended = {"conversation", "plan", "thoughts", "workflow", "combined", "handoff"}
    assert set(again) == (set() if kind in ended else set(before))
    assert run.asked == (["Start this plan"] if kind == "reviewed" else [])


def fields_left_out(written, read, at=""):
    """The places of what is written and is not read, or is read as something else."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            if key in read:
                yield from fields_left_out(value, read[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for value, other in zip(written, read, strict=True):
            yield from fields_left_out(value, other, f"{at}[]")
    elif written != read:
        yield f"{at}: {written!r} is read as {read!r}"


def places_of_line(line):
    for raw, entry in decode_kinds(line):
        assert entry is not None, raw
        written = serde.loads(raw)
        yield from fields_left_out(written, serde.loads(serde.encode(entry)), written["kind"])
        if isinstance(entry, RecordEntry):
            kind = RECORDS.get(entry.name, object)
            value = serde.convert(serde.loads(bytes(entry.value)), kind)
            yield from fields_left_out(
                written["value"], serde.loads(serde.encode(value)), entry.name
            )
        elif isinstance(entry, DecisionEntry):
            value = serde.decode(bytes(entry.decision), PermissionRecord)
            yield from fields_left_out(
                written["decision"], serde.loads(serde.encode(value)), "decision"
            )


def test_every_field_that_was_written_is_known():
    """A field under another name would be read as its default, silently."""
    files = sorted(SETS.glob("*/*/sessions/*/history.jsonl"))
    lines = [line for each in files for line in each.read_bytes().splitlines(keepends=True)]
    assert len(lines) > 300
    assert {place for line in lines for place in places_of_line(line)} == set()
