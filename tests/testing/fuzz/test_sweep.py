"""The sweep itself: it goes everywhere, says how to see a finding again, and ends."""

from importlib import import_module

import pytest
import trio
from trio.testing import MockClock

from greenroom.core import (
    ConfigurationError,
    Exited,
    Message,
    SubAgentOutput,
    TextDelta,
    TurnStatus,
)
from greenroom.core._internal import new_id
from greenroom.session import AgentSession, FileStore
from greenroom.testing.fuzz import (
    INVARIANTS,
    MODES,
    FuzzError,
    FuzzReport,
    Scenario,
    Violation,
    cancel_at_every_checkpoint,
    checkpoints,
    scenario as stage,
    sweep,
)
from greenroom.testing.fuzz.evidence import streams_of
from greenroom.testing.fuzz.sweep import repeatable
from tests.conftest import few, take_sample


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep(1)
            agent.session.add_message(Message.assistant(message.text))


def echoing():
    return Scenario(echo, inputs=["one", "two"], probe="still there?")


def fuzz(scenario=echoing, **options):
    return cancel_at_every_checkpoint(scenario, **options)


def test_every_mode_is_tried_at_every_checkpoint():
    modes = take_sample(MODES, 3)
    report = fuzz(lambda: Scenario(echo, inputs="one"), modes=modes)
    assert report.checkpoints > 20
    assert report.cancels == dict.fromkeys(modes, report.checkpoints)
    assert report.violations == ()


def test_a_cancel_comes_both_when_a_task_waits_and_when_it_is_about_to_go_on():
    trials = []
    fuzz(modes=["interrupt"], invariants=[trials.append])
    sleeping = [
        trial for trial in trials if "test_sweep.py" in trial.where and "echo" in trial.where
    ]
    sides = {trial.where.split(" in ")[0] for trial in sleeping}
    assert sides == {"agent fuzzed, waiting", "agent fuzzed, about to go on"}
    assert all(trial.probe.status is TurnStatus.COMPLETED for trial in trials)
    disturbed = [trial.checkpoint for trial in trials if trial.mode]
    assert disturbed == list(range(1, len(disturbed) + 1))


def test_fewer_cancels_are_spread_over_modes_and_checkpoints():
    seen = []
    report = fuzz(
        at_most=23, invariants=[lambda trial: seen.append((trial.mode, trial.checkpoint))]
    )
    assert sum(report.cancels.values()) == 23
    assert sorted(report.cancels.values()) == [4, 4, 5, 5, 5]
    places = sorted(place for _, place in seen[1:])
    assert len(set(places)) > 10
    assert places[-1] > report.checkpoints * 0.7
    assert sum(fuzz(at_most=3).cancels.values()) == 3


def test_only_these_checkpoints_and_modes():
    report = fuzz(modes=["kill"], at=[3, 5, 10_000])
    assert report.cancels == {"kill": 2}


def only_if_killed(trial):
    assert trial.mode != "kill" or "echo" not in trial.where, "it was killed while it slept"


def test_a_violation_says_where_it_was_and_how_to_see_it_again():
    with pytest.raises(FuzzError) as found:
        fuzz(
            modes=["interrupt", "kill"],
            invariants=[*INVARIANTS, only_if_killed],
            seed=7,
            at_most=few(100),
        )
    first = found.value.report.violations[0]
    assert (first.mode, first.invariant, first.seed) == ("kill", "only_if_killed", 7)
    text = str(found.value)
    assert "only_if_killed: it was killed while it slept\n    kill at agent fuzzed, " in text
    assert "test_sweep.py:" in first.where
    assert f"again: modes=['kill'], at=[{first.checkpoint}], seed=7" in text
    with pytest.raises(FuzzError) as again:
        fuzz(
            invariants=[*INVARIANTS, only_if_killed],
            modes=["kill"],
            at=[first.checkpoint],
            seed=7,
        )
    assert again.value.report.violations == (first,)


def test_what_is_broken_without_any_cancel_is_said_first_and_alone():
    def never(trial):
        raise AssertionError("no")

    with pytest.raises(FuzzError, match=r"never: no\n    without any cancel") as found:
        fuzz(invariants=[never])
    assert found.value.report.cancels == {}


def test_it_stops_when_enough_is_found(monkeypatch):
    monkeypatch.setattr(sweep, "_MAX_VIOLATIONS", 3)

    def undisturbed(trial):
        assert trial.mode is None

    with pytest.raises(FuzzError, match="3 violations") as found:
        fuzz(invariants=[undisturbed])
    assert found.value.report.cancels == {"interrupt": 3}


def test_a_report_shows_ten_and_counts_the_rest():
    violations = [
        Violation("kill", 1, "agent a", "an_invariant", f"broken {n}", 0) for n in range(12)
    ]
    text = str(FuzzReport(9, {"kill": 14}, (*violations, *violations[:2])))
    assert text.count("an_invariant: broken") == 10
    assert text.count("and 1 more like it") == 2
    assert text.endswith("and 2 others")
    assert str(FuzzReport(9)) == "0 violations, 9 checkpoints; cancels tried: none"


def test_a_crash_of_the_agent_is_a_violation():
    async def crash(agent):
        raise ZeroDivisionError("a bug")

    with pytest.raises(FuzzError, match="the agent crashed: ZeroDivisionError: a bug"):
        fuzz(lambda: Scenario(crash, inputs="one"))


def test_who_hangs_is_named_and_the_sweep_goes_on():
    async def forgetful(handle):
        await trio.sleep_forever()

    with pytest.raises(FuzzError, match="never returned: leaving the runtime, wait, the person"):
        fuzz(lambda: Scenario(echo, person=forgetful))


def test_an_agent_that_runs_in_a_circle_is_given_up(monkeypatch):
    monkeypatch.setattr(checkpoints, "_MAX_CHECKPOINTS", 1000)

    async def circle(agent):
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(FuzzError, match="never returned"):
        fuzz(lambda: Scenario(circle, inputs="one"))


def test_what_the_person_finds_wrong_fails_the_test_as_it_is():
    async def strict(handle):
        raise ValueError("not what I ordered")

    with pytest.raises(ExceptionGroup) as found:
        fuzz(lambda: Scenario(echo, person=strict))
    assert found.group_contains(ValueError, match="ordered")


def test_a_mistake_of_the_kit_itself_is_not_swallowed(monkeypatch):
    def broken(self):
        raise ZeroDivisionError("our bug")

    monkeypatch.setattr(stage._ScenarioRun, "_disturb", broken)
    with pytest.raises(ZeroDivisionError, match="our bug"):
        fuzz()


def test_in_real_time_threads_and_files_may_work(tmp_path):
    store = FileStore(tmp_path)

    async def reader(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.to_thread.run_sync(lambda: None)
                agent.session.add_message(Message.assistant("read"))

    report = fuzz(lambda: Scenario(reader, inputs="one", store=store), real_time=True, at_most=5)
    assert sum(report.cancels.values()) == 5


def test_a_seed_gives_the_order_of_tasks_and_the_ids():
    async def shuffled():
        order = []

        async def note(number):
            for _ in range(3):
                order.append(number)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(note, number)
        return order, new_id("x")

    def run(seed):
        with repeatable(seed):
            return trio.run(shuffled, clock=MockClock(autojump_threshold=0))

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert trio.run(shuffled)[1] != trio.run(shuffled)[1]


def test_the_schedule_is_let_alone_outside_and_in_a_trio_without_the_switch(monkeypatch):
    run = import_module("trio._core._run")
    before = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r.getstate()
    with repeatable(1):
        assert run._ALLOW_DETERMINISTIC_SCHEDULING
    assert (run._ALLOW_DETERMINISTIC_SCHEDULING, run._r.getstate()) == before
    monkeypatch.delattr(run, "_ALLOW_DETERMINISTIC_SCHEDULING")
    with repeatable(1):
        made = new_id("x")
    assert not hasattr(run, "_ALLOW_DETERMINISTIC_SCHEDULING")
    with repeatable(1):
        assert new_id("x") == made
    with repeatable(1, "another run"):
        assert new_id("x") != made


def test_chunks_of_subagents_are_told_apart_at_any_depth():
    deep = SubAgentOutput("child", SubAgentOutput("grandchild", TextDelta("deep")))
    chunks = [TextDelta("own"), SubAgentOutput("child", TextDelta("below")), deep]
    assert streams_of("root", chunks) == {
        "root": (TextDelta("own"),),
        "child": (TextDelta("below"),),
        "grandchild": (TextDelta("deep"),),
    }


def test_what_a_subagent_stored_and_said_is_evidence_too():
    async def parent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                child = agent.spawn(AgentSession.new("child"), echo)
                await child.ask(message.text)
                await child.shutdown()

    seen = []
    fuzz(lambda: Scenario(parent, inputs="one"), modes=[], invariants=[seen.append])
    trial = seen[0]
    below = [key for key in trial.streams if key != trial.session_id]
    assert len(below) == 2  # one for the input, one for the probe
    assert all(isinstance(trial.streams[key][-1], Exited) for key in below)
    assert [m.text for m in trial.stored_histories[below[0]]] == ["one", "one"]


def test_a_misspelt_mode_does_not_pass_for_a_sweep_that_found_nothing():
    with pytest.raises(
        ConfigurationError, match=r"'kil' is not one of the modes interrupt, .*kill"
    ):
        fuzz(modes=["interrupt", "kil"])


def test_a_scenario_in_place_of_the_function_that_makes_it_is_refused():
    with pytest.raises(ConfigurationError, match=r"each run .* \(give the function that makes it"):
        fuzz(echoing())
