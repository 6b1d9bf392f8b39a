"""Run one command so that nothing it starts outlives it.

This file runs as a program of its own, with the standard library alone:

    python -I -S launcher.py COMMAND [ARGUMENT ...]

Standard input is the lifeline: when it closes, by our hand or by our death, everything that the
command has started is killed. The same happens when the command ends, however it ends. Standard
output becomes the command's output and error output. Standard error carries the report:
the command's process id and a newline at once; at the end its exit code (negative: the signal that
killed it; empty: it was stopped) and a newline, then what the command wrote to `NOTE_FD`.

On Linux this process is a child subreaper, so a process that called `setsid`, forked twice or
cleared its environment is still found. Elsewhere the process group and the children that `ps` shows
are killed; a process that left both gets away.
"""

import os
import select
import signal
import sys

NOTE_FD = 19
# With the rest of the report it fits into any system's pipe, so writing it never blocks.
NOTE_LIMIT = 8_192
ROUNDS = 200
ROUND_SECONDS = 0.025
COMMAND_NOT_FOUND = 127

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; false where the system has no such call."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def start(command: list[str], note: int, linux: bool) -> int:
    """Start the command in a session of its own, and return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if linux:
            # Should a command kill this launcher, its shell at least dies with it.
            prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        os.dup2(note, NOTE_FD)
        os.execvpe(command[0], command, clean(os.environb))  # noqa: S606  (that is its purpose)
    except OSError as error:
        os.write(1, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(COMMAND_NOT_FOUND)


def clean(environment: "os._Environ[bytes]") -> dict[bytes, bytes]:
    """Drop what the dynamic linker reads: this Python may need it, the command must not have it."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith((b"LD_", b"DYLD_"))
    }


def reap(child: int) -> "tuple[bool, int | None]":
    """Collect the dead: whether no child is left, and the command's exit code if it was there."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True, code
        if pid == 0:
            return False, code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def watch(child: int, wake: int) -> "int | None":
    """Wait for the end of the command or of the lifeline; its exit code, or None if stopped."""
    while True:
        ready = select.select([0, wake], [], [])[0]
        signals = os.read(wake, 4096) if wake in ready else b""
        code = reap(child)[1]
        if code is not None:
            return code
        if 0 in ready or signal.SIGTERM in signals:
            return None


def processes() -> "list[tuple[int, int, int]]":
    """List the living processes as (id, parent's id, group's id)."""
    if not os.path.exists("/proc/self/stat"):
        with os.popen("ps -A -o pid=,ppid=,pgid=") as table:  # noqa: S605, S607  (nothing varies)
            rows = [line.split() for line in table]
        return [(int(pid), int(parent), int(group)) for pid, parent, group in rows]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    # The name before the last ")" may hold anything, blanks and brackets included.
                    state, parent, group = stat.read().rpartition(b")")[2].split()[:3]
            except OSError:
                continue
            if state != b"Z":
                found.append((int(name), int(parent), int(group)))
    return found


def family(child: int) -> "list[int]":
    """List what descends from this process, or is in the command's process group."""
    # Our own group holds us and the `ps` that made the list, never a part of the command.
    rows = [row for row in processes() if row[2] != os.getpgrp()]
    found = {os.getpid()}
    size = 0
    while size != len(found):
        size = len(found)
        found.update(pid for pid, parent, group in rows if parent in found or group == child)
    found.discard(os.getpid())
    return list(found)


def kill_family(child: int, wake: int, subreaper: bool) -> None:
    """Kill until none remains; give up on what we may not kill (another user's) after a while."""
    for _ in range(ROUNDS):
        if reap(child)[0] and subreaper:
            return
        victims = family(child)
        if not victims and not subreaper:
            return
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if select.select([wake], [], [], ROUND_SECONDS)[0]:
            os.read(wake, 4096)


def report(text: bytes) -> None:
    """Tell our caller, if it still lives; its death must not keep us from cleaning up."""
    try:
        os.write(2, text)
    except OSError:
        return


def main(command: list[str]) -> None:
    """Run the command, kill what it left behind, and report."""
    linux = prctl(_SET_CHILD_SUBREAPER, 1)
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    note, note_end = os.pipe()
    os.set_blocking(note, False)
    if select.select([0], [], [], 0)[0]:
        return  # stopped before it began
    child = start(command, note_end, linux)
    os.close(note_end)
    report(b"%d\n" % child)
    code = watch(child, wake)
    kill_family(child, wake, linux)
    try:
        told = os.read(note, NOTE_LIMIT)
    except BlockingIOError:
        told = b""
    report((b"" if code is None else b"%d" % code) + b"\n" + told)


if __name__ == "__main__":
    main(sys.argv[1:])
