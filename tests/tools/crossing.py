"""Functions for tools in processes of their own, which show what crosses to them and back."""

import enum
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from greenroom.core import AgentContext, TextBlock, ToolError, ToolResult
from greenroom.tools import tool

killable = tool(isolation="process", concurrent=True)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    name: str
    born: datetime | None = None


@killable
def typed(
    point: Point,
    person: Person,
    colour: Colour,
    size: Literal["s", "m"],
    when: datetime,
    data: bytes,
    *,
    text: str = "ü",
) -> str:
    """Show that each argument has come in its type."""
    values = (point, person, colour, size, when, data, text)
    return "; ".join(repr(value) for value in values)


@killable
def point(x: int) -> Point:
    return Point(x)


@killable
def identity(context: AgentContext) -> dict[str, object]:
    workspace = context.workspace
    return {
        **context.to_json(),
        "root": str(workspace.root),
        "cwd": str(workspace.cwd),
        "spill_folder": context.spill_folder,
    }


@killable
def remember(context: AgentContext) -> str:
    context.set_metadata("new", [1, {"ü": None}])
    notes = context.metadata["notes"]
    assert isinstance(notes, list)
    notes.append("more")
    del context.metadata["old"]
    return f"kept {context.get_metadata('kept')}"


@killable
def remember_and_fail(context: AgentContext) -> str:
    context.set_metadata("new", 1)
    raise ToolError("it did not work", hint="try again")


@killable
def remember_no_json(context: AgentContext) -> str:
    context.metadata["bad"] = object()
    return "done"


@killable
def talk(context: AgentContext) -> str:
    context.progress("told 🌱")
    print("printed 🌱")
    print("printed as an error", file=sys.stderr)
    subprocess.run(["echo", "said by a child"], check=True)
    os.write(1, b"raw \xff\0 no newline")
    return "done"


@killable
def flood(context: AgentContext, characters: int) -> str:
    for _ in range(characters // 1000):
        context.progress("p" * 999 + "\n")
        print("o" * 999)
    context.progress("p" * 2 * characters)
    return "done"


@killable
def use(what: str, context: AgentContext) -> str:
    if what == "cleanup":
        with context.cleanup(1.0):
            return "cleaned"
    resources = context.resources
    if what == "screen":
        return str(context.screen_reads("."))
    uses = {
        "get": lambda: resources.get(str),
        "insert": lambda: resources.insert("a"),
        "len": lambda: len(resources),
        "shared": lambda: resources.shared,
    }
    return str(uses[what]())


class BrokenError(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


@killable
def fail(how: str) -> str:
    errors: dict[str, BaseException] = {
        "tool": ToolError("no such planet", hint="try another"),
        "value": ValueError("42 is wrong"),
        "broken": BrokenError(),
        "exit": SystemExit(3),
        "keyboard": KeyboardInterrupt(),
        "group": ExceptionGroup("two", [ValueError("one"), ToolError("the other")]),
        "memory": MemoryError(),
        "unicode": ValueError("\ud800 ü"),
    }
    if how == "deep":
        error: Exception = ValueError("deep down")
        for _ in range(5000):
            error = ExceptionGroup("deeper", [error])
        raise error
    raise errors[how]


@killable
def give(what: str) -> object:
    things: dict[str, object] = {
        "none": None,
        "object": object(),
        "large": "x" * (16 << 20),
        "text": "ü🌱\ud800",
        "result": ToolResult((TextBlock("text"),), metadata={"exit_code": 3}),
        "bad metadata": ToolResult.ok("text", fault=object()),
        "bad content": ToolResult((TextBlock("a", 3),)),  # type: ignore[arg-type]
    }
    return _later() if what == "coroutine" else things[what]


async def _later() -> None:
    """Never runs."""


@killable
def where() -> list[object]:
    return [os.getcwd(), sys.path]


def plain(number: int) -> int:
    return 2 * number


doubled = tool(isolation="process", name="double", concurrent=True)(plain)


@killable
def shadowed() -> str:
    return "first"


hidden = shadowed


@killable  # type: ignore[no-redef]
def shadowed() -> str:
    return "second"


class Holder:
    @killable
    @staticmethod
    def inside() -> str:
        return "from a class"
