"""`greenroom sessions fork` and `rewind`: another way on from an earlier place."""

from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.restoring import Restored, folder_of, show_plan
from greenroom.cli.commands.sessions.row import counted
from greenroom.cli.commands.sessions.showing import show_lines
from greenroom.cli.console.recap import recap
from greenroom.cli.drawing.page import Page
from greenroom.cli.questions.confirm import confirm
from greenroom.cli.run.conversation import load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import OutputWriter, tell
from greenroom.core import serde
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.agents import RestorePlan
    from greenroom.cli.commands.sessions.arguments import SessionsOptions


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

    With `--files`, what tools have changed since then is put back as well, as far as it can be; the
    exit code is 1 if a file could not be restored as planned.

    Raises:
        SessionError: the session is unknown, is being written, or has fewer messages.
        SessionStorageError: the disk refused.
        ConfigurationError: there is nobody to ask, and `--yes` was not given.
    """
    session = await load_session(options.session_id, open_store(options))
    count = len(session.history)
    gone = max(count - options.to, 0)
    plan = await _plan_files(session, options.to) if options.files else None
    if not options.yes and not await _is_wanted(session, options.to, gone, plan):
        tell("nothing was taken back")
        return 1
    if options.to != count:
        await session.rewind(options.to)
    restored = Restored(plan, await plan.apply()) if plan else None
    out = OutputWriter()
    if options.json:
        left = len(session.history)  # one more than asked for where a call needed a result
        done = {"session_id": session.session_id, "messages": left, "taken_back": gone}
        await out.line(serde.encode(done | (restored.as_json() if restored else {})))
    else:
        await out.text(
            f"{counted(gone, 'message')} taken back; they stay on record in the session."
        )
        if restored:
            await restored.show(out)
    return 1 if restored and restored.report.failed else 0


async def _plan_files(session: AgentSession, to: int) -> "RestorePlan":
    from greenroom.agents import plan_restore  # all of the agents; no other verb needs them

    return await plan_restore(session, to, folder_of(session))


async def _is_wanted(session: AgentSession, to: int, gone: int, plan: "RestorePlan | None") -> bool:
    """Show what would go, and ask; where nothing would, nobody is asked."""
    files = len(plan.steps) if plan else 0
    if not gone and not files:
        return True
    page = Page(2)
    await show_lines(
        (line for line in recap(session.history) if line.at >= to), page, len(session.history)
    )
    if plan:
        await show_plan(plan, page)
    back = f"take back {counted(gone, 'message')}" if gone else ""
    restore = f"restore {counted(files, 'file')}" if files else ""
    question = " and ".join(part for part in (back, restore) if part)
    return await confirm(f"\n{question[0].upper()}{question[1:]}?")
