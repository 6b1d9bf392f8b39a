"""One turn as a function of its messages: nothing is kept, and nothing is left running."""

import pytest
import trio

from greenroom.agents import coder, run_turn
from greenroom.core import BudgetExceededError, Message, TurnStatus
from greenroom.llm import ModelOverloadedError
from greenroom.llm._internal import ModelProfile
from greenroom.llm.catalog import MODELS
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools, tool
from tests.session.accepted import check_accepted


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


QUESTION = [Message.user("before"), Message.assistant("yes?"), Message.user("How much is it?")]


async def test_the_new_messages_come_back_and_the_given_ones_are_sent_as_they_are():
    llm = ScriptedProvider(call("add", a=1, b=2), "It is 3.")
    with trio.fail_after(60):
        new = await run_turn(llm, QUESTION, [add], instructions="Be brief.")
    assert [each.role for each in new] == ["assistant", "user", "assistant"]
    assert new[1].tool_results[0].text == "3"
    assert new[-1].text == "It is 3."
    check_accepted([*QUESTION, *new])
    first = llm.requests[0]
    assert [each.text for each in first.messages] == ["before", "yes?", "How much is it?"]
    assert first.system == "Be brief."


async def test_the_same_input_gives_the_same_messages_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def once():
        new = await run_turn(ScriptedProvider(call("add", a=1, b=2), "3"), QUESTION, [add])
        return [(each.role, each.text) for each in new]

    with trio.fail_after(60):
        assert await once() == await once()
    assert list(tmp_path.iterdir()) == []


async def test_nobody_is_asked_and_only_the_program_s_own_functions_run():
    llm = ScriptedProvider(call("Bash", command="touch made"), "no")
    with trio.fail_after(60):
        new = await run_turn(llm, QUESTION, [*builtin_tools(), add])
    assert new[1].tool_results[0].is_error
    denied = PermissionManager([PermissionRule.deny_tool("add")])
    llm = ScriptedProvider(call("add", a=1, b=2), "no")
    with trio.fail_after(60):
        new = await run_turn(llm, QUESTION, [add], permissions=denied)
    assert new[1].tool_results[0].is_error


async def test_for_the_last_step_no_tool_may_be_chosen():
    llm = ScriptedProvider(call("add", a=1, b=1), "enough")
    with trio.fail_after(60):
        new = await run_turn(llm, QUESTION, [add], max_steps=2)
    assert [each.tool_choice for each in llm.requests] == ["auto", "none"]
    assert new[-1].text == "enough"


async def test_who_has_sent_the_question_is_told():
    llm = ScriptedProvider("Hello Ben.")
    await run_turn(llm, [Message.user("Hello.", sender="ben")])
    assert [message.sender for message in llm.requests[0].messages] == ["ben"]


async def test_the_summary_of_a_compaction_is_not_among_the_new_messages(monkeypatch):
    profile = ModelProfile(name="scripted:script", context_window=2_500)
    monkeypatch.setitem(MODELS, profile.name, profile)
    said = [Message.user("A long story. " * 200), Message.assistant("Go on.")] * 4
    llm = ScriptedProvider("They tell a story.", "It ends.")
    new = await run_turn(llm, [*said, Message.user("How does it end?")])
    assert llm.requests[1].messages[0].sender == "summary"
    assert [each.text for each in new] == ["It ends."]


async def test_what_ends_the_turn_is_raised_as_it_was():
    busy = ScriptedProvider(Reply(error=ModelOverloadedError("busy")))
    llm = ScriptedProvider(*[call("add", a=1, b=1)] * 9)
    with trio.fail_after(60):
        with pytest.raises(ModelOverloadedError, match="busy"):
            await run_turn(busy, QUESTION)
        with pytest.raises(BudgetExceededError):
            await run_turn(llm, QUESTION, [add], budget=Budget(model_calls=2))
        with pytest.raises(ValueError, match="the user's"):
            await run_turn(ScriptedProvider("x"), [Message.assistant("x")])
        with pytest.raises(ValueError, match="one step"):
            await run_turn(ScriptedProvider("x"), QUESTION, max_steps=0)


async def test_a_cancel_leaves_nothing_running(autojump_clock):
    ended = []

    @tool
    async def wait() -> None:
        """Wait."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    with trio.move_on_after(5) as scope:
        await run_turn(ScriptedProvider(call("wait")), QUESTION, [wait])
    assert scope.cancelled_caught
    assert ended == [True]


async def test_inside_of_a_tool_it_is_under_the_budget_of_the_agent_that_calls():
    inner = ScriptedProvider(*[call("add", a=1, b=1)] * 9)

    @tool
    async def research() -> str:
        """Research."""
        return (await run_turn(inner, QUESTION, [add]))[-1].text

    session, outer = AgentSession.new("coder"), ScriptedProvider(call("research"), "done")
    rules = PermissionManager([PermissionRule.allow_tool("research")])
    with trio.fail_after(60):
        async with AgentRuntime(InMemoryStore()) as runtime:
            parts = (outer, ToolRegistry([research]), rules)
            handle = runtime.spawn(session, coder, *parts, budget=Budget(model_calls=3))
            result = await handle.ask("go")
    assert len(inner.requests) == 2
    assert result.status is TurnStatus.FAILED


async def test_inside_of_a_tool_what_is_denied_to_the_caller_is_denied():
    texts = []

    @tool
    async def delegate() -> str:
        """Let a turn add."""
        new = await run_turn(ScriptedProvider(call("add", a=1, b=2), "So not."), QUESTION, [add])
        texts.append(new[1].tool_results[0].text)
        return new[-1].text

    allowed = PermissionRule.allow_tool("delegate")
    for rules in ([allowed, PermissionRule.deny_tool("add")], [allowed]):
        parts = ScriptedProvider(call("delegate"), "Done."), ToolRegistry([delegate])
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            session = AgentSession.new("coder")
            handle = runtime.spawn(session, coder, *parts, PermissionManager(rules))
            await handle.ask("Go")
    assert "denies" in texts[0]
    assert texts[1] == "3"
