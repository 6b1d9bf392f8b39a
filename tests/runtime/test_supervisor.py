"""Supervisors: who is started again, in which order, how often, and when it is too often."""

import logging
from collections import Counter

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import ConfigurationError, SelfWaitError, SessionInUseError, TurnStatus
from greenroom.core._internal import EndStatus
from greenroom.resilience import Backoff
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeClosedError
from greenroom.runtime._internal import SupervisionError, SupervisorStatistics
from greenroom.session import AgentSession, InMemoryStore

STEADY = Backoff(first=1.0, factor=1.0, jitter=0)


def new():
    return AgentSession.new("worker")


class Lives:
    """Agents that count their lives, and do on the word what agents do."""

    def __init__(self):
        self.starts = {}
        self.started_at = []
        self.events = []

    async def agent(self, agent):
        name = agent.context.name
        self.starts[name] = self.starts.get(name, 0) + 1
        self.started_at.append(trio.current_time())
        self.events.append(f"start {name}")
        try:
            async for message in agent.inputs():
                async with agent.turn(message):
                    if message.text == "crash":
                        raise ValueError("broken")
                    if message.text == "return":
                        return
        finally:
            with agent.cleanup(1.0):
                await trio.sleep(0.1)
            self.events.append(f"stop {name}")

    def spawn(self, supervisor, name, restart="permanent"):
        return supervisor.spawn(new(), self.agent, restart=restart, name=name)

    def spawn_all(self, supervisor, names, restart="permanent"):
        return [self.spawn(supervisor, name, restart) for name in names]


@pytest.fixture
def lives():
    return Lives()


async def crash(handle, seconds=0.5):
    """Crash an agent and give its restart that much time beyond the back-off of a second."""
    await handle.ask("crash")
    await trio.sleep(1 + seconds)


@pytest.mark.parametrize(
    ("strategy", "counts"),
    [
        ("one_for_one", {"a": 1, "b": 2, "c": 1}),
        ("rest_for_one", {"a": 1, "b": 2, "c": 2}),
        ("one_for_all", {"a": 2, "b": 2, "c": 2}),
    ],
)
async def test_the_strategy_says_who_is_started_again(runtime, lives, strategy, counts):
    supervisor = runtime.supervisor(strategy, backoff=STEADY)
    handles = lives.spawn_all(supervisor, "abc")
    await crash(handles[1])
    assert lives.starts == counts
    assert [child.restarts for child in supervisor.children] == [n - 1 for n in counts.values()]
    for handle in handles:
        assert (await handle.ask("hello")).status is TurnStatus.COMPLETED


async def test_a_group_is_stopped_in_reverse_order_and_started_in_order(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    handles = lives.spawn_all(supervisor, "abcd")
    await wait_all_tasks_blocked()
    lives.events.clear()
    await crash(handles[1], 5)
    assert lives.events == [
        *["stop b", "stop d", "stop c", "stop a"],
        *["start a", "start b", "start c", "start d"],
    ]


async def test_a_group_waits_for_one_of_it_that_shields_itself(runtime, lives):
    async def stubborn(agent):
        with trio.CancelScope(shield=True):
            await trio.sleep(1000)

    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    handle = lives.spawn(supervisor, "a")
    supervisor.spawn(new(), stubborn, name="b", restart="permanent")
    await wait_all_tasks_blocked()
    await crash(handle, 900)
    assert lives.starts == {"a": 1}
    await trio.sleep(110)
    assert lives.starts == {"a": 2}


async def test_a_group_waits_for_its_back_off_once(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    handles = lives.spawn_all(supervisor, "abc")
    await wait_all_tasks_blocked()
    crashed_at = trio.current_time()
    await crash(handles[0], 5)
    # Three stops with a clean-up of 0.1 s each, then one back-off.
    delays = [moment - crashed_at for moment in lives.started_at[3:]]
    assert delays == pytest.approx([1.3] * 3)


@pytest.mark.parametrize(
    ("restart", "word", "starts", "status"),
    [
        ("permanent", "crash", 2, EndStatus.COMPLETED),
        ("permanent", "return", 2, EndStatus.COMPLETED),
        ("transient", "crash", 2, EndStatus.COMPLETED),
        ("transient", "return", 1, EndStatus.COMPLETED),
        ("temporary", "crash", 1, EndStatus.CRASHED),
        ("temporary", "return", 1, EndStatus.COMPLETED),
    ],
)
async def test_the_restart_type_says_after_which_end(runtime, lives, restart, word, starts, status):
    supervisor = runtime.supervisor(backoff=STEADY)
    handle = lives.spawn(supervisor, "a", restart)
    await handle.ask(word)
    await trio.sleep(2)
    assert lives.starts == {"a": starts}
    await handle.shutdown()
    outcome = await handle.wait()
    assert (outcome.status, outcome.restarts) == (status, starts - 1)
    assert supervisor.children == ()


async def test_agents_are_temporary_unless_told_otherwise(runtime, lives):
    supervisor = runtime.supervisor()
    handle = supervisor.spawn(new(), lives.agent)
    assert supervisor.children[0].restart == "temporary"
    await handle.ask("crash")
    assert (await handle.wait()).status is EndStatus.CRASHED


@pytest.mark.parametrize("end", ["shutdown", "kill"])
async def test_an_agent_that_is_ended_from_outside_is_not_started_again(runtime, lives, end):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    a, _b = lives.spawn_all(supervisor, "ab")
    await wait_all_tasks_blocked()
    if end == "kill":
        a.kill()
    else:
        await a.shutdown()
    assert (await a.wait()).restarts == 0
    await trio.sleep(3)
    assert lives.starts == {"a": 1, "b": 1}


async def test_a_temporary_child_that_is_stopped_with_its_group_ends(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    a = lives.spawn(supervisor, "a", "temporary")
    b = lives.spawn(supervisor, "b")
    await crash(b)
    outcome = await a.wait()
    assert outcome.status is EndStatus.CANCELLED
    assert isinstance(outcome.error, SupervisionError)
    assert "b crashed" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, ValueError)
    assert lives.starts == {"a": 1, "b": 2}


async def test_a_child_that_has_ended_for_good_is_no_longer_in_the_group(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    a = lives.spawn(supervisor, "a", "transient")
    b = lives.spawn(supervisor, "b")
    await a.ask("return")
    await crash(b)
    assert lives.starts == {"a": 1, "b": 2}


async def test_two_crashes_at_once_are_one_restart_of_the_group(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    a, _b, c = lives.spawn_all(supervisor, "abc")
    a.send_input_nowait("crash")
    c.send_input_nowait("crash")
    await trio.sleep(3)
    assert lives.starts == {"a": 2, "b": 2, "c": 2}
    assert supervisor.statistics().restarts == 1


async def test_a_crash_during_the_restart_of_a_later_group_is_seen_to_after_it(runtime, lives):
    supervisor = runtime.supervisor("rest_for_one", backoff=STEADY)
    a, b, _c = lives.spawn_all(supervisor, "abc")
    await b.ask("crash")
    await trio.sleep(0.5)
    await a.ask("crash")
    await trio.sleep(4)
    assert lives.starts == {"a": 2, "b": 3, "c": 3}


async def test_a_child_that_crashes_as_soon_as_it_is_started_restarts_its_group_again(runtime):
    starts = []

    async def fragile(agent, crashes):
        starts.append(agent.context.name)
        if len([name for name in starts if name == agent.context.name]) <= crashes:
            raise ValueError("not yet")
        async for _ in agent.inputs():
            pass

    supervisor = runtime.supervisor("one_for_all", intensity=5, backoff=STEADY)
    supervisor.spawn(new(), fragile, 0, restart="permanent", name="a")
    supervisor.spawn(new(), fragile, 3, restart="permanent", name="b")
    await trio.sleep(10)
    assert starts[2:] == ["a", "b"] * 3
    assert sorted(starts[:2]) == ["a", "b"]
    assert [child.state for child in supervisor.children] == ["running", "running"]


async def test_a_child_that_is_spawned_during_a_group_s_restart_lives_on(runtime, lives):
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    (a,) = lives.spawn_all(supervisor, "a")
    await a.ask("crash")
    await trio.sleep(0.5)
    assert supervisor.children[0].state == "restarting"
    b = lives.spawn(supervisor, "b")
    await trio.sleep(2)
    assert lives.starts == {"a": 2, "b": 1}
    await crash(b)
    assert lives.starts == {"a": 3, "b": 2}


async def test_the_delays_of_one_for_one_run_side_by_side(runtime, lives):
    supervisor = runtime.supervisor(intensity=100, backoff=STEADY)
    handles = lives.spawn_all(supervisor, "abcdefgh")
    for handle in handles:
        handle.send_input_nowait("crash")
    await trio.sleep(1.2)
    assert set(lives.starts.values()) == {2}


async def test_one_crash_more_than_the_intensity_and_it_gives_up(runtime, lives, caplog):
    neighbour = runtime.spawn(new(), lives.agent, name="neighbour")
    supervisor = runtime.supervisor(intensity=3, period=60, backoff=STEADY, name="team")
    a, b = lives.spawn_all(supervisor, "ab")
    for _ in range(4):
        await crash(a)
    outcome = await supervisor.wait()
    assert (outcome.status, outcome.restarts) == (EndStatus.CRASHED, 3)
    assert "team gave up" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, ValueError)
    assert "team gave up" in caplog.text
    first, second = await a.wait(), await b.wait()
    assert (first.status, str(first.error), first.restarts) == (EndStatus.CRASHED, "broken", 3)
    assert (second.status, second.error, second.restarts) == (EndStatus.CANCELLED, outcome.error, 0)
    assert lives.starts == {"neighbour": 1, "a": 4, "b": 1}
    assert (await neighbour.ask("hello")).status is TurnStatus.COMPLETED


async def test_the_window_slides(runtime, lives):
    supervisor = runtime.supervisor(intensity=2, period=5, backoff=STEADY)
    handle = lives.spawn(supervisor, "a")
    for _ in range(12):
        await crash(handle, 3)
    assert lives.starts == {"a": 13}
    assert supervisor.statistics().recent <= 2


async def test_an_intensity_of_nothing_gives_up_at_the_first_crash(runtime, lives):
    supervisor = runtime.supervisor(intensity=0)
    await lives.spawn(supervisor, "a").ask("crash")
    assert (await supervisor.wait()).status is EndStatus.CRASHED
    assert lives.starts == {"a": 1}


async def test_the_back_off_grows_with_each_restart_of_the_same_child(runtime, lives):
    backoff = Backoff(first=1.0, factor=2.0, jitter=0)
    supervisor = runtime.supervisor(intensity=10, period=100, backoff=backoff)
    a, b = lives.spawn_all(supervisor, "ab")
    delays = []
    for handle in (a, a, a, b):
        await wait_all_tasks_blocked()
        crashed_at = trio.current_time()
        await crash(handle, 5)
        delays.append(lives.started_at[-1] - crashed_at)
    # Each life ends with a clean-up of 0.1 s.
    assert delays == pytest.approx([1.1, 2.1, 4.1, 1.1])


async def test_a_supervisor_that_gives_up_is_a_crash_in_the_one_above_it(runtime, lives):
    top = runtime.supervisor("rest_for_one", intensity=1, period=60, backoff=STEADY, name="top")
    before = lives.spawn(top, "before")
    below = top.supervisor(intensity=1, period=60, backoff=STEADY, name="below")
    a, b = lives.spawn_all(below, "ab")
    after = lives.spawn(top, "after")
    await crash(a)
    assert lives.starts == {"before": 1, "a": 2, "b": 1, "after": 1}
    await crash(a)
    assert lives.starts == {"before": 1, "a": 3, "b": 2, "after": 2}
    assert [child.restarts for child in top.children] == [0, 1, 1]
    assert below.children[0].restarts == 2
    # The one below has begun anew, and may restart again; the one above is at its limit.
    await crash(b)
    assert lives.starts == {"before": 1, "a": 3, "b": 3, "after": 2}
    await crash(b)
    assert (await top.wait()).status is EndStatus.CRASHED
    inner = await below.wait()
    assert inner.status is EndStatus.CRASHED
    assert inner.restarts == 2
    assert (await top.wait()).error.__cause__ is inner.error
    ends = [(await handle.wait()).status for handle in (before, a, b, after)]
    assert ends == [EndStatus.CANCELLED] * 2 + [EndStatus.CRASHED, EndStatus.CANCELLED]


async def test_a_temporary_supervisor_that_gives_up_ends_alone(runtime, lives):
    top = runtime.supervisor("one_for_all", backoff=STEADY)
    other = lives.spawn(top, "other")
    below = top.supervisor(restart="temporary", intensity=0)
    await lives.spawn(below, "a").ask("crash")
    assert (await below.wait()).status is EndStatus.CRASHED
    assert [child.name for child in top.children] == ["other"]
    assert (await other.ask("hello")).status is TurnStatus.COMPLETED


async def test_a_group_takes_the_supervisors_in_it_along(runtime, lives):
    top = runtime.supervisor("one_for_all", backoff=STEADY)
    a = lives.spawn(top, "a")
    below = top.supervisor("rest_for_one", backoff=STEADY)
    lives.spawn_all(below, "bc")
    deeper = below.supervisor(backoff=STEADY)
    lives.spawn(deeper, "d")
    await wait_all_tasks_blocked()
    lives.events.clear()
    await crash(a, 5)
    assert lives.starts == dict.fromkeys("abcd", 2)
    assert lives.events == [
        *["stop a", "stop d", "stop c", "stop b"],
        *["start a", "start b", "start c", "start d"],
    ]


async def test_a_crash_while_a_supervisor_starts_its_children_again_waits_until_all_are(runtime):
    starts = Counter()

    async def fragile(agent, bad_lives):
        starts[agent.context.name] += 1
        if starts[agent.context.name] in bad_lives:
            raise ValueError("broken")
        await trio.sleep_forever()

    top = runtime.supervisor(backoff=STEADY)
    below = top.supervisor("one_for_all", intensity=1, period=60, backoff=STEADY)
    for name, bad_lives in (("a", [1, 2, 3]), ("b", []), ("c", [])):
        below.spawn(new(), fragile, bad_lives, restart="permanent", name=name)
    await trio.sleep(10)
    # The third crash is the first of a supervisor that has begun anew: it restarts the whole group.
    assert starts == {"a": 4, "b": 4, "c": 4}
    assert [child.restarts for child in top.children] == [1]


async def test_a_supervisor_that_is_being_restarted_takes_no_children(runtime, lives):
    top = runtime.supervisor(backoff=STEADY)
    below = top.supervisor(intensity=0, name="below")
    await lives.spawn(below, "a").ask("crash")
    await trio.sleep(0.5)
    with pytest.raises(SupervisionError, match="below takes no children"):
        lives.spawn(below, "b")
    with pytest.raises(SupervisionError):
        below.supervisor()
    await trio.sleep(1)
    lives.spawn(below, "b")
    await wait_all_tasks_blocked()
    assert lives.starts == {"a": 2, "b": 1}


async def test_the_children_of_an_agent_s_supervisor_are_its_subagents(runtime, lives):
    made = []

    async def parent(agent):
        supervisor = agent.supervisor(backoff=STEADY)
        made.append(supervisor)
        made.append(lives.spawn(supervisor, "child"))
        async for message in agent.inputs():
            async with agent.turn(message):
                await made[1].ask(message.text)

    handle = runtime.spawn(new(), parent)
    await handle.ask("crash")
    await trio.sleep(2)
    assert lives.starts == {"child": 2}
    assert await handle.children() == (made[1].session_id,)
    await handle.shutdown()
    assert (await made[0].wait()).status is EndStatus.CANCELLED
    assert (await made[1].wait()).restarts == 1
    with pytest.raises(SupervisionError):
        lives.spawn(made[0], "late")


async def test_an_agent_whose_supervisor_gives_up_crashes_and_may_itself_be_restarted(
    runtime, lives
):
    starts = []

    async def parent(agent):
        starts.append(agent.context.name)
        supervisor = agent.supervisor(intensity=0, name="inner")
        lives.spawn(supervisor, "child")
        async for _ in agent.inputs():
            pass

    top = runtime.supervisor(backoff=STEADY)
    handle = top.spawn(new(), parent, restart="transient", name="parent")
    await wait_all_tasks_blocked()
    (child,) = await handle.children()
    await runtime.get(child).ask("crash")
    await trio.sleep(2)
    assert (starts, lives.starts) == (["parent"] * 2, {"child": 2})
    child = (await handle.children())[-1]
    await runtime.get(child).ask("crash")
    await trio.sleep(0.5)
    await handle.shutdown()
    outcome = await handle.wait()
    assert outcome.status is EndStatus.CRASHED
    assert isinstance(outcome.error, SupervisionError)
    assert isinstance(outcome.error.__cause__, ValueError)


async def test_an_agent_that_has_returned_supervises_no_more(runtime):
    kept = []

    async def parent(agent):
        kept.append(agent)

    await runtime.spawn(new(), parent).wait()
    with pytest.raises(AgentNotRunningError):
        kept[0].supervisor()


async def test_a_supervisor_shows_its_children_in_order(runtime, lives):
    supervisor = runtime.supervisor("rest_for_one", name="team", backoff=STEADY)
    a = lives.spawn(supervisor, "a", "transient")
    below = supervisor.supervisor(name="below")
    first, second = supervisor.children
    assert (first.name, first.session_id, first.restart) == ("a", a.session_id, "transient")
    assert (first.state, first.supervisor) == ("running", None)
    assert (second.name, second.session_id, second.restart) == ("below", "", "permanent")
    assert second.supervisor.name == below.name
    assert repr(supervisor) == "<Supervisor 'team', rest_for_one, 2 children>"
    assert supervisor.strategy == "rest_for_one"
    await a.ask("crash")
    await trio.sleep(0.5)
    assert supervisor.statistics() == SupervisorStatistics(2, 2, 1, 1)


async def test_supervisors_are_forgotten_when_they_have_ended(runtime):
    supervisor = runtime.supervisor()
    assert [each.name for each in runtime.supervisors] == ["supervisor"]
    await supervisor.shutdown()
    assert runtime.supervisors == ()


async def test_what_can_t_be_is_refused(runtime, lives):
    for wrong in (
        lambda: runtime.supervisor("one_for_two"),
        lambda: runtime.supervisor(intensity=-1),
        lambda: runtime.supervisor(period=0),
        lambda: runtime.supervisor().spawn(new(), lives.agent, restart="sometimes"),
        lambda: runtime.supervisor().supervisor(restart="never"),
    ):
        with pytest.raises(ConfigurationError):
            wrong()
    supervisor = runtime.supervisor()
    with pytest.raises(TypeError):
        supervisor.spawn(new(), lambda agent: None)
    session = new()
    supervisor.spawn(session, lives.agent)
    with pytest.raises(SessionInUseError):
        supervisor.spawn(session, lives.agent)
    assert len(supervisor.children) == 1
    with pytest.raises(RuntimeClosedError):
        AgentRuntime(store=InMemoryStore()).supervisor()


async def test_an_agent_can_not_wait_for_a_supervisor_above_it(runtime):
    refused = []

    async def agent(agent, supervisors):
        for supervisor in supervisors:
            for wait in (supervisor.wait, supervisor.shutdown):
                with pytest.raises(SelfWaitError):
                    await wait()
                refused.append(supervisor.name)

    top = runtime.supervisor(name="top")
    below = top.supervisor(name="below")
    await below.spawn(new(), agent, [top, below]).wait(check=True)
    assert refused == ["top", "top", "below", "below"]


async def test_every_crash_is_in_the_log_with_the_agent_s_path(runtime, lives, caplog):
    caplog.set_level(logging.WARNING)
    supervisor = runtime.supervisor("one_for_all", backoff=STEADY)
    a, _ = lives.spawn_all(supervisor, "ab")
    await crash(a)
    assert "the agent a starts again in 1 s" in caplog.text
    assert "ValueError: broken" in caplog.text
    assert "the agent b starts again in 1 s: a crashed" in caplog.text


async def test_seconds_in_place_of_a_back_off_are_refused_before_anything_crashes(runtime):
    with pytest.raises(
        ConfigurationError, match=r"0\.1 is not a Backoff \(write .*Backoff\(first="
    ):
        runtime.supervisor(backoff=0.1)


async def test_a_supervisor_of_a_runtime_that_was_left_takes_no_children(lives):
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        supervisor = runtime.supervisor(name="team")
    with pytest.raises(SupervisionError, match="team takes no children: it has ended"):
        lives.spawn(supervisor, "a")
