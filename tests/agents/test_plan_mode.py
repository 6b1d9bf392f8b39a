"""Plan mode: the model is told of it, submits a plan, and is told what became of it."""

import pytest
import trio

from greenroom.agents import coder, resilient_tool
from greenroom.agents._internal import PLAN_PROMPT, SubmitPlan
from greenroom.core import Answer, RuleDecision, TextComplete, ToolError, ToolStatus, TurnStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Retry
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedApprover, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools
from tests.session.accepted import check_accepted

ALLOW, DENY = RuleDecision.ALLOW, RuleDecision.DENY
PLAN = "1. Change greet.py\n2. Run the tests"
READS = PermissionRule.allow_category("read")


def manager(mode="plan", *rules):
    return PermissionManager([READS, *rules], mode=mode)


async def submit(answer, rules=None, script=None, unattended="ask", workspace="."):
    """Let a model submit a plan; return the requests that it was sent, the session, the chunks."""
    rules, approver = rules or manager(), ScriptedApprover(answer or ALLOW)
    llm = ScriptedProvider(*(script or [call("SubmitPlan", plan=PLAN), "Done."]))
    session = AgentSession.new("coder")
    async with AgentRuntime(store=InMemoryStore(), workspace=workspace) as runtime:
        tools = ToolRegistry(builtin_tools())
        handle = runtime.spawn(session, coder, llm, tools, rules, unattended=unattended)
        chunks = handle.subscribe("all")
        async with trio.open_nursery() as nursery:
            if answer is not None:
                await nursery.start(approver.attend, handle)
            result = await handle.ask("Mend it.")
            nursery.cancel_scope.cancel()
        await handle.shutdown()
        shown = [chunk async for chunk in chunks]
    check_accepted(session.history)
    return llm.requests, result, shown


def said(request):
    return request.messages[-1].tool_results[0].text


def offers(request):
    return "SubmitPlan" in {tool.name for tool in request.tools}


@pytest.mark.parametrize(
    ("answer", "mode", "told"),
    [
        (Answer(ALLOW), "default", "The user approves the plan. Plan mode is over. Carry it out."),
        (Answer(ALLOW, message="1"), "default", "approves"),
        (Answer(ALLOW, message="Approve, and accept edits"), "accept-edits", "need no question"),
        (Answer(ALLOW, input={"plan": "Only 2."}), "default", "approves this one:\n\nOnly 2."),
        (Answer(ALLOW, message="first the tests"), "plan", "refuses the plan: first the tests"),
        (Answer(DENY, message="too much"), "plan", "refuses the plan: too much. Plan mode goes on"),
        (Answer(DENY), "plan", "refuses the plan, and gave no reason"),
    ],
)
async def test_the_model_is_told_what_became_of_its_plan(answer, mode, told):
    rules = manager()
    (first, second), _, _ = await submit(answer, rules)
    assert PLAN_PROMPT in first.system
    assert offers(first)
    assert told in said(second)
    assert rules.mode == mode
    assert (PLAN_PROMPT in second.system, offers(second)) == (mode == "plan", mode == "plan")


async def test_outside_plan_mode_nothing_is_said_of_it_and_no_plan_can_be_submitted():
    (first,), _, _ = await submit(None, manager("default"), ["Done."])
    assert PLAN_PROMPT not in first.system
    assert not offers(first)


async def test_in_plan_mode_edits_and_commands_with_effects_are_denied(tmp_path):
    calls = [
        call("Write", file_path="a.txt", content="x"),
        call("Bash", command="touch b.txt"),
        call("Bash", command="ls"),
    ]
    allowing = manager("plan", PermissionRule.allow_tool("Write", "Bash"))
    requests, _, _ = await submit(None, allowing, [calls, "Done."], workspace=tmp_path)
    statuses = [result.is_error for result in requests[1].messages[-1].tool_results]
    assert statuses == [True, True, False]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unattended", ["deny", "suspend"])
async def test_where_nobody_can_answer_the_plan_is_the_result_of_the_turn(unattended):
    rules = manager()
    requests, result, shown = await submit(None, rules, unattended=unattended)
    assert len(requests) == 1
    assert (result.status, result.text) == (TurnStatus.COMPLETED, PLAN)
    assert PLAN in [chunk.text for chunk in shown if isinstance(chunk, TextComplete)]
    assert rules.mode == "plan"


async def test_a_turn_can_follow_a_plan_that_nobody_answered():
    llm = ScriptedProvider(call("SubmitPlan", plan=PLAN), "I begin.")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        session, rules = AgentSession.new("coder"), manager()
        parts = (llm, ToolRegistry(builtin_tools()), rules)
        handle = runtime.spawn(session, coder, *parts, unattended="deny")
        assert (await handle.ask("Plan it.")).text == PLAN
        rules.mode = "default"
        assert (await handle.ask("Carry it out.")).text == "I begin."
    check_accepted(session.history)


async def test_a_rule_may_deny_it():
    denying = manager("plan", PermissionRule.deny_tool("SubmitPlan"))
    (_, second), _, _ = await submit(Answer(ALLOW), denying)
    assert second.messages[-1].tool_results[0].is_error
    assert denying.mode == "plan"


async def test_an_approval_after_the_mode_has_changed_changes_no_mode():
    rules = manager("accept-edits")
    (_, second), _, _ = await submit(Answer(ALLOW), rules)
    assert "approves the plan" in said(second)
    assert rules.mode == "accept-edits"


async def test_a_subagent_is_told_to_look_only_and_has_no_plan_to_submit():
    script = [call("Task", description="look", prompt="Look."), "I looked.", "Done."]
    requests, _, _ = await submit(None, script=script)
    inner = requests[1]
    assert "plan mode: read and search, but change nothing" in inner.system
    assert not offers(inner)
    assert offers(requests[2])


async def test_it_is_asked_by_run_tools_alone_and_never_retried():
    plan = SubmitPlan(manager())
    with pytest.raises(ToolError, match="no one to ask"):
        await plan.execute({"plan": "x"}, None)
    assert resilient_tool(plan, retry=Retry(attempts=3)) is plan


def test_a_question_that_ended_without_a_person_leaves_the_mode():
    rules = manager()
    told = SubmitPlan(rules).result({"plan": "x"}, Answer(DENY, by="time-out"))
    assert told.text == "There is no answer: time-out. Plan mode goes on."
    assert (told.status, rules.mode) == (ToolStatus.SUCCESS, "plan")
