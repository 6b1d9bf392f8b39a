"""Processes outside, attacked from inside with every call that takes a process; ours still work."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom.tools import Sandbox
from tests.absent_programs import needs
from tests.sandbox.held import Held

PYTHON = f"{os.path.realpath(sys.executable)} -I -S"

NUMBERS = {
    # name: (x86_64, aarch64), from the kernel's own tables
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    "prlimit64": (302, 261),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "setns": (308, 268),
    "get_robust_list": (274, 100),
    "perf_event_open": (298, 241),
    "setpgid": (109, 154),
    "prctl": (157, 167),
}
MACHINE = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine, 0)

# Each attack changes nothing but the victim, and prints its name where the kernel let it.
ATTACKS = """
import array, ctypes, fcntl, json, os, signal, socket, struct, sys
pid, call = int(sys.argv[1]), json.loads(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def attack(name, *arguments, way=""):
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if libc.syscall(ctypes.c_long(call[name]), *words) >= 0:
        print(name + way)
memory, information = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(128)
struct.pack_into("iii", information, 0, signal.SIGWINCH, 0, -1)
attributes = ctypes.create_string_buffer(struct.pack("IIQiIQQQ", 48, 3, 0, 9, 0, 0, 0, 0), 48)
limit = ctypes.create_string_buffer(struct.pack("QQ", 1000, 1000), 16)
cpus, zero = ctypes.create_string_buffer(struct.pack("Q", 1), 8), ctypes.create_string_buffer(8)
pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
nodes = ctypes.byref(ctypes.c_ulong(1))
pidfd = libc.syscall(ctypes.c_long(call["pidfd_open"]), ctypes.c_long(pid), ctypes.c_long(0))
attack("kill", pid, signal.SIGWINCH)
attack("tkill", pid, signal.SIGWINCH)
attack("tgkill", pid, pid, signal.SIGWINCH)
attack("rt_sigqueueinfo", pid, signal.SIGWINCH, information)
attack("rt_tgsigqueueinfo", pid, pid, signal.SIGWINCH, information)
attack("pidfd_send_signal", pidfd, signal.SIGWINCH, None, 0)
attack("setpriority", 0, pid, 5)
attack("setpriority", 1, pid, 6, way=" of a group")
attack("sched_setparam", pid, zero)
attack("sched_setscheduler", pid, 3, zero)
attack("sched_setaffinity", pid, 8, cpus)
attack("sched_setattr", pid, attributes, 0)
attack("ioprio_set", 1, pid, 3 << 13)
attack("ioprio_set", 2, pid, 3 << 13, way=" of a group")
attack("prlimit64", pid, 7, limit, None)
attack("migrate_pages", pid, 64, nodes, nodes)
attack("move_pages", pid, 1, ctypes.byref(pointer), None, memory, 0)
attack("ptrace", 16, pid, None, None)
attack("process_vm_readv", pid, None, 0, None, 0, 0)
attack("process_vm_writev", pid, None, 0, None, 0, 0)
attack("kcmp", pid, os.getpid(), 1, 0, 0)
attack("pidfd_getfd", pidfd, 0, 0)
attack("process_madvise", pidfd, None, 0, 21, 0)
attack("process_mrelease", pidfd, 0)
attack("setns", pidfd, 0x04000000)
attack("get_robust_list", pid, ctypes.byref(pointer), ctypes.byref(size))
attack("perf_event_open", memory, pid, -1, -1, 0)
attack("setpgid", pid, pid)
attack("prctl", 62, 1, pid, 0, 0, way=" to share a core")
for which in ("oom_score_adj", "autogroup", "timerslack_ns", "coredump_filter", "comm"):
    try:
        with open(f"/proc/{pid}/{which}", "w") as file:
            file.write("0")
        print("writes", which)
    except OSError:
        pass
ours, theirs = socket.socketpair()
try:
    fcntl.fcntl(ours, fcntl.F_SETOWN, pid)
    fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) | os.O_ASYNC)
    theirs.send(b"x")
except OSError:
    pass
print("end")
"""

# Root without rights, since the system protects a process that has more of them than its attacker.
VICTIM = """
import ctypes, signal
ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
print("up", flush=True)
signal.sigwait([signal.SIGUSR1])
"""


@pytest.fixture
def victim() -> Iterator[int]:
    """A process outside, which keeps every signal that it gets."""
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "A_API_KEY": "sesame"},
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        yield process.pid
        process.kill()


def describe(pid: int) -> dict[str, object]:
    """Describe all of a process that another one could change."""
    folder = Path("/proc", str(pid))
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "limits": (folder / "limits").read_text(),
        "priority": os.getpriority(os.PRIO_PROCESS, pid),
        "processors": os.sched_getaffinity(pid),
        "scheduler": os.sched_getscheduler(pid),
        "group": os.getpgid(pid),
        "signals": (status["SigPnd"], status["ShdPnd"]),
        "tracer": status["TracerPid"],
        **{each: (folder / each).read_text() for each in ("oom_score_adj", "coredump_filter")},
    }


async def attack(held: Held, pid: int, sandbox: Sandbox | None = None) -> set[str]:
    """Attack a process from inside; return the names of what the kernel let pass."""
    (held.root / "attacks.py").write_text(ATTACKS)
    numbers = json.dumps({name: each[MACHINE] for name, each in NUMBERS.items()})
    result = await held.run(f"{PYTHON} attacks.py {pid} '{numbers}'", sandbox)
    *done, end = result.text.partition("\n[")[0].splitlines()
    assert end == "end", result.text
    return set(done)


@pytest.mark.parametrize("network", ["none", "all"])
async def test_no_process_outside_is_signalled_slowed_down_or_limited(
    held: Held, victim: int, network: str
) -> None:
    sandbox = Sandbox(network=network)  # type: ignore[arg-type]
    before = describe(victim)
    done = await attack(held, victim, sandbox)
    after = describe(victim)
    if await held.is_missing("signals", sandbox):
        changed = {name for name, value in after.items() if value != before[name]}
        assert changed >= {"limits", "priority", "scheduler", "signals"}
        assert done >= {"kill", "tgkill", "setpriority", "sched_setaffinity", "prlimit64"}
    else:
        assert done == set()
        assert after == before


@pytest.mark.usefixtures("victim")
async def test_no_environment_of_any_process_outside_is_read(held: Held) -> None:
    result = await held.run("cat /proc/[0-9]*/environ 2> /dev/null | grep -c sesame")
    was_read = result.text.splitlines()[0] != "0"
    assert was_read == ((await held.report()).tier == "limits")


WHOLE_USERS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number, which, value in zip(sys.argv[1:3], (2, 3), (19, 3 << 13)):
    libc.syscall(*map(ctypes.c_long, (int(number), which, 4_000_000_001, value)))
    print(ctypes.get_errno())
"""


async def test_no_user_is_slowed_down_with_all_processes(held: Held) -> None:
    (held.root / "users.py").write_text(WHOLE_USERS)
    numbers = [NUMBERS[name][MACHINE] for name in ("setpriority", "ioprio_set")]
    result = await held.run(f"{PYTHON} users.py {numbers[0]} {numbers[1]}")
    is_filtered = (await held.report()).enforced.get("signals") == "Landlock and seccomp"
    # Otherwise it is looked for: that user has none.
    expected = errno.EPERM if is_filtered else errno.ESRCH
    assert result.text.split()[:2] == [str(expected)] * 2


OURS = {
    # what is run: what it says
    "nice -n 19 nice": "19",  # the most, however nice the tests are
    "ulimit -n 64; ulimit -n": "64",
    "taskset 1 nproc": "1",
    "ionice -c 3 ionice": "idle",
    "prlimit --nofile=64 bash -c 'ulimit -n'": "64",
    "chrt --batch 0 echo batch": "batch",
    "timeout 60 echo in time": "in time",
    "sleep 600 & kill $!; wait $!; echo $?": "143",
    "set -m; sleep 600 & kill -TERM -$!; wait $! 2> /dev/null; echo $?": "143",
    "bash -c 'trap \"echo heard\" USR1; kill -USR1 $$'": "heard",
}

THREADS = """
import os, resource, signal, subprocess, sys, threading
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.setpriority(os.PRIO_PROCESS, 0, 18)
os.setpriority(os.PRIO_PGRP, 0, 19)  # the most, however nice the tests are
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)
thread = threading.Thread(target=os.sched_setaffinity, args=(0, {min(os.sched_getaffinity(0))}))
thread.start()
thread.join()
child = subprocess.Popen(["sleep", "600"])
descriptor = os.pidfd_open(child.pid)
signal.pidfd_send_signal(descriptor, signal.SIGTERM)
print(child.wait(), os.getpriority(os.PRIO_PROCESS, 0), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@needs("taskset")
async def test_processes_inside_are_set_up_and_signalled_as_ever(held: Held) -> None:
    command = "\n".join(f"({each})" for each in OURS)
    result = await held.run(command)
    assert result.text.partition("\n[")[0].splitlines() == [*OURS.values()], result.text
    (held.root / "threads.py").write_text(THREADS)
    result = await held.run(f"{PYTHON} threads.py")
    assert result.text.splitlines()[0] == "-15 19 (64, 64)", result.text
