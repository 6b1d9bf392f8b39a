"""Redirections: which of them reads a file, which writes one, and which file that is.

`ls > out` writes out, `sort < names` reads names, `> out` alone empties it. Copies of descriptors
(`2>&1`), here-documents and /dev/null open nothing that matters. What the shell opens is opened by
the shell, so it is judged apart from the command: no rule about `ls` covers what `ls > out` writes.
"""

import re
from collections.abc import Iterator
from typing import Literal

from greenroom.shell.effects import Command, Place, ShellEffect, Unknown
from greenroom.shell.words import Redirection, SimpleCommand, Word, basename

_DESCRIPTOR = re.compile(r"\d+-?|-")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


def list_opened_files(
    redirection: Redirection, command: Command | None, place: Place
) -> Iterator[ShellEffect]:
    """Say which file a redirection opens, for a command that runs in a place."""
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


def _pattern(target: Word, kind: Literal["read", "write"], place: Place) -> Iterator[ShellEffect]:
    """Look for denials of the files that the target may match; others are asked about."""
    if target.number and target.text.startswith("<("):
        return
    if target.pattern and not target.dynamic:
        yield place.use(kind, target.text, tilde=not target.quoted, guard=True, stars="files")
    if kind == "write" or target.dynamic:
        yield Unknown(reason=f"{kind}s a file only known at run time: {target.text}")


def list_written_files(node: SimpleCommand) -> Iterator[str]:
    """Name the files, without their folders, that a command writes as far as it says."""
    for each in node.redirections:
        if ">" in each.operator and not each.target.text.isdecimal():
            yield basename(each.target.text)
    if node.words and basename(node.words[0].text) == "tee":
        yield from (basename(word.text) for word in node.words[1:])
