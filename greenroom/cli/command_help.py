"""The command `/help`, and the tables of the page for users."""

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from greenroom.cli.command_context import CommandContext
from greenroom.cli.commands import KEYS, Command, KeyHelp

_HEADS = ("key", "at the input line", "while a turn runs", "at a question")
_INTRODUCTION = (
    "Type what the agent should do, then Enter. While it works, a line is its next input."
)
_FILES = "@path sends a file (@path#L2-4 some lines of it); ! at the start runs a command yourself."


async def show_help(context: CommandContext, words: str) -> None:
    """Show every command and key."""
    screen = context.screen
    table = Table.grid(padding=(0, 2, 0, 0))
    for each in context.commands:
        table.add_row(Text(each.usage, screen.scheme.tool), Text(each.summary))
    keys = Table.grid(padding=(0, 2, 0, 0))
    for key in KEYS:
        keys.add_row(Text(key.keys, screen.scheme.tool), Text(describe_key(key)))
    note = screen.scheme.note
    screen.print(Text(_INTRODUCTION, note), Text(_FILES, note), table, Text(""), keys)


def describe_key(key: KeyHelp) -> str:
    """Say in a line what a key does.

    Example:
        >>> describe_key(KeyHelp("Esc", "close a menu", "interrupt"))
        'close a menu; in a turn: interrupt'
    """
    parts = [
        key.at_line,
        f"in a turn: {key.in_turn}" if key.in_turn else "",
        f"at a question: {key.at_question}" if key.at_question else "",
    ]
    return "; ".join(part for part in parts if part)


def command_table(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the lines of a Markdown table of commands."""
    yield "| command | what it does |"
    yield "| --- | --- |"
    for each in commands:
        yield f"| `{each.usage}` | {each.summary} |"


def key_table() -> Iterator[str]:
    """Yield the lines of a Markdown table of the keys."""
    yield f"| {' | '.join(_HEADS)} |"
    yield "| --- " * len(_HEADS) + "|"
    for key in KEYS:
        yield f"| {key.keys} | {key.at_line} | {key.in_turn} | {key.at_question} |"
