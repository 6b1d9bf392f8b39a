"""What a command that is said to only read does to files and processes, seen by strace.

In the folder of a run lie `work`, where the commands run, and `outside`, which no command may read.
In `work` are files, folders, links that lead outside, and files named like options and values: so a
word that is read otherwise than it was judged opens something outside.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

LONGEST = 2
SECRET = "what no command may print"
LINKS = ("5", "1", "link", "always", "name", "x", "1,3", "+2", "c", "n", "s", "t", "-", "*", "e=5")
FILES = {
    "a.txt": "b 2\na 1\n",
    "j": '{"a": [1]}\n',
    "d/e.txt": "x\n",
    "d/.ignore": "y\n",
    "d2/e.txt": "y\n",
    "sums": f"{'0' * 32}  link\n",
    "-o": "a\n",
    "-rf": "a\n",
    "--output": "a\n",
    "@at": "-o out\n--output=out\nlink\n",
    "s.sed": "w out\n",
    "+%s": "",
}
BUILTINS = (":", "[", "cd", "command", "echo", "false", "printf", "pwd", "test", "true", "type")
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?[^<>]*")
_STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WRITES = re.compile("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_CHANGES = re.compile(
    "creat|mkdir(at)?|rmdir|unlink(at)?|rename(at2?)?|link(at)?|symlink(at)?|f?chmod(at2?)?|l?chown"
    "|fchownat|utimes?|futimesat|utimensat|truncate|mknod(at)?|l?setxattr|mount"
)
_SYSTEM = re.compile(r"/\Z|/(?:usr|lib\w*|bin|etc|proc|sys|dev|opt)(?:/|\Z)|/(?:run|var)/.*nscd")
_HARMLESS = re.compile("/dev/(?:null|tty|pts/.*)")
# The ones that are scripts; the program that they run does their work.
_SCRIPTS = {"egrep": "grep", "fgrep": "grep"}


class Deed(NamedTuple):
    """Something that a command does and should not."""

    words: tuple[str, ...]
    deed: str


def furnish(base):
    """Make the folders, and return `work`."""
    work, outside = base / "work", base / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "secret").write_text(f"{SECRET}\n")
    (outside / "folder/secret").write_text(f"{SECRET}\n")
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "prog").write_text("#!/bin/sh\ntouch ran\n")
    (work / "prog").chmod(0o755)
    for name in LINKS:
        (work / name).symlink_to(outside / "secret")
    (work / "d/inner").symlink_to(outside / "folder")
    (work / "d/secret").symlink_to(outside / "secret")
    (work / "d2/secret").symlink_to(outside / "secret")
    (work / "folder").symlink_to(outside / "folder")
    return work


def is_inside(path, work):
    """Return whether a path leads into the workspace, with links followed."""
    real = os.path.realpath(os.path.join(work, path))
    return real == str(work) or real.startswith(f"{work}/")


def can_trace():
    """Return whether strace works here."""
    if not shutil.which("strace"):
        return False
    tried = subprocess.run(["strace", "-f", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def watch(words, work, *, traced):
    """Run a command in a workspace, and return what it did and should not."""
    before, trace = _look(work), work.parent / "trace"
    run = ["bash", "--norc", "-c", '"$0" "$@"', *words] if words[0] in BUILTINS else list(words)
    if traced:
        kinds = "trace=file,process,network"
        run = ["strace", "-f", "-y", "-s", "4096", "-e", kinds, "-o", str(trace), *run]
    try:
        done = subprocess.run(
            run,
            cwd=work,
            env=_make_environment(words, work),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
        printed = done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"") + (error.stderr or b"")
    deeds = [f"prints {SECRET!r}"] if SECRET.encode() in printed else []
    deeds += [f"changes {name}" for name in {*before.items()} ^ {*_look(work).items()}]
    if traced:
        deeds += _find_deeds(trace.read_text(errors="replace"), words, work)
    return [Deed(tuple(words), deed) for deed in deeds]


def _make_environment(words, work):
    """Make the variables of a command; `ps` must not show those of others, and so not its own."""
    shared = {"PATH": os.environ["PATH"], "HOME": str(work.parent / "outside"), "LANG": "C.UTF-8"}
    return shared | ({"MARK": SECRET} if words[0] == "ps" else {})


def _look(work):
    found = {}
    for path in work.parent.rglob("*"):
        if path.name != "trace":
            status = path.lstat()
            found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def _find_deeds(trace, words, work):
    programs = 0
    for line in trace.splitlines():
        match = _CALL.fullmatch(line)
        if match is None or match[3].startswith("-"):
            continue
        call, given, opened = match[1], match[2], match[4] or ""
        strings = _STRINGS.findall(given)
        if call == "execve":
            programs += 1
            name = Path(strings[0]).name
            if programs > 1 and name != _SCRIPTS.get(words[0]):
                yield f"runs {strings[0]}"
        elif call in ("open", "openat", "openat2"):
            if _WRITES.search(given) and not _HARMLESS.fullmatch(opened):
                yield f"opens {opened} for writing"
            elif not ("O_PATH" in given or _SYSTEM.match(opened) or is_inside(opened, work)):
                yield f"reads {opened}"
        elif _CHANGES.fullmatch(call):
            yield f"{call} {' '.join(strings)}"
        elif call == "connect" and "AF_UNIX" not in given:
            yield f"connects: {given}"
