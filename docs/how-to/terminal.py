"""Writes the tables of docs/how-to/terminal.md from the code: python docs/how-to/terminal.py."""

import re
from collections.abc import Iterator
from pathlib import Path

from greenroom.cli.command_help import command_table, key_table
from greenroom.cli.commands import COMMANDS
from greenroom.cli.settings_schema import SettingsModel

PAGE = Path(__file__).with_suffix(".md")
_PART = r"(<!-- table: {name} -->\n).*?(<!-- end -->)"


def settings_table() -> Iterator[str]:
    """Yield the lines of a table of the settings."""
    yield "| setting | what it is |"
    yield "| --- | --- |"
    for name, field in SettingsModel.model_fields.items():
        if field.alias is None:
            yield f"| `{name}` | {field.description} |"


TABLES = {
    "commands": lambda: command_table(COMMANDS),
    "keys": key_table,
    "settings": settings_table,
}


def page() -> str:
    """Return the page with its tables as they are now."""
    text = PAGE.read_text()
    for name, table in TABLES.items():
        rows = "\n".join(table()).replace("\\", "\\\\")
        text = re.sub(_PART.format(name=name), rf"\g<1>\n{rows}\n\n\g<2>", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
