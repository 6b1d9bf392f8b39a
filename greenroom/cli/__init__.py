"""The terminal: the command `greenroom`, and `ConsoleRenderer`, which shows any agent there.

Modules, by way of the program: `main`, `arguments` and `options`, `folders`, `rules`, `run_setup`
(what every run is made of) with `store` and `resumption`, `log_file`; `headless` (with
`piped_input`, `turn_record`, `output_writer`, `byte_reader`), `interactive` (with `end_signals`), and
`picker`, the list to choose a session from; `commands` (`sessions`, `permissions`, `doctor`), which print a `page`
and ask with `confirm`; `completion`, which completes command lines. The renderer: `renderer` and its
parts `screen`, `person`, `question_queue` (with `choices` and `prompt_pages`); pure text in `agent_view`, `render_chunk`, `render_tool`,
`render_recap`, `render_part`, `markdown_stream`, `permission_prompt`, `recap`; `theme`, `painter` and `prefixed`
(colours and rich); `terminal` (what a terminal is), `prompt_terminal` (with `prompt_application` and
`prompt_io`, which are prompt_toolkit in a thread) and `plain_terminal`.

Only these modules import rich and prompt_toolkit, and only once they draw.
"""

from typing import TYPE_CHECKING

from greenroom.cli.main import main as main

if TYPE_CHECKING:
    from greenroom.cli.renderer import ConsoleRenderer as ConsoleRenderer
    from greenroom.cli.theme import ColorScheme as ColorScheme

__all__ = ["ColorScheme", "ConsoleRenderer", "main"]


def __getattr__(name: str) -> object:
    """Load the renderer at its first use, so that `greenroom --version` starts at once."""
    if name == "ConsoleRenderer":
        from greenroom.cli.renderer import ConsoleRenderer

        return ConsoleRenderer
    if name == "ColorScheme":
        from greenroom.cli.theme import ColorScheme

        return ColorScheme
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
