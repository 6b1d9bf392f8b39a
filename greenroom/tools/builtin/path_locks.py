"""One change at a time to each file, whichever agents and event loops of this process want it."""

import threading
from pathlib import Path

_locks = tuple(threading.Lock() for _ in range(256))


def path_lock(path: Path) -> threading.Lock:
    """Return the lock of a real path, to hold in a thread while the file is read and replaced.

    A few paths share one of 256 locks, so hold one at a time, and no longer than the change takes.
    """
    return _locks[hash(path) % len(_locks)]
