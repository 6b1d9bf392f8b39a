"""The whole request of an agent that does a subtask in plain text, word for word."""

from greenroom.flow import Plan, Subtask, react
from greenroom.testing import ScriptedProvider
from tests.flow.planned import Planned

SYSTEM = """\
You work with tools. To call one, write a thought and one action, and then stop:

Thought: what you want to find out or do next
Action: {"tool": "NAME", "arguments": {"KEY": "VALUE"}}

An action is one JSON object. You are then told its result as "Observation: …"; never write an
observation yourself. When you know the answer, write:

Thought: why you are done
Final Answer: the answer

The tools, each with the JSON Schema of its arguments:
- find_price: Find the price of a train.
  {"additionalProperties":false,"properties":{"train":{"type":"string"}},"required":["train"],\
"type":"object"}"""

MESSAGES = """\
user: Compare the prices of night train, day train
Expected result: two prices in euros
assistant: Thought: The night train first.
Action: {"tool": "find_price", "arguments": {"train":"night train"}}
user: Observation: 120 euros
assistant: Thought: Now the other.
Action: {"tool": "find_price", "arguments": {"train":"?"}}
user: Observation: Error: ConnectionError: reset
This may be temporary. Try again if the action may be repeated safely; otherwise find out first \
whether it had its effect."""


async def test_it_has_the_goal_the_expected_output_the_history_the_tools_and_the_format():
    def find_price(train: str) -> str:
        """Find the price of a train."""
        if train == "?":
            raise ConnectionError("reset")
        return "120 euros"

    llm = ScriptedProvider(
        'Thought: The night train first.\nAction: {"tool": "find_price", "arguments": {"train":'
        ' "night train"}}',
        'Thought: Now the other.\nAction: {"tool": "find_price", "arguments": {"train": "?"}}',
        "Final Answer: 120 and 80",
    )

    def look() -> str:
        """Look for trains."""
        return "night train, day train"

    plan = Plan(
        "",
        [
            Subtask("look", "", tool="look"),
            Subtask(
                "compare",
                "Compare the prices of {look}",
                after=["look"],
                expected="two prices in euros",
            ),
        ],
    )
    planned = Planned(plan, react(llm, [find_price]), tools=[look])
    await planned.carry_out()
    assert planned.run.results["compare"] == "120 and 80"
    request = llm.requests[-1]
    assert request.system == SYSTEM
    assert "\n".join(f"{each.role}: {each.text}" for each in request.messages) == MESSAGES
