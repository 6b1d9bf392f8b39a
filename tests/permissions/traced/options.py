"""Commands of programs that only read: options of their own help, with values and operands.

No rule is there: whatever of it is allowed is so because it only reads inside the workspace.
"""

import re
import string
import subprocess
from functools import cache

from greenroom.programs._internal import read_only_commands
from tests.permissions.tables import read_table
from tests.permissions.traced.judging import READ_ONLY, Case, is_there

WORDS = read_table("traced/words")
USUAL, LINKS, HOSTILE = WORDS["usual values"], WORDS["links"], WORDS["hostile values"]
ANY_LETTER = tuple((f"-{letter}", False) for letter in string.ascii_letters + string.digits)

_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z0-9][A-Za-z0-9-]*)(\[?=|[ \t]?<|[ \t][A-Z]{2})?")
_PAIR = re.compile(r"(?<![\w-])(-\w), (--[a-z][a-z0-9-]*)")


@cache
def first_words():
    """Read what stands before the files, by program."""
    rows = read_table("traced/first_words").items()
    return {program: words for names, words in rows for program in names.split(", ")}


@cache
def programs():
    """List the commands that only read as far as they are on this machine."""
    return tuple(each for each in read_only_commands() if _is_here(each.split()[0]))


def _is_here(program):
    return is_there(program) or program in {"cd", "type", "command", ":", "["}


@cache
def options_of(program):
    """Find the options in a program's help, and whether each takes a value."""
    words = program.split()
    if words[-1].startswith("-"):
        words.pop()
    shown = _help([*words, "-h" if words[0] == "git" and words[1:] else "--help"])
    if words[0] == "git" and words[1:]:
        shown += _help(["git", "diff", "-h"]) + " ".join(WORDS["git options"])
    if not shown or words[0] in {"test", "[", "printf", "echo", "cd", "pwd", "type"}:
        shown += _help(["bash", "-c", f"help {words[0]}"])
    found = {name: bool(value) for name, value in _OPTION.findall(shown)}
    found |= {short: found.get(long, False) for short, long in _PAIR.findall(shown)}
    return tuple(found.items()) or ANY_LETTER


def _help(words):
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def generate(choose):
    """Make up one command: half of them a single option in use, half of them anything."""
    if choose.random() < 0.5:
        return Case("options", READ_ONLY, single(choose))
    text = command(choose)
    if choose.random() < 0.4:
        other = command(choose) if choose.random() < 0.2 else "head"
        text = choose.choice(WORDS["frames"]).format(text, other)
    return Case("options", READ_ONLY, text)


def single(choose):
    """Make up a command that works, with one more option, whose value leads outside or writes."""
    program = choose.choice(programs())
    known = options_of(program) if choose.random() < 0.8 else ANY_LETTER
    name = choose.choice(known)[0]
    danger = choose.choice(WORDS["dangers"])
    flags = [each[1] for each, takes in known if not takes and each[1] != "-"] or ["a"]
    if name.startswith("--"):
        option = choose.choice((name, f"{name}={danger}", f"{name} {danger}", name[:-1]))
    else:
        cluster = f"-{choose.choice(flags)}{name[1:]}"
        forms = (name, f"{name} {danger}", f"{name}{danger}", f"{cluster}{danger}")
        option = choose.choice((*forms, f"{cluster}{danger}", f"{cluster} {danger}"))
    first = choose.choice(first_words().get(program, ("",))[:3])
    return " ".join(filter(None, (program, option, first, choose.choice(("a", "a", "b a", "")))))


def command(choose):
    """Make up a simple command of one program."""
    program = choose.choice(programs())
    words = program.split()
    if words[0] == "git" and choose.random() < 0.15:
        words.insert(1, choose.choice(WORDS["git settings"]))
    parts = [option(choose, program) for _ in range(choose.choice((0, 0, 1, 1, 1, 2, 3)))]
    if choose.random() < 0.75:
        parts.append(choose.choice(first_words().get(program, ("",))))
    parts += [value(choose) for _ in range(choose.choice((0, 1, 1, 2)))]
    if choose.random() < 0.1:
        choose.shuffle(parts)
    return " ".join(filter(None, (*words, *parts)))


def option(choose, program):
    """Write one option in one of the ways in which options are written."""
    known = options_of(program) if choose.random() < 0.8 else ANY_LETTER
    name, takes = choose.choice(known)
    if name.startswith("--"):
        return _long(choose, name, takes)
    how = choose.random()
    if how < 0.3:
        return f"{name} {value(choose)}" if takes else name
    if how < 0.4:
        return f"{name}{value(choose)}"
    flags = [each[1] for each, takes in known if not takes and each[1] != "-"] or ["a"]
    cluster = f"-{''.join(choose.choices(flags, k=choose.randint(1, 2)))}{name[1]}"
    if how < 0.9:
        return f"{cluster}{choose.choice(('', ' '))}{value(choose)}" if takes else cluster
    return choose.choice(
        (f"{cluster}{value(choose)}", f"{name}={value(choose)}", f"+{name[1:]}", f"-{name}")
    )


def _long(choose, name, takes):
    if choose.random() < 0.2:
        name = name[: choose.randint(3, len(name))]
    how = choose.random()
    if how < (0.1 if takes else 0.6):
        return name
    return f"{name}{choose.choice(('=', '=', ' '))}{value(choose)}"


def value(choose):
    """Choose what an option or the program takes: something usual, a link, or something odd."""
    how = choose.random()
    return choose.choice(USUAL if how < 0.5 else LINKS if how < 0.75 else HOSTILE)
