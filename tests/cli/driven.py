"""A program that drives a headless run: it writes lines, and reads until what it waits for."""

import json
import os
import threading
from contextlib import contextmanager

from greenroom.cli import main

WORDS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")


def user(text):
    return {"type": "user", "message": {"role": "user", "content": text}}


def answer(request_id, choice="once", **more):
    return {"type": "answer", "request_id": request_id, "choice": choice, **more}


INTERRUPT = {"type": "interrupt"}


class Driver:
    """The other side of the pipes, in a thread of its own.

    Attributes:
        lines: what the run has printed, decoded.
    """

    def __init__(self, script):
        self.lines = []
        self._script = script
        self._read, self._out = os.pipe()
        self._in, self._write = os.pipe()

    def say(self, *lines):
        """Write lines: objects as JSON, and bytes as they are."""
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            os.write(self._write, data + b"\n")

    def wait_for(self, kind, count=1):
        """Read until so many lines of this type have come; return the last of them."""
        while len(found := [each for each in self.lines if each["type"] == kind]) < count:
            self.wait_for_next()
        return found[count - 1]

    def wait_for_next(self):
        """Read one line, and return it."""
        line = self._reader.readline()
        if not line:
            raise AssertionError(f"the output has ended: {self.kinds}")
        self.lines.append(json.loads(line))
        return self.lines[-1]

    @property
    def kinds(self):
        return [each["type"] for each in self.lines]

    def hang_up(self):
        """Stop reading for good."""
        self._reader.close()

    def _drive(self):
        with os.fdopen(self._read, "rb") as self._reader:
            try:
                self._script(self)
            except BrokenPipeError:
                pass  # the run has ended
            except AssertionError as error:
                self.failure = error
            finally:
                os.close(self._write)
                if not self._reader.closed:
                    self.lines += map(json.loads, self._reader)

    failure = None

    @contextmanager
    def driving(self):
        """Let the process's standard input and output be this side's pipes."""
        saved = [os.dup(0), os.dup(1)]
        os.dup2(self._in, 0)
        os.dup2(self._out, 1)
        os.close(self._in)
        os.close(self._out)
        thread = threading.Thread(target=self._drive)
        thread.start()
        try:
            yield
        finally:
            for number, each in enumerate(saved):
                os.dup2(each, number)
                os.close(each)
            thread.join()
        if self.failure is not None:
            raise self.failure


def drive(script, *words):
    """Run the command against a script; return the exit code and what was printed."""
    driver = Driver(script)
    with driver.driving():
        code = main([*WORDS, *words])
    return code, driver.lines
