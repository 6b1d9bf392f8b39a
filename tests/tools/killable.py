"""Functions for tools whose processes are killed; whatever is here, each new process loads."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from greenroom.core import AgentContext
from greenroom.tools import ProcessLimits, tool

killable = tool(isolation="process", concurrent=True)


@killable
def who(_: AgentContext | None = None) -> list[int]:
    """Say which process this is, and which group it leads."""
    return [os.getpid(), os.getpgrp()]


@killable
def abandon(context: AgentContext) -> str:
    context.report_abandoned("a job elsewhere")
    return "done"


@killable
def die(how: str) -> str:
    if how == "os._exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "close":
        os.closerange(0, 256)
    if how == "garbage":
        _write_into_sockets(b"\xff" * 100)
    if how == "no frame":
        _write_into_sockets(b"\0\0\0\2{}")
    if how == "guard":
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)
        time.sleep(600)
    return "done"


def _write_into_sockets(data: bytes) -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), data)
        except OSError:
            continue


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@killable
def leave(what: str, context: AgentContext) -> str:
    """Leave something running, tell its process id, and return."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    if what == "child":
        return str(subprocess.Popen(command).pid)
    if what == "daemon":
        script = "setsid sleep 600 >/dev/null 2>&1 & echo $!"
        return subprocess.check_output(["bash", "-c", script], text=True)
    if what == "zombie":
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return str(os.getpid())
    if what.endswith("timer"):
        signal.setitimer(
            {"timer": signal.ITIMER_REAL, "profiler's timer": signal.ITIMER_PROF}[what], 60
        )
        return str(os.getpid())
    if what == "closed stream":
        sys.stdout.close()
        return str(os.getpid())
    if what == "closed file":
        os.close(1)
        return str(os.getpid())
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return str(os.getpid())


@killable
def hold_signals_off() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    return os.getpid()


@killable
def fork_and_return(context: AgentContext) -> str:
    """Come back twice, and try to be heard twice."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    else:
        context.progress("from the fork")
    return "the parent" if pid else "the fork"


@killable
def block(context: AgentContext, folder: str, how: str = "sleep") -> str:
    """Begin, and go on until it is stopped."""
    place = Path(folder)
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "setsid":
        subprocess.Popen(["setsid", "sleep", "600.25"])
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix="scratch"):
            context.progress(f"began {os.getpid()}")
            until = time.monotonic() + 600
            while time.monotonic() < until:
                if how != "busy":
                    time.sleep(600)
        (place / "side effect").touch()
    except SystemExit:
        if how != "deaf":
            raise
    finally:
        (place / "tidied").touch()
    return "done"


@killable
def write_later(path: str, seconds: float, context: AgentContext) -> str:
    """Have a side effect after a while."""
    context.progress(f"process {os.getpid()}")
    time.sleep(seconds)
    Path(path).write_text("written")
    return "written"


@tool(isolation="process", limits=ProcessLimits(cpu_seconds=1))
def burn(seconds: float) -> str:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return "burnt"


@killable
def show_limits() -> list[bool]:
    """Say of the CPU time and the address space whether they are unlimited here."""
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_AS)
    return [resource.getrlimit(kind)[0] == resource.RLIM_INFINITY for kind in kinds]


@tool(isolation="process", limits=ProcessLimits(memory_megabytes=64))
def fill(megabytes: int, catch: bool = False) -> str:
    try:
        return str(len(bytes(megabytes << 20)) >> 20)
    except MemoryError:
        if catch:
            return "did without"
        raise


@tool(isolation="process", limits=ProcessLimits(memory_megabytes=64))
def crash_within_limits() -> None:
    ctypes.string_at(0)


@killable
def variable(key: str) -> str | None:
    return os.environ.get(key)
