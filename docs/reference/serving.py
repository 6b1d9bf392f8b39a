"""Writes docs/reference/serving.md: the routes, limits and options of a server, from the code."""

import argparse
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from greenroom.cli.arguments import command_parser
from greenroom.interop import ServerLimits
from greenroom.interop.serving.route_table import ROUTES, Route

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# The API of a server

<!-- Written by docs/reference/serving.py from greenroom/interop/serving; edit docstrings there. -->

Every route of a [server](../how-to/serving.md), and the least role that a token needs for it. A
body is a JSON object, and so is every reply but the stream, the metrics and 204. `GET /health`, and
the page at `/` with its files, need no token. `GET /openapi.json` says the same for programs.

| route | role | what it does | replies |
| --- | --- | --- | --- |
"""


def row(route: Route) -> str:
    """Write the line of a route."""
    query = "&".join(f"{name}=" for name, _ in route.query)
    address = f"{route.path}?{query}" if query else route.path
    statuses = ", ".join(map(str, route.statuses))
    return f"| `{route.method} {address}` | {route.role} | {route.summary} | {statuses} |\n"


def body(route: Route) -> str:
    """Write the fields of a route's body."""
    found = []
    default = getattr(route.body, "__struct_defaults__", ())
    names = getattr(route.body, "__struct_fields__", ())
    for name, hint in get_type_hints(route.body).items():
        place = names.index(name) - (len(names) - len(default))
        value = "required" if place < 0 else f"`{_plain(default[place])}`"
        found.append(f"| `{name}` | `{_spell(hint)}` | {value} |\n")
    head = f"\n### {route.method} {route.path}\n\n| field | type | default |\n| --- | --- | --- |\n"
    return head + "".join(found)


def _spell(hint: object) -> str:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    text = re.sub(r"(\w+\.)+(?=\w)", "", text)
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text)
    return text.replace("|", "\\|")


def _plain(value: object) -> str:
    is_empty = "Factory" in type(value).__name__ or value == {}
    return "{}" if is_empty else repr(value)


def limits() -> str:
    """Write the table of limits."""
    text = inspect.cleandoc(ServerLimits.__doc__ or "").partition("Attributes:\n")[2]
    said = re.findall(r"^    (\w+): ((?:.+\n?(?:        .+\n?)*))", text, re.MULTILINE)
    words = {name: " ".join(what.split()) for name, what in said}
    lines = [
        f"| `{each.name}` | {each.default:,} | {words[each.name]} |\n"
        for each in fields(ServerLimits)
    ]
    head = "\n## Limits\n\nOf `ServerLimits`, and of `greenroom serve --limit NAME=N`.\n"
    return head + "\n| limit | default | what |\n| --- | --- | --- |\n" + "".join(lines)


def options() -> str:
    """Write the table of the command's options."""
    parser = command_parser(["serve"])
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    command = groups[0].choices["serve"]
    lines = []
    for action in command._actions:
        if action.dest in ("help", "command", "kind"):
            continue
        names = ", ".join(action.option_strings) or str(action.metavar)
        value = f" {action.metavar}" if action.option_strings and action.metavar else ""
        lines.append(f"| `{names}{value}` | {(action.help or '').replace('|', '')} |\n")
    head = "\n## greenroom serve\n\n| option | what |\n| --- | --- |\n"
    return head + "".join(lines)


def page() -> str:
    """Write the page."""
    bodies = "".join(body(each) for each in ROUTES if each.body is not None)
    return HEAD + "".join(map(row, ROUTES)) + "\n## Bodies\n" + bodies + limits() + options()


if __name__ == "__main__":
    PAGE.write_text(page())
