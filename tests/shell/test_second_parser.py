"""Our parser against shfmt's: every command that shfmt sees, we see as well.

shfmt misses what follows a comment that ends in a backslash, and takes a carriage return for a
blank; bash itself is asked in `test_bash.py`, so both directions are covered.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.shell.analyser import list_effects
from greenroom.shell.effects import Command, Place
from tests.permissions.generated import each_once, generate

SHFMT = shutil.which("shfmt", path=f"{Path(sys.executable).parent}:/usr/bin")
SEEDS = 250
PLACE = Place("/srv/project", "/srv/project")
_READ_OTHERWISE = re.compile(r"[\r\0]|!\(")
pytestmark = pytest.mark.skipif(SHFMT is None, reason="shfmt-py is not installed")


def tree_of(command):
    """Parse a command; None if shfmt says that it is none."""
    found = subprocess.run(
        [SHFMT, "--to-json", "-ln", "bash"],
        input=command.encode(),
        capture_output=True,
        check=False,
    )
    return json.loads(found.stdout) if found.returncode == 0 else None


def seen_by_shfmt(tree):
    """Collect the names of all simple commands, wherever they stand in a tree."""
    waiting, names = [tree], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            if node.get("Type") == "CallExpr" and node.get("Args"):
                names.add(literal(node["Args"][0]["Parts"]))
    return names - {None}


def literal(parts):
    """Read a word, quotes removed; None if it holds an expansion or braces."""
    text = ""
    for part in parts:
        if part["Type"] == "Lit":
            if "{" in part.get("Value", ""):
                return None
            text += re.sub(r"\\\n|\\(.)", r"\1", part.get("Value", ""))
        elif part["Type"] == "SglQuoted" and not part.get("Dollar"):
            text += part.get("Value", "")
        elif part["Type"] == "DblQuoted" and not part.get("Dollar"):
            inner = literal(part.get("Parts") or [])
            if inner is None:
                return None
            text += inner
        else:
            return None
    return text


def commands():
    texts = dict.fromkeys(each.text for each in (*each_once(), *map(generate, range(SEEDS))))
    # What shfmt reads otherwise, and we ask about: control characters, and patterns with `!(`.
    return [text for text in texts if not _READ_OTHERWISE.search(text)]


# Our parser stops at these, and the whole command is asked about.
NOT_READ = re.compile(r"\bcoproc\b|\$\{ |=\(|\w\[")


def test_every_command_that_shfmt_sees_is_seen():
    compared, missed = 0, []
    for text in commands():
        tree = tree_of(text)
        if tree is None or NOT_READ.search(text):
            continue
        compared += 1
        facts = list_effects(text, PLACE)
        ours = {fact.argv[0].text for fact in facts if isinstance(fact, Command)}
        unseen = {name for name in seen_by_shfmt(tree) - ours if not set("*?[") & set(name)}
        if unseen:
            missed.append((text, unseen, [str(fact) for fact in facts]))
    assert missed == []
    assert compared > 500
