"""How soon `greenroom` takes a key, and asks the model, against a Python that imports its base.

The program starts in a pseudo-terminal that answers what terminals are asked. Two letters are typed
at once, and Enter as soon as they stand in the input line; a server on loopback, in the place of
Anthropic's, notes the request. Against it, in turn: a Python that imports trio, rich and
prompt-toolkit, and then says so. Of both, wall-clock time and the processor's time of the process
are measured until then; medians are compared. Exits with 1 where a bound is broken.

Run it where nothing but Greenroom is installed: httpx also loads click and pygments, if they are.

python benchmarks/first_key.py
"""

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROUNDS = 15
FLOOR = "import trio, rich, prompt_toolkit; print('ready', flush=True)"
MOST = {"first key": 1.3, "first request": 2.2}
"""Times the floor, in the processor's time, which a busy machine changes less. The aim of the
second is 2.0. Of what comes between the two, loading some three hundred modules takes half; to open
the run, draw it and build the request takes the rest."""
SECONDS = 60
LINE = b"\x1b[?2004h"  # switched on where the input line opens
ANSWER = b"\x1b]11;rgb:0000/0000/0000\x07\x1b[?62c"

Times = tuple[float, float]  # of the wall and of the processor, in seconds


class Server(ThreadingHTTPServer):
    """Notes that it was asked, and is too busy to answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.set()
        self.rfile.read(int(self.headers["Content-Length"]))
        with suppress(OSError):  # the program is stopped as soon as it has asked
            self.send_error(529)

    def log_message(self, *_: object) -> None:
        pass


class Started:
    """A program in a pseudo-terminal, and how long it has been running."""

    def __init__(self, words: list[str], folder: str, variables: dict[str, str]) -> None:
        self._ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._said = b""
        self._has_answered = False
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        os.close(its)

    @property
    def times(self) -> Times:
        # A process's own clock: for all of its threads, and exact.
        clock = (~self._process.pid << 3) | 2
        return time.perf_counter() - self._began, time.clock_gettime(clock)

    def until(self, is_done: Callable[[bytes], bool]) -> Times:
        """Return its times once what it has said is as it should be."""
        deadline = time.monotonic() + SECONDS
        while not is_done(self._said):
            if time.monotonic() > deadline:
                sys.exit(f"waited in vain; it said {self._said!r}")
            if select.select([self._ours], [], [], 0.001)[0]:
                self._said += os.read(self._ours, 65_536)
            if b"\x1b[c" in self._said and not self._has_answered:
                self._has_answered = True
                self.type(ANSWER)
        return self.times

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def start_bare(folder: str, variables: dict[str, str]) -> Times:
    started = Started(["-c", FLOOR], folder, variables)
    try:
        return started.until(lambda said: b"ready" in said)
    finally:
        started.end()


def start_program(folder: str, variables: dict[str, str], server: Server) -> tuple[Times, Times]:
    """Return the times of the first key and of the first request."""
    server.asked.clear()
    words = ["-m", "greenroom", "--model", "anthropic:claude-sonnet-5"]
    started = Started(words, folder, variables)
    try:
        started.type(b"hi")
        # Not what the terminal itself has echoed before the program took it over.
        key = started.until(lambda said: b"hi" in said.partition(LINE)[2])
        started.type(b"\r")
        return key, started.until(lambda _: server.asked.is_set())
    finally:
        started.end()


def main() -> int:
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: dict[str, list[Times]] = {name: [] for name in ("floor", *MOST)}
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        }
        for round_ in range(ROUNDS + 1):
            floor = start_bare(folder, variables)
            times = start_program(folder, variables, server)
            if round_:  # the first one compiles what was never imported
                for name, each in zip(found, (floor, *times), strict=True):
                    found[name].append(each)
    server.shutdown()
    return report(found)


def report(found: dict[str, list[Times]]) -> int:
    medians = {
        name: tuple(statistics.median(column) for column in zip(*times, strict=True))
        for name, times in found.items()
    }
    wall, processor = medians["floor"]
    is_slow = False
    for name, (its_wall, its_processor) in medians.items():
        ratio = its_processor / processor
        print(
            f"{name:14} {1000 * its_wall:7.0f} ms  {its_wall / wall:5.2f} × floor"
            f"   processor {1000 * its_processor:7.0f} ms  {ratio:5.2f} × floor"
        )
        is_slow |= ratio > MOST.get(name, 1.0)
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
