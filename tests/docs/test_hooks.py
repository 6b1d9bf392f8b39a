"""The table of other designs' hooks: each has its name here, and is told what the table says."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from greenroom import Agent, AgentRuntime, InMemoryStore
from greenroom.core._internal import Hook
from greenroom.llm._internal import ModelQuotaError
from greenroom.testing import Reply, ScriptedProvider, call

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "instrumentation.md"
ROWS = re.findall(r"^\| (`.+?) \| `(\w+)` \| .+ \|$", PAGE.read_text(), re.MULTILINE)
TABLE = {name: ours for names, ours in ROWS for name in re.findall(r"`(\w+)`", names)}
LIFECYCLE = "on_start on_llm_start on_llm_end on_tool_start on_tool_end on_end on_error"


def test_every_hook_has_its_place_and_every_name_exists():
    assert {*LIFECYCLE.split(), "beforeLLMCall", "afterToolExecution"} <= set(TABLE)
    assert set(TABLE.values()) <= set(get_args(Hook))


class Hooks:
    """The hooks of another design, made of ours as the table says."""

    def __init__(self):
        self.log, self.sent, self.replies, self.open = [], [], [], Counter()

    def before_turn(self, agent, message):
        self.log.append("on_start")

    def before_model_call(self, agent, call):
        self.log.append("on_llm_start")
        self.sent.append(call.request.messages)

    def after_model_call(self, agent, call, reply, error):
        self.log.append("on_llm_end")
        self.replies.append(reply or error)

    def before_tool_call(self, agent, call):
        self.open[call.id] += 1

    def after_tool_call(self, agent, call, result, error):
        self.open[call.id] -= 1

    def after_turn(self, agent, end):
        self.log.append("on_error" if end.error else "on_end")
        self.end = end


def look(at: str) -> str:
    """Look."""
    return f"{at} is fine"


def crash(at: str) -> str:
    """Crash."""
    raise KeyError(at)


async def run(*script, **options):
    hooks, llm = Hooks(), ScriptedProvider(*script)
    agent = Agent(llm, tools=[look, crash], **options)
    async with AgentRuntime(store=InMemoryStore(), instruments=[hooks]) as runtime:
        await agent.run("go", runtime=runtime)
    assert hooks.log[0] == "on_start"
    assert hooks.log.count("on_start") == hooks.log.count("on_end") + hooks.log.count("on_error")
    assert hooks.sent == [request.messages for request in llm.requests]
    assert not +hooks.open
    return hooks


async def test_a_run_that_completes():
    calls = [call("look", at="a"), call("crash", at="b"), call("look", at="c")]
    hooks = await run(calls, "done")
    assert hooks.log == ["on_start", *["on_llm_start", "on_llm_end"] * 2, "on_end"]
    assert len(hooks.open) == 3
    assert all(reply.usage.total == 15 for reply in hooks.replies)
    assert (hooks.end.status, hooks.end.value) == ("completed", "done")


async def test_a_run_that_is_truncated_ends_once():
    hooks = await run(call("look", at="a"), "enough", max_steps=2)
    assert (hooks.log.count("on_end"), hooks.end.status) == (1, "completed")


@pytest.mark.parametrize("reply", [Reply("Wai", error=ModelQuotaError("no more"))])
async def test_a_run_that_fails(reply):
    hooks = await run(reply)
    assert hooks.log == ["on_start", "on_llm_start", "on_llm_end", "on_error"]
    assert hooks.end.status == "failed"
    assert "no more" in hooks.end.error
    assert isinstance(hooks.replies[0], ModelQuotaError)
