"""An evaluation: each run is a row, whatever happens in it, and two of them can be compared."""

from functools import partial

import pytest
import trio

from greenroom import Agent, Budget, RunContext, ToolUseBlock, TurnStart
from greenroom.core import ConfigurationError, TextBlock, ToolResultBlock
from greenroom.flow import pipeline
from greenroom.testing import Case, Evaluation, Reply, ScriptedProvider, call, evaluate
from greenroom.testing._internal import EvaluationRow

ANSWERS = {"2 + 2": "4", "3 + 3": "7", "long": "12345"}


def answer(request):
    return ANSWERS[request.messages[-1].text]


def agent(step=answer, times=20, **named):
    return Agent(ScriptedProvider(*[step] * times), **named)


def exact(case, result):
    return result.output == case.expected


async def brief(case, result):
    await trio.lowlevel.checkpoint()
    return 1 / len(result.output)


class Exact:
    def __call__(self, case, result):
        return exact(case, result)


CASES = [Case("2 + 2", "sum", "4"), Case("3 + 3", expected="6"), Case("long")]


async def test_each_run_is_a_row_in_the_order_of_the_cases():
    found = await evaluate(agent(), CASES, [exact, brief], repeat=2)
    assert [(row.case, row.number) for row in found.rows] == [
        ("sum", 1),
        ("sum", 2),
        ("3 + 3", 1),
        ("3 + 3", 2),
        ("long", 1),
        ("long", 2),
    ]
    assert found.rows[0].scores == {"exact": True, "brief": 1.0}
    assert found.rows[4].scores == {"exact": False, "brief": 0.2}
    assert [row.passed for row in found.rows] == [True, True, False, False, False, False]
    assert not found.passed
    assert (found.rows[0].text, found.rows[0].steps) == ("4", 1)
    assert found.rows[0].messages[-1].text == "4"
    assert found.table().splitlines() == [
        "case   passed  exact  brief",
        "sum       2/2   1.00   1.00",
        "3 + 3     0/2   0.00   1.00",
        "long      0/2   0.00   0.20",
        "all       2/6   0.33   0.73",
    ]


async def test_a_score_fails_nothing_and_without_checks_an_answer_is_enough():
    assert (await evaluate(agent(), CASES, [brief])).passed
    assert (await evaluate(agent(), CASES)).passed


async def test_errors_of_the_agent_are_rows():
    def fail(request):
        raise {"bug": ValueError("a bug"), "two": KeyError("2")}[request.messages[-1].text]

    cases = [Case("bug"), Case("2 + 2"), Case("two")]
    steps = [lambda request: answer(request) if "+" in request.messages[-1].text else fail(request)]
    found = await evaluate(agent(*steps), cases, [exact], concurrency=1)
    assert [row.error for row in found.rows] == ["ValueError: a bug", "", "KeyError: '2'"]
    used_up = await evaluate(Agent(ScriptedProvider()), [Case("more")], [exact])
    [row] = used_up.rows
    assert row.error.startswith("GreenroomError: the script of scripted is used up")
    assert row.scores == {}
    assert row.is_finished
    assert used_up.table().splitlines() == [
        "case  passed",
        "more     0/1",
        f"more, run 1: {row.error}",
    ]


async def test_errors_of_checks_are_in_the_row_and_the_others_are_asked():
    def nothing(case, result):
        pass

    async def endless(case, result):
        return float("inf")

    def raises(case, result):
        raise ValueError("no\nline")

    [row] = (await evaluate(agent(), CASES[:1], [nothing, endless, raises, exact])).rows
    assert row.error == (
        "nothing: TypeError: it returned None, which is neither True, False nor a number; "
        "endless: ValueError: it returned inf; raises: ValueError: no line"
    )
    assert row.scores == {"exact": True}
    assert not row.passed


async def test_an_interrupt_of_a_run_is_a_row():
    async def run(case):
        async with agent(Reply("4", seconds=9)).stream(case.input) as run:
            async for chunk in run:
                if isinstance(chunk, TurnStart):
                    await run.handle.interrupt()
        return run.result

    [row] = (await evaluate(run, CASES[:1], [exact])).rows
    assert (row.error, row.is_finished, row.passed) == ("the run is interrupted", True, False)


async def test_no_more_runs_at_once_than_are_allowed(autojump_clock):
    running, most = 0, 0

    async def run(case):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return await agent().run(case.input)

    start = trio.current_time()
    found = await evaluate(run, CASES, repeat=3, concurrency=4)
    assert (most, trio.current_time() - start) == (4, 3)
    assert {row.seconds for row in found.rows} == {1}


async def test_when_a_budget_is_spent_no_other_run_begins():
    llm = ScriptedProvider(*[answer] * 3)
    found = await evaluate(Agent(llm), CASES, [exact], concurrency=1, budget=Budget(model_calls=2))
    assert [row.is_finished for row in found.rows] == [True, True, False]
    assert found.rows[2].error == "the budget is spent: 2 model calls"
    assert len(llm.requests) == 2
    assert not found.passed


async def test_the_end_of_the_time_ends_runs_and_checks(autojump_clock):
    async def slow(case, result):
        if case.name == "sum":
            await trio.sleep_forever()
        return True

    slow_agent = agent(lambda request: Reply("4", seconds=50 if "+ 3" in str(request) else 1))
    budget = Budget(seconds=10)
    found = await evaluate(slow_agent, CASES, [slow, exact], concurrency=2, budget=budget)
    assert trio.current_time() < 11
    assert [row.is_finished for row in found.rows] == [False, False, False]
    assert found.rows[0].error == "the budget is spent: 10 seconds"  # in a check
    assert "10 seconds" in found.rows[1].error  # in the run
    assert found.rows[2].steps == 0  # not begun


async def test_an_agent_that_spends_its_own_budget_has_failed():
    [row] = (
        await evaluate(
            agent(call("no"), budget=Budget(model_calls=1)),
            [Case("x")],
            budget=Budget(tokens=10**6),
        )
    ).rows
    assert "budget" in row.error
    assert row.is_finished


async def test_cancelled_it_leaves_nothing_running(autojump_clock):
    ended = []

    async def run(case):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(case.input)

    with trio.move_on_after(1) as scope:
        await evaluate(run, CASES, concurrency=2)
    assert scope.cancelled_caught
    assert sorted(ended) == ["2 + 2", "3 + 3"]


async def test_ended_early_each_row_that_was_there_has_been_given_away(autojump_clock):
    rows = []

    slow = {"2 + 2": 2, "3 + 3": 1, "long": 100}

    async def run(case):
        await trio.sleep(slow[case.input])
        return await agent().run(case.input)

    with trio.move_on_after(10) as scope:
        await evaluate(run, CASES, [exact], on_row=rows.append)
    assert scope.cancelled_caught
    assert [(row.case, row.passed) for row in rows] == [("3 + 3", False), ("sum", True)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
async def test_what_ends_it_from_within_comes_out_as_it_is(error):
    rows = []

    def note(row):
        rows.append(row)
        if len(rows) == 2:
            raise error

    with pytest.raises(error):
        await evaluate(agent(), CASES, concurrency=2, on_row=note)
    assert len(rows) == 2


async def test_a_function_gives_each_case_what_its_agent_needs():
    def stock(context: RunContext[dict[str, int]]) -> int:
        """Say how many there are."""
        return context.deps["lamps"]

    def told(request):
        return f"{request.messages[-1].content[0].text} lamps"

    shop = Agent(ScriptedProvider(*[call("stock"), told] * 2), tools=[stock], deps_type=dict)
    found = await evaluate(
        lambda case: shop.run(case.input, deps={"lamps": case.expected}),
        [Case("How many?", "one", 1), Case("How many?", "two", 2)],
        [lambda case, result: result.output == f"{case.expected} lamps"],
        concurrency=1,
    )
    assert found.passed, found.table()
    assert list(found.rows[0].scores) == ["<lambda>"]
    assert isinstance(found.rows[0].messages[1].content[0], ToolUseBlock)
    assert isinstance(found.rows[0].messages[2].content[0], ToolResultBlock)


async def test_what_a_function_returns_has_to_be_a_result():
    async def forgot(case):
        await agent().run(case.input)

    [row] = (await evaluate(forgot, CASES[:1])).rows
    assert row.error == "TypeError: the function returned None, and not the result of a run"


async def test_a_team_is_evaluated_as_an_agent():
    team = pipeline(agent(), Agent(ScriptedProvider("four"), name="writer"))
    found = await evaluate(team, [Case([TextBlock("2 + 2")], expected="four")], [exact])
    assert found.passed, found.table()
    assert found.rows[0].case == "2 + 2"


async def test_inside_an_agent_the_runs_are_its_subagents():
    found = []

    async def try_out() -> str:
        """Try the other agent."""
        found.append(await evaluate(agent(), CASES, [exact], repeat=2))
        return "tried"

    outer = Agent(ScriptedProvider(call("try_out"), "done"), tools=[try_out])
    spent = Budget(model_calls=5)
    result = await outer.run("Go.", budget=spent)
    assert sum(row.steps for row in found[0].rows) + 1 >= 5  # under the caller's budget
    assert result.error is not None
    assert spent.remaining == {"model_calls": 0}


async def test_equal_names_are_numbered_and_long_ones_are_cut():
    cases = [Case("2 + 2"), Case("2 + 2"), Case("long", "2 + 2 2"), Case("long", "a " * 90)]
    found = await evaluate(agent(), cases, [exact, partial(exact), Exact()])
    assert list(found.rows[0].scores) == ["exact", "exact 2", "Exact"]
    names = [row.case for row in found.rows]
    assert names[:3] == ["2 + 2", "2 + 2 2", "2 + 2 2 2"]
    assert len(names[3]) <= 80


class Note:
    async def __call__(self, row):
        pass


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cases": []}, ConfigurationError),
        ({"cases": ["2 + 2"]}, TypeError),
        ({"cases": CASES[0]}, TypeError),
        ({"checks": ["exact"]}, TypeError),
        ({"checks": exact}, TypeError),
        ({"repeat": 0}, ConfigurationError),
        ({"concurrency": True}, ConfigurationError),
        ({"agent": "agent"}, TypeError),
        ({"on_row": trio.sleep}, ConfigurationError),
        ({"on_row": Note()}, ConfigurationError),
        ({"agent": agent().run, "budget": Budget(tokens=1)}, ConfigurationError),
    ],
)
async def test_arguments_are_refused_before_anything_runs(arguments, error):
    given = {"agent": agent(), "cases": CASES, "checks": [exact], **arguments}
    with pytest.raises(error):
        await evaluate(given.pop("agent"), given.pop("cases"), given.pop("checks"), **given)


def rows(case, *passed, **named):
    return [EvaluationRow(case, at, {"exact": each}, **named) for at, each in enumerate(passed, 1)]


def test_a_table_does_nothing_to_a_terminal_and_without_rows_nothing_has_passed():
    rows = EvaluationRow("\x1b[2J", error="\x1b]0;gone\x07"), EvaluationRow("a")
    assert not {"\x1b", "\x07"} & set(Evaluation(rows).table())
    assert not Evaluation(()).passed
    assert Evaluation(()).table() == "case  passed"


def test_a_later_one_is_compared_with_an_earlier_one():
    earlier = Evaluation((*rows("a", True, True), *rows("b", False), *rows("gone", True)))
    later = Evaluation((*rows("a", True, False), *rows("b", True), *rows("new", False)))
    assert later.regressions(earlier) == ("a",)
    assert earlier.regressions(later) == ("b",)
    assert later.table(earlier).splitlines() == [
        "case     passed        exact",
        "a     1/2 (2/2)  0.50 (1.00)",
        "b     1/1 (0/1)  1.00 (0.00)",
        "new         0/1         0.00",
        "all   2/4 (3/4)  0.50 (0.75)",
    ]
    unfinished = Evaluation((*rows("a", False, is_finished=False), *rows("b", True)))
    assert unfinished.regressions(earlier) == ()


async def test_it_is_saved_without_messages_and_read_again(tmp_path):
    found = await evaluate(agent(), CASES, [exact, brief])
    found.save(tmp_path / "evaluation.json")
    read = Evaluation.load(tmp_path / "evaluation.json")
    assert read.table(found) == found.table()
    assert read.rows[0].messages == ()
    assert read.rows[0].scores["exact"] is True
    assert read.rows[0].seconds == found.rows[0].seconds
    assert found.rows[0].messages


def test_a_file_of_a_newer_version_is_called_that_whatever_its_rows_are(tmp_path):
    path = tmp_path / "evaluation.json"
    path.write_text('{"format": 2, "rows": {"case": []}}')
    with pytest.raises(ConfigurationError, match="has format 2, and this version reads 1"):
        Evaluation.load(path)


@pytest.mark.parametrize("text", ['{"rows": []}', "[", '{"format": 2, "rows": []}'])
def test_a_file_that_is_no_evaluation_is_refused_by_its_name(tmp_path, text):
    path = tmp_path / "evaluation.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"evaluation\.json"):
        Evaluation.load(path)
