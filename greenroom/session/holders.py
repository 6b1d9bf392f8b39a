"""Who holds the right to write a session, and since when: names of holders, and epochs.

An epoch numbers a taking of a session's lock, and the output of the agent that took it. It is in
milliseconds of the wall clock where that has gone on, so that it needs no common counter; where the
clock stands or goes back, it is counted on from the last one that is known.
"""

import contextlib
import os
import secrets
import socket
import threading
from os import stat, utime  # of what may be lost, and so no part of a simulated disk

from greenroom.core._internal import unix_milliseconds

_ROOM = 10_000
"""How far a lock taken under a clock that stands or goes back lies above the last one: more than an
agent is restarted meanwhile, and than a file's time is rounded by."""

_LATEST = 1 << 47
"""A number beyond all epochs (it is in the year 6429); what a store claims above it is damaged."""

_guard = threading.Lock()
_last_here = 0


def begin_epoch(last: int = 0) -> int:
    """Return an epoch above `last` and above all others of this process.

    It is at least the wall clock's milliseconds since 1970, whatever the clock did before.
    """
    global _last_here  # noqa: PLW0603
    with _guard:
        moment = unix_milliseconds()
        floor = last + _ROOM if moment <= last < _LATEST else moment
        _last_here = max(floor, _last_here + 1)
        return _last_here


def begin_file_epoch(path: str) -> int:
    """Begin an epoch of the session that is described in this file, and record it as its time.

    The last one is recorded there too, so that it takes no file of its own and no flush: it counts
    only where the wall clock has gone back.
    """
    last = 0
    with contextlib.suppress(OSError):  # there is none before the first save
        last = int(stat(path).st_mtime * 1000)
    epoch = begin_epoch(last)
    record_epoch(path, epoch)
    return epoch


def record_epoch(path: str, epoch: int) -> None:
    """Record an epoch as the time of this file, if there is one and the system lets us."""
    with contextlib.suppress(OSError):
        utime(path, (epoch / 1000, epoch / 1000), follow_symlinks=False)


def new_store_id() -> str:
    """Make the part of a holder's name that tells a store object from others of its process."""
    return secrets.token_hex(4)


def name_holder(store_id: str) -> str:
    """Return the name under which this process holds sessions with a store: HOST/PID/STORE."""
    return f"{_host()}/{os.getpid()}/{store_id}"


def holder_of(store: object) -> str:
    """Return the name under which a store holds sessions; without one of its own, the process's."""
    name = getattr(store, "holder", None)
    return name if isinstance(name, str) else name_holder(type(store).__name__)


def describe_holder(pid: int | None, holder: str = "") -> str:
    """Name a holder for people, such as "process 4711 on box (box/4711/7d2f90aa)"."""
    if pid == os.getpid() and is_here(holder):
        return "this process"
    name = "another process" if pid is None else f"process {pid}"
    if not holder:
        return name
    place = "" if is_here(holder) else f" on {holder.partition('/')[0]}"
    return f"{name}{place} ({holder})"


def is_here(holder: str) -> bool:
    """Whether a holder is on this machine, as far as its name says."""
    return not holder or holder.partition("/")[0] == _host()


def _host() -> str:
    return socket.gethostname().replace("/", "-") or "localhost"


def pid_of(holder: str) -> int | None:
    """Return the process id in a holder's name; None if there is none."""
    number = holder.rpartition("/")[0].rpartition("/")[2]
    return int(number) if number.isdecimal() else None
