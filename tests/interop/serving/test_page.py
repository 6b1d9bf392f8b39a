"""The page, in a real browser: what a person sees and does, and what no text of a model can do."""

from dataclasses import replace

import pytest

from greenroom import PermissionManager, PermissionRule
from greenroom.distributed import HostInfo
from greenroom.testing import call
from tests.interop.serving.browser import BROWSER, link, tags
from tests.interop.serving.services import echo, scripted

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")

NOTE = "which no record has"
MARKDOWN = """\
# A heading

Some **bold** words, `code`, and [a link](http://elsewhere.test/).

1. one
2. two

| a | b |
| - | - |
| 1 | 2 |

    <b>indented</b>

```python
print(1)
```

The end of it."""


def deploy(version: str) -> str:
    """Deploy a version of the shop."""
    return f"{version} is live"


def deployer(*replies):
    rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
    return scripted(*replies, tools=[deploy], permissions=rules)


async def test_new_say_allow_and_read_by_keyboard_alone(serve, browser):
    agent = deployer(MARKDOWN, call("deploy", version="1.2"), "It is *live*.")
    async with (
        serve(agents={"scripted": agent}) as service,
        browser.visit(link(service)) as tab,
    ):
        await tab.until("document.querySelector('nav button')")
        await tab.press("Tab")
        assert await tab.run("document.activeElement.innerText") == "New session"
        await tab.press("Enter")
        await tab.until("document.activeElement.matches('textarea')")
        await tab.type("hello")
        await tab.press("Enter")
        await tab.see("The end of it.")
        assert await tags(tab) >= {"strong", "ol", "table", "pre", "code"}
        assert not await tags(tab) & {"a", "b", "img"}
        await tab.see("a link (http://elsewhere.test/)")

        await tab.type("deploy it")
        await tab.press("Enter")
        await tab.until("document.querySelector('[role=alert] button:not([disabled])')")
        labels = (
            "[...document.querySelectorAll('[role=alert] button')].map((each) => each.innerText)"
        )
        assert await tab.run(labels) == ["Allow", "Deny"]
        assert await tab.run("document.activeElement.id") == "message"  # nothing has taken it
        for _ in range(2):
            await tab.press("Tab", shift=True)
        assert await tab.run("document.activeElement.innerText") == "Allow"
        await tab.press("Enter")
        await tab.see("It is live.")
        assert await tab.run("document.activeElement.id") == "message"
        assert await tab.run("document.querySelector('.tool').innerText.includes('done')")
        assert not await tab.run("document.querySelector('[role=alert]')")
        assert tab.errors == []


async def test_a_reload_comes_back_to_the_session_and_the_address_has_no_token(serve, browser):
    async with serve() as service, browser.visit(link(service)) as tab:
        await tab.until("document.querySelector('textarea')")
        await tab.run("document.querySelector('textarea').focus()")
        await tab.type("words to come back to")
        await tab.press("Enter")
        said = "document.querySelector('.entry.text')?.innerText === 'words to come back to'"
        await tab.until(said)
        address = await tab.run("location.href")
        assert "token" not in address
        assert "session=s-" in address
        await tab.go("about:blank")
        await tab.go(address)
        await tab.until(said)
        assert await tab.run("document.querySelectorAll('.entry').length") == 2
        assert await tab.run("document.querySelector('[role=status]').innerText") == "Connected"
        assert not [each for each in tab.requests if not each.startswith((service.link, "about:"))]


async def test_without_a_token_the_page_asks_for_one(serve, browser):
    async with serve() as service, browser.visit(service.link) as tab:
        await tab.until("document.querySelector('#token')")
        for token, seen in (("wrong", "a valid token is needed"), ("token-of-ann", "New session")):
            await tab.run("document.querySelector('#token').value = ''")
            await tab.run("document.querySelector('#token').focus()")
            await tab.type(token)
            await tab.press("Enter")
            await tab.see(seen)


async def test_the_page_fits_a_phone(serve, browser):
    async with serve(agents={"scripted": scripted(f"{MARKDOWN} {'x' * 500}")}) as service:
        session = await service.create("scripted", "word" * 200)
        visit = browser.visit(link(service, rest=f"&session={session}"), width=390)
        async with visit as tab:
            await tab.see("The end of it.")
            for step in ("", "Sessions", "Tools", "Trace"):
                if step:
                    await tab.click(step)
                wide = "document.scrollingElement.scrollWidth <= 390"
                assert await tab.until(wide), step


async def test_a_conversation_that_is_joined_in_the_middle_is_whole_at_its_end(serve, browser):
    import trio

    go_on = trio.Event()

    async def slow(agent):
        from greenroom.core import Custom, Message, TextComplete, TextDelta

        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("first "))
                await agent.send(TextComplete("first words"))  # not yet on record
                await go_on.wait()
                await agent.send(TextComplete("last words"))
                await agent.send(Custom("shop.note", {}, NOTE))
                agent.session.add_message(Message.assistant("first words"))
                agent.session.add_message(Message.assistant("last words"))

    async with serve(agents={"slow": slow, "echo": echo}) as service:
        session = await service.create("slow", "go")
        async with browser.visit(link(service, rest=f"&session={session}")) as tab:
            await tab.see("go")
            go_on.set()
            texts = "[...document.querySelectorAll('.entry p, p.entry')].map((e) => e.innerText)"
            await tab.until(f"{texts}.join() === 'go,first words,last words,{NOTE}'")


async def test_the_page_lists_hosts_where_the_server_knows_them(serve, browser):
    async def list_hosts():
        box = HostInfo(
            7, "<b>box</b>", "live", ("gpu",), ("coder", "clerk"), 3, 9, 1, "https://box:1"
        )
        return [box, replace(box, id=8, name="other\u202ebox", state="draining", capabilities=())]

    async with serve(hosts_view=list_hosts) as service, browser.visit(link(service)) as tab:
        await tab.click("Hosts")
        cells = "[...document.querySelectorAll('.panel td')].map((each) => each.innerText)"
        await tab.until(f"{cells}.length === 12")
        found = await tab.run(cells)
        assert found[:6] == ["<b>box</b>", "live", "3 of 9", "coder, clerk", "gpu", "https://box:1"]
        assert found[6:8] == ["other\\u{202e}box", "draining"]
        await tab.click("Hosts")
        await tab.until("!document.querySelector('.panel')")
        await tab.say("hello")
        await tab.until("document.querySelector('.head button')")
        await tab.click("Hosts")  # also beside a conversation
        await tab.until(f"{cells}.length === 12")
        assert tab.errors == []


async def test_the_page_of_one_machine_has_no_list_of_hosts(serve, browser):
    async with serve() as service, browser.visit(link(service)) as tab:
        await tab.say("hello")
        await tab.until("document.querySelector('.head button')")
        labels = "[...document.querySelectorAll('button')].map((each) => each.innerText)"
        assert "Hosts" not in await tab.run(labels)
