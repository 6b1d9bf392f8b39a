"""`greenroom plan show`: text, drawing and JSON of a stored plan, and sessions without one."""

import msgspec
import pytest
import trio

from greenroom.flow import Plan, PlanRun, Subtask
from greenroom.flow._internal import PLAN_STEP
from greenroom.session import AgentSession
from tests.cli.shelf import HOSTILE

TRIP = Plan(
    "a weekend in Oslo",
    [
        Subtask("flight", "", tool="book", arguments={"what": "flight"}),
        Subtask("hotel", f"Find a hotel {HOSTILE}", after=["flight"]),
        Subtask("museum", "Visit a museum", after=["hotel"]),
        Subtask("walk", "Walk"),
        Subtask("pay", "Pay", tool="pay"),
    ],
)
RUN = (
    PlanRun(TRIP)
    .start("flight", "s-f")
    .complete("flight", {"day": "Friday", "seats": "x" * 5_000})
    .start("hotel", "s-h")
    .fail("hotel", f"no rooms {HOSTILE}")
    .start("walk", "s-w")
    .fail("pay", "no money")
    .reset("pay", "s-p", "it may have been paid")
)


@pytest.fixture
def place(shelf):
    async def add():
        session = AgentSession.new("planner", session_id="p-trip", store=shelf.store)
        for step in RUN.steps():
            session.add_record(PLAN_STEP, msgspec.json.decode(msgspec.json.encode(step)))
        await session.save()

    trio.run(add)
    return shelf.here


def test_each_subtask_has_its_status_and_what_came_of_it(run, place):
    done = run("plan", "show", "p-t", *place)
    lines = done.out.splitlines()
    assert lines[:4] == ["a weekend in Oslo", "1 of 5 done", "", '☑ flight  book {"what":"flight"}']
    assert lines[4].startswith('    completed: {"day":"Friday","seats":"xxx')
    assert "characters left out" in lines[4]
    assert len(lines[4]) < 600
    assert lines[5].startswith("✗ hotel  Find a hotel ")
    assert lines[5].endswith("  (after flight)")
    assert lines[6].startswith("    failed: no rooms ")
    assert lines[7:] == [
        "⊘ museum  Visit a museum  (after hotel)",
        "    blocked: it waits for hotel",
        "▶ walk  Walk",
        "    executing  (s-w)",
        "☐ pay  Pay",
        "    pending, cut off, try 2: it may have been paid  (s-p)",
    ]
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
    assert done.code == 0


def test_it_is_drawn_and_written_as_json(run, place):
    drawn = run("plan", "show", "p-trip", "--mermaid", *place).out
    assert drawn.startswith("graph TD\n")
    assert "flight --> hotel" in drawn
    assert "class hotel failed" in drawn
    shown = run("plan", "show", "p-trip", "--json", *place).json
    assert shown.pop("session_id") == "p-trip"
    assert msgspec.convert(shown, PlanRun) == RUN


def test_what_has_no_plan_says_so_and_where_one_may_be(run, place, shelf):
    shelf.add("s-1")
    shelf.add("s-2", parent="s-1")
    for id_, said in (
        ("nobody", "there is no session nobody"),
        ("s-1", "s-1 holds no plan (the sessions of its subagents are s-2)"),
        ("s-2", "s-2 holds no plan (it is a subagent of s-1)"),
    ):
        done = run("plan", "show", id_, *place)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    shelf.add("t-1")
    assert "execute_plan writes it" in run("plan", "show", "t-1", *place).err


def test_its_words_and_ids_are_completed(run, place):
    assert run("complete", "bash", "greenroom plan ").out.split() == ["words", "show"]
    line = f"greenroom plan show {' '.join(place)} p"
    assert run("complete", "bash", line).out.split() == ["words", "p-trip"]
