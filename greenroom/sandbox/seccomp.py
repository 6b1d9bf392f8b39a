"""The filter of system calls, as a program that the kernel runs before each of them.

It refuses the calls that sandboxes have been broken with: mounts and namespaces, reading and
changing other processes, keys, asynchronous calls that bypass filters, and typing into a terminal;
also sockets of families that are not listed. A refused call fails with EPERM, like one without the
necessary rights, so programs can go on without it.
"""

import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

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


def _read_numbers(table: str) -> frozenset[int]:
    """Read the numbers of system calls; the names are for readers."""
    return frozenset(int(entry.split()[1]) for entry in table.split(","))


# These have the same number on both architectures.
_COMMON = _read_numbers("""
    io_uring_setup 425, io_uring_enter 426, io_uring_register 427, open_tree 428,
    move_mount 429, fsopen 430, fsconfig 431, fsmount 432, fspick 433, pidfd_getfd 438,
    process_madvise 440, mount_setattr 442, quotactl_fd 443, open_tree_attr 467
""")
_CLONE3 = 435


@dataclass(frozen=True)
class _Architecture:
    """The numbers of system calls on one kind of processor."""

    audit: int
    socket: int
    ioctl: int
    clone: int
    unshare: int
    refused: frozenset[int]


_X86_64 = _Architecture(
    audit=0xC000003E,
    socket=41,
    ioctl=16,
    clone=56,
    unshare=272,
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
    socket=198,
    ioctl=29,
    clone=220,
    unshare=97,
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


def seccomp_filter(families: Iterable[int], machine: str = "") -> bytes | None:
    """Return the filter in the kernel's format; None for a processor with unknown call numbers.

    Args:
        families: the families of sockets that are allowed; socket pairs, as pipes, always are.
        machine: the kind of processor, as `platform.machine` names it; empty for this one.

    Example:
        >>> len(seccomp_filter(USUAL_FAMILIES, "x86_64")) % 8, seccomp_filter((), "riscv64")
        (0, None)
    """
    known = _ARCHITECTURES.get(machine or platform.machine())
    if known is None:
        return None
    refused = sorted(known.refused | _COMMON)
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, known.audit, if_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        # On x86_64 the same calls have a second set of numbers.
        *_when(_AT_LEAST, _X32, _FAIL | _EPERM),
        *(step for number in refused for step in _when(_EQUAL, number, _FAIL | _EPERM)),
        # Its flags are in memory, where a filter can't look; programs fall back to clone.
        *_when(_EQUAL, _CLONE3, _FAIL | _ENOSYS),
        *_on(known.socket, _allow_values(_EQUAL, families)),
        *_on(known.ioctl, _refuse_values(1, _EQUAL, _TYPING)),
        *_on(known.clone, _refuse_values(0, _ANY_BIT, [_NEW_USER_NAMESPACE])),
        *_on(known.unshare, _refuse_values(0, _ANY_BIT, [_NEW_USER_NAMESPACE])),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _when(test: int, value: int, outcome: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, outcome)]


def _on(number: int, then: list[bytes]) -> list[bytes]:
    """Decide about one call by its arguments; these steps always end with a decision."""
    return [_step(_EQUAL, number, 0, len(then)), *then]


def _allow_values(test: int, values: Iterable[int]) -> list[bytes]:
    """Allow a call whose first argument is one of these."""
    allowed = [step for value in values for step in _when(test, value, _ALLOW)]
    return [_step(_LOAD, _ARGUMENTS_AT), *allowed, _step(_RETURN, _FAIL | _EPERM)]


def _refuse_values(argument: int, test: int, values: Iterable[int]) -> list[bytes]:
    """Refuse a call whose argument is one of these, or has one of these bits."""
    refused = [step for value in values for step in _when(test, value, _FAIL | _EPERM)]
    return [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), *refused, _step(_RETURN, _ALLOW)]
