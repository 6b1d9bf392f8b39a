"""What was found and done where a history or a description could not be read."""

import msgspec

from greenroom.session.history.lines import Position


class RepairReport(msgspec.Struct, frozen=True):
    """The end of a history could not be read: a crash or a broken disk cut its last commit off.

    After a store's `salvage` it is everything from the first damaged line on; what of that verifies
    was written again, and the report says what else was lost.

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
        kept: how many messages behind the damage were kept; a message stands where some are missing.
        missing: how many lines are gone from the end, at the least; an empty file that bears the place
            in its name is left as a trace of them.
        restored: which fields of the description could not be read, and were put together anew.
    """

    path: str
    line: int
    offset: int
    size: int
    set_aside: str = ""
    kept: int = 0
    missing: int = 0
    restored: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = list[str]()
        if self.size:
            fate = (
                f"set aside in {self.set_aside}" if self.set_aside else "not loaded, still in place"
            )
            said.append(f"{self.size} bytes that can't be read, {fate}")
        if self.kept:
            count = f"{self.kept} message{'s verify and were' if self.kept > 1 else ' verifies and was'}"
            said.append(f"{count} kept from them, behind a note of what is missing")
        if self.missing:
            lines = "lines are" if self.missing > 1 else "line is"
            said.append(f"at least {self.missing} {lines} gone from its end")
        if self.set_aside and not (self.size or self.missing):
            said.append("its end is gone")
        if self.restored:
            said.append(f"put together anew in its description: {', '.join(self.restored)}")
        place = f"{self.path}:{self.line}" if self.size or self.missing else self.path
        return f"{place}: {'; '.join(said)}"


def report_on(
    at: Position, size: int, path: str, set_aside: str = "", *, missing: int = 0
) -> RepairReport:
    """Describe so many bytes at this place that are not a sound line, and so many lines that are gone."""
    return RepairReport(path, at.lines + 1, at.size, size, set_aside, missing=missing)
