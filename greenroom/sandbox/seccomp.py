"""The filter of system calls, as a program that the kernel runs before each of them.

It refuses the calls that sandboxes have been broken with: mounts and namespaces, reading and
changing other processes, keys, asynchronous calls that bypass filters, and typing into a terminal;
also sockets of families that are not listed, and, where processes outside can be named, changes of
any process but the caller. A refused call fails with EPERM, like one without the necessary rights,
so programs can go on without it.
"""

import platform
import struct
from collections.abc import Iterable, Mapping

import msgspec

# The calls that act on another process of the same user, named by an id, a group or a descriptor,
# and what keeps them inside where there is no namespace of processes, as there is in bubblewrap:
#
#     kill, tkill, tgkill, rt_sigqueueinfo,   Landlock, from version 6: signals reach only processes
#     rt_tgsigqueueinfo, pidfd_send_signal,   of the same command, so it can end its children
#     fcntl and ioctl (whom SIGIO reaches)
#     ptrace, process_vm_readv and _writev,   this filter, always: only debuggers need them
#     pidfd_getfd, process_madvise, kcmp,
#     process_mrelease, perf_event_open,
#     setns
#     setpriority, ioprio_set                 this filter: only the caller and its group (0), as in
#                                             `nice` and `ionice`; never all processes of a user
#     sched_setaffinity, sched_setscheduler,  this filter: only the caller (0), as in `taskset CPU
#     sched_setparam, sched_setattr           COMMAND` and Python's `os.sched_setaffinity(0, ...)`
#     prlimit64                               this filter: only the caller (0), as in `ulimit`; the
#                                             limits of others can be read
#     migrate_pages, move_pages               this filter: only the caller (0)
#     get_robust_list, prctl (to share a      Landlock: they are for those who may debug a process
#     core), what is private in /proc/PID
#     what can be written in /proc/PID        Landlock: these are files outside
#     setpgid, wait4, waitid                  the kernel: only the caller and its children
#     pidfd_open, getpriority, ioprio_get,    nothing: they change nothing
#     sched_getaffinity, getpgid ...
#
# A filter sees numbers, and can't know whose they are. So a process can't change its children or
# another of its threads in these ways either: `renice`, `taskset -p`, `pthread_setaffinity_np`.

ADDRESS_FAMILIES = (2, 10, 16)
"""AF_INET, AF_INET6 and AF_NETLINK, which a network namespace keeps inside."""

USUAL_FAMILIES = (1, *ADDRESS_FAMILIES)
"""The same and AF_UNIX, through which programs outside can be reached."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000
_NEW_USER_NAMESPACE = 0x10000000
_TYPING = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which put characters into a terminal's input."""


def _read_numbers(table: str) -> dict[str, int]:
    """Read the numbers of system calls by their names."""
    rows = map(str.split, table.split(","))
    return {name: int(number) for name, number in rows}


# These have the same number on both architectures.
_COMMON = _read_numbers("""
    io_uring_setup 425, io_uring_enter 426, io_uring_register 427, open_tree 428,
    move_mount 429, fsopen 430, fsconfig 431, fsmount 432, fspick 433, pidfd_getfd 438,
    process_madvise 440, mount_setattr 442, quotactl_fd 443, process_mrelease 448,
    open_tree_attr 467
""")
_CLONE3 = 435


class _Architecture(msgspec.Struct, frozen=True):
    """The numbers of system calls on one kind of processor."""

    audit: int
    judged: Mapping[str, int]
    refused: Mapping[str, int]


_X86_64 = _Architecture(
    audit=0xC000003E,
    judged=_read_numbers("""
        ioctl 16, socket 41, clone 56, setpriority 141, sched_setparam 142, sched_setscheduler 144,
        sched_setaffinity 203, ioprio_set 251, migrate_pages 256, unshare 272, move_pages 279,
        prlimit64 302, sched_setattr 314
    """),
    refused=_read_numbers("""
        ptrace 101, syslog 103, uselib 134, vhangup 153, pivot_root 155, adjtimex 159,
        chroot 161, acct 163, settimeofday 164, mount 165, umount2 166, swapon 167, swapoff 168,
        reboot 169, sethostname 170, setdomainname 171, iopl 172, ioperm 173, init_module 175,
        delete_module 176, quotactl 179, lookup_dcookie 212, clock_settime 227, kexec_load 246,
        add_key 248, request_key 249, keyctl 250, perf_event_open 298, fanotify_init 300,
        open_by_handle_at 304, clock_adjtime 305, setns 308, process_vm_readv 310,
        process_vm_writev 311, kcmp 312, finit_module 313, kexec_file_load 320, bpf 321,
        userfaultfd 323
    """),
)
_AARCH64 = _Architecture(
    audit=0xC00000B7,
    judged=_read_numbers("""
        ioctl 29, ioprio_set 30, unshare 97, sched_setparam 118, sched_setscheduler 119,
        sched_setaffinity 122, setpriority 140, socket 198, clone 220, migrate_pages 238,
        move_pages 239, prlimit64 261, sched_setattr 274
    """),
    refused=_read_numbers("""
        lookup_dcookie 18, umount2 39, mount 40, pivot_root 41, chroot 51, vhangup 58,
        quotactl 60, acct 89, kexec_load 104, init_module 105, delete_module 106,
        clock_settime 112, syslog 116, ptrace 117, reboot 142, sethostname 161,
        setdomainname 162, settimeofday 170, adjtimex 171, add_key 217, request_key 218,
        keyctl 219, swapon 224, swapoff 225, perf_event_open 241, fanotify_init 262,
        open_by_handle_at 265, clock_adjtime 266, setns 268, process_vm_readv 270,
        process_vm_writev 271, kcmp 272, finit_module 273, bpf 280, userfaultfd 282,
        kexec_file_load 294
    """),
)
_ARCHITECTURES = {"x86_64": _X86_64, "aarch64": _AARCH64}


_CALLER: Mapping[int, tuple[int, ...]] = {0: (0,)}
_OURS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "setpriority": {0: (0, 1), 1: (0,)},  # PRIO_PROCESS, PRIO_PGRP
    "ioprio_set": {0: (1, 2), 1: (0,)},  # IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP
    "sched_setparam": _CALLER,
    "sched_setscheduler": _CALLER,
    "sched_setaffinity": _CALLER,
    "sched_setattr": _CALLER,
    "migrate_pages": _CALLER,
    "move_pages": _CALLER,
}
"""Calls that change a process: the values that each argument may have, which name the caller."""


def seccomp_filter(
    families: Iterable[int], machine: str = "", *, guards_processes: bool = False
) -> bytes | None:
    """Return the filter in the kernel's format; None for a processor with unknown call numbers.

    Args:
        families: the families of sockets that are allowed; socket pairs, as pipes, always are.
        machine: the kind of processor, as `platform.machine` names it; empty for this one.
        guards_processes: whether a process may change only itself and its group.

    Example:
        >>> len(seccomp_filter(USUAL_FAMILIES, "x86_64")) % 8, seccomp_filter((), "riscv64")
        (0, None)
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None:
        return None
    judged = _judge_arguments(families, guards_processes=guards_processes)
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, known.audit, if_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        # On x86_64 the same calls have a second set of numbers.
        *_when(_AT_LEAST, _X32, _FAIL | _EPERM),
        *(
            step
            for number in sorted({**known.refused, **_COMMON}.values())
            for step in _when(_EQUAL, number, _FAIL | _EPERM)
        ),
        # Its flags are in memory, where a filter can't look; programs fall back to clone.
        *_when(_EQUAL, _CLONE3, _FAIL | _ENOSYS),
        *(step for name, then in judged.items() for step in _on(known.judged[name], then)),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _judge_arguments(families: Iterable[int], *, guards_processes: bool) -> dict[str, list[bytes]]:
    """Return the steps that decide about calls by their arguments."""
    namespaces = _refuse_values(0, _ANY_BIT, [_NEW_USER_NAMESPACE])
    judged = {
        "socket": _allow_values({0: tuple(families)}),
        "ioctl": _refuse_values(1, _EQUAL, _TYPING),
        "clone": namespaces,
        "unshare": namespaces,
    }
    if guards_processes:
        judged |= {name: _allow_values(values) for name, values in _OURS.items()}
        judged["prlimit64"] = [*_allow_null(2), *_allow_values(_CALLER)]
    return judged


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _when(test: int, value: int, outcome: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, outcome)]


def _on(number: int, then: list[bytes]) -> list[bytes]:
    """Decide about one call by its arguments; these steps always end with a decision."""
    return [_step(_EQUAL, number, 0, len(then)), *then]


def _allow_values(allowed: Mapping[int, tuple[int, ...]]) -> list[bytes]:
    """Allow a call if each of these arguments has one of these values."""
    steps = [
        step
        for argument, values in allowed.items()
        for step in (
            _step(_LOAD, _ARGUMENTS_AT + 8 * argument),
            *(_step(_EQUAL, value, len(values) - at) for at, value in enumerate(values)),
            _step(_RETURN, _FAIL | _EPERM),
        )
    ]
    return [*steps, _step(_RETURN, _ALLOW)]


def _allow_null(argument: int) -> list[bytes]:
    """Allow a call whose argument is NULL, in both of its halves; go on with others."""
    at = _ARGUMENTS_AT + 8 * argument
    return [
        _step(_LOAD, at),
        _step(_EQUAL, 0, 0, 3),
        _step(_LOAD, at + 4),
        *_when(_EQUAL, 0, _ALLOW),
    ]


def _refuse_values(argument: int, test: int, values: Iterable[int]) -> list[bytes]:
    """Refuse a call whose argument is one of these, or has one of these bits."""
    refused = [step for value in values for step in _when(test, value, _FAIL | _EPERM)]
    return [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), *refused, _step(_RETURN, _ALLOW)]
