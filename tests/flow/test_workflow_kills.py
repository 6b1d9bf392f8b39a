"""A workflow with effects continues after a kill at any moment, with each effect once."""

import copy
import operator
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
import trio

from greenroom import InMemoryStore
from greenroom.core import SessionStorageError, TurnStatus
from greenroom.flow import END, START, Workflow
from greenroom.flow._internal import WorkflowError
from greenroom.session import AgentSession
from tests.flow.booking import EFFECTS, Booking, in_folder
from tests.warm_python import run_warm

PROGRAM = Path(__file__).with_name("booking.py")


class SeenStore(InMemoryStore):
    """A store in memory that keeps each state that a kill could leave."""

    def __init__(self, sessions=None):
        super().__init__()
        self._sessions = sessions or {}
        self.seen = lambda what: None

    def copy(self):
        sessions = copy.deepcopy(self._sessions)
        for each in sessions.values():
            each.is_locked = False
        return sessions

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        write = writer.append

        async def append(line, at, *, flush=True):
            await write(line, at, flush=flush)
            self.seen(f"a line of {session_id}")

        writer.append = append
        return writer


async def test_every_effect_happens_once_whatever_a_kill_leaves():
    store, left = SeenStore(), []

    def keep(point):
        left.append((point, store.copy(), tuple(booking.effects)))

    booking = Booking(store, at=keep)
    store.seen = keep
    await booking.run()
    assert Counter(booking.effects) == Counter(EFFECTS)
    assert booking.asked == []
    questions = Counter()
    for point, sessions, effects in left[::2]:
        again = Booking(SeenStore(sessions), effects)
        run = await again.run()
        assert Counter(again.effects) == Counter(EFFECTS), point
        assert run.status is TurnStatus.COMPLETED
        assert run.state["round"] == 2
        questions.update(again.asked)
    assert set(questions) == {"pay", "write", "ship[0]", "ship[1]", "fold", "seal"}
    assert len(left) > 60


async def test_a_function_is_saved_once_for_what_was_before_it_and_that_it_begins():
    class Sum(TypedDict):
        items: list[int]
        total: Annotated[int, operator.add]

    async def add(state, item=1):
        return {"total": item}

    names = [f"n{number}" for number in range(10)]
    workflow = Workflow(Sum).node("map", add).each("map", over="items", concurrency=1)
    for source, target in zip([START, *names], [*names, "map"], strict=True):
        workflow.edge(source, target)
        if target != "map":
            workflow.node(target, add)
    workflow.edge("map", END)
    store, lines = SeenStore(), []
    store.seen = lines.append
    run = await workflow.run({"items": [1] * 10, "total": 0}, store=store)
    assert run.state["total"] == 20
    assert len(lines) <= 20 + 3


async def test_a_node_whose_agent_could_not_start_has_not_begun():
    """Its function never ran, so there is nothing to ask about when the run is resumed."""
    fails, runs = [True], []

    class Full(InMemoryStore):
        async def acquire(self, session_id):
            if fails and session_id != session.session_id:
                raise SessionStorageError("the disk is full")
            return await super().acquire(session_id)

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                runs.append(message.text)
                turn.set_result("done")

    class State(TypedDict):
        goal: str

    flow = Workflow(State).node("ask", agent_fn, input="goal", output="goal")
    flow = flow.edge(START, "ask").edge("ask", END)
    store = Full()
    session = AgentSession.new("flow", store=store)
    with pytest.raises(WorkflowError):
        _ = (await flow.run({"goal": "x"}, session=session)).output
    assert (runs, session.records("workflow.node")) == ([], ())
    fails.clear()
    again = await AgentSession.load(session.session_id, store=store)
    assert (await flow.run(None, session=again)).status is TurnStatus.COMPLETED
    assert runs == ["x"]


def kill(folder, point):
    """Run it in a process of its own, which kills itself."""
    folder.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    code, _, errors = run_warm([str(PROGRAM), point], folder, environment)
    assert code == -signal.SIGKILL, errors


@pytest.mark.parametrize(
    "point",
    ["before pay-0", "behind write-0", "behind ship[1]-1", "behind fold-1", "before seal-0"],
)
def test_a_process_that_was_killed_inside_of_a_node(tmp_path, point):
    kill(tmp_path / "run", point)
    with pytest.raises(WorkflowError, match="was cut off"):
        _ = trio.run(in_folder(tmp_path / "run").run, False).output
    booking = in_folder(tmp_path / "run")
    run = trio.run(booking.run)
    assert run.status is TurnStatus.COMPLETED
    assert point.split()[1].split("-")[0] in booking.asked
    assert Counter((tmp_path / "run" / "effects").read_text().split()) == Counter(EFFECTS)


@pytest.mark.parametrize("number", [1, 3, 4, 9])
def test_a_process_that_was_killed_after_a_step(tmp_path, number):
    kill(tmp_path / "run", f"step {number}")
    run = trio.run(in_folder(tmp_path / "run").run)
    assert (run.status, len(run.steps)) == (TurnStatus.COMPLETED, 9)
    assert Counter((tmp_path / "run" / "effects").read_text().split()) == Counter(EFFECTS)
