"""References to results in goals and arguments."""

import pytest

from greenroom.flow import Plan, PlanRun, Subtask
from greenroom.flow._internal import PlanError
from greenroom.flow.references import fill, read_value

RESULTS = {
    "flight": {"price": 120, "days": ["Fri", "Sun"], "seat": {"row": 7}},
    "notes": "plain words",
    "json": '{"city": "Oslo"}',
    "count": "42",
}


def fill_in(goal="", types=None, **arguments):
    before = [Subtask(id_, "") for id_ in RESULTS]
    last = Subtask(
        "last", goal, after=list(RESULTS), tool="t" if arguments else "", arguments=arguments
    )
    run = PlanRun(Plan("", [*before, last, Subtask("later", "")]))
    for id_, result in RESULTS.items():
        run = run.start(id_, "s").complete(id_, result)
    return fill(last, run, types or {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{notes}", "plain words"),
        ("for {flight.price} on {flight.days.1}", "for 120 on Sun"),
        ("{flight.seat}", '{"row":7}'),
        ("row {flight.seat.row} to {json.city}", "row 7 to Oslo"),
        ("{{flight.price}} and {{notes}}", "{flight.price} and {notes}"),
        ("f(x) {x} {} { notes } {1}", "f(x) {x} {} { notes } {1}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    ],
)
def test_results_stand_in_a_goal(text, expected):
    assert fill_in(text).goal == expected


def test_an_argument_that_is_a_reference_is_the_result_itself():
    arguments = fill_in(
        price="{flight.price}", all="{flight}", deep=[{"day": "{flight.days.0}!"}], n=3
    ).arguments
    assert arguments == {"price": 120, "all": RESULTS["flight"], "deep": [{"day": "Fri!"}], "n": 3}
    with pytest.raises(TypeError, match="frozen"):
        arguments["all"]["days"].append("Mon")


def test_a_text_becomes_the_number_that_the_tool_wants():
    assert fill_in(types={"n": "integer"}, n="{count}").arguments == {"n": 42}
    assert fill_in(types={"n": "string"}, n="{count}").arguments == {"n": "42"}
    assert fill_in(types={"n": "number"}, n="{notes}").arguments == {"n": "plain words"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{flight.seats}", "the result of flight has no field 'seats' (it has price, days, seat)"),
        ("{flight.days.2}", "has no field '2' (it is a list of 2 items)"),
        ("{notes.x}", "has no field 'x' (it is a text)"),
        ("{flight.price.x}", "has no field 'x' (it is 120)"),
        ("{flihgt.price}", "the plan has no subtask 'flihgt'"),
        ("{later}", "last does not wait for later (add 'later' to `after` of last)"),
    ],
)
def test_a_reference_to_nothing_is_an_error(text, said):
    with pytest.raises(PlanError) as caught:
        fill_in(text)
    assert said in str(caught.value)


def test_what_a_result_says_is_not_read_as_a_reference():
    plan = Plan("", [Subtask("a", ""), Subtask("b", "{a}", after=["a"])])
    run = PlanRun(plan).start("a", "s").complete("a", "{a.secret} {b}")
    assert fill(plan["b"], run, {}).goal == "{a.secret} {b}"


def test_only_objects_and_lists_are_read_out_of_texts():
    assert read_value('{"a": 1}') == {"a": 1}
    assert read_value(" [1]") == [1]
    assert read_value("42") == "42"
    assert read_value("{broken") == "{broken"
