"""Draw docs/images/export-light.png and export-dark.png: an exported session in a browser.

python docs/images/export.py [a folder for more pictures]
"""

import base64
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import trio

from greenroom import (
    AgentSession,
    InMemoryStore,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from greenroom.core import ImageBlock, ToolUseBlock, Usage
from greenroom.export import export_session

HERE = Path(__file__).parent
SCHEMES = {"light": "1", "dark": "0"}
DIFF = """\
edited greet.py: 1 replaced
--- greet.py
+++ greet.py
@@ -1,3 +1,4 @@
 def greet(name: str) -> str:
-    return f"helo {name}"
+    \"\"\"Say hello.\"\"\"
+    return f"hello {name}"
 print(greet("world"))"""
PLAN = """\
The greeting is misspelt. Three things, then:

1. correct the word in `greet.py`,
2. run the **doctests**,
3. look whether it stands anywhere else."""
REPLY = """\
Done: the word is right, and nothing else had it.

```python
def greet(name: str) -> str:
    \"\"\"Say hello.\"\"\"
    return f"hello {name}"
```

| file | before | now |
| --- | --- | --- |
| `greet.py` | helo | hello |
| `README.md` | hello | hello |

> The style of the messages is described in [the guide](https://example.org/guide)."""


def picture() -> str:
    """Make a small PNG: a gradient."""
    rows = b"".join(
        b"\0" + bytes(v for x in range(240) for v in (20 + x // 3, 110 + y, 120)) for y in range(80)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 240, 80, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(png + chunk(b"IEND", b"")).decode()


def reply(*blocks: object, used: int = 0) -> Message:
    return Message(
        "assistant",
        tuple(blocks),
        model="claude-sonnet-4",
        provider="anthropic",
        usage=Usage(1200 + used, 40 + used // 9, cache_read_tokens=used, cost=0.004 + used / 5e5),
    )


def result(id_: str, text: str, *, error: bool = False) -> Message:
    return Message.user([ToolResultBlock(id_, (TextBlock(text),), is_error=error)])


async def conversation() -> AgentSession:
    """Build a session that has something of everything."""
    store = InMemoryStore()
    session = AgentSession.new("coder", session_id="s-7k2m9q4x1zt0", store=store)
    session.set_metadata("title", "Correct the greeting, and see that it stays right")
    session.set_metadata("workspace", "/home/ada/greeter")
    session.set_model("anthropic", "claude-sonnet-4")
    child = AgentSession.new_subagent("researcher", session.session_id, "t4", store=store)
    child.set_metadata("title", "Find other places that say “helo”")
    child.add_message(Message.user("Search the whole project for “helo”."))
    child.add_message(reply(ToolUseBlock("t1", "Grep", {"pattern": "helo"})))
    child.add_message(result("t1", "no matches"))
    child.add_message(reply(TextBlock("Nothing else says **helo**."), used=300))
    await child.save()
    session.description.add_child(child.session_id)
    for message in (
        Message.user(
            "greet.py says “helo”. Please correct that,\nand see whether it is so elsewhere."
        ),
        reply(
            ThinkingBlock("A spelling mistake; the tests may know the old word. Read first."),
            TextBlock(PLAN),
            ToolUseBlock("t1", "Read", {"file_path": "greet.py"}),
            used=900,
        ),
        result("t1", '     1\tdef greet(name: str) -> str:\n     2\t    return f"helo {name}"'),
        reply(
            ToolUseBlock(
                "t2",
                "Edit",
                {"file_path": "greet.py", "old_string": "helo", "new_string": "hello"},
            )
        ),
        result("t2", DIFF),
        reply(
            ToolUseBlock("t3", "Bash", {"command": "python -m doctest greet.py"}),
            ToolUseBlock("t4", "Task", {"description": "Find other places", "prompt": "Search …"}),
            used=1500,
        ),
        Message.user(
            [
                ToolResultBlock(
                    "t3", (TextBlock("python: command not found\n[exit code 127]"),), is_error=True
                ),
                ToolResultBlock("t4", (TextBlock("Nothing else says **helo**."),)),
            ]
        ),
        reply(TextBlock(REPLY), used=2100),
        Message.user(
            [TextBlock("And this? <script>alert(1)</script>"), ImageBlock("image/png", picture())]
        ),
        reply(
            TextBlock("A gradient. I will measure it."),
            ToolUseBlock("t5", "Bash", {"command": "identify picture.png"}),
        ),
    ):
        session.add_message(message)
    session.mark_tools_started(["t5"])
    session.conversation.pair_tool_uses()
    session.add_message(Message.user("Never mind, thank you."))
    session.add_message(reply(TextBlock("You are welcome."), used=2500))
    return session


def photograph(page: Path, target: Path, scheme: str, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--hide-scrollbars", f"--user-data-dir={profile}", f"--screenshot={target}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                f"--window-size={width},{height}", page.as_uri(),
            ],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip


async def main(extra: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "session.html"
        with page.open("w", encoding="utf-8") as file:
            await export_session(await conversation(), file.write, "html")
        for scheme in SCHEMES:
            photograph(page, HERE / f"export-{scheme}.png", scheme, 900, 1180)
            if extra:
                photograph(page, Path(extra) / f"wide-{scheme}.png", scheme, 1400, 2600)
                photograph(page, Path(extra) / f"narrow-{scheme}.png", scheme, 400, 3400)


trio.run(main, *sys.argv[1:])
