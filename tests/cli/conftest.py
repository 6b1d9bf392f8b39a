"""A user's machine, and programs that run on it: in this process, beside it, in a terminal."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pyte
import pytest

from greenroom.cli import main

SECONDS = 30
COMMAND = [sys.executable, "-m", "greenroom"]
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
VENDORS = ("ANTHROPIC", "OPENAI")


@pytest.fixture
def project(tmp_path):
    """A folder to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("A project of ours.\n")
    return folder


@pytest.fixture
def env(tmp_path):
    """The variables of a user without keys, whose home is empty."""
    (tmp_path / "home").mkdir()
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
    root = str(Path(__file__).parents[2])
    return {**kept, "HOME": str(tmp_path / "home"), "PYTHONPATH": root, "LANG": "C.UTF-8"}


@dataclass
class Finished:
    """What a program has left: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(project, env, capfd, monkeypatch):
    """Run the command in this process, which takes a tenth of the time of a new one."""

    def run(*words, cwd=project, **variables):
        for name in list(os.environ):
            if name.startswith((*VENDORS, "XDG")):
                monkeypatch.delenv(name)
        for name, value in {**env, **variables}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(cwd)
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return Finished(code, out, err)

    return run


@pytest.fixture
def start(project, env):
    """Start the command as a process of its own."""
    started = []

    def start(*words, **options):
        process = subprocess.Popen(
            [*COMMAND, *words],
            **{"stdin": subprocess.DEVNULL, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=project,
            env=env,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SECONDS)


class TerminalProgram:
    """The command in a real pseudo-terminal, whose screen can be read."""

    def __init__(self, words, cwd, env, size=(50, 100)):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        self.output = b""
        self._screen = pyte.Screen(size[1], size[0])
        self._stream = pyte.ByteStream(self._screen)
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *COMMAND, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )

    @property
    def screen(self):
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def mode(self):
        """How the terminal is set, such as whether it echoes."""
        return termios.tcgetattr(self._slave)

    def type(self, text):
        os.write(self._master, text.encode())

    def wait_for(self, *texts, without=()):
        """Read until all these texts stand on the screen, and none of the others."""

        def is_there():
            screen = self.screen
            return all(t in screen for t in texts) and not any(t in screen for t in without)

        self._read_until(is_there, f"{texts} without {without}")
        return self.screen

    def wait(self):
        """Read until the program has ended; return its exit code."""
        self._read_until(lambda: self.process.poll() is not None, "the end")
        while self._has_output():
            self._feed()
        return self.process.returncode

    def _read_until(self, is_done, what):
        deadline = time.monotonic() + SECONDS
        while not is_done():
            ended = self.process.poll() is not None and not self._has_output()
            if (ended and not is_done()) or time.monotonic() > deadline:
                raise AssertionError(f"waited for {what}; the screen is\n{self.screen}")
            if select.select([self._master], [], [], 0.05)[0]:
                self._feed()

    def _has_output(self):
        return bool(select.select([self._master], [], [], 0)[0])

    def _feed(self):
        data = os.read(self._master, 65536)
        self.output += data
        self._stream.feed(data)

    def hang_up(self):
        """Close the terminal's window; return the exit code of the program in it."""
        os.close(self._master)
        self._master = -1
        return self.process.wait(SECONDS)

    def close(self):
        if self._master == -1:
            os.close(self._slave)
            return
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.wait()
        finally:
            self.process.kill()
            self.process.wait(SECONDS)
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def terminal(project, env):
    """Start the command in a terminal."""
    programs = []

    def terminal(*words, term="xterm-256color", **variables):
        program = TerminalProgram(words, project, {**env, "TERM": term, **variables})
        programs.append(program)
        return program

    yield terminal
    for program in programs:
        program.close()
