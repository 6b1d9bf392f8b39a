"""What a model in plain text reads about failed actions: each kind of failure of a real agent."""

import httpx
import pytest
import trio

from greenroom import Agent, PermissionManager, PermissionRule, ToolError, tool
from greenroom.core import NetworkError
from greenroom.flow import TextTools
from greenroom.testing import ScriptedProvider

TEMPORARY = "This may be temporary. Try again if the action may be repeated safely"
WRONG = "The action was not run, and would fail again: correct it."
BROKEN = "The tool has failed; the same action will probably fail again"


def raising(error):
    @tool
    def act() -> str:
        """Act."""
        raise error

    return act


@tool(timeout=1)
async def hang() -> str:
    """Hang."""
    await trio.sleep_forever()


async def observe(things, action, rules=()):
    llm = ScriptedProvider(f"Action: {action}", "Final Answer: Done.")
    permissions = PermissionManager(rules) if rules else None
    await Agent(TextTools(llm), tools=things, permissions=permissions).run("Go.")
    return llm.requests[1].messages[-1].text


ACT = '{"tool": "act", "arguments": {}}'


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NetworkError("no route"), TEMPORARY),
        (ConnectionResetError("peer"), TEMPORARY),
        (TimeoutError("late"), TEMPORARY),
        (httpx.ReadTimeout("late"), TEMPORARY),
        (KeyError("id"), BROKEN),
        (PermissionError("/etc"), BROKEN),
        (ToolError("no such city: Olso (did you mean Oslo?)"), ""),
        (ToolError("Note: it is closed"), ""),
    ],
)
async def test_an_error_says_whether_it_may_be_temporary(error, hint):
    text = await observe([raising(error)], ACT)
    first, _, rest = text.partition("\n")
    assert first.startswith("Observation: Error: ")
    assert rest.startswith(hint) if hint else rest == ""


async def test_a_call_that_takes_too_long_may_be_tried_again(autojump_clock):
    text = await observe([hang], '{"tool": "hang", "arguments": {}}')
    assert TEMPORARY in text


async def test_a_wrong_action_is_to_be_corrected():
    tools = [raising(KeyError())]
    assert (await observe(tools, '{"tool": "fly", "arguments": {}}')).endswith(WRONG)
    wrong = await observe(tools, '{"tool": "act", "arguments": {"x": 1}}')
    assert wrong.endswith(WRONG)
    assert "the parameter 'x' does not exist" in wrong


async def test_nothing_is_added_to_a_denial():
    text = await observe([raising(KeyError())], ACT, [PermissionRule.deny_tool("act")])
    assert text == "Observation: Error: the rule 'deny act' denies this"
