"""The terminal: the command `greenroom`, and `ConsoleRenderer`, which shows any agent there.

The program: `main` reads the command line (`arguments`, `options`) and runs `headless` (with
`turn_record`), `interactive`, or one of the `commands`: `sessions`, `permissions`, `doctor`, `tree`. `run` is
what a run is made of, `picker` the list to choose a session from, `completion` completes command
lines, `streams` are standard input and output.

The renderer, each room importing only those behind it: `console` shows agents and hears the person,
`questions` are permission requests, `terminal` is what is drawn on, `drawing` how things look.

Only these modules import rich and prompt_toolkit, and only once they draw.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
