"""Draw docs/images/terminal.svg from a real run of the program in tmux.

python docs/images/record.py
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH, HEIGHT = 96, 44
PROGRAM = 'def greet(name):\n    return f"helo {name}"\n'
SCRIPT = [
    ("read greet.py", "idle"),
    ("edit greet.py: replace helo with hello", "allow? >"),
    ("y", "idle"),
    ("run python -m doctest greet.py && git status --short > log.txt", "allow? >"),
]


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
        if text in "\n".join(screen.splitlines()[-3:]) and screen == last:
            return
        last = screen
        time.sleep(0.3)
    raise SystemExit(f"{text!r} did not appear:\n{last}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "hello")
        project.mkdir()
        (project / "greet.py").write_text(PROGRAM)
        command = f"env HOME={folder} COLORTERM=truecolor {sys.executable} -m greenroom"
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        tmux(
            "-f", os.devnull, "new-session", "-d", "-s", "demo", "-c", str(project), *size, command
        )
        try:
            wait_for("/help")
            for line, wanted in SCRIPT:
                tmux("send-keys", "-t", "demo", "-l", line)
                tmux("send-keys", "-t", "demo", "Enter")
                wait_for(wanted)
            drawn = tmux("capture-pane", "-e", "-p", "-t", "demo").replace(folder, "~")
        finally:
            tmux("kill-server")
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        console.print(Text.from_ansi(drawn.rstrip()))
        svg = console.export_svg(title="greenroom")
    Path(__file__).with_name("terminal.svg").write_text(svg)


if __name__ == "__main__":
    main()
