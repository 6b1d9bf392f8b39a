"""The scripted approver: it answers in order, for subagents too, and tells what was not written."""

import pytest
import trio

from greenroom.core import (
    Answer,
    ConfigurationError,
    PermissionResponse,
    RuleDecision,
    SubAgentOutput,
)
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedApprover, run_agent


def asks(*actions):
    """Make an agent that asks for each action and keeps the answers in `agent_fn.answers`."""

    async def agent_fn(agent):
        for action in actions:
            agent_fn.answers.append(await agent.request_permission("Tool", action))

    agent_fn.answers = []
    return agent_fn


def test_each_request_takes_the_next_answer_and_is_remembered():
    agent_fn = asks("read", "write", "run")
    own = Answer(RuleDecision.ALLOW, "session", "go on", input={"n": 1}, prefix=True)
    person = ScriptedApprover("allow", "deny", own)
    run_agent(agent_fn, approver=person)
    assert [answer.allowed for answer in agent_fn.answers] == [True, False, True]
    assert agent_fn.answers[2] == own
    assert [request.action for request in person.requests] == ["read", "write", "run"]
    assert person.unused_count == 0
    person.check()


def test_an_answer_may_be_a_function_of_the_request_and_give_another_one():
    agent_fn = asks("read", "write")

    def only_reading(request):
        return lambda _: "allow" if request.action == "read" else "deny"

    run_agent(agent_fn, approver=ScriptedApprover(only_reading, only_reading))
    assert [answer.allowed for answer in agent_fn.answers] == [True, False]


def test_a_request_beyond_the_script_is_denied_and_the_check_fails():
    agent_fn = asks("read", "write")
    person = ScriptedApprover("allow")
    run_agent(agent_fn, approver=person, check=False)
    assert [answer.allowed for answer in agent_fn.answers] == [True, False]
    assert [request.action for request in person.unexpected_requests] == ["write"]
    with pytest.raises(AssertionError, match=r"no answer was written .*: Tool: write"):
        person.check()


def test_unused_answers_fail_the_check_alone():
    person = ScriptedApprover("allow", "deny")
    run_agent(asks("read"), approver=person)
    assert person.unused_count == 1
    person.check_requests()
    with pytest.raises(AssertionError, match="unused answers: 1"):
        person.check()


def test_it_answers_for_subagents_of_any_depth():
    leaf = asks("read")

    async def parent(agent):
        child = agent.spawn(AgentSession.new("child"), agent_fn)
        await child.wait()

    async def agent_fn(agent):
        await agent.spawn(AgentSession.new("leaf"), leaf).wait()

    person = ScriptedApprover("allow")
    run_agent(parent, approver=person)
    assert leaf.answers[0].allowed
    assert person.requests[0].lineage[1:] == ("child", "leaf")


async def test_what_was_asked_before_it_came_is_answered_too(autojump_clock):
    agent_fn = asks("read")
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("early"), agent_fn)
        await trio.sleep(60)
        await ScriptedApprover("allow").attend(handle)
        assert agent_fn.answers[0].allowed


async def test_it_leaves_with_the_agent_and_others_may_answer_first(autojump_clock):
    agent_fn = asks("read")
    person = ScriptedApprover(lambda _: "deny")
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("asker"), agent_fn)
        await nursery.start(person.attend, handle)
        await handle.wait()
        chunks = [chunk async for chunk in handle.subscribe("all")]
        assert sum(isinstance(chunk, PermissionResponse) for chunk in chunks) == 1
    assert person.unused_count == 0


def test_a_small_ring_does_not_hide_a_request():
    async def parent(agent):
        child = agent.spawn(AgentSession.new("child"), chatty)
        await child.wait()

    answers = []

    async def chatty(agent):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(ask, agent, number)

    async def ask(agent, number):
        answers.append(await agent.request_permission("Tool", str(number)))

    person = ScriptedApprover(*["allow"] * 5)
    run = run_agent(parent, approver=person, limits=RuntimeLimits(ring_chunks=1))
    assert [answer.allowed for answer in answers] == [True] * 5
    assert not any(isinstance(chunk, SubAgentOutput) for chunk in run.chunks)


@pytest.mark.parametrize("answer", ["yes", "ask", True, trio.sleep])
def test_what_is_no_answer_is_refused_when_the_script_is_made(answer):
    with pytest.raises(ConfigurationError, match=r"is not an answer \(write 'allow', 'deny'"):
        ScriptedApprover("allow", answer)
