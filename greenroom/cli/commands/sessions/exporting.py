"""`greenroom sessions export`: a session as a text to read or to carry away."""

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

import trio

from greenroom.cli.run.conversation import load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.new_file import NewFile
from greenroom.cli.streams.output_writer import OutputWriter, tell
from greenroom.core import ConfigurationError, serde
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions
    from greenroom.export import ExportFormat

_ENDINGS: dict[str, "ExportFormat"] = {".html": "html", ".htm": "html", ".json": "json"}


async def export_to(options: "SessionsOptions") -> int:
    """Write a session to standard output or to a new file, all of it or nothing.

    Raises:
        SessionError: the session is unknown or can't be read.
        ConfigurationError: the file exists and may not be replaced; or `--json` without a file.
        OSError: the file or standard output can't be written.
    """
    if options.json and options.output is None:
        raise ConfigurationError(
            "--json tells of the file that was written: add -o FILE",
            hint="--format json writes the session as JSON",
        )
    session = await load_session(options.session_id, open_store(options))
    if session.repair is not None:
        tell(str(session.repair))
    out = OutputWriter()
    if options.output is None:
        await _write(session, out.write, options)
        return 0
    await _write_file(session, options.output, options)
    if options.json:
        done = {"session_id": session.session_id, "messages": len(session.history)}
        await out.line(serde.encode({**done, "format": _format(options), "file": options.output}))
    return 0


async def _write_file(session: AgentSession, path: str, options: "SessionsOptions") -> None:
    file = await trio.to_thread.run_sync(NewFile, path, options.force)
    try:
        await _write(session, file.write, options)
        await trio.to_thread.run_sync(file.finish)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(file.close)


async def _write(
    session: AgentSession, write: Callable[[str], None], options: "SessionsOptions"
) -> None:
    # Here and not above: no other verb needs a parser of Markdown.
    from greenroom.export import export_session

    await export_session(session, write, _format(options))


def _format(options: "SessionsOptions") -> "ExportFormat":
    ending = PurePath(options.output or "").suffix.lower()
    return options.format or _ENDINGS.get(ending, "markdown")
