"""An agent does the same with native tool calls and with calls in text, on ten tasks."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Done,
    InMemoryStore,
    PermissionManager,
    PermissionRequest,
    PermissionRule,
    ToolEnd,
    ToolStart,
    UsageReport,
)
from greenroom.core import TurnStatus
from greenroom.flow import TextTools
from greenroom.resilience import Budget
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import calculator
from tests.flow.replies import dumps

STYLES = (
    'Thought: I {n}.\nAction: {{"tool": {tool}, "arguments": {arguments}}}',
    'I {n}.\n```json\n{{"action": {tool}, "action_input": {arguments}}}\n```',
    '<think>hm</think><tool_call>\n{{"name": {tool}, "arguments": {arguments}}}\n</tool_call>',
    '**Action:** {{"tool_name": {tool}, "args": {arguments},}}\nObservation: 7\nFinal Answer: 7',
)


async def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"It rains in {city}."


async def translate(text: str, to: str) -> str:
    """Translate a text."""
    return f"<{to}>{text}</{to}>"


async def fail(reason: str) -> str:
    """Fail."""
    raise OSError(reason)


async def wait() -> str:
    """Wait for long."""
    await trio.sleep(3600)
    return "waited"


@dataclass
class Task:
    """A task: the calls of the model, and their circumstances."""

    replies: list[Any]
    inputs: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    tool_calls: int | None = None
    interrupts: bool = False
    answers: bool = False
    ends: list[TurnStatus] = field(default_factory=lambda: [TurnStatus.COMPLETED])


ASK = PermissionManager([PermissionRule.ask_for_tool("weather"), PermissionRule.allow_all()])
DENY = PermissionManager([PermissionRule.deny_tool("weather"), PermissionRule.allow_all()])
RAIN = call("weather", city="Tokyo")

TASKS = {
    "one call": Task([call("calculator", expression="15 * 3"), "45"]),
    "two tools": Task([RAIN, call("translate", text="It rains in Tokyo.", to="fr"), "Il pleut."]),
    "a percentage": Task([call("calculator", expression="18% of 250"), "45"]),
    "an unknown tool": Task([call("web", q="x"), RAIN, "rain"]),
    "a wrong argument": Task([call("weather", town="Tokyo"), RAIN, "rain"]),
    "a tool that fails": Task([call("fail", reason="no disk"), "The disk is gone."]),
    "a denial": Task([RAIN, "I may not."], options={"permissions": DENY}),
    "a question": Task([RAIN, "rain"], options={"permissions": ASK}, answers=True),
    "a budget": Task([RAIN, RAIN, "rain"], tool_calls=1, ends=[TurnStatus.FAILED]),
    "its steps": Task([RAIN, call("weather", city="Rome"), "rain"], options={"max_steps": 2}),
    "no progress": Task([RAIN] * 6, ends=[TurnStatus.FAILED]),
    "an interrupt": Task(
        [call("wait"), RAIN, "rain"],
        inputs=2,
        interrupts=True,
        ends=[TurnStatus.INTERRUPTED, TurnStatus.COMPLETED],
    ),
    "two turns": Task([RAIN, "rain", "still rain"], inputs=2, ends=[TurnStatus.COMPLETED] * 2),
}


def in_words(number, reply):
    if isinstance(reply, str):
        return f"Thought: done.\nFinal Answer: {reply}"
    style = STYLES[number % len(STYLES)]
    return style.format(n=number, tool=dumps(reply.name), arguments=dumps(reply.input))


def native(number, reply):
    return reply if isinstance(reply, str) else call(reply.name, **reply.input)


async def run(task, llm):
    """Run a task; return its calls, results and chunks, without ids."""
    store, chunks = InMemoryStore(), []
    budget = task.tool_calls and Budget(tool_calls=task.tool_calls)
    agent = Agent(llm, tools=[weather, translate, fail, wait, calculator], **task.options)
    for number in range(task.inputs):
        # Each turn in a runtime of its own: the session is all that goes on.
        async with AgentRuntime(store=store) as runtime:
            if number:
                session = await AgentSession.load("same", store=store)
            else:
                session = AgentSession.new("same", session_id="same")
            handle = runtime.spawn(session, agent, budget=budget)
            async with handle.subscribe(answers=task.answers) as subscription:
                await handle.send_input("Go on.")
                async for chunk in subscription:
                    chunks.append(chunk)
                    if isinstance(chunk, PermissionRequest):
                        await handle.respond_permission(chunk.request_id, "allow")
                    if task.interrupts and isinstance(chunk, ToolStart) and chunk.name == "wait":
                        await handle.interrupt()
                    if isinstance(chunk, Done):
                        break
            history = await handle.history()
    return seen(chunks, history)


def seen(chunks, history):
    calls = [(c.name, c.input) for c in chunks if isinstance(c, ToolStart)]
    results = [(c.result.status, c.result.text) for c in chunks if isinstance(c, ToolEnd)]
    ends = [(c.status, c.error, c.usage.total) for c in chunks if isinstance(c, Done)]
    used = [c.usage.total for c in chunks if isinstance(c, UsageReport)]
    said = [
        (
            message.role,
            [(block.name, block.input) for block in message.tool_uses],
            [(block.text, block.is_error) for block in message.tool_results],
            "" if message.tool_uses else message.text,
            message.stop_reason,
        )
        for message in history
    ]
    return {"calls": calls, "results": results, "ends": ends, "used": used, "history": said}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", TASKS)
async def test_the_same_is_done(name, autojump_clock):
    task = TASKS[name]
    plain = ScriptedProvider(*(native(*each) for each in enumerate(task.replies)))
    words = ScriptedProvider(*(in_words(*each) for each in enumerate(task.replies)))
    natively = await run(task, plain)
    assert [status for status, *_ in natively["ends"]] == task.ends
    assert await run(task, TextTools(words)) == natively
    assert len(words.requests) == len(plain.requests)
