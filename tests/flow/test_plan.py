"""Plans: invalid ones, their order, and their drawing."""

import json
import random
import re
import sys
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st

from greenroom import GreenroomError
from greenroom.flow import Plan, Planner, Subtask
from greenroom.flow._internal import PlanError
from greenroom.flow.model_planner import merge


def chain(count):
    return [Subtask(f"s{n}", f"Step {n}", after=[f"s{n - 1}"] if n else []) for n in range(count)]


def refusal(*subtasks):
    with pytest.raises(PlanError) as caught:
        Plan("goal", subtasks)
    assert isinstance(caught.value, GreenroomError)
    return str(caught.value)


@pytest.mark.checkpoint("3.2 a cycle is refused")
def test_a_cycle_is_refused_with_its_path():
    said = refusal(
        Subtask("alone", ""),
        Subtask("a", "", after=["c"]),
        Subtask("b", "", after=["a"]),
        Subtask("c", "", after=["b"]),
    )
    path = said.partition(": ")[2].partition(" (")[0].split(" → ")
    assert path[0] == path[-1]
    assert set(path) == {"a", "b", "c"}
    waits = {"a": "c", "b": "a", "c": "b"}
    assert all(waits[later] == before for before, later in pairwise(path))
    assert "a → a" in refusal(Subtask("a", "", after=["a"]))


def test_an_id_that_is_not_there_is_refused_with_who_names_it():
    said = refusal(Subtask("flight", ""), Subtask("hotel", "", after=["flihgt", "car"]))
    assert said == (
        "hotel waits for 'flihgt', which is not in the plan (did you mean 'flight'?); "
        "hotel waits for 'car', which is not in the plan"
    )


def test_two_subtasks_of_one_id_are_refused():
    assert refusal(Subtask("a", "x"), Subtask("b", ""), Subtask("a", "y")) == (
        "2 subtasks are called 'a'"
    )


def test_many_faults_are_told_up_to_a_bound():
    said = refusal(*(Subtask(f"s{n}", "", after=["nobody"]) for n in range(30)))
    assert said.count("nobody") == 10
    assert said.endswith("; and 20 more")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"id": ""}, "''"),
        ({"id": "a.b"}, "'a.b'"),
        ({"id": "a b"}, "'a b'"),
        ({"id": "a" * 65}, "aaa"),
        ({"id": "a", "after": "flight"}, "after=('flight',)"),
        ({"id": "a", "arguments": {"x": 1}}, "no tool"),
    ],
)
def test_a_subtask_that_no_plan_could_hold_is_refused(fields, word):
    with pytest.raises(PlanError, match=None) as caught:
        Subtask(goal="", **fields)
    assert word in str(caught.value)


def test_order_readiness_and_dependents():
    plan = Plan(
        "trip",
        [
            Subtask("pack", "", after=["flight", "hotel"]),
            Subtask("hotel", "", after=["flight"]),
            Subtask("flight", ""),
            Subtask("visa", ""),
        ],
    )
    assert plan.ready(()) == ("flight", "visa")
    assert plan.ready({"flight"}) == ("hotel", "visa")
    assert plan.ready({"hotel"}) == ("flight", "visa")
    assert plan.dependents("flight") == ("pack", "hotel")
    assert plan.dependents("pack") == ()
    order = plan.order()
    assert order.index("flight") < order.index("hotel") < order.index("pack")
    assert "visa" in plan
    with pytest.raises(PlanError, match="did you mean 'hotel'"):
        plan["hotle"]
    with pytest.raises(PlanError):
        plan.dependents("car")


def test_plans_are_json_both_ways_and_cannot_be_changed():
    plan = Plan(
        "g", [Subtask("a", "x", tool="t", arguments={"n": [1, {"k": None}]}, critical=True)]
    )
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert json.loads(msgspec.json.encode(plan))["subtasks"][0]["tool"] == "t"
    with pytest.raises(AttributeError):
        plan.goal = "other"
    with pytest.raises(msgspec.ValidationError, match="wait for each other"):
        msgspec.convert({"goal": "", "subtasks": [{"id": "a", "goal": "", "after": ["a"]}]}, Plan)


def test_a_plan_that_was_written_down_is_a_planner():
    assert isinstance(Plan("", ()), Planner)


def calls_of(function):
    """How many Python and C functions a function calls, which no busy machine changes."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def layered_plan(count):
    """A plan in layers of ten, each subtask after three of the layer before, in random order."""
    chance = random.Random(count)
    subtasks = [
        Subtask(
            f"s{n}", "", after=[f"s{n // 10 * 10 - each}" for each in (1, 4, 9)] if n > 9 else []
        )
        for n in range(count)
    ]
    chance.shuffle(subtasks)
    return subtasks


def test_ten_times_the_subtasks_cost_ten_times_the_work():
    small, large = layered_plan(1_000), layered_plan(10_000)
    costs = [
        calls_of(lambda subtasks=subtasks: Plan("", subtasks).order())
        for subtasks in (small, large)
    ]
    assert costs[1] <= 12 * costs[0]
    assert costs[1] <= 50 * len(large)  # a second is enough for some ten million


def test_a_chain_of_ten_thousand_needs_no_recursion():
    assert Plan("", chain(10_000)).order()[-1] == "s9999"
    knot = [*chain(10_000)[1:], Subtask("s0", "", after=["s9999"])]
    assert "s9999 → s0" in refusal(*knot)


@st.composite
def plans(draw):
    count = draw(st.integers(1, 30))
    subtasks = [
        Subtask(
            f"s{n}",
            f"<{n}>",
            after=[f"s{each}" for each in draw(st.sets(st.integers(0, n - 1), max_size=3))]
            if n
            else [],
            tool=draw(st.sampled_from(["", "", "", "t"])),
        )
        for n in range(count)
    ]
    return Plan("goal", draw(st.permutations(subtasks)))


@given(plans())
def test_the_order_never_breaks_the_graph_and_ready_leads_through_it(plan):
    order = plan.order()
    assert sorted(order) == sorted(subtask.id for subtask in plan.subtasks)
    assert all(order.index(each) < order.index(s.id) for s in plan.subtasks for each in s.after)
    done = []
    while ready := plan.ready(done):
        assert not set(ready) & set(done)
        done += ready
    assert len(done) == len(plan.subtasks)


@given(plans(), st.integers(1, 20))
def test_merging_keeps_every_step_and_every_wait_and_makes_no_cycle(plan, limit):
    merged = merge(plan, limit)
    calls = sum(bool(subtask.tool) for subtask in plan.subtasks)
    assert len(merged.subtasks) <= max(limit, 2 * calls + 1)
    home = {
        f"s{number}": subtask
        for subtask in merged.subtasks
        for number in re.findall(r"<(\d+)>", subtask.goal)
    }
    assert len(home) == len(plan.subtasks)
    for step in plan.subtasks:
        for before in step.after:
            there, here = home[before], home[step.id]
            assert there is here or there.id in here.after


def test_merged_steps_point_to_each_others_results():
    plan = Plan(
        "",
        [
            Subtask("a", "Look"),
            Subtask("b", "Use {a.x} and {{a.x}} and {other}", after=["a"]),
            Subtask("c", "", after=["b"], tool="t", arguments={"x": ["{b.y}"], "n": 1}),
        ],
    )
    merged = merge(plan, 2)
    assert [each.id for each in merged.subtasks] == ["a", "c"]
    assert merged["a"].goal.split("\n")[1:] == [
        "1. Look",
        "2. Use the result of step 1 and {{a.x}} and {other}",
    ]
    assert merged["c"].arguments == {"x": ["{a}"], "n": 1}
    assert merged["c"].after == ("a",)


def test_a_drawing_shows_words_as_they_are():
    plan = Plan("", [Subtask("end", 'Say "#1"'), Subtask("b-1", "", after=["end"], tool="go")])
    assert plan.to_mermaid().split("\n    ") == [
        "graph TD",
        'subtask1["end: Say #quot;#35;1#quot;"]',
        'subtask2["b-1: go"]',
        "subtask1 --> subtask2",
    ]


def test_a_drawing_has_no_control_characters_and_no_words_of_mermaid():
    plan = Plan("", [Subtask("linkStyle", "\x1b[2J<b>"), Subtask("o", ""), Subtask("end_it", "")])
    assert plan.to_mermaid().split("\n    ") == [
        "graph TD",
        'subtask1["linkStyle: \\u{1b}[2J#lt;b>"]',
        'subtask2["o:"]',
        'end_it["end_it:"]',
    ]
