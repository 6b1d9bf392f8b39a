"""Committees: a quorum, a majority, a tie, and how members end."""

import msgspec
import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    RuntimeLimits,
)
from greenroom.core import TurnStatus
from greenroom.flow import (
    Opinion,
    TrackRecord,
    by_authority,
    committee,
    most_confident,
    pipeline,
    within,
)
from greenroom.flow._internal import Resolution
from greenroom.testing import Reply, Scenario, ScriptedProvider, cancel_at_every_checkpoint
from tests.conftest import few


def member(name, answer, confidence=None):
    if confidence is None:
        return Agent(ScriptedProvider(*[answer] * 50), name=name)
    opinion = msgspec.json.encode(Opinion(answer, confidence, "")).decode()
    return Agent(ScriptedProvider(*[opinion] * 50), name=name, output_type=Opinion)


async def ask(jury, limits=None):
    async with AgentRuntime(InMemoryStore(), limits) as runtime:
        handle = runtime.spawn(AgentSession.new("jury"), jury)
        result = await handle.ask("Tabs or spaces?")
        await handle.shutdown()
    return result


async def ask_jury(jury, **options):
    result = await ask(jury, **options)
    assert result.status is TurnStatus.COMPLETED, result.error
    return msgspec.convert(result.value, Resolution)


async def test_a_majority_decides_whatever_the_tie_rule_says():
    members = [member("ada", "tabs"), member("bob", "Spaces"), member("eve", "spaces.")]
    found = await ask_jury(committee(*members, quorum=2, tie=by_authority))
    assert found == Resolution("Spaces", "majority", ("bob", "eve"), ("ada",))


async def test_two_that_contradict_each_other_are_a_tie():
    members = [member("ada", "tabs", 0.4), member("bob", "spaces", 0.9)]
    first = await ask_jury(committee(*members, tie=by_authority))
    assert first == Resolution("tabs", "by_authority", ("ada",), ("bob",))
    surest = await ask_jury(committee(*members, tie=most_confident))
    assert surest == Resolution("spaces", "most_confident", ("bob",), ("ada",))
    result = await ask(committee(*members))
    assert result.status is TurnStatus.FAILED
    assert "- ada: tabs\n- bob: spaces" in result.error


async def test_a_member_that_fails_does_not_count_and_too_few_are_no_quorum():
    members = [member("ada", "tabs"), Agent(ScriptedProvider(), name="mute")]
    assert (await ask_jury(committee(*members, quorum=1))).agents == ("ada",)
    result = await ask(committee(*members))
    assert "1 of 2 agents answered, but the quorum is 2" in result.error
    assert "mute did not answer: its turn failed: the script of scripted" in result.error


async def test_members_wait_for_room(autojump_clock):
    alive = most = 0

    async def slow(agent):
        nonlocal alive, most
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                alive += 1
                most = max(most, alive)
                await trio.sleep(1)
                alive -= 1
                turn.set_result(42)

    def slow_member(number):
        async def same(agent):
            await slow(agent)

        same.__name__ = f"slow{number}"
        return same

    found = await ask_jury(
        committee(*map(slow_member, range(20))), limits=RuntimeLimits(subagents=3)
    )
    assert (found.value, len(found.agents), most) == (42, 20, 3)
    assert trio.current_time() == pytest.approx(7, abs=0.1)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ConfigurationError, match="at least one member"):
        committee()
    with pytest.raises(ConfigurationError, match="a quorum of 3"):
        committee(member("ada", ""), member("bob", ""), quorum=3)


def test_a_committee_may_be_cancelled_at_any_checkpoint():
    def scenario():
        members = [member("ada", "tabs"), member("bob", "spaces"), member("eve", "tabs")]
        return Scenario(committee(*members), inputs="Tabs or spaces?")

    assert cancel_at_every_checkpoint(scenario, at_most=few(15)).violations == ()


async def test_an_interrupt_ends_the_members(autojump_clock):
    hangs = Agent(ScriptedProvider(Reply("I", hangs=True)), name="hangs")
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("jury"), committee(member("ada", "tabs"), hangs))
        handle.send_input_nowait("Tabs or spaces?")
        await trio.sleep(1)
        report = await handle.interrupt()
        assert report.abandoned == ()
        assert (await handle.statistics()).subagents == 0


async def test_who_says_nothing_has_not_answered():
    jury = committee(member("ada", ""), member("bob", " "), member("eve", "tabs"), quorum=1)
    assert (await ask_jury(jury)).agents == ("eve",)
    result = await ask(committee(member("ada", ""), member("bob", "")))
    assert "0 of 2 agents answered" in result.error
    assert "ada gave an empty answer" in result.error


def test_a_capability_that_stands_alone_is_refused():
    with pytest.raises(ConfigurationError, match=r"write capabilities=\['style'\]"):
        committee(member("ada", "tabs"), capabilities="style")


def arbiter(*wrong, correction="the dates are those of another year"):
    ruling = msgspec.json.encode({"wrong": wrong, "correction": correction}).decode()
    return Agent(ScriptedProvider(*[ruling] * 50), name="arbiter")


def replies(name, *answers):
    return Agent(ScriptedProvider(*answers), name=name)


async def test_agents_explain_their_answers_and_the_wrong_one_answers_again():
    analyst = replies("analyst", "30", "All days since 1990.")
    chart = replies("chart", "15", "Days of 1990 only.", "30.2")
    judge = arbiter("chart")
    jury = committee(analyst, chart, tie=within(0.05), arbiter=judge)
    found = await ask_jury(jury)
    assert found.value == pytest.approx(30.1)
    assert (found.decided_by, found.corrected) == ("within", ("chart",))
    assert found.reason == "the dates are those of another year"
    seen = judge.llm.requests[0].messages[0].text
    assert seen.startswith("Tabs or spaces?")
    assert "- analyst: 30 (All days since 1990.)\n- chart: 15 (Days of 1990 only.)" in seen
    asked = chart.llm.requests[1].messages[0].text
    assert "You have answered this: 15" in asked
    assert "- analyst: 30" in asked
    corrected = chart.llm.requests[2].messages[0].text
    assert "It was found to be wrong: the dates are those of another year" in corrected
    assert len(analyst.llm.requests) == 2


async def test_an_arbiter_is_not_asked_where_something_else_decides():
    judge = arbiter("ada")
    members = member("ada", "30"), member("bob", "30.1")
    assert (await ask_jury(committee(*members, tie=within(0.05), arbiter=judge))).corrected == ()
    assert judge.llm.requests == []


async def test_who_stays_with_another_answer_or_an_arbiter_without_a_ruling_is_a_failure():
    members = member("ada", "tabs"), member("bob", "spaces")
    result = await ask(committee(*members, arbiter=arbiter("bob")))
    assert "2 agents disagree" in result.error
    result = await ask(committee(*members, arbiter=replies("judge", *["bob"] * 3)))
    assert "judge did not answer" in result.error
    assert "does not fit Ruling" in result.error
    result = await ask(committee(*members, arbiter=pipeline(member("judge", "bob"), name="judge")))
    assert "judge gave no ruling" in result.error


async def test_a_majority_that_is_not_sure_leaves_it_to_the_tie():
    members = [member("eve", "spaces", 0.9), member("ada", "tabs", 0.2), member("bob", "tabs", 0.4)]
    assert (await ask_jury(committee(*members, tie=by_authority))).value == "tabs"
    unsure = committee(*members, tie=by_authority, confidence=0.5)
    assert (await ask_jury(unsure)).value == "spaces"
    result = await ask(committee(*members, confidence=0.5))
    assert "disagree or are unsure" in result.error
    with pytest.raises(ConfigurationError, match="a confidence of 2"):
        committee(*members, confidence=2)


async def test_a_committee_learns_whom_to_believe():
    record = TrackRecord()
    members = [member("ada", "tabs"), member("bob", "spaces"), member("eve", "spaces")]
    await ask_jury(committee(*members, record=record))
    two = committee(*members[:2], tie=record, record=record)
    found = await ask_jury(two)
    assert (found.value, found.decided_by) == ("spaces", "track_record")
    assert (record.right["bob"], record.wrong["ada"]) == (1, 1)


def test_an_arbitration_may_be_cancelled_at_any_checkpoint():
    def scenario():
        def reply(request):
            return "tabs" if "found to be wrong" in request.messages[0].text else "spaces"

        members = member("ada", "tabs"), replies("bob", *[reply] * 50)
        jury = committee(*members, arbiter=arbiter("bob"))
        return Scenario(jury, inputs="Tabs or spaces?")

    assert cancel_at_every_checkpoint(scenario, at_most=few(15)).violations == ()


async def test_an_arbitration_that_was_cut_off_goes_on_where_it_was():
    store = InMemoryStore()
    analyst = replies("analyst", "30", "All days since 1990.")
    chart = replies("chart", "15", "Days of 1990 only.")  # and then it fails
    judge = arbiter("chart")
    first = committee(analyst, chart, tie=within(0.05), arbiter=judge)
    failed = await first.run(
        "The trend?", session=AgentSession.new("jury", session_id="s"), store=store
    )
    assert "the script of scripted is used up" in str(failed.error)
    again = committee(
        replies("analyst"), replies("chart", "30"), tie=within(0.05), arbiter=replies("arbiter")
    )
    found = await again.run(None, session="s", store=store)
    assert (found.output.value, found.output.corrected) == ("30", ("chart",))
