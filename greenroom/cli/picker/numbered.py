"""A choice on a terminal that can't redraw: a numbered list, and a line with a number."""

import shutil

from greenroom.cli.commands.sessions.row import age
from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.entry import Entry
from greenroom.cli.streams.byte_reader import read_some
from greenroom.cli.streams.output_writer import OutputWriter

_ROWS = 20


async def choose_by_number(choice: Choice, descriptor: int = 0) -> str | None:
    """Print the newest sessions of a choice and read the number of one; an empty line takes none.

    Raises:
        OSError: the terminal can't be read or written.
    """
    out = OutputWriter()
    for number, entry in enumerate(choice.shown[:_ROWS], 1):
        await out.text(_row(number, entry, shutil.get_terminal_size().columns))
    if len(choice.shown) > _ROWS:
        older = len(choice.shown) - _ROWS
        await out.text(f"{older:,} older: `greenroom sessions list` shows them")
    most = min(len(choice.shown), _ROWS)
    await out.text(f"Which one? A number from 1 to {most}, or an empty line for none:")
    while data := await read_some(descriptor):  # a line at a time, as a terminal gives them
        line = data.decode("utf-8", "replace").strip()
        if not line:
            return None
        if line.isdecimal() and 1 <= int(line) <= most:
            return choice.shown[int(line) - 1].session_id
        await out.text(f"That is no number from 1 to {most}. Which one?")
    return None


def _row(number: int, entry: Entry, width: int) -> str:
    return f"{number:>3}  {age(entry.changed):>10}  {entry.title}"[: width - 1]
