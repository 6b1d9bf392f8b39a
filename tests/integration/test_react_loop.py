"""A model without tool calls, tools and the loop: think, act, observe, answer."""

from typing import Literal

import pytest

from greenroom import Custom, ToolEnd, tool
from greenroom.core import TurnStatus
from greenroom.flow import react
from greenroom.testing import ScriptedProvider
from greenroom.testing._internal import run_agent_async


@tool(name="CalculatorTool")
async def calculate(operation: Literal["percentage"], value: float, percentage: float) -> str:
    """Calculate a percentage."""
    if not value:
        raise ValueError("there is nothing to take a percentage of")
    return f"Result: {value * percentage / 100:g}"


def act(thought, value, percentage):
    arguments = f'{{"operation": "percentage", "value": {value}, "percentage": {percentage}}}'
    return f'Thought: {thought}\nAction: {{"tool": "CalculatorTool", "args": {arguments}}}'


def cycles(run):
    """What was thought, done and seen, in order."""
    kinds = {"react.thought": "text", "react.action": "arguments", "react.observation": "text"}
    return [each.data[kinds[each.kind]] for each in run.of(Custom)]


@pytest.mark.checkpoint("2.5 a task done in words")
async def test_calculate_percentage_mocked():
    for percentage, value, result in ((18, 250, "45"), (20, 50, "10")):
        thought = f"I need to calculate {percentage}% of {value}"
        answer = f"{percentage}% of {value} is {result}"
        llm = ScriptedProvider(act(thought, value, percentage), f"Final Answer: {answer}")
        run = await run_agent_async(react(llm, [calculate]), inputs=f"What is {thought[20:]}?")
        assert cycles(run) == [
            thought,
            {"operation": "percentage", "value": value, "percentage": percentage},
            f"Result: {result}",
        ]
        assert run.text == answer
        assert len(llm.requests) == 2
        assert run.results[0].status is TurnStatus.COMPLETED


@pytest.mark.checkpoint("2.4 recovery from a tool's error")
async def test_error_observation_recovery():
    llm = ScriptedProvider(
        act("I try it.", 0, 18), act("It was 250.", 250, 18), "Final Answer: 18% of 250 is 45"
    )
    run = await run_agent_async(react(llm, [calculate]), inputs="What is 18% of 250?")
    assert [end.is_error for end in run.of(ToolEnd)] == [True, False]
    assert "nothing to take a percentage of" in llm.requests[1].messages[-1].text
    assert llm.requests[2].messages[-1].text == "Observation: Result: 45"
    assert run.text == "18% of 250 is 45"
