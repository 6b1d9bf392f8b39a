"""Start Python programs in a tenth of the time: a server that has imported Greenroom forks them.

Importing takes most of the second in which the command starts, and a hundred tests start it in a
terminal, or run a program of the docs or the examples. What a program sees is what a new
interpreter would show it: a session and a terminal of its own, its variables, folder, arguments and
streams, and a `__main__` of its own. How the command starts in truth is left to the tests that
start it as a process.

What it does not show is that a package was never imported: `greenroom.memory` is there without
`import greenroom.memory`. So tests look in the code of docs and examples that it asks for what is
there without it.
"""

import array
import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).parents[1]
LONGEST = 100_000


class WarmProgram:
    """A Python program in a terminal or a file, with what tests use of `subprocess.Popen`."""

    def __init__(self, arguments, terminal, cwd, env, errors=None):
        request = json.dumps([list(arguments), str(cwd), env]).encode()
        assert len(request) < LONGEST
        status, given_away = os.pipe()
        fds = array.array("i", [terminal, errors or terminal, given_away])
        server().sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        os.close(given_away)
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = int(self._status.readline())
        self.returncode = None

    def poll(self):
        return self._look(0)

    def wait(self, timeout):
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired("a warm program", timeout)
        return self.returncode

    def _look(self, seconds):
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def run_warm(arguments, cwd, env):
    """Run a program to its end; return its exit code, what it printed and what its errors were."""
    with TemporaryFile("w+") as printed, TemporaryFile("w+") as errors:
        program = WarmProgram(arguments, printed.fileno(), cwd, env, errors.fileno())
        code = program.wait(60)
        printed.seek(0)
        errors.seek(0)
        return code, printed.read(), errors.read()


@cache
def server():
    """Start a server of this process, which ends when this socket is closed."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_python"],
        stdin=its,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    its.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # first, as it was registered last
    return ours


def serve():
    """Fork for each request; return it where it is to be carried out."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    while True:
        request, ancillary, _, _ = requests.recvmsg(LONGEST, socket.CMSG_SPACE(12))
        if not request:
            os._exit(0)
        terminal, errors, status = array.array("i", ancillary[0][2])
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            program = os.fork()
            if program == 0:
                os.close(status)
                return json.loads(request), terminal, errors
            os.close(terminal)
            os.close(errors)
            os.write(status, b"%d\n" % program)
            code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            os.write(status, b"%d\n" % code)
            os._exit(0)
        for fd in (terminal, errors, status):
            os.close(fd)


def become(terminal, errors, cwd, env):
    """Take the terminal, the folder and the variables of a program."""
    os.setsid()
    if os.isatty(terminal):
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for fd, stream in enumerate((terminal, terminal, errors)):
        os.dup2(stream, fd)
    os.close(terminal)
    os.close(errors)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    random.seed()
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        as_begun = getattr(sys, name)
        stream = os.fdopen(fd, mode, encoding="utf-8", errors=as_begun.errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def import_greenroom():
    import greenroom

    for module in pkgutil.walk_packages(greenroom.__path__, "greenroom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("jsonschema")  # which is imported at its first use


def main():
    import_greenroom()
    gc.freeze()
    (arguments, cwd, env), terminal, errors = serve()
    become(terminal, errors, cwd, env)
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        del arguments[:2]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
