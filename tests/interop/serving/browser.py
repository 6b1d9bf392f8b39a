"""Debian's Chromium, driven by its DevTools protocol over a pair of pipes: no port, no library."""

import json
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from itertools import count

import trio

BROWSER = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-default-apps", "--mute-audio", "--hide-scrollbars",
    "--remote-debugging-pipe",
    # Every other host is this machine's port 1, where nobody listens.
    "--host-resolver-rules=MAP * 127.0.0.1:1, EXCLUDE 127.0.0.1",
)  # fmt: skip
SETTLE = """new Promise((resolve, reject) => {
  const look = () => {
    try { const found = (%s); if (found) return resolve(found); } catch (error) { last = error; }
    if (performance.now() > end) return reject(last);
    setTimeout(look, 10);
  };
  let last = new Error("it did not come true");
  const end = performance.now() + %d;
  look();
})"""


class Browser:
    """One process for all tests of a module; each visit has a profile of its own."""

    def __init__(self, profile):
        to_read, self._send = os.pipe()
        self._receive, to_write = os.pipe()
        command = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1', "sh", BROWSER]
        self._process = subprocess.Popen(
            [*command, *FLAGS, f"--user-data-dir={profile}"], stdin=to_read, stdout=to_write
        )
        os.close(to_read)
        os.close(to_write)
        self._left = b""
        self._ids = count(1)
        self._tab = None

    def close(self):
        os.close(self._send)
        os.close(self._receive)
        self._process.kill()
        self._process.wait(30)

    @asynccontextmanager
    async def connect(self):
        """Speak with the browser in this event loop, for the block."""
        to, of = os.dup(self._send), os.dup(self._receive)
        async with trio.lowlevel.FdStream(to) as stream, trio.lowlevel.FdStream(of) as events:
            link = Link(stream, self._ids)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, events, link)
                yield link
                nursery.cancel_scope.cancel()

    async def _read(self, events, link):
        while True:
            *whole, self._left = self._left.split(b"\0")
            for each in whole:
                link.take(json.loads(each))
            self._left += await events.receive_some(1 << 20)

    @asynccontextmanager
    async def visit(self, address="about:blank", **options):
        """Open a page for the block, always in the same tab: each server is another origin."""
        async with self.connect() as link:
            if self._tab is None:
                self._tab = await Tab.open(link)
            self._tab = tab = Tab(link, self._tab.context, self._tab.target, self._tab.session)
            await tab.show(**options)
            await tab.go(address)
            yield tab
            for other in {*link.tabs.values()} - {tab}:
                await link.call("Target.closeTarget", targetId=other.target)
            await tab.go("about:blank")


class Link:
    """Calls, and what hears the events of each tab."""

    def __init__(self, stream, ids):
        self._stream, self._ids = stream, ids
        self._lock = trio.Lock()
        self._waiting = {}
        self.tabs = {}
        self.traced, self.is_traced = [], trio.Event()

    def take(self, message):
        if waiting := self._waiting.pop(message.get("id"), None):
            waiting.send_nowait(message)
        elif tab := self.tabs.get(message.get("sessionId")):
            tab.take(message)
        elif message.get("method") == "Tracing.dataCollected":
            self.traced += message["params"]["value"]
        elif message.get("method") == "Tracing.tracingComplete":
            self.is_traced.set()

    async def measure(self, work):
        """Run something; return the milliseconds of processor time of each task of the page."""
        categories = {"includedCategories": ["toplevel"]}
        await self.call("Tracing.start", transferMode="ReportEvents", traceConfig=categories)
        await work()
        await self.call("Tracing.end")
        await self.is_traced.wait()
        threads = {
            (each["pid"], each["tid"]): each["args"]["name"]
            for each in self.traced
            if each["name"] == "thread_name"
        }
        return [
            each.get("tdur", 0) / 1000
            for each in self.traced
            if "RunTask" in each["name"]
            and threads.get((each["pid"], each["tid"])) == "CrRendererMain"
        ]

    async def call(self, method, session=None, **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        done, answer = trio.open_memory_channel(1)
        self._waiting[number] = done
        async with self._lock:
            await self._stream.send_all(json.dumps(message).encode() + b"\0")
        with trio.fail_after(120):  # `until` gives up before, and says why
            reply = await answer.receive()
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]


class Tab:
    """One page; `requests` are the addresses that it has asked for, `errors` what it has logged."""

    def __init__(self, link, context, target, session):
        self.link, self.context, self.target, self.session = link, context, target, session
        self.requests, self.errors, self._loaded = [], [], trio.Event()
        link.tabs[session] = self

    @classmethod
    async def open(cls, link, context=None):
        if context is None:
            context = (await link.call("Target.createBrowserContext"))["browserContextId"]
        made = await link.call(
            "Target.createTarget", url="about:blank", browserContextId=context, newWindow=True
        )
        target = made["targetId"]
        joined = await link.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = cls(link, context, target, joined["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            await tab.call(f"{domain}.enable")
        await tab.show()
        return tab

    async def show(self, *, width=1100, height=800, dark=False):
        """Set what a person looks at it with."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    def take(self, message):
        params = message.get("params", {})
        match message["method"]:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details))
            case "Log.entryAdded":
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Page.loadEventFired":
                self._loaded.set()

    async def call(self, method, **params):
        return await self.link.call(method, self.session, **params)

    async def go(self, address):
        self._loaded = trio.Event()
        await self.call("Page.navigate", url=address)
        with trio.fail_after(60):
            await self._loaded.wait()

    async def run(self, script):
        """Run a script in the page; return its value, as JSON has it."""
        done = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise AssertionError((script, details.get("exception", {}).get("description", details)))
        return done["result"].get("value")

    async def until(self, script, seconds=60):
        """Wait until a script of the page gives something true; return that."""
        return await self.run(SETTLE % (script, seconds * 1000))

    async def see(self, text):
        """Wait until the page has a text."""
        await self.until(f"document.body.textContent.includes({json.dumps(text)})")

    async def click(self, label):
        """Press the button whose label begins so, once it can be pressed."""
        found = f"""[...document.querySelectorAll("button")].find((each) =>
            each.innerText.trim().startsWith({json.dumps(label)}) && !each.disabled)"""
        await self.until(f"({found}) && (({found}).click(), true)")

    async def say(self, text):
        """Say something in the session that is shown."""
        field = "document.getElementById('message')"
        await self.until(f"{field} && ({field}.focus(), true)")
        await self.type(text)
        await self.press("Enter")

    async def type(self, text):
        """Type into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def press(self, key, *, shift=False):
        """Press a key, as a person does."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        codes = {"Enter": 13, "Tab": 9, " ": 32, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code={" ": "Space"}.get(key, key),
                windowsVirtualKeyCode=codes[key], modifiers=8 if shift else 0, **extra,
            )  # fmt: skip

    async def picture(self):
        """Return a picture of the page, as base64 of a PNG."""
        return (await self.call("Page.captureScreenshot", format="png"))["data"]


def link(service, who="ann", rest=""):
    """Return the address of the page with the token of somebody."""
    return f"{service.link}/#token=token-of-{who}{rest}"


async def tags(tab, place="#log"):
    """Return the names of the elements in a place."""
    script = f"[...document.querySelectorAll('{place} *')].map((each) => each.localName)"
    return set(await tab.run(script))
