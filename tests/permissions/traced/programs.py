"""Programs that a rule allows by their name, with a denied program named in their words.

`programs.txt` has what is known to make each of them run another program. The rest is made up: any
option of a program's own help, with that program as its value in one way or another.
"""

import re
from functools import cache

from greenroom.permissions import PermissionRule
from tests.permissions.tables import read_table
from tests.permissions.traced.judging import DENY_PWN, Case, Rules, is_there
from tests.permissions.traced.options import options_of

WORDS = read_table("traced/words")


@cache
def table():
    """Read what is known, by program, as far as the machine has it."""
    found = {}
    for title, texts in read_table("traced/programs").items():
        names = title.split(", ")
        for name in filter(_is_here, names):
            word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
            found[name] = tuple(
                text for text in texts if text and (len(names) == 1 or word.search(text))
            )
    return found


def _is_here(program):
    return program in WORDS["builtins"] or is_there(program)


@cache
def names():
    """List the programs of which nothing is known, and those of which something is."""
    known = [name for name, rows in table().items() if rows]
    others = [name for name, rows in table().items() if not rows]
    return others, known


@cache
def rules_of(program):
    """Allow a program, whatever its words are, and deny another."""
    named = [] if program == "time" else [program]  # a keyword, of which no rule can be
    allow = PermissionRule.allow_command(*named, "echo", "printf", "cat", "yes")
    return Rules(f"Bash({program}:*)", (allow, DENY_PWN), None, "anything", leaves=True)


def generate(choose):
    """Make up one command: a known one, one with something else changed, or any option at all."""
    program = choose.choice(names()[choose.random() < 0.85])
    known = table()[program]
    if known and choose.random() < 0.45:
        text = choose.choice(known)
        how = choose.random()
        if how < 0.2:
            text = f"{choose.choice(WORDS['before'])} {text}"
        elif how < 0.35:
            text = text.replace(
                "pwn", choose.choice(("p\\wn", "$'pwn'", '"pwn"', "./../../bin/pwn")), 1
            )
        elif how < 0.5:
            text = f"{text} {choose.choice(('a', '-v', '--', '-h', '< a', '> out', '| cat'))}"
        elif how < 0.6 and " " in text:
            first, rest = text.split(" ", 1)
            text = f"{first} {choose.choice(options_of(program))[0]} {rest}"
    else:
        text = _made_up(choose, program)
    return Case("programs", rules_of(program), text)


def _made_up(choose, program):
    words = [program]
    for _ in range(choose.choice((1, 1, 1, 2))):
        name = choose.choice(options_of(program))[0]
        value = choose.choice(WORDS["programs as values"])
        forms = (
            (f"{name}={value}", f"{name} {value}")
            if name.startswith("--")
            else (f"{name} {value}", f"{name}{value}", f"{name}={value}")
        )
        words.append(choose.choice((*forms, *forms, name)))
    words += choose.choices(("a", "a b", "pwn", "", "-", "a.tar", "c.c", "-- a"), k=1)
    text = " ".join(filter(None, words))
    how = choose.random()
    if how < 0.1:
        return f"echo {choose.choice(WORDS['inputs'])} | {text}"
    return f"{text} <<< {choose.choice(WORDS['inputs'])}" if how < 0.2 else text
