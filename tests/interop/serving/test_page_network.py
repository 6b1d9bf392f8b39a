"""The page when requests are lost, refused or never answered, and when a question changes."""

import pytest
import trio

from greenroom.core import PermissionRequest, TextComplete
from tests.interop.serving.browser import BROWSER, link

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")

STATUS = "document.querySelector('[role=status]').innerText"
# The next request that sends something ends as `how` says, before it reaches the server.
LOSE_ONE = """(how) => {
  const real = window.fetch;
  window.fetch = (path, options = {}) => {
    if (options.method !== "POST") return real(path, options);
    window.fetch = real;
    return how(options);
  };
}"""


async def test_another_token_goes_on_with_the_session_that_is_shown(serve, browser):
    async with serve() as service, browser.visit(link(service)) as tab:
        await tab.say("first")
        await tab.until("document.querySelector('.entry.text')?.innerText === 'first'")
        await tab.run("sessionStorage.setItem('greenroom.token', 'taken back')")
        await tab.say("second")
        await tab.until(
            "(document.querySelector('#token')?.focus(), document.activeElement.id === 'token')"
        )
        await tab.type("token-of-ann")
        await tab.press("Enter")
        await tab.say("third")
        await tab.until(
            "[...document.querySelectorAll('.entry.text')].pop()?.innerText === 'third'"
        )


async def test_a_message_that_is_lost_is_sent_again(serve, browser):
    async with serve() as service, browser.visit(link(service)) as tab:
        await tab.say("first")
        await tab.until("document.querySelector('.entry.text')?.innerText === 'first'")
        await tab.run(f"({LOSE_ONE})(() => Promise.reject(new TypeError('Failed to fetch')))")
        await tab.say("second")
        await tab.see("the server can't be reached")
        await tab.until("document.querySelectorAll('.entry.text')[1]?.innerText === 'second'")
        await tab.until("!document.querySelector('.error')")


async def test_a_request_without_an_answer_is_no_connection(serve, browser):
    async with serve() as service, browser.visit(link(service)) as tab:
        await tab.say("first")
        await tab.until("document.querySelector('.entry.text')?.innerText === 'first'")
        # Its time to wait for an answer is over as soon as its stream is put down.
        await tab.run(f"""({LOSE_ONE})(({{ signal }}) => new Promise((resolve, reject) => {{
          window.hanging = true;
          signal.addEventListener("abort", () => {{
            window.hanging = false;
            reject(signal.reason);
          }});
        }}))""")
        await tab.run("""{
          const real = window.setTimeout;
          window.setTimeout = (work, ms) => real(work, ms === 40_000 ? 1_500 : ms);
        }""")
        await tab.say("second")
        await tab.until(f"window.hanging && {STATUS} === 'Connecting …'")
        await tab.until("document.querySelectorAll('.entry.text')[1]?.innerText === 'second'")
        assert await tab.run("window.hanging") is False


async def test_the_first_input_waits_until_its_answer_can_be_heard(serve, browser):
    over = trio.Event()

    async def speaker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextComplete("said at once, and not on record"))
                await over.wait()

    async with serve(agents={"speaker": speaker}) as service, browser.visit(link(service)) as tab:
        await tab.run("""const fetched = window.fetch; window.fetch = async (path, ...more) => {
          if (path.startsWith("api/stream")) await new Promise((go) => setTimeout(go, 300));
          return fetched(path, ...more);
        }""")
        await tab.say("go")
        await tab.see("said at once, and not on record")
        over.set()
        await tab.see("idle")


async def test_a_question_that_changes_is_a_new_one_to_read(serve, browser):
    change, over = trio.Event(), trio.Event()

    async def asker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(PermissionRequest("r-1", "Deploy", "deploy 1", digest="d-1"))
                await change.wait()
                await agent.send(PermissionRequest("r-1", "Deploy", "deploy 2", digest="d-2"))
                await over.wait()

    async with serve(agents={"asker": asker}) as service, browser.visit(link(service)) as tab:
        await tab.say("go")
        await tab.see("deploy 1")
        await tab.until("document.querySelector('.question button:not([disabled])')")
        await tab.run("""window.seen = null; new MutationObserver(() => {
          const question = document.querySelector(".question");
          if (question?.innerText.includes("deploy 2")) {
            window.seen ??= [...question.querySelectorAll("button")].map((each) => each.disabled);
          }
        }).observe(document.body, { subtree: true, childList: true, characterData: true })""")
        change.set()
        assert await tab.until("window.seen") == [True, True]
        over.set()
