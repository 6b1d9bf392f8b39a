"""Writes docs/reference/api/ from the docstrings of each package: python docs/reference/api.py."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import get_args

import greenroom
from greenroom.core import GreenroomError

FOLDER = Path(__file__).with_suffix("")
ROOT = Path(greenroom.__file__).parent
NOTE = "<!-- Written by docs/reference/api.py from the docstrings; edit them. -->"
SECTION = re.compile(r"(Args|Raises|Returns|Yields|Example|Examples|Attributes):$")


def pages() -> dict[str, str]:
    """Return the text of every page by its file's name."""
    packages = sorted(info.name for info in pkgutil.iter_modules([str(ROOT)]) if info.ispkg)
    found = {f"{name}.md": _package_page(name) for name in packages}
    rows = [f"- [`greenroom.{name}`]({name}.md): {_intro(name)}\n" for name in packages]
    found["README.md"] = (
        f"# API\n\n{NOTE}\n\nEvery public name, by package. Names that `import greenroom` itself"
        " offers are\ndescribed in full; the others by the first line of their docstrings, and"
        " `help()` has the rest.\n"
        f"Errors have [a page of their own](../errors.md).\n\n{''.join(rows)}"
    )
    return found


def _intro(package: str) -> str:
    module = importlib.import_module(f"greenroom.{package}")
    return _first_line(inspect.getdoc(module)).removesuffix(".") + "."


def _package_page(package: str) -> str:
    module = importlib.import_module(f"greenroom.{package}")
    parts = [f"# greenroom.{package}", NOTE, _markdown(inspect.getdoc(module) or "")]
    others = []
    for name in sorted(_exports(module), key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value) or (
            isinstance(value, type) and issubclass(value, GreenroomError)
        ):
            continue
        if getattr(greenroom, name, None) is value and name in greenroom.__all__:
            parts += _entry(name, value, module)
        else:
            others.append(f"| `{name}` | {_first_line(_doc(name, value, module))} |")
    if others:
        parts += ["## More names", "\n".join(["| name | what it is |", "| --- | --- |", *others])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _exports(module: ModuleType) -> dict[str, str]:
    """Return what a package offers, and the module from which it takes each name."""
    path = Path(str(module.__file__))
    stub = path.with_suffix(".pyi")
    return {
        alias.name: str(node.module)
        for node in ast.parse((stub if stub.exists() else path).read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def _doc(name: str, value: object, module: ModuleType) -> str:
    """Return an object's docstring, or the text below the line that defines a constant."""
    if inspect.isroutine(value) or isinstance(value, type):
        return inspect.getdoc(value) or ""
    home = importlib.import_module(_exports(module)[name])
    if home is not module and name in _exports(home):
        return _doc(name, value, home)
    body = ast.parse(inspect.getsource(home)).body
    for statement, after in pairwise(body):
        match statement, after:
            case (
                (ast.Assign(targets=[ast.Name(target)]) | ast.AnnAssign(target=ast.Name(target))),
                ast.Expr(ast.Constant(str(text))),
            ) if target == name:
                return inspect.cleandoc(text)
    return ""


def _entry(name: str, value: object, module: ModuleType) -> Iterator[str]:
    """Write a name in full: its signature, its docstring, its public methods and properties."""
    yield f"## {name}"
    yield _signature(name, value)
    yield _markdown(_doc(name, value, module))
    if not isinstance(value, type):
        return
    ours = [owner for owner in value.__mro__ if owner.__module__.startswith("greenroom.")]
    for member in sorted({member for owner in ours for member in vars(owner)}):
        found = inspect.getattr_static(value, member)
        plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if member.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        yield f"### {name}.{member}"
        yield "" if isinstance(plain, property) else _signature(member, getattr(value, member))
        yield _markdown(inspect.getdoc(plain) or "")


class _Default:
    """Stands for a default in a signature, in words that are the same in every run."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        if isinstance(self.value, Enum):
            return f"{type(self.value).__name__}.{self.value.name}"
        plain = self.value is None or isinstance(self.value, (bool, int, float, str))
        return repr(self.value) if plain or self.value == () else "…"


def _signature(name: str, value: object) -> str:
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return ""
    empty = inspect.Parameter.empty
    parameters = [
        each if each.default is empty else each.replace(default=_Default(each.default))
        for each in signature.parameters.values()
    ]
    arguments = _plain(str(inspect.Signature(parameters)))
    returned = str(inspect.Signature(return_annotation=signature.return_annotation))
    if len(name + arguments) > 90:
        lines = ",\n    ".join(_split(arguments[1:-1]))
        arguments = f"(\n    {lines},\n)"
    word = "async " if inspect.iscoroutinefunction(value) else ""
    return f"```text\n{word}{name}{arguments}{_plain(returned)[2:]}\n```"


def _split(arguments: str) -> list[str]:
    """Take arguments apart at the commas that stand in no brackets."""
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


def _plain(signature: str) -> str:
    """Leave out of a signature where its types are defined, and what differs from run to run."""
    signature = re.sub(r"<[^<>]*>", "…", signature).replace("~", "")
    signature = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", signature)
    for name in ("ContentBlock", "InputMessage", "OutputChunk"):
        members = " | ".join(each.__name__ for each in get_args(getattr(greenroom, name)))
        signature = signature.replace(members, name)
    return re.sub(r"(?<=: |> )'([^']*)'", r"\1", signature)


def _first_line(doc: str | None) -> str:
    return " ".join((doc or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _markdown(doc: str) -> str:
    """Turn a docstring into Markdown: its sections as lists, its examples as blocks."""
    out, lines = [], doc.splitlines()
    while lines:
        line = lines.pop(0)
        if title := SECTION.match(line):
            body = _take(lines, lambda each: not each or each.startswith(" "))
            out.append(_section(title[1], inspect.cleandoc("\n".join(["", *body]))))
        elif line.startswith(">>> "):
            out.append(_block([line, *_take(lines, bool)]))
        elif line.startswith("    ") and (not out or not out[-1]):
            body = _take(lines, lambda each: not each or each.startswith("    "))
            out.append(_block(inspect.cleandoc("\n".join(["", line, *body])).splitlines(), "text"))
            out.append("")
        else:
            out.append(line.replace("```python", "```py"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def _take(lines: list[str], wanted: Callable[[str], object]) -> list[str]:
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _block(lines: list[str], language: str = "pycon") -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def _section(title: str, body: str) -> str:
    if title.startswith("Example"):
        return f"**{title}**\n\n{_markdown(body)}\n"
    items = re.sub(r"(?m)^(\*{0,2}[\w.]+)(?: \(.*?\))?: ", r"- `\1`: ", body)
    items = re.sub(r"(?m)^ {4,}", "  ", items)
    return f"**{title}**\n\n{items}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
