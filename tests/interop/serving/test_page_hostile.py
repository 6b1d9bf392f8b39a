"""What no text of a model, a tool or a stranger can do to the page."""

import random

import pytest

from tests.interop.serving.browser import BROWSER, link, tags

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")

HOSTILE = (
    "<script>window.taken = 1</script>",
    "<img src=http://evil.test/a onerror='window.taken = 1'>",
    "![a](http://evil.test/b.png) ![b][c]\n\n[c]: http://evil.test/d.png",
    "[press](javascript:window.taken=1) <javascript:window.taken=1>",
    "[press](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "<http://evil.test/e> https://evil.test/f www.evil.test ann@evil.test",
    "</p></pre></title></style></textarea><svg onload='window.taken = 1'>",
    "<iframe src=http://evil.test/g></iframe><base href=http://evil.test/>",
    "<style>@import 'http://evil.test/h';</style><link rel=stylesheet href=http://evil.test/i>",
    "<form action=http://evil.test/j><input autofocus onfocus='window.taken = 1'></form>",
    "<meta http-equiv=refresh content='0;url=http://evil.test/k'>",
    "<a href=http://evil.test/l ping=http://evil.test/m>x</a><object data=http://evil.test/n>",
    "```html\n<script>window.taken = 1</script>\n```\n<video poster=http://evil.test/o>",
    "| <img src=x onerror=window.taken=1> | b |\n| - | - |\n| ![a](http://evil.test/p) | 2 |",
    "- [x] <details open ontoggle='window.taken = 1'>\n> # <b onclick=window.taken=1>",
    "\u202egnp.exe\u202c \u200b\u2066hidden\u2069 \x1b[2J\x00 \ud7ff\ue000",
    "${window.taken = 1} `${window.taken = 1}` {{constructor.constructor('window.taken=1')()}}",
    '{"dangerouslySetInnerHTML": {"__html": "<img src=x onerror=window.taken=1>"}}',
    "__proto__ constructor toString",
    "<math><mtext><img src=http://evil.test/q></mtext></math><template><img src=y></template>",
)
"""Each stands in ten places, as it streams and as it is on record."""

PLAIN = {
    *("article", "h3", "p", "details", "summary", "b", "span", "pre", "code", "div", "button"),
    *("strong", "em", "del", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr"),
    *("th", "td", "br", "hr", "input", "select", "option", "label", "section", "textarea", "form"),
    *("header", "h1", "h2", "nav", "main", "html", "head", "body", "meta", "title", "link"),
    *("script", "noscript"),
}
LEADS = """[...document.querySelectorAll("*")].flatMap((each) =>
  [...each.attributes].filter(({ name }) => !each.closest("head") && (name.startsWith("on") ||
    /^(href|src|srcset|(form)?action|ping|poster|data|background|style|xlink:href)$/.test(name)))
    .map(({ name, value }) => `${each.localName} ${name}=${value}`))"""


async def hostile(agent):
    """Say each text in every place that the page shows."""
    from greenroom.core import (
        Custom,
        Error,
        Message,
        SubAgentComplete,
        SubAgentSpawned,
        TextBlock,
        TextComplete,
        TextDelta,
        ThinkingBlock,
        ThinkingDelta,
        ToolEnd,
        ToolInfo,
        ToolProgress,
        ToolResult,
        ToolStart,
        ToolUseBlock,
    )

    async for message in agent.inputs():
        async with agent.turn(message):
            for at, text in enumerate(HOSTILE):
                diff = f"--- {text}\n+++ {text}\n@@ -1 +1 @@\n-{text}\n+{text}"
                for part in (text[: len(text) // 2], text[len(text) // 2 :]):
                    await agent.send(TextDelta(part))
                await agent.send(TextComplete(text))
                await agent.send(ThinkingDelta(text))
                info = ToolInfo(text, text, diff, text)
                await agent.send(
                    ToolStart(f"t-{at}", text, {text: text, "b": {text: [text]}}, info)
                )
                await agent.send(ToolProgress(f"t-{at}", text))
                await agent.send(ToolEnd(f"t-{at}", ToolResult.error(f"{text}\n{diff}"), True))
                await agent.send(ToolStart(f"u-{at}", "Edit", {"a": text}))
                await agent.send(Error(text, text, text))
                await agent.send(Custom("shop.note", {text: text}, text))
                await agent.send(Custom(text, {text: text}, text))
                await agent.send(SubAgentSpawned(f"s-{at}", text, text))
                await agent.send(SubAgentComplete(f"s-{at}", "completed", text))
                todo = [{"content": text, "status": text}]
                await agent.send(ToolStart(f"d-{at}", "Todo", {"todos": todo}))
                plan = {"goal": text, "subtasks": [{"id": text, "goal": text}]}
                await agent.send(Custom("plan.step", {"type": "begin", "plan": plan}))
                await agent.send(Custom("workflow.node", {"node": text, "status": text}))
                name = "".join(each for each in text if each.isprintable() and each != "/")
                await agent.context.save_artifact(name[:200], text, media_type="text/html")
                blocks = (TextBlock(text), ThinkingBlock(text), ToolUseBlock(f"t-{at}", "Say", {}))
                agent.session.add_message(Message("assistant", blocks, model=text))
                agent.session.conversation.pair_tool_uses()
            asked = HOSTILE[0]
            await agent.request_permission(
                asked, HOSTILE[1], details="\n".join(HOSTILE), diff=diff, digest="d-1"
            )


async def test_no_text_of_a_model_runs_loads_or_leads_anywhere(serve, browser):
    async with serve(agents={"hostile": hostile}) as service:
        async with service.client() as client:
            for title in HOSTILE:
                body = {"agent": "hostile", "metadata": {"title": title}}
                session = (await client.post("/api/sessions", json=body)).json()["id"]
        visit = browser.visit(link(service, rest=f"&session={session}"))
        async with visit as tab:
            await tab.until("document.querySelector('textarea')")
            await tab.run("document.querySelector('textarea').focus()")
            await tab.type(HOSTILE[0])
            await tab.press("Enter")
            await check_harmless(tab, service)
            assert await tab.run("document.querySelectorAll('.entry').length") == 200
            await tab.click("Show earlier")
            assert await tab.until("document.querySelectorAll('.entry').length === 201")
            for panel in ("Artifacts", "Tools"):
                await tab.click(panel)
                await tab.until("document.querySelector('.panel table')")
            await check_harmless(tab, service)
            # What hides in a question is written out.
            await tab.until(
                "document.querySelector('.question').innerText.includes('\\\\u{202e}gnp')"
            )
            # Again, as it is on record.
            await tab.call("Page.reload")
            await check_harmless(tab, service)
            assert tab.errors == []
            script = "try { document.body.innerHTML = '<b>x</b>' } catch (error) { error.name }"
            assert await tab.run(script) == "TypeError"


async def check_harmless(tab, service):
    await tab.until("document.querySelector('[role=alert] button:not([disabled])')")
    opened = "[...document.querySelectorAll('#log details')].every((each) => each.open = true)"
    await tab.until(opened)
    await tab.until("[...document.querySelectorAll('#log details')].every((e) => e.children[1])")
    assert await tags(tab, "html") <= PLAIN
    bars = [each for each in await tab.run(LEADS) if not each.startswith("li style=margin-left")]
    assert bars == []
    assert await tab.run("window.taken ?? null") is None
    assert {each.split("/")[2] for each in tab.requests if each.startswith("http")} == {
        service.link.removeprefix("http://")
    }


def make_value(choose, depth=0):
    """Make some value that JSON has."""
    plain = [None, True, 0, -1.5, "", "text", "__proto__", "x" * 300, [], {}]
    if depth > 3 or choose.random() < 0.4:
        return choose.choice(plain)
    if choose.random() < 0.4:
        return [make_value(choose, depth + 1) for _ in range(choose.randrange(4))]
    keys = ("type", "plan", "subtasks", "id", "status", "states", "unit", "node", "item", "enum")
    keys += ("goal", "todos", "content", "properties", "default", "title", "text", "steps")
    return {key: make_value(choose, depth + 1) for key in choose.sample(keys, 6)}


ODD_FIELDS = {
    "properties": {
        "a": True,
        "b": {"enum": [None, {"x": [1]}, "__proto__"], "title": "constructor"},
        "c": {"type": ["string", "null"], "default": {"y": 2}},
        "__proto__": {"type": "boolean", "description": "<b>what</b>"},
    }
}


async def odd(agent):
    """Send what readers do not expect, and ask for odd fields."""
    from greenroom.core import Custom, TextComplete, ToolEnd, ToolResult, ToolStart

    choose = random.Random(7)
    async for message in agent.inputs():
        async with agent.turn(message):
            for number in range(150):
                kind = choose.choice(
                    ("plan.step", "workflow.node", "input.joined", "reply.restarted")
                )
                data = make_value(choose)
                data = data if isinstance(data, dict) else {"unit": data, "plan": data}
                if kind == "plan.step":
                    data["type"] = choose.choice(("begin", "revise", "move"))
                await agent.send(Custom(kind, data))
                await agent.send(ToolStart(f"t-{number}", "Todo", {"todos": [make_value(choose)]}))
                await agent.send(ToolEnd(f"t-{number}", ToolResult.ok("", diff=data)))
            await agent.send(TextComplete("still here"))
            await agent.request_permission("Ask", "odd fields", fields=ODD_FIELDS)


async def test_whatever_comes_the_page_goes_on(serve, browser):
    async with serve(agents={"odd": odd}) as service, browser.visit(link(service)) as tab:
        await tab.say("go")
        await tab.see("still here")
        await tab.click("Deny")
        await tab.see("idle")
        assert tab.errors == []
