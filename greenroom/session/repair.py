"""What was found and done where a history ended in the middle of a line."""

import msgspec

from greenroom.session.history.lines import Position

__all__ = ["RepairReport", "report_on"]


class RepairReport(msgspec.Struct, frozen=True):
    """The end of a history could not be read: a crash or a broken disk cut its last commit off.

    After a store's `salvage` it is everything from the first damaged line on.

    Damage inside the very last line can't be told from a write that never finished. So what was
    set aside may hold a commit that had been acknowledged; it is kept, never deleted. Whoever reads
    while somebody writes looks twice: a commit that is under way is no torn end, unless it stays so.

    Attributes:
        path: the history.
        line: the number of the first line that can't be read, from 1.
        offset: where that line begins, in bytes.
        size: how many bytes can't be read.
        set_aside: the file that now holds these bytes; empty while they are still in place, which
            they are until the session is opened for writing.
    """

    path: str
    line: int
    offset: int
    size: int
    set_aside: str = ""

    def __str__(self) -> str:
        fate = f"set aside in {self.set_aside}" if self.set_aside else "not loaded, still in place"
        return f"{self.path}:{self.line}: {self.size} bytes that can't be read, {fate}"


def report_on(at: Position, size: int, path: str, set_aside: str = "") -> RepairReport:
    """Describe so many bytes at this place that are no sound line."""
    return RepairReport(path, at.lines + 1, at.size, size, set_aside)
