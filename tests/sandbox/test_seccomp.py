"""The filter of system calls, judged by a reading of it that shares no code with what writes it."""

import struct
from collections.abc import Iterator

import pytest

from greenroom.sandbox.seccomp import ADDRESS_FAMILIES, USUAL_FAMILIES, seccomp_filter

ALLOWED, KILLED, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
X86_64, AARCH64 = ("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)
MACHINES = [X86_64, AARCH64]

CALLS = {
    # name: (x86_64, aarch64), from the kernel's own tables
    "read": (0, 63),
    "execve": (59, 221),
    "openat": (257, 56),
    "socketpair": (53, 199),
    "exit_group": (231, 94),
    "kill": (62, 129),
    "memfd_create": (319, 279),
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
}
HARMLESS = ("read", "execve", "openat", "socketpair", "exit_group", "kill", "memfd_create")
SOCKET, IOCTL, CLONE, UNSHARE = (41, 198), (16, 29), (56, 220), (272, 97)
CLONE3 = 435


def judged(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run a filter as the kernel does, on the data of one call."""
    filled = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", number, audit, 0, *filled)
    steps = list(struct.iter_unpack("<HBBI", program))
    found = at = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (found,) = struct.unpack_from("<I", data, value)
            continue
        test = {0x15: found == value, 0x35: found >= value, 0x45: bool(found & value)}[code]
        at += if_true if test else if_false


def of_each() -> Iterator[tuple[bytes, int, int]]:
    for index, (machine, audit) in enumerate(MACHINES):
        program = seccomp_filter(USUAL_FAMILIES, machine)
        assert program is not None
        yield program, audit, index


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused_or_harmless(name: str) -> None:
    for program, audit, index in of_each():
        expected = ALLOWED if name in HARMLESS else EPERM
        assert judged(program, audit, CALLS[name][index]) == expected


def test_calls_of_another_kind_of_processor_end_the_process() -> None:
    for program, audit, _ in of_each():
        others = {0x40000003, 0x40000028, X86_64[1], AARCH64[1]} - {audit}
        assert {judged(program, other, 0) for other in others} == {KILLED}


def test_the_second_set_of_numbers_is_refused() -> None:
    program, audit, _ = next(of_each())
    assert judged(program, audit, 0x40000000) == judged(program, audit, 0x40000206) == EPERM


@pytest.mark.parametrize(
    ("families", "family", "expected"),
    [
        (USUAL_FAMILIES, 1, ALLOWED),
        (USUAL_FAMILIES, 2, ALLOWED),
        (USUAL_FAMILIES, 10, ALLOWED),
        (USUAL_FAMILIES, 16, ALLOWED),
        (USUAL_FAMILIES, 17, EPERM),
        (USUAL_FAMILIES, 40, EPERM),
        (USUAL_FAMILIES, 0x1_0000_0002, ALLOWED),  # the kernel takes the lower half as well
        ((), 1, EPERM),
        ((), 2, EPERM),
        (ADDRESS_FAMILIES, 1, EPERM),
        (ADDRESS_FAMILIES, 2, ALLOWED),
        ((1,), 1, ALLOWED),
        ((1,), 2, EPERM),
    ],
)
def test_sockets_are_made_of_listed_families_only(
    families: tuple[int, ...], family: int, expected: int
) -> None:
    for index, (machine, audit) in enumerate(MACHINES):
        program = seccomp_filter(families, machine)
        assert program is not None
        assert judged(program, audit, SOCKET[index], family, 1, 0) == expected


def test_nothing_is_typed_into_a_terminal() -> None:
    for program, audit, index in of_each():
        typing = [judged(program, audit, IOCTL[index], 0, each) for each in (0x5412, 0x541C)]
        assert typing == [EPERM, EPERM]
        # The kernel looks at the lower half of the argument alone.
        assert judged(program, audit, IOCTL[index], 0, 0xFFFF_FFFF_0000_5412) == EPERM
        assert judged(program, audit, IOCTL[index], 0, 0x5413) == ALLOWED  # the size of a window


def test_no_namespace_of_users_is_made_and_threads_are() -> None:
    for program, audit, index in of_each():
        threads, user = 0x3D0F00, 0x10000000
        assert judged(program, audit, CLONE[index], threads) == ALLOWED
        assert judged(program, audit, CLONE[index], 0x11 | user) == EPERM
        assert judged(program, audit, UNSHARE[index], user | 0x20000) == EPERM
        assert judged(program, audit, UNSHARE[index], 0x200) == ALLOWED
        assert judged(program, audit, CLONE3) == ENOSYS


CHANGES = {
    # name: (x86_64, aarch64), what may be changed, what may not
    "setpriority": ((141, 140), [(0, 0), (1, 0)], [(0, 7), (1, 7), (2, 0), (2, 7), (0, -1)]),
    "ioprio_set": ((251, 30), [(1, 0), (2, 0)], [(1, 7), (2, 7), (3, 0), (3, 7), (0, 0)]),
    "sched_setparam": ((142, 118), [(0,)], [(7,), (-1,)]),
    "sched_setscheduler": ((144, 119), [(0,)], [(7,), (-1,)]),
    "sched_setaffinity": ((203, 122), [(0,), (1 << 32,)], [(7,), (1 << 32 | 7,)]),
    "sched_setattr": ((314, 274), [(0,)], [(7,)]),
    "migrate_pages": ((256, 238), [(0,)], [(7,)]),
    "move_pages": ((279, 239), [(0,)], [(7,)]),
    "prlimit64": (
        (302, 261),
        [(0, 0, 0), (0, 0, 0x7FFF_0000_0000), (7, 0, 0)],
        [(7, 0, 0x1000), (7, 0, 0x7FFF_0000_0000), (-1, 0, 1)],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_the_caller_is_changed_where_others_have_to_be_guarded(name: str) -> None:
    numbers, ours, others = CHANGES[name]
    for index, (machine, audit) in enumerate(MACHINES):
        program = seccomp_filter((), machine, guards_processes=True)
        free = seccomp_filter((), machine)
        assert program is not None
        assert free is not None

        def judge(program: bytes, given: tuple[int, ...], audit=audit, number=numbers[index]):
            return judged(program, audit, number, *(each % (1 << 64) for each in given))

        assert {judge(program, given) for given in ours} == {ALLOWED}
        assert {judge(program, given) for given in others} == {EPERM}
        assert {judge(free, given) for given in (*ours, *others)} == {ALLOWED}


def test_a_processor_that_is_not_known_has_no_filter() -> None:
    assert seccomp_filter(USUAL_FAMILIES, "riscv64") is None
