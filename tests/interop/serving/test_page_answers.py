"""Each kind of question on the page, and what the agent gets for an answer."""

import pytest

from greenroom.core import Custom, Message, TextDelta
from greenroom.session import AgentSession
from tests.interop.serving.browser import BROWSER, link

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")

FIELDS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "Where to"},
        "nights": {"type": "integer", "default": 2},
        "class": {"enum": ["first", "second"]},
        "dog": {"type": "boolean"},
    },
    "required": ["city"],
}


async def test_each_kind_of_question_gets_its_answer(serve, browser):
    answers = []

    async def helper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answers.append(await agent.request_permission("Help", "help out", digest="d-2"))
                agent.session.add_message(Message.assistant("It helped."))

    async def asker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                ask = agent.request_permission
                answers.append(await ask("Ask", "Which colour?", options=("red", "blue")))
                answers.append(await ask("Ask", "What else?", options=()))
                answers.append(await ask("Book", "Book a room", fields=FIELDS))
                answers.append(await ask("Deploy", "Deploy it", details="make deploy"))
                handle = agent.spawn(AgentSession.new("helper"), helper, name="helper")
                await handle.ask("go")
                agent.session.add_message(Message.assistant("All is asked."))

    async with serve(agents={"asker": asker}) as service, browser.visit(link(service)) as tab:
        await tab.say("go")
        await tab.see("Which colour?")
        await tab.click("blue")
        await tab.see("What else?")
        await focus(tab, "input[type=text]")
        await tab.type("a bell")
        await tab.click("Answer")
        await tab.see("Book a room")
        await focus(tab, "input[type=text]")
        await tab.type("Bonn")
        await tab.run("""(() => {
          const set = (find, change) => {
            const field = document.querySelector(`.question ${find}`);
            change(field);
            field.dispatchEvent(new Event("change"));
          };
          set("select", (field) => (field.value = "1"));
          set("[type=checkbox]", (field) => (field.checked = true));
        })()""")
        await tab.click("Allow")
        await tab.see("make deploy")
        await tab.click("Deny")
        await tab.see("by asker › helper")  # the question of a subagent
        await tab.see("Agent helper")
        await tab.click("Allow")
        await tab.see("idle")
        assert [(each.decision, each.message) for each in answers] == [
            ("allow", "blue"),
            ("allow", "a bell"),
            ("allow", ""),
            ("deny", ""),
            ("allow", ""),
        ]
        booked = {"city": "Bonn", "nights": 2, "class": "second", "dog": True}
        assert answers[2].input == booked
        assert tab.errors == []


async def focus(tab, what):
    await tab.until(f"document.querySelector('.question {what}')")
    await tab.run(f"document.querySelector('.question {what}').focus()")


async def test_a_turn_is_stopped_and_a_plan_is_there_again(serve, browser):
    import trio

    steps = (
        {
            "type": "begin",
            "plan": {"goal": "a trip", "subtasks": [{"id": "fly", "goal": "Book a flight"}]},
        },
        {"type": "move", "id": "fly", "status": "executing"},
    )

    async def planner(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_record("plan.step", steps[0])
                await agent.session.save()
                await agent.send(TextDelta("I begin"))
                await agent.send(Custom("plan.step", steps[1]))
                await trio.sleep_forever()

    async with serve(agents={"planner": planner}) as service, browser.visit(link(service)) as tab:
        await tab.say("go")
        # The chunk is of a plan whose beginning the page has not seen: it is on record.
        await tab.until("document.querySelector('.plan')?.textContent.includes('Book a flight')")
        await tab.click("Plan")
        await tab.until("document.querySelector('.panel').textContent.includes('Book a flight')")
        await tab.click("Stop")
        await tab.see("interrupted")
        await tab.until(
            "![...document.querySelectorAll('button')].some((e) => e.innerText === 'Stop')"
        )
        await tab.call("Page.reload")
        await tab.until("document.querySelector('.plan')?.textContent.includes('Book a flight')")
        assert tab.errors == []
