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
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType

ROOT = Path(__file__).parents[1]
LONGEST = 100_000


class WarmProcess(subprocess.Popen):
    """A Python program, forked by the server, with pipes: all else is as with any `Popen`."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        _, _, _, stdin, writer, reader, stdout, errors, stderr, *_ = rest
        fds = stdin, stdout, stderr
        assert args[0] == sys.executable
        assert preexec_fn is None  # a forked program can't be prepared so
        assert -1 not in fds
        self.pid, self._status = fork(args[1:], fds, cwd, env)
        self._child_created = True
        self._close_pipe_fds(stdin, writer, reader, stdout, errors, stderr)

    def _internal_poll(self, **_):
        return self._look(0)

    def wait(self, timeout=None):
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired("a warm program", timeout)
        return self.returncode

    def _look(self, seconds):
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode


def run_warm(arguments, cwd, env):
    """Run a program to its end; return its exit code, what it printed and what its errors were."""
    with TemporaryFile("w+") as printed, TemporaryFile("w+") as errors:
        streams = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": errors}
        program = WarmProcess([sys.executable, *arguments], **streams, cwd=cwd, env=env)
        code = program.wait(120)
        printed.seek(0)
        errors.seek(0)
        return code, printed.read(), errors.read()


def start_warm(arguments, cwd, env=None, **options):
    """Start a program whose standard output is a pipe; errors go where those of the test go."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": 2}
    env = {**os.environ} if env is None else env
    return WarmProcess([sys.executable, *arguments], **streams | options, cwd=cwd, env=env)


def fork(arguments, fds, cwd, env):
    """Let the server fork a program with these streams; return its id, and what tells its end."""
    request = json.dumps([list(map(str, arguments)), str(cwd), env]).encode()
    assert len(request) < LONGEST
    status, given_away = os.pipe()
    sent = array.array("i", [*fds, given_away])
    server().sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    os.close(given_away)
    status = os.fdopen(status, "rb", buffering=0)
    return int(status.readline()), status


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
    ended, noted = os.pipe()
    os.set_blocking(noted, False)
    signal.set_wakeup_fd(noted)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    requests = socket.socket(fileno=os.dup(0))
    running = {}
    while True:
        ready = select.select([requests, ended], [], [])[0]
        if ended in ready:
            os.read(ended, LONGEST)
            tell_ends(running)
        if requests not in ready:
            continue
        request, ancillary, _, _ = requests.recvmsg(LONGEST, socket.CMSG_SPACE(16))
        if not request:
            os._exit(0)
        *streams, status = array.array("i", ancillary[0][2])
        program = os.fork()
        if program == 0:
            requests.close()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (ended, noted, status, *running.values()):
                os.close(fd)
            return json.loads(request), streams
        for fd in streams:
            os.close(fd)
        running[program] = status
        tell(status, program)


def tell_ends(running):
    """Tell of each program that has ended its exit code."""
    while running:
        program, status = os.waitpid(-1, os.WNOHANG)
        if program == 0:
            return
        place = running.pop(program)
        tell(place, os.waitstatus_to_exitcode(status))
        os.close(place)


def tell(status, number):
    with suppress(BrokenPipeError):  # whoever started it has gone
        os.write(status, b"%d\n" % number)


def become(streams, cwd, env):
    """Take the streams, the terminal, the folder and the variables of a program."""
    os.setsid()
    if os.isatty(streams[0]):
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for fd, stream in enumerate(streams):
        os.dup2(stream, fd)
        os.close(stream)
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


def run(arguments, cwd):
    """Run a program as `python ARGUMENTS` does."""
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = cwd
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")


def end(error):
    """End as an interpreter does, without taking apart what was imported, which takes longest."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and code is not error.code:
            print(error.code, file=sys.stderr)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    is_interrupted = isinstance(error, KeyboardInterrupt)
    del error
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    if is_interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def main():
    import_greenroom()
    gc.freeze()
    (arguments, cwd, env), streams = serve()
    become(streams, cwd, env)
    error = None
    try:
        run(arguments, cwd)
    except BaseException as raised:
        error = raised
    end(error)


if __name__ == "__main__":
    main()
