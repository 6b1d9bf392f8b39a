"""Put a confinement into force, and become the command that it is for.

This file runs as a program of its own, with only the standard library:

    python -I -S enforce.py SPECIFICATION COMMAND [ARGUMENT ...]

It runs between the launcher and the command, as one process with one thread, so that the changes it
makes to itself affect nothing else. The specification is a JSON object with optional fields:

- `cgroups`: files to write our process id to.
- `limits`: resource limits by their names in the module `resource`.
- `user`: the ids of the user and group that the command becomes, if we are root and it is not.
- `more_processes`: how many processes there may be in addition to those that this user has now.
- `landlock`: lists of paths in `read`, `write`, `devices` and `hidden`.
- `lists`: whether all folders may be listed.
- `scopes`: whether processes and sockets outside are out of reach.
- `filter`: the filter of system calls, in hexadecimal digits.
- `passes_filter`: the command is bubblewrap, which puts the filter into force itself and reads it
  from the file descriptor `FILTER_FD`.
- `drops_capabilities`: give up what root can do other than own files.
- `ignores_termination`: the command ignores SIGTERM, which is for the program below it.

After everything that needs root, in bubblewrap as well, it runs once more to stop being root for
good:

    python -I -S enforce.py --become USER GROUP FOLDER COMMAND [ARGUMENT ...]

FOLDER is where the command starts; if it is empty, the current folder. If the command is
`--run FILE ARGUMENT`, `main` of a Python file is called in this process. The file is loaded before,
since the user may not be allowed to read what root has installed for itself.

If anything can't be put into force, it writes a line to standard output and ends with `FAILED`,
without running the command.
"""

import ctypes
import json  # noqa: TID251  (the standard library alone)
import os
import resource
import signal
import stat
import sys
from types import ModuleType

FILTER_FD = 18
FAILED = 126
COMMAND_NOT_FOUND = 127

_SET_DEATH_SIGNAL, _GET_DEATH_SIGNAL = 1, 2
_CAPABILITIES_VERSION = 0x20080522

_RESTRICT_SELF, _CREATE_RULESET, _ADD_RULE = 446, 444, 445
_NO_NEW_PRIVILEGES, _SECCOMP, _DROP_BOUNDING = 38, 22, 24
_CAPABILITIES = 64
_BECOMING = (6, 7)  # CAP_SETGID and CAP_SETUID, which `become` gives up
_MAX_RULES = 100_000

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
# Version 1 had thirteen rights; version 2 added REFER, version 3 TRUNCATE, version 5 IOCTL_DEV.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPES = 3  # abstract Unix sockets, signals

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """Return the result of a system call, or raise `OSError` if the call failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def landlock_version() -> int:
    """Return the version of Landlock that the kernel offers, or 0."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


class Ruleset(ctypes.Structure):
    """What Landlock refuses unless a rule allows it."""

    _fields_ = [
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    ]


class PathRule(ctypes.Structure):
    """What is allowed with a file, or in a folder."""

    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("fd", ctypes.c_int32)]


class Landlock:
    """Rules about files, collected and then put into force."""

    def __init__(self, hidden: "list[str]", *, scopes: bool) -> None:
        """Start with refusing everything; hidden paths never get a right."""
        version = landlock_version()
        self._hidden = hidden
        self._handled_rights = next(_RIGHTS[each] for each in (5, 3, 2, 1) if version >= each)
        scoped = _SCOPES if scopes and version >= 6 else 0
        ruleset = Ruleset(self._handled_rights, 0, scoped)
        size = ctypes.c_size_t(24 if version >= 6 else 8)
        self._fd = check(libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), size, 0), "Landlock")
        self._rules = 0

    def allow(self, path: str, rights: int) -> None:
        """Allow something at a path and below it, except for hidden paths.

        The path itself may lie below a hidden one: the more specific one counts.
        """
        if path in self._hidden:
            return
        below = path.rstrip("/") + "/"
        if not any(each.startswith(below) for each in self._hidden):
            self._add(path, rights)
            return
        # New names may be made beside a hidden one; reading has to be allowed name by name.
        self._add(path, rights & ~(READ_FILE | READ_DIR | EXECUTE))
        for name in os.listdir(path):
            if not os.path.islink(below + name):
                self.allow(below + name, rights)

    def _add(self, path: str, rights: int) -> None:
        self._rules += 1
        if self._rules > _MAX_RULES:
            raise OSError(0, f"more than {_MAX_RULES} names are beside what is hidden")
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # it is gone or out of reach, so nothing is allowed there
        try:
            if not os.path.isdir(path):
                rights &= _OF_FILES
            if rights & self._handled_rights:
                rule = PathRule(rights & self._handled_rights, fd)
                added = libc.syscall(_ADD_RULE, self._fd, 1, ctypes.byref(rule), 0)
                check(added, f"Landlock: {path}")
        finally:
            os.close(fd)

    def restrict(self) -> None:
        """Put the rules into force for this process and all that it starts."""
        check(libc.syscall(_RESTRICT_SELF, self._fd, 0), "Landlock")
        os.close(self._fd)


def restrict_files(rules: "dict[str, list[str]]", *, lists: bool, scopes: bool) -> None:
    """Put rules about files into force."""
    landlock = Landlock(rules["hidden"], scopes=scopes)
    for path in rules["read"]:
        landlock.allow(path, EXECUTE | READ_FILE | READ_DIR)
    for path in rules["write"]:
        landlock.allow(path, ~(_MAKE_DEVICES | _IOCTL_DEV))
    for path in rules["devices"]:
        landlock.allow(path, READ_FILE | WRITE_FILE | READ_DIR | _IOCTL_DEV)
    if lists:
        landlock._add("/", READ_DIR)
    landlock.restrict()


class FilterProgram(ctypes.Structure):
    """A filter as `prctl` takes it."""

    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def restrict_calls(program: bytes) -> None:
    """Put a filter of system calls into force."""
    calls = FilterProgram(len(program) // 8, program)
    check(libc.prctl(_SECCOMP, 2, ctypes.byref(calls), 0, 0), "seccomp")


def hand_over(program: bytes) -> None:
    """Put a filter where bubblewrap reads it."""
    fd = os.memfd_create("filter")
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, FILTER_FD)


def count_processes(user: int) -> int:
    """Count the processes and threads of a user, by the real id as the kernel does."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/status") as status:
                fields = dict(line.split(":", 1) for line in status if ":" in line)
        except OSError:
            continue
        if int(fields["Uid"].split()[0]) == user:
            count += int(fields["Threads"])
    return count


def give_output(user: int, group: int) -> None:
    """Allow a user to open our output by its name, as `echo > /dev/stderr` does."""
    if stat.S_ISFIFO(os.fstat(1).st_mode):
        os.fchown(1, user, group)


def set_limits(limits: "dict[str, int]") -> None:
    """Lower the resource limits; lower ones stay as they are."""
    for name, value in limits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        # At the soft limit a process gets a signal, at the hard limit it is killed.
        top = value + 1 if name == "RLIMIT_CPU" else value
        top = top if hard == resource.RLIM_INFINITY else min(top, hard)
        resource.setrlimit(which, (min(value, top), top))


class Specification:
    """What to put into force, as written in JSON."""

    def __init__(self, text: str) -> None:
        """Parse the text; fields that are left out change nothing."""
        given = json.loads(text)
        self.cgroups: list[str] = given.get("cgroups", [])
        self.limits: dict[str, int] = given.get("limits", {})
        self.user: list[int] = given.get("user", [])
        self.more_processes: int = given.get("more_processes", 0)
        self.landlock: dict[str, list[str]] | None = given.get("landlock")
        self.lists: bool = given.get("lists", False)
        self.scopes: bool = given.get("scopes", False)
        self.filter = bytes.fromhex(given.get("filter", ""))
        self.passes_filter: bool = given.get("passes_filter", False)
        self.drops_capabilities: bool = given.get("drops_capabilities", False)
        self.ignores_termination: bool = given.get("ignores_termination", False)


def put_into_force(spec: Specification) -> None:
    """Apply a specification to this process, in the only order that works."""
    for path in spec.cgroups:
        with open(path, "w") as members:
            members.write(str(os.getpid()))
    if spec.more_processes:
        user = spec.user[0] if spec.user else os.getuid()
        spec.limits["RLIMIT_NPROC"] = count_processes(user) + spec.more_processes
    set_limits({"RLIMIT_CORE": 0, **spec.limits})
    if spec.user:
        give_output(*spec.user)
    if spec.drops_capabilities:
        kept = _BECOMING if spec.user else ()
        for capability in (each for each in range(_CAPABILITIES) if each not in kept):
            libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0)
    if spec.passes_filter:
        hand_over(spec.filter)
        return
    if sys.platform.startswith("linux"):
        check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    if spec.landlock:
        restrict_files(spec.landlock, lists=spec.lists, scopes=spec.scopes)
    if spec.filter:
        restrict_calls(spec.filter)


def restore_signals(*, ignores_termination: bool) -> None:
    """Undo Python's own handling of signals, which the command would inherit."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if ignores_termination:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def load(path: str) -> ModuleType:
    """Load a Python file."""
    import importlib.util  # slow, and only needed for another user

    found = importlib.util.spec_from_file_location("__loaded__", path)
    if found is None or found.loader is None:
        raise OSError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def become(user: int, group: int) -> None:
    """Become a user with one group, and still die with our parent."""
    death_signal, parent = ctypes.c_int(), os.getppid()
    libc.prctl(_GET_DEATH_SIGNAL, ctypes.byref(death_signal), 0, 0, 0)
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    # The change of user leaves the capabilities that the next program would inherit.
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    libc.capset(header, none)
    # The change of user has reset it, and the parent may have died in between.
    libc.prctl(_SET_DEATH_SIGNAL, death_signal.value, 0, 0, 0)
    if death_signal.value and os.getppid() != parent:
        os._exit(FAILED)
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return
    raise OSError(f"user {user} could become root again")


def drop_linker_variables(environment: "os._Environ[bytes]") -> dict[bytes, bytes]:
    """Drop the variables of the dynamic linker, which this Python may need but no command gets."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith((b"LD_", b"DYLD_"))
    }


def report(text: str) -> None:
    """Say on standard output why the command is not run."""
    os.write(1, f"{text}\n".encode())


def run(command: "list[str]") -> None:
    """Become the command."""
    try:
        os.execvpe(command[0], command, drop_linker_variables(os.environb))  # noqa: S606  (that is its purpose)
    except OSError as error:
        report(f"{command[0]}: {error.strerror}")
        os._exit(COMMAND_NOT_FOUND)


def run_confined(text: str, command: "list[str]") -> None:
    """Become the command, confined."""
    try:
        specification = Specification(text)
        put_into_force(specification)
    except (OSError, ValueError) as error:
        report(f"the sandbox could not be set up: {error}")
        os._exit(FAILED)
    restore_signals(ignores_termination=specification.ignores_termination)
    run(command)


def run_as(user: str, group: str, folder: str, command: "list[str]") -> None:
    """Become the command, as another user."""
    # `os.execvpe` imports it, and the user may not be allowed to read it.
    import warnings  # noqa: F401

    try:
        module = load(command[1]) if command[0] == "--run" else None
        become(int(user), int(group))
        os.chdir(folder or ".")
    except OSError as error:
        report(f"the sandbox could not be set up: {error}")
        os._exit(FAILED)
    if module:
        module.main(*command[2:])
    else:
        run(command)


def main(first: str, *rest: str) -> None:
    """Put a specification into force, or become a user."""
    if first == "--become":
        user, group, folder, *command = rest
        run_as(user, group, folder, command)
    else:
        run_confined(first, list(rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
