"""A plan on the screen: one list whose marks move, or a line for each change."""

import msgspec

from greenroom.cli.agent_view import AgentView
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.core import Custom, Done, Lagged, SubAgentOutput, TextDelta, TurnStatus
from greenroom.flow import Plan, PlanRun, Subtask
from greenroom.flow._internal import PLAN_STEP

TRIP = Plan(
    "a weekend\nin Oslo",
    [
        Subtask("flight", "", tool="book", arguments={"what": "flight"}),
        Subtask("hotel", "Find a \x1b[2Jhotel", after=["flight"]),
        Subtask("museum", "Visit a museum", after=["hotel"]),
    ],
)


def chunk(data, text="told"):
    return Custom(PLAN_STEP, msgspec.to_builtins(data), text)


def begin(plan, **more):
    return chunk({"type": "begin", "plan": plan, **more})


def move(id_, status, **more):
    return chunk({"type": "move", "id": id_, "status": status, **more}, f"plan: {id_} {status}")


class Seen:
    def __init__(self, **options):
        self.view = AgentView(ColorScheme(), **options)

    def feed(self, *chunks):
        shown = [part for each in chunks for part in self.view.feed(each)]
        return Painter(None).paint(shown, 60)

    def live(self, rows=12, columns=60):
        return Painter(None).paint(self.view.live(rows), columns)


def test_the_marks_of_one_list_move_until_the_agent_goes_on():
    seen = Seen()
    assert seen.feed(begin(TRIP), move("flight", "executing")) == ""
    assert seen.live() == (
        "plan: 0 of 3 done  a weekend in Oslo\n"
        '▶ flight  book {"what":"flight"}\n'
        "☐ hotel   Find a \\u{1b}[2Jhotel\n"
        "☐ museum  Visit a museum\n"
    )
    steps = [move("flight", "completed", result=7), move("hotel", "executing")]
    assert seen.feed(*steps, move("hotel", "failed", error="no\nrooms", reason="tool")) == ""
    whole = (
        "plan: 1 of 3 done  a weekend in Oslo\n"
        '☑ flight  book {"what":"flight"}\n'
        "✗ hotel   no rooms\n"
        "⊘ museum  it waits for hotel\n"
    )
    assert seen.live() == whole
    assert seen.feed(TextDelta("The hotel ")) == f"{whole}\n"
    assert seen.live() == "The hotel\n"


def test_a_revision_says_what_had_failed():
    seen = Seen()
    seen.feed(begin(TRIP), move("flight", "executing"), move("flight", "failed", error="fog"))
    other = Plan("", [Subtask("train", "Take a train")])
    printed = seen.feed(chunk({"type": "revise", "plan": other}, "plan: revised, 1 subtask"))
    assert printed == "✗ flight  fog\nplan: revised, 1 subtask\n"
    assert seen.live().splitlines() == [
        "plan: 0 of 1 done, revised once  a weekend in Oslo",
        "☐ train  Take a train",
    ]
    text = "plan: no longer revised: fog"
    assert seen.feed(chunk({"type": "end", "error": "fog"}, text)) == f"{text}\n"


def test_another_try_is_counted():
    seen = Seen()
    steps = (move("flight", each) for each in ("executing", "failed", "pending", "executing"))
    seen.feed(begin(TRIP), *steps)
    assert "▶ flight  try 2: book" in seen.live()


def test_a_plan_that_an_interrupt_cuts_off_is_printed_as_it_was():
    seen = Seen()
    seen.feed(begin(TRIP), move("flight", "executing"), move("flight", "pending", error="cut off"))
    printed = seen.feed(Done("i", TurnStatus.INTERRUPTED)).splitlines()
    assert printed[1] == "☐ flight  cut off"
    assert printed[-1] == "interrupted"
    assert seen.live() == ""
    seen.feed(begin(TRIP))
    assert Painter(None).paint(seen.view.finish(), 60).startswith("plan: 0 of 3 done")


def test_a_run_that_goes_on_begins_where_it_was():
    seen = Seen()
    run = PlanRun(TRIP).start("flight", "s").complete("flight").start("hotel", "s")
    printed = seen.feed(begin(TRIP, states=run.states, revisions=2))
    assert printed == ""
    assert seen.live().splitlines()[:3] == [
        "plan: 1 of 3 done, revised 2 times  a weekend in Oslo",
        '☑ flight  book {"what":"flight"}',
        "▶ hotel   Find a \\u{1b}[2Jhotel",
    ]
    assert seen.feed(begin(TRIP)).startswith("plan: 1 of 3 done")  # and then another one begins


def test_of_a_long_plan_what_happens_is_shown_and_the_rest_is_counted():
    seen = Seen()
    seen.feed(begin(Plan("", [Subtask(f"s{n:04}", "x" * 500) for n in range(300)])))
    for number in range(100):
        seen.feed(move(f"s{number:04}", "executing"))
        if number < 98:
            seen.feed(move(f"s{number:04}", "completed"))
    for rows in (3, 6, 12):
        lines = seen.live(rows, 40).splitlines()
        assert len(lines) == rows
        assert max(map(len, lines)) <= 40
        assert lines[1].startswith("▶ s0098  xxx")
    assert lines[2].startswith("▶ s0099")
    assert lines[3].startswith("☐ s0100")
    assert lines[-1] == "… and 98 completed, 192 pending"
    assert seen.feed(Done("i", TurnStatus.COMPLETED)).count("\n") < 70


def test_steps_that_were_missed_lead_to_lines_and_to_no_wrong_list():
    for missed in ([Lagged(3), move("flight", "completed")], [move("museum", "completed")]):
        seen = Seen()
        seen.feed(begin(TRIP), move("flight", "executing"))
        assert seen.feed(*missed).splitlines()[-1] == f"plan: {missed[-1].data['id']} completed"
        assert seen.feed(move("hotel", "executing")) == "plan: hotel executing\n"
        assert seen.live() == ""


def test_where_nothing_can_be_redrawn_each_change_is_a_line():
    seen = Seen(redraws=False)
    assert seen.feed(begin(TRIP), move("flight", "executing")) == "told\nplan: flight executing\n"
    assert seen.live() == ""


def test_a_subagent_has_a_list_of_its_own():
    seen = Seen()
    seen.feed(begin(TRIP), SubAgentOutput("s-1", begin(TRIP)))
    lines = seen.live().splitlines()
    assert [line.partition("plan")[0] for line in (lines[0], lines[4])] == ["s-1 │ ", ""]
    assert len(lines) == 8
    seen.feed(Lagged(1))  # whose chunks were missed, nobody knows
    assert seen.live() == ""
