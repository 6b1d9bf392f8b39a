"""`greenroom sessions import`: a session from a text that was exported."""

import sys
from typing import TYPE_CHECKING

import trio

from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import OutputWriter
from greenroom.core import serde
from greenroom.export import LONGEST_IMPORT, import_session

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions


async def import_from(options: "SessionsOptions") -> int:
    """Make a session of a JSON export, and print its id.

    Raises:
        InvalidJSONError: it is no export; the message names the line or the field.
        SessionError: it is of a newer version, or its id was to be kept and is taken.
        SessionStorageError: the disk refused.
        OSError: the file can't be read.
    """
    # Somebody who waits for a pipe may want to give up.
    data = await trio.to_thread.run_sync(_read, options.file, abandon_on_cancel=True)
    store = open_store(options)
    session = await import_session(data, keep_id=options.keep_id, store=store)
    out = OutputWriter()
    if options.json:
        made = {"session_id": session.session_id, "messages": len(session.history)}
        origin = {"imported_from": session.get_metadata("imported_from")}
        await out.line(serde.encode({**made, **origin}))
    else:
        await out.text(session.session_id)
    return 0


def _read(path: str) -> bytes:
    """Read what is to be imported, and no more of it than shows that it is too long."""
    if path == "-":
        return sys.stdin.buffer.read(LONGEST_IMPORT + 1)
    with open(path, "rb") as file:
        return file.read(LONGEST_IMPORT + 1)
