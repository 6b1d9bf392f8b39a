"""Random commands as models write them, and some that nobody would, for real bash to run.

Their programs are stand-ins, which print their words, a variable, and the beginning of their input.
"""

import os
from pathlib import Path
from random import Random

PROGRAMS = ("git", "npm", "pytest", "grep", "make", "docker", "python", "sed", "my prog")
FILES = ("a.txt", "b.txt", "c d.txt", ".hid", "[x]", "*y", "src/main.py", "src/b.py")
_STAND_IN = """#!/bin/sh
printf '<%s>' "${0##*/}" "$@"
printf '[%s]' "$FOO"
[ -p /dev/stdin ] || head -c 300
"""

# Texts, with how often each is taken. Most words of real commands are as simple as these.
_WORDS = (
    *("status", "-la", "--oneline", "-5", "src", "a.txt", "src/main.py", "run", "build", "-q") * 6,
    *("'def parse'", '"x y"', "--stat", "HEAD~1", "-n", "10", "-k", "test_a", "p=1", "a:b") * 3,
    *("'x | y; z'", '"it\'s"', '"a\\"b\\$c"', "a\\ b", "$'t\\tn\\'s'", "'^(a|b)+$'", '"$HOME/x"'),
    *("*.txt", "src/*.py", "[ab].txt", "?.txt", "~", "~/x", "$HOME", "${PWD}/z", "{a,b}.py"),
    *("x{1..3}y", "\\*", '"*"', "#no", "x#y", "!", "{}", "{a}", "$", '"$"', "''", '""', "é"),
    *(".h*", "*/", "\\[x]", "[!a]*", '"[x"]', '*"y"', "\\~", "a~", "{a,}", "{,b}c", '"{a,b}"'),
    *('{a,"b c"}', "\\{a,b}", "[x]", "nofile*", "$HOME/*", '"$PWD"/*.txt', "-*", "in", "done"),
    '"a\\\nb"',
    "\"$(cat <<'END'\nfix: it's $x (y)\n\nMore `text`.\nEND\n)\"",
    '"$(cat <<END\nplain\nEND\n)"',
)
_REDIRECTIONS = (
    *("2>&1", "2>/dev/null", ">/dev/null", "> o1", ">> o2") * 4,
    *("< a.txt", "2> o3", "&> o4", ">&2", "1>&2", '<<< "h i"', "<<<x", '> "o 5"', ">o1"),
    *(">| o2", ">& o3", "&>> o4", '<<<"a"b', "2>&1 >o5"),
    "<<END\nbody 1\n'q\" \\$ \\\\ \\x\nEND\n",
    "<<'END'\n$x `y`\n\ttab\nEND\n",
    "<<-END\n\t tab\n\tEND\n",
)
_JOINTS = (*(" | ", " && ", " || ", "; ", "\n"), *(";", "|", "\n\n", " # c\n", " && \\\n", "&&\n"))


def make_workspace(folder: Path) -> dict[str, str]:
    """Make a folder with files, and stand-ins for programs; return the environment for both."""
    for name in FILES:
        (folder / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "work" / name).write_text(f"{name}\n")
    for name in ("bin", "home"):
        (folder / name).mkdir()
    for name in PROGRAMS:
        (folder / "bin" / name).write_text(_STAND_IN)
        (folder / "bin" / name).chmod(0o755)
    path = os.pathsep.join((str(folder / "bin"), "/usr/bin", "/bin"))
    return {"PATH": path, "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"}


def make_command(random: Random) -> str:
    """Make a random command of some simple ones."""
    text = _make_simple(random)
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        text += random.choice(_JOINTS) + _make_simple(random)
    return text


def _make_simple(random: Random) -> str:
    settings = random.choices(("", "FOO=1 ", 'FOO="a b" ', "FOO= ", "FOO=a* "), (20, 1, 1, 1, 1))
    prefix = random.choices(("", "! ", "time -p "), (30, 1, 0))
    program = random.choice((*PROGRAMS[:-1], "echo", "cat", "true", '"git"', "'my prog'", "gi\\t"))
    parts = [prefix[0] + settings[0] + program]
    parts += random.choices(_WORDS, k=random.randrange(5))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        parts.insert(random.randrange(1, len(parts) + 1), random.choice(_REDIRECTIONS))
    return random.choice((" ", " ", " ", "  ", "\t", " \\\n ")).join(parts)
