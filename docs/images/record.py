"""Draw docs/images/*.svg from real runs of the program in tmux.

python docs/images/record.py
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

PROGRAM = 'def greet(name):\n    return f"helo {name}"\n'
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
        if text in "\n".join(screen.splitlines()[-3:]) and screen == last:
            return
        last = screen
        time.sleep(0.3)
    raise SystemExit(f"{text!r} did not appear:\n{last}")


def draw(name: str, folder: Path, words: str, size: tuple[int, int], script) -> None:
    """Run the program with these words, type the lines of the script, and draw what then stands."""
    width, height = size
    command = f"env HOME={folder} COLORTERM=truecolor {shlex.join(COMMAND)} {words}"
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
    draw("terminal.svg", folder, "", (96, 44), script)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hello").mkdir()
        (folder / "hello" / "greet.py").write_text(PROGRAM)
        draw_terminal(folder)


if __name__ == "__main__":
    main()
