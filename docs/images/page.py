"""Draw docs/images/page-*.png: a coder at work, on the page of a server, in Debian's Chromium.

python docs/images/page.py
"""

import base64
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

from greenroom import AgentRuntime, InMemoryStore, ToolRegistry, coder
from greenroom.cli.run_rules import load_rules
from greenroom.core import TextBlock, Usage
from greenroom.interop import WebServer
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import builtin_tools

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.interop.serving.browser import Browser  # noqa: E402 (found by the line above)

PICTURES = {"page-light": (1100, 900, False), "page-phone": (390, 844, True)}
PROGRAM = """\
def parse_number(text: str) -> int:
    if not text.isdigit():
        raise ValueError(text)
    return int(text)
"""
BETTER = PROGRAM.replace("text.isdigit", 'text.lstrip("+-").isdigit')
TODOS = [
    {"content": "Find who calls parse_number", "status": "completed"},
    {"content": "Accept a sign in front of a number", "status": "in_progress"},
    {"content": "Run the tests", "status": "pending"},
]
PLAN = """\
`parse_number` takes digits alone, so **`-5` is refused**:

| text | today | then |
| --- | --- | --- |
| `5` | 5 | 5 |
| `-5` | error | -5 |

1. find who calls it
2. accept a sign, and say so
3. run the tests"""


def model() -> ScriptedProvider:
    usage = Usage(2_310, 180, cost=0.0041)
    return ScriptedProvider(
        Reply([TextBlock(PLAN), call("Todo", todos=TODOS)], usage=usage),
        Reply([call("Grep", pattern="parse_number"), call("Read", file_path="parser.py")]),
        Reply(
            [
                TextBlock("Nothing else calls it. This is the change:"),
                call("Edit", file_path="parser.py", old_string=PROGRAM, new_string=BETTER),
            ],
            usage=usage,
        ),
        "Done.",
    )


# The folder has another name each time.
SAME = """(() => {
  document.activeElement.blur();
  document.querySelector(".question .quiet").textContent = "in /home/ada/hello";
})()"""


async def serve_coder(folder: Path, agent) -> None:
    tools = ToolRegistry(builtin_tools())
    await coder(agent, model(), tools, load_rules(folder, []).manager)


async def main(folder: Path) -> None:
    hello = folder / "hello"
    hello.mkdir()
    (hello / "parser.py").write_text(PROGRAM)
    os.chdir(hello)  # the question says where
    browser = Browser(folder / "profile")
    try:
        for name, (width, height, dark) in PICTURES.items():
            async with AgentRuntime(InMemoryStore(), workspace=hello) as runtime:
                async with trio.open_nursery() as nursery:
                    server = WebServer(runtime, {"coder": partial(serve_coder, hello)})
                    link = await nursery.start(server.serve)
                    visit = browser.visit(link, width=width, height=height, dark=dark)
                    async with visit as tab:
                        await tab.say("Let parse_number accept a sign.")
                        await tab.until("document.querySelector('.question button:enabled')")
                        await tab.run(SAME)
                        picture = await tab.picture()
                    nursery.cancel_scope.cancel()
            (HERE / f"{name}.png").write_bytes(base64.b64decode(picture))
    finally:
        browser.close()


with tempfile.TemporaryDirectory() as name:
    trio.run(main, Path(os.path.realpath(name)))
