"""Commands made up from the options that each program lists in its own help."""

import re
import shutil
import subprocess

from greenroom.programs.invocation import PROGRAMS
from tests.programs.reading_oracle import BUILTINS

OPERANDS = ("files", "text", "any", "pattern", "none")
VALUES = (
    *(
        "5",
        "1",
        "+2",
        "-1",
        "1,3",
        "x",
        "c",
        "n",
        "s",
        "always",
        "name",
        "%s",
        "utf-8",
        "e=5",
        "",
        "*",
    ),
    *(
        "a.txt",
        "link",
        "d",
        "j",
        "folder",
        "/",
        "-",
        "-o",
        "--output",
        "@at",
        "s.sed",
        "out",
        "../outside",
    ),
    *(
        "=link",
        "=5",
        "prog",
        "./prog",
        "a[$(touch out)]",
        "../outside/secret",
        "a.txt=link",
        "1-2",
        "x1",
        "f",
        "size",
        "none",
        "*.txt",
        "-x",
        "--output=out",
    ),
)
INSIDE = ("a.txt", "j", "d", "d2", "d/e.txt", "sums", "-o", "-rf", "--output", "@at", "+%s", ".")
OUTSIDE = ("link", "folder", "5", "d/secret", "../outside/secret", "x", "1")
# What programs take that read a small language: whole scripts, and pieces to make others of.
SCRIPTS = {
    "jq": (".", ".a", '"x" as $x | .', 'import "x" as $x; .', 'include "x"; .', "$ENV", "input"),
    "sed": ("p", "1,2p", "s/a/b/", "w out", "s/a/b/w out", "1r link", "s/a/id/e", "$!d", "y/a/b/"),
    "awk": (
        *("{print $1}", '{print > "out"}', 'BEGIN{system("id")}', "NR>1", "/a/{n++}END{print n/2}"),
        *(
            '{"id"|getline; print}',
            'BEGIN{while((getline x < "link")>0)print x}',
            "BEGIN{ARGV[1]=5}",
        ),
    ),
    "printf": ("%s", "%d", "%n", "%*d", "%q", "%(%F)T", "%1$n", "%%n", "%ln", "-v", "--"),
    "test": ("-v", "-f", "-R", "-n", "-eq", "-ef", "a[$(touch out)]", "1", "!", "(", "-nt"),
    "ps": (
        *(
            "aux",
            "-ef",
            "e",
            "-o",
            "pid,cmd",
            "-eo",
            "u",
            "-u",
            "root",
            "axe",
            "-p",
            "1",
            "f",
            "-C",
        ),
        *("--sort=pid", "-e", "w", "-E", "X", "-aux", "environ", "-o pid", "-fe", "a", "x", "-A"),
        *("-L", "-H", "-T", "-N", "-j", "-l", "j", "l", "s", "v", "-efl", "-O", "-F", "--forest"),
    ),
}
PIECES = {
    "sed": (
        *"1$/;,!{}p w\ndsayrelqn=",
        "a",
        "/a/",
        "s",
        "[/]",
        "\n",
        "out",
        " ",
        "w",
        "I",
        "g",
        "~",
    ),
    "awk": (
        *'{}()[]/;,"\n=!<>+-|&$?:~^%#@ 12a',
        *("print", "printf", "getline", "system", "/a/", "/[/]/", '"out"', "if", "else", "while"),
        *("length", "$1", "++", "n", "in", "for", "#", '"/"', "x[", "]", '("id")', ">>", '"a'),
        *("function f(a)", "return", "/=", "/", '> "out"', "close", "ENVIRON", "1.5", "0x"),
    ),
}
# They end when their time is over.
_WAITS = {"tail": ("-f",), "pgrep": (), "free": ("-s", "-c")}
_HEAD = re.compile(r"\s{2,}|\t|;| : ")
_OPTION = re.compile(r"(?<![\w=\[<-])(--?[A-Za-z0-9.@][\w-]*)")
_VALUE = re.compile(r"=|<|\s[A-Z][A-Z_]*\b|\s\(|\s[a-z#]+$")


def list_installed():
    """List the programs of the read-only set that are here."""
    readers = (name for name, each in PROGRAMS.items() if each.is_kind(*OPERANDS))
    return [name for name in readers if name in BUILTINS or shutil.which(name)]


def read_help(program):
    """Read the options in a program's help: for each, what stands for its value.

    That is "=" if it has to have one, "?" if it may, and "" if not, or several of these.
    """
    if program in BUILTINS:
        return {}
    shown = subprocess.run(
        [program, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    found = {}
    for line in (shown.stdout + shown.stderr).splitlines():
        if re.match(r"\s*-", line):
            head = _HEAD.split(line.strip(), maxsplit=1)[0]
            bare = _OPTION.sub("", head)
            arity = "?" if re.search(r"\[=|\[[A-Z=]", head) else "=" if _VALUE.search(bare) else ""
            for option in _OPTION.findall(head):
                found.setdefault(option, set()).add(arity)
    return found


def generate(program, helped, draw):
    """Make up a command of a program; `draw` is a `random.Random`."""
    row = PROGRAMS[program].options
    names = sorted({*helped, *row} - {*_WAITS.get(program, ())})
    count = draw.choice((0, 1, 1, 1, 2, 2, 3, 5)) if names else 0
    chosen = [draw.choice(names) for _ in range(count)]
    options = [word for name in chosen for word in _spell(name, program, helped, draw)]
    operands = [_choose_file(draw) for _ in range(draw.choice((0, 0, 1, 1, 1, 2, 2, 3)))]
    name = PROGRAMS[program].name
    if name in ("ps", "test", "[", "printf"):
        words = SCRIPTS[name if name != "[" else "test"]
        return [program, *(draw.choice(words) for _ in range(draw.choice((1, 2, 2, 3, 4))))]
    if name in SCRIPTS and draw.random() < 0.8:
        operands.insert(0, _write_script(name, draw))
    if draw.random() < 0.1:
        operands.insert(draw.randrange(len(operands) + 1), "--")
    if draw.random() < (0.8 if name == "find" else 0.2):
        return [program, *operands, *options]
    if draw.random() < 0.1:
        words = [*options, *operands]
        draw.shuffle(words)
        return [program, *words]
    return [program, *options, *operands]


def _choose_file(draw):
    return draw.choice(INSIDE if draw.random() < 0.9 else OUTSIDE)


def _write_script(name, draw):
    if name not in PIECES or draw.random() < 0.5:
        return draw.choice(SCRIPTS[name])
    return "".join(draw.choice(PIECES[name]) for _ in range(draw.randrange(2, 12)))


def _spell(option, program, helped, draw):
    """Write an option in one of the ways that there are: alone, with a value, in a cluster."""
    marks = PROGRAMS[program].options.get(option, "")
    takes = "=" in helped.get(option, ()) or re.search("[=@>&]", marks) is not None
    value = draw.choice(VALUES if draw.random() < 0.5 else OUTSIDE)
    if option.startswith("--"):
        if len(option) > 3 and draw.random() < 0.05:
            option = option[: draw.randrange(3, len(option) + 1)]
        if not takes:
            return [f"{option}={value}"] if draw.random() < 0.15 else [option]
        return [f"{option}={value}"] if draw.random() < 0.5 else [option, value]
    flags = [o[1] for o, m in PROGRAMS[program].options.items() if len(o) == 2 and m in (".", ".g")]
    if len(option) == 2 and flags and draw.random() < 0.4:
        option = f"-{draw.choice(flags)}{option[1]}"
    if takes or draw.random() < 0.1:
        return [f"{option}{value}"] if draw.random() < 0.4 else [option, value]
    return [option]
