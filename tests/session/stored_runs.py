"""Runs with effects of every kind, which end or are killed, and leave their files in a folder.

    python -m tests.session.stored_runs FOLDER              carries out all of them, see `RUNS`
    python -m tests.session.stored_runs STORE RUN POINT     one, here; "" is no point

A run that is killed is a process of its own that ends by SIGKILL at its point. What this version
left lies in `formats/runs` and is never changed: `test_stored_runs` continues it with the code of
today. A set is added, beside the old ones, before a change to what is stored.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import trio

from greenroom import AgentSession, FileStore, SQLiteStore
from greenroom.core import ImageBlock, ThinkingBlock
from greenroom.flow import PlanRun
from greenroom.memory import WorkingMemory
from greenroom.session.transcript import STARTED
from tests.session.stored_kinds import KINDS

RUNS = {
    "conversation": ["", "before reserve", "behind reserve", "asked pay"],
    "plan": ["", "before fly", "behind stay", "before stay", "completed fly"],
    "reviewed": ["", "asked plan", "before fly"],
    "thoughts": ["", "before look"],
    "workflow": ["", "behind ship[1]", "before seal", "asked approve", "step 2"],
    "team": ["", "before hotel", "behind flight", "answer"],
    "sequence": ["", "before second"],
    "parallel": ["", "before second"],
    "loop": ["", "before again"],
    "committee": ["", "before second"],
    "combined": ["", "before second"],
    "handoff": ["", "before refund"],
}
IN_DATABASES = [("conversation", "asked pay"), ("plan", "before stay"), ("workflow", "step 2")]


def open_run(folder, name, store, death=""):
    """Make a run of the files of a folder; its process ends at a point."""
    file = folder / "effects"
    file.touch()

    def at(point):
        if point.startswith("behind"):
            with file.open("a") as lines:
                lines.write(point.removeprefix("behind ") + "\n")
        if point == death:
            os.kill(os.getpid(), signal.SIGKILL)

    run = KINDS[name](store, file.read_text().split(), at)
    run.is_long = not death
    return run


async def carry_out(store, name, death):
    """Carry a run out in the working directory."""
    if store == "files":
        return await open_run(Path.cwd(), name, FileStore("sessions"), death).run()
    async with SQLiteStore("sessions.db") as database:
        return await open_run(Path.cwd(), name, database, death).run()


async def describe(store):
    """Describe all sessions of a store by what programs can read of them."""
    listed = await AgentSession.list_all(store=store, archived=True)
    loaded = [
        await AgentSession.load(each.session_id, store=store, keep_open=True) for each in listed
    ]
    return {each.session_id: await describe_session(each) for each in loaded}


async def describe_session(session):
    branches = await session.read_branches()
    decisions = await session.read_decisions()
    return {
        "type": session.agent_type,
        "parent": session.parent_session_id,
        "call": session.parent_tool_use_id,
        "children": list(session.child_session_ids),
        "model": [session.provider, session.model],
        "created": session.created_at.isoformat(),
        "title": session.get_metadata("title"),
        "seat": WorkingMemory(session, task="trip").to_dict(),
        "used": [
            session.used.usage.input_tokens,
            session.used.usage.output_tokens,
            session.used.model_calls,
            session.used.tool_calls,
        ],
        "unstarted": [use.id for use in session.unstarted],
        "questions": [[each.request_id, each.tool_use_id] for each in session.open_questions],
        "decisions": [[each.tool_use_id, each.tool_name, each.decision] for each in decisions],
        "branches": [[each.id for each in b.history if not is_repair(each)] for b in branches],
        "messages": [describe_message(message) for message in session.history],
        "plan": describe_plan(PlanRun.load(session)) if session.records("plan.step") else None,
    }


def is_repair(message):
    """Whether it was made at load, in place of results that are missing."""
    return any(STARTED in result.text for result in message.tool_results)


def describe_message(message):
    return {
        "id": None if is_repair(message) else message.id,
        "at": None if is_repair(message) else message.created_at.isoformat(),
        "from": [message.role, message.sender, message.provider, message.model],
        "stop": message.stop_reason,
        "text": message.text,
        "calls": [[use.id, use.name, dict(use.input)] for use in message.tool_uses],
        "results": [
            [result.tool_use_id, result.is_error, result.text[:300], len(result.text)]
            for result in message.tool_results
        ],
        "thoughts": [
            [block.thinking, block.signature]
            for block in message.content
            if isinstance(block, ThinkingBlock)
        ],
        "pictures": [
            [block.media_type, block.data]
            for block in message.content
            if isinstance(block, ImageBlock)
        ],
    }


def describe_plan(run):
    return {
        "goal": run.plan.goal,
        "subtasks": [
            [
                each.id,
                each.goal,
                list(each.after),
                each.tool,
                dict(each.arguments),
                each.critical,
                each.capability,
            ]
            for each in run.plan.subtasks
        ],
        "states": {
            each.id: [run.state(each.id).status, run.state(each.id).result]
            for each in run.plan.subtasks
        },
    }


def folder_of(store, name, point):
    words = [name, *("".join(c if c.isalnum() else " " for c in point).split() or ["finished"])]
    return "-".join(words if store == "files" else [*words, "db"])


def write(folder, store, name, point):
    """Carry a run out in a process of its own, which ends or is killed."""
    here = folder / folder_of(store, name, point)
    here.mkdir(parents=True)
    program = [sys.executable, "-m", "tests.session.stored_runs", store, name, point]
    root = Path(__file__).parents[2]
    code = subprocess.run(
        program, cwd=here, env={**os.environ, "PYTHONPATH": str(root)}, check=False
    ).returncode
    assert code == (-signal.SIGKILL if point else 0), (here, code)
    trio.run(write_description, here, store)


async def write_description(here, store):
    """Write what this version reads of the files, from a copy of them."""
    copy = here.with_name("copy")
    shutil.copytree(here, copy)
    if store == "files":
        described = await describe(FileStore(copy / "sessions"))
    else:
        async with SQLiteStore(copy / "sessions.db") as database:
            described = await describe(database)
        pack(here)
    shutil.rmtree(copy)
    (here / "read.json").write_text(json.dumps(described, separators=(",", ":")) + "\n")


def pack(here):
    """Put a database and its log, as they were left, into an archive, a tenth of their size."""
    with ZipFile(here / "database.zip", "w", ZIP_DEFLATED) as archive:
        for each in sorted(here.glob("sessions.db*")):
            if each.name in ("sessions.db", "sessions.db-wal"):
                archive.write(each, each.name)
    for each in here.glob("sessions.db*"):
        shutil.rmtree(each) if each.is_dir() else each.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        for kind, points in RUNS.items():
            for each in points:
                write(Path(sys.argv[1]).absolute(), "files", kind, each)
        for kind, each in IN_DATABASES:
            write(Path(sys.argv[1]).absolute(), "database", kind, each)
    else:
        result = trio.run(carry_out, *sys.argv[1:])
        print(sys.argv[2], result.status)
