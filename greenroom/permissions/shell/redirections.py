"""Redirections as facts: files that are written or read."""

import re
from collections.abc import Iterator
from typing import Literal

from greenroom.permissions.facts.fact import Command, Fact, PathUse, Unknown
from greenroom.permissions.facts.glob import loosened
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.nodes import Redirection

__all__ = ["redirection_facts"]

_DESCRIPTOR = re.compile(r"\d+-?|-")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


def redirection_facts(
    redirection: Redirection, command: Command | None, place: Place
) -> Iterator[Fact]:
    """Say which file a redirection opens; copies of descriptors and here-documents open none."""
    operator, target = redirection.operator, redirection.target
    if operator in ("<<", "<<-", "<<<"):
        return
    if operator in ("<&", ">&") and target.static and _DESCRIPTOR.fullmatch(target.text):
        return
    if target.static and target.text == "/dev/null":
        return
    reads = operator in ("<", "<&")
    if _SOCKET.match(target.text):
        yield Unknown(reason=f"opens a network connection through {target.text}")
    elif target.static and (target.quoted or not re.match(r"~[^/]", target.text)):
        yield place.use(
            "read" if reads else "write",
            target.text,
            tilde=not target.quoted,
            guard=reads,
            command=command,
        )
    else:
        yield from _pattern(target, "read" if reads else "write", place)


def _pattern(target: Word, kind: Literal["read", "write"], place: Place) -> Iterator[Fact]:
    """Look for denials of the files that the target may stand for; writing to them is asked about."""
    if target.pattern:
        text = loosened(target.text, quoted=target.quoted)
        yield place.use(kind, text, guard=True, stars="files")
    elif target.opening is not None and target.opening.glob.replace("*", ""):
        yield place.use(kind, target.opening.glob, guard=True, stars="guess")
    elif kind == "read":  # any file
        yield PathUse(kind=kind, text=target.text, lexical=(), real=(), guard=True, stars="guess")
    if kind == "write":
        yield Unknown(reason=f"writes to a file only known at run time: {target.text}")
