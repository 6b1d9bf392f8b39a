"""The launcher: runs one command, and lets nothing that the command starts outlive it.

This file runs as a program of its own, with only the standard library:

    python -I -S process_tree.py [--pipes=INPUT,ERRORS] COMMAND [ARGUMENT ...]

Standard input is the lifeline: when we close it or die, the launcher kills everything that the
command has started. It does the same when the command ends, however it ends. Standard output
becomes the command's output and error output; its standard input is empty. With `--pipes`, these
two file descriptors are its standard input and its error output. Standard error carries the report:
first the command's process id and a newline; at the end its exit code (negative for the signal that
killed it, empty if it was stopped) and a newline; `gone`, `killed` (gone as well, but the command
had ended and left it running) or `left` (something may still run) and a newline; and what the
command wrote to `NOTE_FD`.

Between the launcher and the command is another process, the parent, which only waits. So what a
command does to its `$PPID` does not reach the process that cleans up. A stopped parent is woken up;
a killed one takes the command along.

On Linux the launcher is a child subreaper, so it still finds processes that called `setsid`, forked
twice or cleared their environment. Elsewhere it kills the process group and the children that `ps`
shows; a process that left both escapes.
"""

import os
import select
import signal
import sys

NOTE_FD = 19
"""The file descriptor on which a command may leave a note for the one who started it."""
# Together with the rest of the report it fits into any system's pipe, so writing never blocks.
NOTE_LIMIT = 8_192
ROUNDS = 200
ROUND_SECONDS = 0.025
COMMAND_NOT_FOUND = 127
PIPES = "--pipes="

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; false if the system has no such call."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def become_subreaper() -> bool:
    """Become the parent of orphaned descendants; false if the system does not support it."""
    return prctl(_SET_CHILD_SUBREAPER, 1)


def start(command: list[str], pipes: "list[int]", tell: int, note: int, linux: bool) -> int:
    """Start the command in a session of its own, after reporting its process id; return the id.

    Args:
        command: the program and its arguments.
        pipes: file descriptors of its standard input and error output; empty for neither.
        tell: where its process id is written.
        note: what becomes `NOTE_FD`.
        linux: whether it dies with its parent.

    This process closes the lifeline and the report before the command runs, since the command can
    find this process and open its descriptors.
    """
    may_run, hold = os.pipe()
    child = os.fork()
    if child:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 2)
        os.close(hold)
        close_all(pipes)
        return child
    try:
        os.close(hold)
        os.setsid()
        line = b"%d\n" % os.getpid()
        os.write(tell, line)
        # Reported from here, since the command may kill its parent before that could report.
        report(line)
        if linux:
            # If its parent is killed, at least the command itself dies with it.
            prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_DFL)
        os.dup2(pipes[0] if pipes else os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(pipes[1] if pipes else 1, 2)
        close_all(pipes)
        os.dup2(note, NOTE_FD)
        os.read(may_run, 1)  # waits until the parent has closed the other end
        os.execvpe(command[0], command, drop_linker_variables(os.environb))  # noqa: S606  (that is its purpose)
    except OSError as error:
        os.write(2 if pipes else 1, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(COMMAND_NOT_FOUND)


def close_all(descriptors: "list[int]") -> None:
    """Close the ends of pipes that belong to the command alone."""
    for each in descriptors:
        os.close(each)


def start_parent(
    command: list[str], pipes: "list[int]", note: int, linux: bool
) -> "tuple[int, int]":
    """Start the command below a parent; return the parent's id, and a pipe from it.

    The pipe brings the command's process id before it runs, and then its exit code, each with a
    newline.
    """
    reports, tell = os.pipe()
    parent = os.fork()
    if parent:
        os.close(tell)
        close_all(pipes)
        return parent, reports
    try:
        os.setpgid(0, 0)
        if linux:
            prctl(_SET_PDEATHSIG, signal.SIGKILL)
        child = start(command, pipes, tell, note, linux)
        os.set_blocking(tell, False)
        status = os.waitpid(child, 0)[1]
        os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(status))
    except OSError as error:
        report(str(error).encode())
    finally:
        os._exit(0)


def drop_linker_variables(environment: "os._Environ[bytes]") -> dict[bytes, bytes]:
    """Drop the variables of the dynamic linker, which this Python may need but no command gets."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith((b"LD_", b"DYLD_"))
    }


def reap(parent: int) -> "tuple[bool, bool]":
    """Reap children; return whether none is left, and whether the parent was among them."""
    ended = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return True, ended
        if pid == 0:
            return False, ended
        if pid == parent and os.WIFSTOPPED(status):
            os.kill(parent, signal.SIGCONT)
        elif pid == parent:
            ended = True


def watch(parent: int, wake: int) -> bool:
    """Wait until the parent ends or the lifeline closes; return whether the parent ended."""
    while True:
        if reap(parent)[1]:
            return True
        ready = select.select([0, wake], [], [])[0]
        signals = os.read(wake, 4096) if wake in ready else b""
        if 0 in ready or signal.SIGTERM in signals:
            return reap(parent)[1]


def list_processes() -> "list[tuple[int, int, int]]":
    """List the running processes as tuples of their id, parent's id and group's id."""
    if not os.path.exists("/proc/self/stat"):
        command = "ps -A -o pid=,ppid=,pgid=,stat="
        with os.popen(command) as table:  # noqa: S605  (nothing varies)
            rows = [line.split() for line in table]
        return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if row[3][0] != "Z"]
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


def find_descendants(root: int, child: int) -> "list[int]":
    """List the processes that descend from `root` or are in the command's process group."""
    # Our own group holds us and the `ps` that made the list, but no process of the command.
    rows = [row for row in list_processes() if row[2] != os.getpgrp()]
    found = {root}
    size = 0
    while size != len(found):
        size = len(found)
        found.update(pid for pid, parent, group in rows if parent in found or group == child)
    found.discard(root)
    return list(found)


def left_something(child: int, subreaper: bool) -> bool:
    """Whether something that the command has started still runs."""
    if reap(0)[0] and subreaper:
        return False
    return bool(find_descendants(os.getpid(), child))


def kill(victims: "list[int]") -> None:
    """Kill those that we may, parents first, since a shell would report its children's death."""
    for pid in sorted(victims):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def kill_descendants(child: int, wake: int, subreaper: bool) -> bool:
    """Kill until none remains; false if some could not be killed, such as another user's."""
    for _ in range(ROUNDS):
        if reap(0)[0] and subreaper:
            return True
        victims = find_descendants(os.getpid(), child)
        if not victims and not subreaper:
            return True
        kill(victims)
        if select.select([wake], [], [], ROUND_SECONDS)[0]:
            os.read(wake, 4096)
    return False


def report(text: bytes) -> None:
    """Write to our caller, whose death must not keep us from cleaning up."""
    try:
        os.write(2, text)
    except OSError:
        return


def read_now(pipe: int) -> bytes:
    """Read at most `NOTE_LIMIT` bytes from a pipe, without waiting for more."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, NOTE_LIMIT)
    except BlockingIOError:
        return b""


def main(command: list[str]) -> None:
    """Run the command, kill what it leaves behind, and report."""
    linux = become_subreaper()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if select.select([0], [], [], 0)[0]:
        return  # stopped before it began
    note, note_end = os.pipe()
    pipes = []
    if command[0].startswith(PIPES):
        pipes = [int(each) for each in command.pop(0)[len(PIPES) :].split(",")]
    parent, reports = start_parent(command, pipes, note_end, linux)
    os.close(note_end)
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    answer = os.read(reports, 64)
    child = answer.partition(b"\n")[0]
    ended = watch(parent, wake)
    code = (answer + read_now(reports)).split(b"\n")[1:2] if ended else []
    running = any(code) and left_something(int(child or -1), linux)
    gone = kill_descendants(int(child or -1), wake, linux)
    state = (b"killed" if running else b"gone") if gone else b"left"
    report(b"".join(code) + b"\n" + state + b"\n" + read_now(note))


if __name__ == "__main__":
    main(sys.argv[1:])
