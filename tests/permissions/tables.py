"""The tables of commands, as text.

A row of a table is a title, a colon, and texts with ` ¦ ` between them; it goes on in indented
lines. In a text ⏎ is the end of a line, ⇥ a tabulator, and «a0» the character of that number.
"""

import re
from pathlib import Path


def read_table(name: str) -> dict[str, tuple[str, ...]]:
    """Read the texts of a table by their titles."""
    text = (Path(__file__).parent / f"{name}.txt").read_text()
    rows = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\n    ", " ").splitlines()
    parts = (row.partition(": ") for row in rows)
    return {title: tuple(map(decode, texts.split(" ¦ "))) for title, _, texts in parts}


def read_lines(text: str) -> list[str]:
    """Read texts that stand in lines of their own."""
    return list(map(decode, text.split("\n")[1:-1]))


def decode(text):
    text = text.replace("⏎", "\n").replace("⇥", "\t")
    return re.sub("«([0-9a-f]+)»", lambda found: chr(int(found[1], 16)), text)
