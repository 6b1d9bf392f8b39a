"""Budgets and instruments, with a cancel at every checkpoint: the books balance after each."""

import trio

from greenroom.agents import Task, run_tools, stream_reply
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession
from greenroom.testing import (
    Scenario,
    ScriptedProvider,
    call,
    cancel_at_every_checkpoint,
)
from greenroom.testing.fuzz import INVARIANTS
from greenroom.tools import ToolRegistry, tool
from tests.agents.ledger import Ledger
from tests.conftest import few


@tool(category="read", concurrent=True)
async def work(label: str) -> str:
    """Work for a second."""
    await trio.sleep(1)
    return label


def answer(request):
    """Two pieces of work and a subagent for whatever is asked, then an end."""
    if request.messages[-1].tool_results:
        return "done"
    calls = [call("work", label="a"), call("work", label="b")]
    if any(tool.name == "Task" for tool in request.tools):
        calls.append(call("Task", description="help", prompt="go"))
    return calls


async def worker(agent, delegate=None):
    tools = ToolRegistry([work])
    if delegate is not None:
        tools = tools.with_tools(Task(agent, delegate))
    rules = PermissionManager([PermissionRule.allow_all()])
    llm = ScriptedProvider(*[answer] * 50)
    async for message in agent.inputs():
        async with agent.turn(message):
            with agent.budget(tool_calls=100, seconds=100):
                while (reply := await stream_reply(agent, llm, tools)).tool_uses:
                    await run_tools(agent, reply.tool_uses, tools, rules)


class Watched(Scenario):
    """One agent and its subagent, with one slot for both, and a ledger of what begins and ends."""

    def __init__(self):
        super().__init__(worker, worker, inputs="go")
        self.ledger, self.budget = Ledger(), Budget(concurrency=1, tool_calls=1000)
        self.spawn = lambda runtime: runtime.spawn(
            AgentSession.new("fuzzed"), worker, worker, budget=self.budget
        )

    def open_runtime(self):
        return AgentRuntime(self.store, self.limits, self.workspace, instruments=[self.ledger])


def test_every_slot_is_given_back_and_every_hook_is_paired_wherever_a_cancel_strikes():
    made = []

    def scenario():
        made.append(Watched())
        return made[-1]

    def the_books_are_balanced(trial):
        statistics = made[-1].budget.statistics()
        assert (statistics.running, statistics.waiting) == (0, 0)
        assert made[-1].ledger.unfinished == []

    invariants = [*INVARIANTS, the_books_are_balanced]
    report = cancel_at_every_checkpoint(scenario, invariants=invariants, at_most=few(36))
    assert sum(report.cancels.values()) > few(24)
