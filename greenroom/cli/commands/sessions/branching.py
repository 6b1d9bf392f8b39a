"""`greenroom sessions fork` and `rewind`: another way on from an earlier place."""

from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.showing import show_lines
from greenroom.cli.confirm import confirm
from greenroom.cli.conversation import load_session
from greenroom.cli.output_writer import OutputWriter, tell
from greenroom.cli.page import Page
from greenroom.cli.recap import recap
from greenroom.cli.store import open_store
from greenroom.core import serde

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions

__all__ = ["fork_session", "rewind_session"]


async def fork_session(options: "SessionsOptions") -> int:
    """Make a new session that begins as another one does, and print its id.

    Raises:
        SessionError: the session is unknown, can't be read, or has fewer messages.
        SessionStorageError: the disk refused.
    """
    session = await load_session(options.session_id, open_store(options))
    fork = await session.fork(options.at, branch=options.branch)
    out = OutputWriter()
    if options.json:
        made = {"session_id": fork.session_id, "forked_from": fork.get_metadata("forked_from")}
        await out.line(serde.encode(made))
    else:
        await out.text(fork.session_id)
    return 0


async def rewind_session(options: "SessionsOptions") -> int:
    """Go back to an earlier message, after showing what goes; the exit code is 1 if it is not to be.

    Raises:
        SessionError: the session is unknown, is being written, or has fewer messages.
        SessionStorageError: the disk refused.
        ConfigurationError: there is nobody to ask, and `--yes` was not given.
    """
    session = await load_session(options.session_id, open_store(options))
    count = len(session.history)
    gone = max(count - options.to, 0)
    if gone and not options.yes:
        going = (line for line in recap(session.history) if line.at >= options.to)
        await show_lines(going, Page(2), count)
        if not await confirm(f"\nTake back {_messages(gone)}?"):
            tell("nothing was taken back")
            return 1
    if options.to != count:
        await session.rewind(options.to)
    out = OutputWriter()
    if options.json:
        done = {"session_id": session.session_id, "messages": options.to, "taken_back": gone}
        await out.line(serde.encode(done))
    else:
        await out.text(f"{_messages(gone)} taken back; they stay on record in the session.")
    return 0


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"
