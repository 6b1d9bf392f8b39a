"""ReAct in words, with each step printed: "What is 18% of 250?"

    python examples/percentage.py

The model is scripted, so this needs no API key.
"""

from typing import Literal

from greenroom import Custom, tool
from greenroom.flow import react
from greenroom.testing import ScriptedProvider, run_agent


@tool(name="CalculatorTool")
async def calculate(operation: Literal["percentage"], value: float, percentage: float) -> str:
    """Calculate a percentage of a value."""
    return f"Result: {value * percentage / 100:g}"


llm = ScriptedProvider(
    "Thought: I need to calculate 18% of 250\n"
    'Action: {"tool": "CalculatorTool",'
    ' "args": {"operation": "percentage", "value": 250, "percentage": 18}}',
    "Final Answer: 18% of 250 is 45",
)
run = run_agent(react(llm, [calculate]), inputs="What is 18% of 250?")
for step in run.of(Custom):
    match step.kind, step.data:
        case "react.action", {"tool": name, "arguments": arguments}:
            print(f"Action: {name} {arguments}")
        case kind, {"text": text}:
            print(f"{kind.removeprefix('react.').capitalize()}: {text}")
        case _:
            pass
print(f"Final Answer: {run.text}")
