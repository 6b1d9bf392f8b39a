"""Effects as lines of a file, and a process that kills itself at a point."""

import os
import signal

from greenroom import FileStore


def open_effects(folder, death=""):
    """Return a folder's store, its effects, and a function that records one and may then die."""
    file = folder / "effects"
    file.touch()

    def at(point):
        if point.startswith("behind"):
            with file.open("a") as lines:
                lines.write(point.split()[1] + "\n")
        if point == death:
            os.kill(os.getpid(), signal.SIGKILL)

    return FileStore(folder / "sessions"), file.read_text().split(), at
