"""What real bash runs and writes: stubs in the place of programs log their names and words.

The commands run in bubblewrap where it works: nothing outside one folder can be written, and there
is no network. Elsewhere they run in the same folder with nothing but stubs on their path.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BASH = "/bin/bash"
# Stubs that do what the program does, after they have logged it.
REAL = (
    *("env", "timeout", "nice", "nohup", "stdbuf", "setsid", "ionice", "xargs", "find", "sort"),
    *(
        "cat",
        "sed",
        "awk",
        "head",
        "wc",
        "uniq",
        "grep",
        "seq",
        "bash",
        "sh",
        "printf",
        "echo",
        "test",
    ),
)
FAKE = (
    *(
        "good",
        "evil",
        "git",
        "rm",
        "EVIL",
        "GOOD",
        "RM",
        "frob",
        "watch",
        "busybox",
        "flock",
        "true",
    ),
    *("sleep", "sudo", "ls", "[", "vil", "a", "0", "npx"),
)
TRANSPARENT = ("env", "timeout", "nice", "nohup", "stdbuf", "setsid", "ionice", "time", "command")
FILES = {
    "f": "3 b a\n1 a b\n2 c\n",
    "f2": "evil f2\n",
    "path": "./bad\n",
    "sub/f": "x\n",
    "x/y": "z\n",
}
LONGEST = 20
END = "\036"


@dataclass(frozen=True)
class Outcome:
    """What one command did: the words of each program that ran, and the files that it changed."""

    ran: tuple[tuple[str, ...], ...]
    changed: tuple[str, ...]

    def beyond(self, allowed):
        """Say what of it these prefixes do not allow."""
        prefixes = [tuple(each.split()) for each in allowed]
        programs = [
            words
            for words in self.ran
            if words[0] not in TRANSPARENT
            and not any(words[: len(prefix)] == prefix for prefix in prefixes)
        ]
        return [*programs, *(f"changed {name}" for name in self.changed)]


def outcomes(commands, folder):
    """Run commands one after the other, each in the same small folder."""
    folder = Path(folder)
    (folder / "commands.json").write_text(json.dumps(list(commands)))
    driver = [sys.executable, "-I", "-S", __file__, str(folder)]
    subprocess.run([*sandbox(folder), *driver], check=True, stdin=subprocess.DEVNULL)
    found = json.loads((folder / "outcomes.json").read_text())
    return [Outcome(tuple(map(tuple, ran)), tuple(changed)) for ran, changed in found]


def sandbox(folder):
    """Say what runs a program so that it writes to one folder only; nothing where that can't be."""
    sandbox = [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"),
        *("--bind", str(folder), str(folder), "--unshare-all", "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session"),
    ]
    try:
        usable = (
            subprocess.run([*sandbox, "true"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        usable = False
    return sandbox if usable else []


def _install_stubs(folder):
    folder.mkdir()
    for name in (*REAL, *FAKE):
        real = shutil.which(name, path="/usr/bin:/bin")
        last = f'exec {real} "$@"' if name in REAL and real else "exit 0"
        _write_stub(folder / name, name, last)


def _write_stub(path, name, last="exit 0"):
    # One write for each call, since the programs of a pipeline log at the same time.
    log = f"printf '%s\\037' '{name}' \"$@\" '{END}' >> \"$LOG\""
    path.write_text(f"#!/bin/sh\n{log}\n{last}\n")
    path.chmod(0o755)


def _furnish(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "bad").mkdir()
    _write_stub(folder / "bad/good", "bad/good")
    (folder / "lnk").symlink_to("f")


def _contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def run(command, folder, environment, longest=LONGEST):
    """Run one command, and everything that it leaves behind, to the end; return what it printed."""
    process = subprocess.Popen(
        [BASH, "--noprofile", "--norc", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=longest)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def main(folder):
    """Run the commands of a file, and write down what they did."""
    _install_stubs(folder / "stubs")
    work, log = folder / "work", folder / "log"
    environment = {
        "PATH": str(folder / "stubs"),
        "LOG": str(log),
        "HOME": str(work),
        "LANG": "C.UTF-8",
    }
    found = []
    before = None
    for command in json.loads((folder / "commands.json").read_text()):
        if before is None:
            _furnish(work)
            before = _contents(work)
        log.write_text("")
        run(command, work, environment)
        after = _contents(work)
        changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
        records = log.read_text(errors="replace").split(f"{END}\037")[:-1]
        found.append(([record.split("\037")[:-1] for record in records], sorted(changed)))
        before = None if changed else after
    (folder / "outcomes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
