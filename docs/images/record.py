"""Draw docs/images/*.svg from real runs of the program in tmux.

python docs/images/record.py        draws them all
python docs/images/record.py work   plays a coder at work, in the terminal that it is started in
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio
from rich.console import Console
from rich.text import Text

TODOS = [
    {"content": "Find who calls parse_number", "status": "completed"},
    {"content": "Accept a sign in front of a number", "status": "in_progress"},
    {"content": "Run the tests", "status": "pending"},
]
PLAN = """\
`parse_number` takes digits alone, so **`-5` is refused**. What I will do:

1. find who calls it, with a subagent
2. accept a sign, as in [the grammar](https://docs.python.org/3/reference/lexical_analysis.html)
3. run the tests

```python
def parse_number(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    return sign * int(text.lstrip("+-"))
```
"""
CHECK = """\
#!/bin/sh
for name in parser reader shop; do echo tests/test_$name.py ... ok; done
sleep 600
"""
PROGRAM = 'def greet(name):\n    return f"helo {name}"\n'
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "NO_COLOR")
COMMAND = [sys.executable, "-m", "greenroom"]


def tmux(*words: str) -> str:
    done = subprocess.run(
        ["tmux", "-L", "greenroom-record", *words], check=True, capture_output=True, text=True
    )
    return done.stdout


def wait_for(text: str) -> None:
    """Wait until the last lines of the screen hold a text, and no longer change."""
    last = ""
    for _ in range(200):
        screen = tmux("capture-pane", "-p", "-t", "demo").rstrip()
        if text in "\n".join(screen.splitlines()[-3:]) and (screen == last or "working" in text):
            return
        last = screen
        time.sleep(0.3)
    raise SystemExit(f"{text!r} did not appear:\n{last}")


def draw(name: str, folder: Path, words: list[str], size: tuple[int, int], script) -> None:
    """Run a program, type the lines of the script, and draw what then stands there."""
    width, height = size
    root = str(Path(__file__).parents[2])
    variables = [f"HOME={folder}", f"PYTHONPATH={root}", "COLORTERM=truecolor"]
    without = [word for key in KEYS for word in ("-u", key)]
    command = shlex.join(["env", *without, *variables, *words])
    place = ("-c", str(folder / "hello"), "-x", str(width), "-y", str(height))
    tmux("-f", os.devnull, "new-session", "-d", "-s", "demo", *place, command)
    try:
        for line, wanted in script:
            if line:
                tmux("send-keys", "-t", "demo", "-l", line)
                tmux("send-keys", "-t", "demo", "Enter")
            wait_for(wanted)
        drawn = tmux("capture-pane", "-e", "-p", "-t", "demo").replace(str(folder), "~")
    finally:
        tmux("kill-server")
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=width, file=nowhere)
        console.print(Text.from_ansi(drawn.rstrip()))
        svg = console.export_svg(title="greenroom")
    Path(__file__).with_name(name).write_text(svg)


def draw_terminal(folder: Path) -> None:
    script = [
        ("", "/help"),
        ("read greet.py", "idle"),
        ("edit greet.py: replace helo with hello", "allow? >"),
        ("y", "idle"),
        ("run python -m doctest greet.py && git status --short > log.txt", "allow? >"),
    ]
    draw("terminal.svg", folder, COMMAND, (96, 44), script)


def draw_work(folder: Path) -> None:
    script = [("", "idle"), ("let parse_number accept a sign", "working 5 s")]
    draw(
        "terminal-work.svg", folder, [sys.executable, str(Path(__file__)), "work"], (96, 32), script
    )


def play_work() -> None:
    """Let a scripted model work as the coder, until the person leaves."""
    from greenroom import AgentRuntime, AgentSession, InMemoryStore, ToolRegistry, coder
    from greenroom.cli import ConsoleRenderer
    from greenroom.cli.run_rules import load_rules
    from greenroom.cli.terminal_choice import terminal_opener
    from greenroom.core import TextBlock
    from greenroom.testing import Reply, ScriptedProvider, call
    from greenroom.tools import builtin_tools

    task = {"description": "find the callers", "prompt": "Find who calls parse_number."}
    script = [
        Reply([TextBlock(PLAN), call("Todo", todos=TODOS)]),
        Reply(
            [TextBlock("I hand the search on, and run the tests meanwhile."), call("Task", **task)]
        ),
        Reply([call("Bash", command="./check.sh")]),
        "Done.",
    ]

    opener = terminal_opener()  # here, since what it loads would hold the event loop

    async def show() -> None:
        rules = load_rules(Path.cwd(), ["Bash(./check.sh)"]).manager
        async with AgentRuntime(store=InMemoryStore(), workspace=Path.cwd()) as runtime:
            parts = (ScriptedProvider(*script), ToolRegistry(builtin_tools()), rules)
            handle = runtime.spawn(AgentSession.new("coder"), coder, *parts, name="coder")
            await ConsoleRenderer(handle, terminal=opener).run()

    trio.run(show)


def main() -> None:
    # What tmux has ended may still write its last words.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name))
        (folder / "hello").mkdir()
        (folder / "hello" / "greet.py").write_text(PROGRAM)
        draw_terminal(folder)
        check = folder / "hello" / "check.sh"
        check.write_text(CHECK)
        check.chmod(0o755)
        draw_work(folder)


if __name__ == "__main__":
    play_work() if "work" in sys.argv[1:] else main()
