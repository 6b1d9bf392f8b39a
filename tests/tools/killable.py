"""Functions for tools that run in processes of their own; they are imported there."""

import ctypes
import enum
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from greenroom.core import AgentContext, TextBlock, ToolError, ToolResult
from greenroom.tools import ProcessLimits, tool

killable = tool(isolation="process", concurrent=True)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    name: str
    born: datetime | None = None


@killable
def who(_: AgentContext | None = None) -> list[int]:
    """Say which process this is, and which group it leads."""
    return [os.getpid(), os.getpgrp()]


@killable
def typed(
    point: Point,
    person: Person,
    colour: Colour,
    size: Literal["s", "m"],
    when: datetime,
    data: bytes,
    *,
    text: str = "ü",
) -> str:
    """Show that each argument has come in its type."""
    values = (point, person, colour, size, when, data, text)
    return "; ".join(repr(value) for value in values)


@killable
def point(x: int) -> Point:
    return Point(x)


@killable
def identity(context: AgentContext) -> dict[str, object]:
    workspace = context.workspace
    return {
        **context.to_json(),
        "root": str(workspace.root),
        "cwd": str(workspace.cwd),
        "spill_folder": context.spill_folder,
    }


@killable
def remember(context: AgentContext) -> str:
    context.set_metadata("new", [1, {"ü": None}])
    notes = context.metadata["notes"]
    assert isinstance(notes, list)
    notes.append("more")
    del context.metadata["old"]
    return f"kept {context.get_metadata('kept')}"


@killable
def remember_and_fail(context: AgentContext) -> str:
    context.set_metadata("new", 1)
    raise ToolError("it did not work", hint="try again")


@killable
def remember_no_json(context: AgentContext) -> str:
    context.metadata["bad"] = object()
    return "done"


@killable
def talk(context: AgentContext) -> str:
    context.progress("told 🌱")
    print("printed 🌱")
    print("printed as an error", file=sys.stderr)
    subprocess.run(["echo", "said by a child"], check=True)
    os.write(1, b"raw \xff\0 no newline")
    return "done"


@killable
def flood(context: AgentContext, characters: int) -> str:
    for _ in range(characters // 1000):
        context.progress("p" * 999 + "\n")
        print("o" * 999)
    context.progress("p" * 2 * characters)
    return "done"


@killable
def abandon(context: AgentContext) -> str:
    context.report_abandoned("a job elsewhere")
    return "done"


@killable
def use(what: str, context: AgentContext) -> str:
    if what == "cleanup":
        with context.cleanup(1.0):
            return "cleaned"
    resources = context.resources
    if what == "screen":
        return str(context.screen_reads("."))
    uses = {
        "get": lambda: resources.get(str),
        "insert": lambda: resources.insert("a"),
        "len": lambda: len(resources),
        "shared": lambda: resources.shared,
    }
    return str(uses[what]())


class BrokenError(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


@killable
def fail(how: str) -> str:
    errors: dict[str, BaseException] = {
        "tool": ToolError("no such planet", hint="try another"),
        "value": ValueError("42 is wrong"),
        "broken": BrokenError(),
        "exit": SystemExit(3),
        "keyboard": KeyboardInterrupt(),
        "group": ExceptionGroup("two", [ValueError("one"), ToolError("the other")]),
        "memory": MemoryError(),
        "unicode": ValueError("\ud800 ü"),
    }
    if how == "deep":
        error: Exception = ValueError("deep down")
        for _ in range(5000):
            error = ExceptionGroup("deeper", [error])
        raise error
    raise errors[how]


@killable
def give(what: str) -> object:
    things: dict[str, object] = {
        "none": None,
        "object": object(),
        "large": "x" * (16 << 20),
        "text": "ü🌱\ud800",
        "result": ToolResult((TextBlock("text"),), metadata={"exit_code": 3}),
        "bad metadata": ToolResult.ok("text", fault=object()),
        "bad content": ToolResult((TextBlock("a", 3),)),  # type: ignore[arg-type]
    }
    return _later() if what == "coroutine" else things[what]


async def _later() -> None:
    """Never runs."""


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
def die_once(mark: str) -> str:
    """Take the worker down when it is idle: a moment after this call has ended."""
    if os.path.exists(mark):
        return "alive"
    Path(mark).touch()
    return str(os.getpid())


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


@killable
def where() -> list[object]:
    return [os.getcwd(), sys.path]


def plain(number: int) -> int:
    return 2 * number


doubled = tool(isolation="process", name="double", concurrent=True)(plain)


@killable
def shadowed() -> str:
    return "first"


hidden = shadowed


@killable  # type: ignore[no-redef]
def shadowed() -> str:
    return "second"


class Holder:
    @killable
    @staticmethod
    def inside() -> str:
        return "from a class"
