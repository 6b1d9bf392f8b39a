"""A question of the model to the person: asked like a permission, answered in words."""

import math

import pytest
import trio

from greenroom.agents import AskPerson, coder, resilient_tool
from greenroom.core import (
    AgentContext,
    Answer,
    Credential,
    Done,
    PermissionRequest,
    RuleDecision,
    ToolError,
    ToolStatus,
    TurnStatus,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import CircuitBreaker, Retry
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import (
    Scenario,
    ScriptedApprover,
    ScriptedProvider,
    call,
    cancel_at_every_checkpoint,
)
from greenroom.tools import ToolRegistry, tool
from tests.conftest import few
from tests.session.accepted import check_accepted

ALLOW, DENY = RuleDecision.ALLOW, RuleDecision.DENY
QUESTION = {"question": "Which colour?", "options": ["red", "blue"]}


def parts(*script, timeout=math.inf, permissions=None, asks=None):
    tools = ToolRegistry([asks or AskPerson(timeout)])
    return ScriptedProvider(*script), tools, permissions or PermissionManager()


async def ask(*answers, permissions=None, unattended="ask", question=QUESTION, asks=None):
    """Let a model ask; return the result that it is given, and the requests that were made."""
    session, approver = AgentSession.new("coder"), ScriptedApprover(*answers)
    script = call("AskPerson", **question), "done"
    made = parts(*script, permissions=permissions, asks=asks)
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(session, coder, *made, unattended=unattended)
            async with trio.open_nursery() as nursery:
                if answers:
                    await nursery.start(approver.attend, handle)
                assert (await handle.ask("go")).text == "done"
                nursery.cancel_scope.cancel()
    check_accepted(session.history)
    return made[0].requests[1].messages[-1].tool_results[0], approver.requests


@pytest.mark.parametrize(
    ("words", "told"),
    [("green", "green"), ("2", "blue"), ("3", "3"), ("²", "²"), ("0", "0"), ("", "yes")],
)
async def test_the_person_s_words_are_the_result(words, told):
    result, (request,) = await ask(Answer(ALLOW, message=words))
    assert (result.text, result.is_error) == (told, False)
    assert request.details == "Which colour?\n1. red\n2. blue"
    assert request.options == ("red", "blue")
    assert (request.remembers, request.forbids) == ((), ())


async def test_without_options_any_words_will_do():
    result, (request,) = await ask(Answer(ALLOW, message="1"), question={"question": "How many?"})
    assert (result.text, request.options) == ("1", ())


async def test_a_person_may_refuse_to_answer():
    result, _ = await ask(Answer(DENY, message="Ask Eve."))
    assert result.is_error
    assert result.text == "The user does not want to answer. Ask Eve."


async def test_where_nobody_can_answer_the_model_is_told_why():
    result, _ = await ask(unattended="deny")
    assert result.is_error
    assert result.text.startswith("There is no answer: no one can be asked")


@pytest.mark.parametrize(
    "permissions",
    [
        PermissionManager(mode="bypass"),
        PermissionManager([PermissionRule.allow_tool("AskPerson")]),
        PermissionManager(mode="deny"),
    ],
)
async def test_no_rule_and_no_mode_answers_in_the_place_of_the_person(permissions):
    result, _ = await ask(Answer(ALLOW, message="red"), permissions=permissions)
    assert result.text == "red"


async def test_a_rule_may_forbid_to_ask():
    rules = [PermissionRule.deny_tool("AskPerson")]
    result, requests = await ask("allow", permissions=PermissionManager(rules))
    assert result.is_error
    assert requests == []


async def test_at_the_time_out_it_is_unanswered_and_a_late_answer_is_not_accepted(autojump_clock):
    made = parts(call("AskPerson", **QUESTION), "done", timeout=300.0)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *made)
        async with handle.subscribe("all", answers=True) as chunks:
            assert (await handle.ask("go")).text == "done"
            assert trio.current_time() >= 300
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    break
            assert not await handle.respond_permission(chunk.request_id, "allow", message="red")
    told = made[0].requests[1].messages[-1].tool_results[0]
    assert told.text == "There is no answer: no answer came within 300 seconds."


async def test_the_question_survives_the_process_and_is_answered_ahead():
    store, session = InMemoryStore(), AgentSession.new("coder")
    with trio.fail_after(60):
        async with AgentRuntime(store=store) as runtime:
            made = parts(call("AskPerson", **QUESTION))
            handle = runtime.spawn(session, coder, *made, unattended="suspend")
            assert (await handle.ask("go")).status is TurnStatus.WAITING
        session = await AgentSession.load(session.session_id, store=store, keep_open=True)
        [question] = session.open_questions
        async with AgentRuntime(store=store) as runtime:
            handle = runtime.spawn(session, coder, *parts("done"), unattended="suspend")
            await handle.respond_permission(question.request_id, "allow", message="1")
            chunks = [chunk async for chunk in handle.stream()]
    assert chunks[-1].status is TurnStatus.COMPLETED
    assert session.history[2].tool_results[0].text == "red"
    check_accepted(session.history)


async def test_an_interrupt_withdraws_it():
    session, made = AgentSession.new("coder"), parts(call("AskPerson", **QUESTION), "and now?")
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(session, coder, *made)
            async with handle.subscribe("all", answers=True) as chunks:
                await handle.send_input("go")
                async for chunk in chunks:
                    if isinstance(chunk, PermissionRequest):
                        break
                await handle.interrupt()
            assert await handle.pending() == ()
            assert (await handle.ask("on")).text == "and now?"
    [record] = await session.read_decisions()
    assert (record.by, record.decision) == ("withdrawn", DENY)
    check_accepted(session.history)


async def test_what_was_answered_is_on_record():
    session = AgentSession.new("coder")
    made = parts(call("AskPerson", **QUESTION), "done")
    approver = ScriptedApprover(Answer(ALLOW, message="red"))
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(session, coder, *made)
            async with trio.open_nursery() as nursery:
                await nursery.start(approver.attend, handle)
                await handle.ask("go")
                nursery.cancel_scope.cancel()
    [record] = await session.read_decisions()
    assert (record.asked, record.by, record.message) == (True, "user", "red")


async def test_under_policies_it_is_asked_once_and_never_again(autojump_clock):
    breaker = CircuitBreaker("person", failures=1)
    retry = Retry(attempts=3, retryable=lambda _: True)
    guarded = resilient_tool(AskPerson(timeout=60), retry=retry, breaker=breaker)
    model = ScriptedProvider(call("AskPerson", **QUESTION), "done")
    asked = []
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        made = (model, ToolRegistry([guarded]), PermissionManager())
        handle = runtime.spawn(AgentSession.new("coder"), coder, *made)
        async with handle.subscribe(answers=True) as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    asked.append(trio.current_time())
                elif isinstance(chunk, Done):
                    break
    assert len(asked) == 1
    assert "There is no answer" in model.requests[1].messages[-1].tool_results[0].text
    assert breaker.state == "closed"


async def test_under_policies_its_answer_is_the_result():
    guarded = resilient_tool(AskPerson(), retry=Retry(attempts=3))
    result, (request,) = await ask(Answer(ALLOW, message="2"), asks=guarded)
    assert (result.text, request.options) == ("blue", ("red", "blue"))


async def test_it_can_only_be_asked_where_an_agent_asks():
    context = AgentContext(session_id="s-1", agent_type="coder")
    result = await ToolRegistry([AskPerson()]).execute("AskPerson", QUESTION, context)
    assert result.status is ToolStatus.ERROR
    assert "run_tools" in result.text
    with pytest.raises(ToolError):
        AskPerson(timeout=0)


@tool(credentials=[Credential("token")])
async def look() -> str:
    """Look."""
    return "never: nobody gives the token"


def answer(request):
    """A question and a call that wants a credential, for whatever is said, then an end."""
    if request.messages[-1].tool_results:
        return "done"
    return [call("AskPerson", **QUESTION), call("look")]


def test_wherever_a_cancel_strikes_the_conversation_is_valid_and_nothing_stays_open():
    def scenario():
        rules = PermissionManager([PermissionRule.allow_all()])
        made = (ScriptedProvider(*[answer] * 50), ToolRegistry([AskPerson(), look]), rules)
        approver = ScriptedApprover(*[lambda request: Answer(ALLOW, message="1")] * 50)
        return Scenario(coder, *made, inputs="go", approver=approver)

    report = cancel_at_every_checkpoint(scenario, at_most=few(36))
    assert sum(report.cancels.values()) > few(12)
