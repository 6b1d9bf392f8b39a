"""Redirections as facts: files that are written or read."""

import re
from collections.abc import Iterator
from typing import Literal

from greenroom.permissions.facts.fact import Command, Fact, Unknown
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
    elif target.static and (target.quoted or not re.match(r"~(?![/+])", target.text)):
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
    """Look for denials of the files that the target may stand for; others are asked about."""
    if target.number and target.text.startswith("<("):
        return
    if target.pattern and not target.dynamic:
        yield place.use(kind, target.text, tilde=not target.quoted, guard=True, stars="files")
    if kind == "write" or target.dynamic:
        yield Unknown(reason=f"{kind}s a file only known at run time: {target.text}")
