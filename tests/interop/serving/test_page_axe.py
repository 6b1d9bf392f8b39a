"""Whether everybody can use the page: axe-core looks at each of its states, in the light and dark.

It is in no package of ours, so this needs its path in GREENROOM_AXE (see CONTRIBUTING.md).
"""

import os
from pathlib import Path

import pytest
import trio

from greenroom import PermissionManager, PermissionRule
from greenroom.core import Custom, Message, TextComplete, ToolStart
from greenroom.testing import call
from tests.interop.serving.browser import BROWSER, link
from tests.interop.serving.services import scripted
from tests.interop.serving.test_page import MARKDOWN, deploy

AXE = os.environ.get("GREENROOM_AXE")
pytestmark = pytest.mark.skipif(not (BROWSER and AXE), reason="axe-core is not here")

SPANS = [
    {"kind": kind, "name": kind, "start": at * 10**9, "end": (at + 2) * 10**9, "error": error}
    for at, (kind, error) in enumerate([("turn", ""), ("model", ""), ("tool", "it failed")])
]


async def planner(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            todos = [{"content": "Look", "status": "completed"}, {"content": "Do", "status": "x"}]
            await agent.send(ToolStart("t-1", "Todo", {"todos": todos}))
            subtasks = [{"id": "one", "goal": "first"}, {"id": "two", "goal": "then"}]
            plan = {"goal": "a trip", "subtasks": subtasks}
            await agent.send(Custom("plan.step", {"type": "begin", "plan": plan}))
            step = {"type": "move", "id": "one", "status": "failed"}
            await agent.send(Custom("plan.step", step))
            await agent.send(TextComplete("planned"))
            agent.session.add_message(Message.assistant("planned"))


async def check(tab, state, found):
    script = """axe.run(document).then(({ violations, passes }) => [passes.length, violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 150)).join(" | ")}`)])"""
    passes, violations = await tab.run(script)
    found += [f"{state}: {each}" for each in violations]
    print(f"{state}: {passes} rules passed, {len(violations)} violated")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_no_rule_is_violated_in_any_state(serve, browser, dark):
    rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
    replies = (MARKDOWN, call("deploy", version="1.2"), "It is *live*.")
    agents = {
        "scripted": scripted(*replies, tools=[deploy], permissions=rules),
        "planner": planner,
    }

    async def trace(session):
        await trio.lowlevel.checkpoint()
        return {"spans": SPANS}

    found = list[str]()
    async with browser.visit(dark=dark) as tab:
        async with serve(agents=agents, trace=trace) as service:
            await tab.go(link(service))
            await tab.see("New session")
            await tab.run(Path(AXE or "").read_text() + "; 1")
            await check(tab, "empty", found)
            await tab.say("hello")
            await tab.see("The end of it.")
            await check(tab, "talk", found)
            await tab.say("deploy it")
            await tab.until("document.querySelector('[role=alert] button:not([disabled])')")
            await check(tab, "question", found)
            await tab.click("Allow")
            await tab.see("It is live.")
            await tab.run(
                "document.querySelectorAll('details').forEach((each) => each.open = true)"
            )
            await tab.click("Trace")
            await tab.until("document.querySelector('.bar')")
            await check(tab, "trace", found)
            planned = await service.create("planner", "plan")
            await tab.run(f"location.hash = 'session={planned}'")
            await tab.see("planner")
            await tab.say("plan")
            await tab.see("a trip")
            await check(tab, "plan", found)
        await tab.see("Connection lost")
        await check(tab, "lost connection", found)
    assert found == []
