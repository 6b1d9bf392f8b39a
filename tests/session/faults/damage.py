"""A history as it may lie on a disk after years, and what becomes of it when it is read."""

from greenroom.core import Message, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.session import AgentSession, FileStore, SessionCorruptError
from tests.session.faults.effort import STEP
from tests.session.faults.life import FOLDER, expect, installed, new_disk

PATH = f"{FOLDER}/mine/history.jsonl"
MESSAGES = (
    Message.user("read a.txt\u2028please"),
    Message.assistant([TextBlock("Gladly."), ToolUseBlock("t1", "Read", {"file_path": "a.txt"})]),
    Message.user([ToolResultBlock("t1", (TextBlock('{"n":3,"e":['),))]),
    Message.assistant("It says little."),
    Message.user("thank you"),
)


class Shelf:
    """One stored session on a simulated disk, to be damaged and read again and again."""

    def __init__(self, disk):
        self.disk, self.store = disk, FileStore(FOLDER)

    async def fill(self, messages=MESSAGES, loose=()):
        """Store the conversation, a line for each message; return the lines.

        Those with these numbers are not synced by themselves.
        """
        session = AgentSession.new("coder", session_id="mine", store=self.store)
        await session.open()
        for number, message in enumerate(messages, 1):
            session.add_message(message)
            await session.save(flush=number not in loose)
        await session.close()
        return self.disk.read_whole(PATH).splitlines(keepends=True)

    async def read(self, data):
        """Read what is left of a history that has become these bytes.

        Returns:
            How many messages were loaded, and the number of the line that was refused, or None.
            Every byte that is not loaded is in the file that the report names, and in no other.
        """
        self.disk.put(PATH, data)
        try:
            session = await AgentSession.load("mine", store=self.store)
        except SessionCorruptError as error:
            expect(error.path == PATH, "the error names the file", error)
            expect(self.disk.read_whole(PATH) == data, "what is refused is not changed", error)
            return 0, error.line
        stored = (await self.store.read("mine")).history
        count = sum(hasattr(entry, "message") for entry in stored.entries)
        expect(session.history[:count] == MESSAGES[:count], "nothing wrong is loaded", data)
        if session.repair is not None:
            await self._repair(session, data)
        else:
            expect(stored.end.size == len(data), "nothing is left out in silence", data)
        return count, None

    async def _repair(self, session, data):
        offset, size = session.repair.offset, session.repair.size
        expect(offset + size == len(data), "the report names every byte", session.repair, data)
        await session.open()
        await session.close()
        side = session.repair.set_aside
        expect(self.disk.read_whole(side) == data[offset:], "they are set aside", session.repair)
        expect(self.disk.read_whole(PATH) == data[:offset], "and no longer there", session.repair)
        self.disk.unlink(side)


async def filled():
    """Return a shelf on an installed disk, and the lines of its history."""
    shelf = Shelf(new_disk())
    return shelf, await shelf.fill()


async def cut_at_every_byte():
    """Whatever is left of a history, its whole lines are loaded, and the rest is set aside."""
    disk = new_disk()
    with installed(disk):
        shelf = Shelf(disk)
        lines = await shelf.fill()
        data = b"".join(lines)
        for size in range(0, len(data) + 1, STEP):
            whole = data[:size].count(b"\n")
            found = await shelf.read(data[:size])
            expect(found == (whole, None), "a cut leaves the whole lines", size, found)
    return len(data)


async def flip_every_bit(loose=()):
    """A flipped bit is noticed; only in the last line may it pass for an unfinished write.

    So it may in the line before, if one sync covered both.
    """
    disk = new_disk()
    with installed(disk):
        shelf = Shelf(disk)
        lines = await shelf.fill(loose=loose)
        end = len(lines) - (len(lines) - 1 in loose)  # from this line on
        data = b"".join(lines)
        for index in range(0, len(data), STEP):
            line = data[:index].count(b"\n") + 1
            wanted = (0, line) if line < end else (line - 1, None)
            for bit in range(8):
                flipped = bytearray(data)
                flipped[index] ^= 1 << bit
                found = await shelf.read(bytes(flipped))
                expect(found == wanted, "a flipped bit is noticed", index, bit, found, wanted)
    return 8 * len(data)


async def splice():
    """Lines that are foreign, repeated, left out, moved or glued together are never loaded."""
    disk = new_disk()
    with installed(disk):
        shelf = Shelf(disk)
        foreign = await _foreign()
        lines = await shelf.fill()
        for good, spliced in _splices(lines, foreign):
            count, refused = await shelf.read(b"".join(spliced))
            expect(refused or count == good, "a splice is noticed", good, count, spliced)
        for at in range(len(lines) - 1):
            found = await shelf.read(b"".join(_glued(lines[: at + 2], at)))
            expect(found == (at, None), "two lines without a border are one that is torn", found)


async def _foreign():
    disk = new_disk()
    with installed(disk):
        return await Shelf(disk).fill((MESSAGES[4], *MESSAGES[1:]))


def _splices(lines, foreign):
    """Yield how many messages stand before the splice, and the lines."""
    for at in range(len(lines)):
        yield at, [*lines[:at], foreign[at], *lines[at + 1 :]]
        yield at + 1, [*lines[: at + 1], lines[at], *lines[at + 1 :]]
        yield at, [*lines[:at], *lines[at + 1 :]] if at + 1 < len(lines) else lines[:at]
        if at + 1 < len(lines):
            yield at, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
            yield at, _glued(lines, at)


def _glued(lines, at):
    """Take the end of a line away, so that it runs into the next."""
    suffix = len(',"crc":"00000000"}\n')
    return [*lines[:at], lines[at][:-suffix], *lines[at + 1 :]]
