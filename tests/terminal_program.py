"""Programs in a real pseudo-terminal, for tests that look at the screen and press keys."""

import copy
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import pyte

from tests.warm_python import WarmProcess

SECONDS = 120
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def start(command, terminal, cwd, env):
    options = {"stdin": terminal, "stdout": terminal, "stderr": terminal, "cwd": cwd, "env": env}
    if command[0] == sys.executable:
        return WarmProcess(command, **options)
    taking = [sys.executable, "-ISc", TAKE_TERMINAL, *command]
    return subprocess.Popen(taking, **options, start_new_session=True)


_ALTERNATE = 1049


class Screen(pyte.Screen):
    """A screen that has an alternate one, which programs draw on and leave again."""

    def set_mode(self, *modes, **options):
        super().set_mode(*modes, **options)
        if options.get("private") and _ALTERNATE in modes:
            rows = {y: copy.copy(row) for y, row in self.buffer.items()}
            self._main = rows, copy.copy(self.cursor)
            self.erase_in_display(2)

    def reset_mode(self, *modes, **options):
        super().reset_mode(*modes, **options)
        if options.get("private") and _ALTERNATE in modes:
            rows, self.cursor = self._main
            self.buffer.clear()
            self.buffer.update(rows)
            self.cursor.y = min(self.cursor.y, self.lines - 1)
            self.dirty.update(range(self.lines))


class TerminalProgram:
    """A program in a real pseudo-terminal, whose screen can be read."""

    def __init__(self, command, cwd, env, size=(50, 100)):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        self.output = b""
        self._screen = Screen(size[1], size[0])
        self._shown = None
        self._stream = pyte.ByteStream(self._screen)
        self.process = start(command, slave, cwd, env)

    @property
    def screen(self):
        # Not its `display`, which fails where half of a wide character has just been written over.
        if self._shown is None:
            rows = (self._screen.buffer[y] for y in range(self._screen.lines))
            columns = range(self._screen.columns)
            lines = ("".join([row[x].data for x in columns]).rstrip() for row in rows)
            self._shown = "\n".join(lines).rstrip()
        return self._shown

    @property
    def mode(self):
        """How the terminal is set, such as whether it echoes."""
        return termios.tcgetattr(self._slave)

    def resize(self, lines, columns):
        """Make the terminal's window larger or smaller."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._screen.resize(lines, columns)
        self._shown = None

    def type(self, text):
        os.write(self._master, text.encode())

    def wait_for(self, *texts, without=()):
        """Read until all these texts stand on the screen, and none of the others."""

        def is_there():
            screen = self.screen
            return all(t in screen for t in texts) and not any(t in screen for t in without)

        self._read_until(is_there, f"{texts} without {without}")
        return self.screen

    def wait_until(self, is_done):
        """Read until the screen is as it should be; return it."""
        self._read_until(lambda: is_done(self.screen), is_done.__name__)
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
        self._shown = None

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
