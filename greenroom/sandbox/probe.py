"""The probe: attempts what a sandbox should refuse, and reports what was refused.

This file runs as a program of its own in the sandbox, with only the standard library:

    python -I -S probe.py QUESTIONS

or through `main` in a process that `enforce` has turned into another user's.

The questions are a JSON object: the folders `inside` and `outside`, a `hidden` file, the name of a
`protected` folder, a Unix `socket` that listens outside, the `pid` of a process outside, and its
namespaces, `net` and `pid_namespace`. For a user other than root, there are also the number of
`processes` that may be started, and the paths that the modes must allow this user to `read` and
`write`, separated by NULs. The answer is a JSON list of the parts that were held. Parts that can't
be tested by one command are not in it.
"""

import contextlib
import ctypes
import errno
import json  # noqa: TID251  (the standard library alone)
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

_PEEK_USER = 3
_MEGABYTE = 1 << 20

Questions = dict[str, str]


def is_refused(*attempts: Callable[[], object]) -> bool:
    """Return whether the system refuses every one of these attempts."""
    for attempt in attempts:
        try:
            attempt()
        except (OSError, MemoryError):
            continue
        return False
    return True


def write(path: str, content: str = "written") -> None:
    """Write a file."""
    with open(path, "w") as file:
        file.write(content)


def read(path: str) -> None:
    """Read a file."""
    with open(path, "rb") as file:
        file.read()


def connect(path: str) -> None:
    """Connect to a program through a Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def reach() -> None:
    """Connect a UDP socket, which works even if no program listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", 9))


def offer() -> None:
    """Bind a TCP port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("127.0.0.1", 0))


def trace() -> None:
    """Read from a process as a debugger does; only a filter of system calls gives EPERM here."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace(_PEEK_USER, os.getpid(), None, None)
    if ctypes.get_errno() == errno.EPERM:
        raise PermissionError(errno.EPERM, "ptrace")


def disturb(pid: int) -> "list[Callable[[], object]]":
    """List ways to change a process, each of which leaves it as it is."""
    ways: list[Callable[[], object]] = [
        partial(os.kill, pid, 0),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
    ]
    if sys.platform.startswith("linux"):
        ways += [
            lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
            lambda: os.sched_setscheduler(pid, os.sched_getscheduler(pid), os.sched_getparam(pid)),
            lambda: resource.prlimit(
                pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE)
            ),
        ]
    return ways


def is_apart(kind: str, outside: str) -> bool:
    """Return whether this process is in a namespace of its own."""
    with contextlib.suppress(OSError):
        return bool(outside) and os.readlink(f"/proc/self/ns/{kind}") != outside
    return False


def fill(megabytes: int) -> None:
    """Use memory."""
    del [bytearray(megabytes * _MEGABYTE)][:]


def fork() -> None:
    """Start a process."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def bomb(most: int) -> bool:
    """Return whether the system refuses too many processes; the caller has to end them."""
    for started in range(3 * most):
        try:
            child = os.fork()
        except OSError:
            return started > 0  # others of this user may have ended meanwhile
        if child == 0:
            signal.pause()
            os._exit(0)
    return False


def is_open_to_us(path: str, right: int) -> bool:
    """Return whether modes and owners allow this user something, whatever a sandbox refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    right |= os.X_OK if os.path.isdir(path) else 0
    # EROFS, for a read-only mount, comes only after all other checks have passed.
    return libc.access(os.fsencode(path), right) == 0 or ctypes.get_errno() == errno.EROFS


def check_paths(questions: Questions) -> None:
    """Exit with a reason if this user may not use what a command needs."""
    for verb, right in (("read", os.R_OK), ("write", os.R_OK | os.W_OK)):
        for path in filter(None, questions.get(verb, "").split("\0")):
            if not is_open_to_us(path, right):
                sys.exit(f"it may not {verb} {path}")


def is_limited(which: int, value: int, attempt: Callable[[], object]) -> bool:
    """Return whether a limit of this process makes the system refuse an attempt."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (value, before[1]))
    try:
        return is_refused(attempt)
    finally:
        resource.setrlimit(which, before)


def try_all(questions: Questions) -> "dict[str, bool]":
    """Try everything, and return which parts are held; writing inside must work."""
    inside, outside = questions["inside"], questions["outside"]
    check_paths(questions)
    write(f"{os.environ.get('TMPDIR', inside)}/temporary")
    write(f"{inside}/new")
    os.rename(f"{inside}/new", f"{inside}/renamed")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return {
        "files": is_refused(
            partial(write, f"{outside}/new"),
            partial(write, f"{outside}/file"),
            partial(os.truncate, f"{outside}/file", 0),
            partial(os.rename, f"{inside}/renamed", f"{outside}/renamed"),
            partial(os.unlink, f"{outside}/file"),
            partial(os.open, "/proc/sys/vm/overcommit_memory", os.O_WRONLY),
        ),
        "attributes": is_refused(partial(os.chmod, f"{outside}/kept", 0o600)),
        "protected": is_refused(
            partial(write, f"{questions['protected']}/new"),
            partial(os.rename, questions["protected"], f"{inside}/moved"),
            partial(os.makedirs, f"{inside}/.git/hooks"),
        ),
        "hidden": is_refused(partial(read, questions["hidden"])),
        "network": is_apart("net", questions["net"]) or is_refused(reach, offer),
        "services": is_refused(partial(connect, questions["socket"])),
        "signals": is_apart("pid", questions["pid_namespace"])
        or is_refused(*disturb(int(questions["pid"]))),
        "syscalls": is_refused(trace),
        "memory": is_limited(resource.RLIMIT_AS, 256 * _MEGABYTE, partial(fill, 512)),
        "cpu": resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY,
        "file_size": is_limited(
            resource.RLIMIT_FSIZE, 10, partial(write, f"{inside}/long", "x" * 100)
        ),
        "processes": bomb(int(questions["processes"]))
        if "processes" in questions
        else is_limited(resource.RLIMIT_NPROC, 1, fork),
    }


def main(questions: str) -> None:
    """Answer the questions."""
    found = try_all(json.loads(questions))
    sys.stdout.write(json.dumps([part for part, is_held in found.items() if is_held]))


if __name__ == "__main__":
    main(sys.argv[1])
