"""Tells griffe, which reads the code without running it, what it can't see there.

These are the names that a package offers, since some packages keep the list in a stub; how a
msgspec struct or a named tuple is made; and which options `**options: Unpack[Options]` stands for.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import griffe
import msgspec

# Griffe finds the doctests of a section by this name only.
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)

# What a reader is told by a label; the others say how something is stored.
LABELS = {"async", "cached", "classmethod", "property", "returned", "staticmethod"}


class Fronts(griffe.Extension):
    """Completes the package when all of it has been read."""

    def on_package(self, *, pkg: griffe.Module, **_more: object) -> None:
        """Say what each package offers, and complete signatures."""
        if pkg.path != "greenroom":
            return
        # An alias knows its object from here on, since a function may have its module's name:
        # `from greenroom.agents import coder` is the function, and the path is the module's.
        fronts = [pkg, *filter(is_front, walk(pkg))]
        homes = {front: find_homes(front) for front in fronts}
        add_returned({front.path: found for front, found in homes.items()})
        for each in walk(pkg):
            complete(each)
        for front, found in homes.items():
            if front.docstring:  # the paragraphs below the first are for readers of the code
                front.docstring.value = front.docstring.value.partition("\n\n")[0]
            front.exports = sorted(found)
            for name, target in found.items():
                front.members[name] = griffe.Alias(name, target=target, parent=front)


def is_front(member: griffe.Object) -> bool:
    """Whether programs may import from this module."""
    return (
        isinstance(member, griffe.Module)
        and member.is_init_module
        and bool(list_offered(member.path))
    )


def list_offered(name: str) -> list[str]:
    """Return the names that a module offers to programs."""
    names = getattr(import_module(name), "__all__", ())
    return [each for each in names if not each.startswith("_")]


def find_homes(front: griffe.Module) -> dict[str, griffe.Object]:
    """Return the objects that a package offers, by name."""
    found = {}
    for name in list_offered(front.path):
        member = front.modules_collection[front.imports.get(name, f"{front.path}.{name}")]
        found[name] = member.final_target if member.is_alias else member
    return found


def add_returned(homes: dict[str, dict[str, griffe.Object]]) -> None:
    """Add to the page of each package its classes that calls return, and that have no door.

    They are labelled "returned": a program meets them, and has no need to import them.
    """
    waiting = [each for found in homes.values() for each in found.values()]
    known = {each.path for each in waiting}
    while waiting:
        for cls in find_returned(waiting.pop()):
            package = ".".join(cls.path.split(".")[:2])
            if cls.path not in known and cls.name in list_shared(package):
                known.add(cls.path)
                cls.labels.add("returned")
                homes[package][cls.name] = cls
                waiting.append(cls)


def list_shared(package: str) -> list[str]:
    """Return the names of a package that its siblings may import as well as programs."""
    return dir(import_module(f"{package}._internal")) if find_spec(f"{package}._internal") else []


def find_returned(each: griffe.Object) -> Iterator[griffe.Class]:
    """Yield the classes of ours that a function returns, or a public method of a class."""
    members = each.members.values() if isinstance(each, griffe.Class) else [each]
    for member in members:
        if member.name.startswith("_") or not isinstance(member, griffe.Function):
            continue
        for word in names_in(member.returns):
            path = word.canonical_path
            found = member.modules_collection[path] if path.startswith("greenroom.") else None
            found = found.final_target if isinstance(found, griffe.Alias) else found
            if isinstance(found, griffe.Class):
                yield found


def names_in(annotation: str | griffe.Expr | None) -> Iterator[griffe.ExprName]:
    """Yield the names of which an annotation consists."""
    if isinstance(annotation, griffe.ExprName):
        yield annotation
    elif isinstance(annotation, griffe.Expr):
        yield from (each for each in annotation.iterate() if isinstance(each, griffe.ExprName))


def walk(parent: griffe.Object) -> Iterator[griffe.Object]:
    """Yield everything that is defined below an object."""
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            yield member
            yield from walk(member)


def complete(each: griffe.Object) -> None:
    """Add to an object what its text alone does not say."""
    each.labels &= LABELS
    if each.docstring:
        each.docstring.value = EXAMPLE.sub("Examples:", each.docstring.value)
    if isinstance(each, griffe.Function):
        expand_options(each)
        name_defaults(each)
    elif isinstance(each, griffe.Class) and isinstance(each.parent, griffe.Module):
        made = getattr(import_module(each.parent.path), each.name, None)
        if isinstance(made, type) and (
            issubclass(made, msgspec.Struct) or hasattr(made, "_fields")
        ):
            add_constructor(each, made)


def expand_options(function: griffe.Function) -> None:
    """Write the members of a TypedDict in place of `**options`, here and in the overloads."""
    for each in [function, *(function.overloads or ())]:
        *others, last = [*each.parameters] or [None]
        match last and last.annotation:
            case griffe.ExprSubscript(
                left=griffe.ExprName("Unpack"), slice=griffe.ExprName() as name
            ):
                options = function.modules_collection[name.canonical_path]
            case _:
                continue
        each.parameters = griffe.Parameters(
            *others,
            *(
                griffe.Parameter(
                    option.name,
                    annotation=option.annotation,
                    kind=griffe.ParameterKind.keyword_only,
                    default="...",
                )
                for option in options.attributes.values()
            ),
        )


def name_defaults(function: griffe.Function) -> None:
    """Show the value of a default that is a private constant, if it is short."""
    for parameter in function.parameters:
        constant = function.module.members.get(str(parameter.default))
        if (
            isinstance(constant, griffe.Attribute)
            and constant.name.startswith("_")
            and len(str(constant.value)) < 40
        ):
            parameter.default = constant.value


def add_constructor(cls: griffe.Class, made: type) -> None:
    """Give a struct or named tuple its constructor, whose parameters are the fields."""
    fields: dict[str, griffe.Attribute] = {}
    for each in reversed([cls, *cls.mro()]):
        fields |= each.attributes
    parameters = [
        griffe.Parameter(
            name,
            kind=griffe.ParameterKind(parameter.kind.description),
            annotation=fields[name].annotation,
            default=fields[name].value,
        )
        for name, parameter in inspect.signature(made).parameters.items()
    ]
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    init = griffe.Function("__init__", parameters=griffe.Parameters(this, *parameters), parent=cls)
    cls.set_member("__init__", init)
