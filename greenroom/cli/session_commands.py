"""Commands of the input line that go on with another session, or with an earlier state of this one.

Each ends the session that is shown and goes on with other options, as the command line would:
`/resume` is `greenroom --resume`, `/fork` is `greenroom sessions fork`, `/rewind` is `greenroom
sessions rewind`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from greenroom.cli.command_context import CommandContext, NextRun
from greenroom.cli.formatting import first_words, one_line
from greenroom.cli.hooks import SessionSource
from greenroom.cli.stored_sessions import SessionList, find_session_id
from greenroom.core import ConfigurationError, Message, SessionNotFoundError
from greenroom.core._internal import quantity
from greenroom.session import AgentSession, SessionMetadata, SessionStore

if TYPE_CHECKING:
    from greenroom.agents._internal import RestorePlan, RestoreReport

SCOPES = {
    "conversation": "the conversation alone; files stay as they are",
    "files": "the files alone; the conversation stays",
    "both": "the conversation, and the files that tools have changed since",
}
"""What a rewind takes back."""

_MAX_NAMED = 5


@dataclass(frozen=True)
class PersonTurn:
    """A turn that a person has begun.

    Attributes:
        number: its number in the conversation, from 1.
        at: how many messages came before it.
        text: what the person said.
    """

    number: int
    at: int
    text: str


def find_turns(history: Sequence[Message]) -> list[PersonTurn]:
    """Return the turns of a conversation that a person has begun, the oldest first.

    Example:
        >>> messages = [Message.user("hello"), Message.assistant("Hi!"), Message.user("bye")]
        >>> [(turn.number, turn.at, turn.text) for turn in find_turns(messages)]
        [(1, 0, 'hello'), (2, 2, 'bye')]
    """
    said = [
        (at, first_words(each))
        for at, each in enumerate(history)
        if each.role == "user" and not each.sender
    ]
    begun = [(at, text) for at, text in said if text.strip()]
    return [PersonTurn(number, at, text) for number, (at, text) in enumerate(begun, 1)]


async def clear(context: CommandContext, words: str) -> None:
    """Begin a new session; this one stays in the list."""
    _go_on(context, resume=None, source="clear")


async def resume(context: CommandContext, words: str) -> None:
    """Go on with another session: the one of this id, or the only one with these words."""
    if not words:
        await context.choose("/resume ", "session")
        return
    session_id = await _find_session(context, words)
    if session_id is None:
        return
    if session_id == context.handle.session_id:
        context.screen.note("that is the session that is open")
        return
    mode = context.run.setup.permissions.mode
    options = replace(context.run.options, resume=session_id, continue_last=False, mode=mode)
    context.go_on_with(NextRun(options, effort=context.run.setup.model.effort))


async def _find_session(context: CommandContext, words: str) -> str | None:
    """Return the id of the session that is meant, or None once it was said why there is none."""
    store = context.run.setup.store
    try:
        return await find_session_id(words, store)
    except SessionNotFoundError:
        listed = SessionList(await AgentSession.list_all(store=store), context.run.setup.workspace)
        listed.is_everywhere = True
        listed.search(words)
        matches = listed.matches
    if len(matches) == 1:
        return matches[0].session_id
    if not matches:
        context.screen.error(f"no session has the id or the words {one_line(words)!r}")
    else:
        lines = [_describe_match(each) for each in matches[:_MAX_NAMED]]
        context.screen.note("\n".join([f"{quantity(len(matches), 'session')} match:", *lines]))
    return None


def _describe_match(session: SessionMetadata) -> str:
    return f"  {session.session_id}  {one_line(session.metadata.get('title') or '')}"


async def fork(context: CommandContext, words: str) -> None:
    """Go on in a second session that begins as this one."""
    session = context.run.setup.session
    made = await session.fork()
    _go_on(context, resume=made.session_id, source="fork")


async def rewind(context: CommandContext, words: str) -> None:
    """Go back to before one of the person's turns: the conversation, the files or both."""
    number, _, scope = words.partition(" ")
    scope = scope.strip()
    turns = find_turns(context.run.setup.session.history)
    if not turns:
        raise ConfigurationError("there is no turn to go back to yet")
    if not number:
        await context.choose("/rewind ", "turn")
        return
    turn = next((each for each in turns if str(each.number) == number), None)
    if turn is None:
        raise ConfigurationError(f"there is no turn {number}", hint=f"1 to {len(turns)}")
    if not scope:
        await context.choose(f"/rewind {number} ", "scope")
    elif scope not in SCOPES:
        raise ConfigurationError(f"can't go back with {scope!r}", hint=", ".join(SCOPES))
    else:
        _go_back(context, turn, scope)


async def undo(context: CommandContext, words: str) -> None:
    """Take the last turn back, with its files."""
    turns = find_turns(context.run.setup.session.history)
    if not turns:
        raise ConfigurationError("there is no turn to take back")
    _go_back(context, turns[-1], "both")


def _go_back(context: CommandContext, turn: PersonTurn, scope: str) -> None:
    run = context.run
    session_id = run.setup.session.session_id
    prepare = partial(
        _take_back, run.setup.store, session_id, turn, scope, Path(run.setup.workspace)
    )
    draft = turn.text if scope != "files" else ""
    _go_on(context, session_id, prepare, draft)


async def _take_back(
    store: SessionStore, session_id: str, turn: PersonTurn, scope: str, workspace: Path
) -> str:
    """Rewind a session that nobody writes; return what was done."""
    from greenroom.agents import FileCheckpoints  # with checkpoints, which nothing else here needs

    session = await AgentSession.load(session_id, store=store)
    plan = (
        await FileCheckpoints.plan_restore(session, turn.at, workspace)
        if scope != "conversation"
        else None
    )
    done = ""
    if scope != "files":
        count = len(session.history) - turn.at
        await session.rewind(turn.at)
        done = f"{quantity(count, 'message')} taken back"
    if plan is None:
        return done
    report = await plan.apply()
    return "\n".join(filter(None, (done, *_describe_restored(plan, report))))


def _describe_restored(plan: "RestorePlan", report: "RestoreReport") -> list[str]:
    lines = [f"{quantity(len(report.restored), 'file')} restored"]
    unrestored = {each.path: each.reason for each in plan.files if each.reason}
    labels = {each.path: each.label for each in plan.files}
    for path, why in (unrestored | dict(report.failed)).items():
        lines.append(f"not restored: {labels[path]}: {why}")
    return [*lines, *(f"note: {gap}" for gap in plan.gaps)]


def _go_on(
    context: CommandContext,
    resume: str | None,
    prepare: Callable[[], Awaitable[str]] | None = None,
    draft: str = "",
    source: SessionSource = "resume",
) -> None:
    """Go on with a session, and with what has been changed inside this run."""
    setup = context.run.setup
    options = replace(
        context.run.options,
        resume=resume,
        continue_last=False,
        model=setup.model_name,
        mode=setup.permissions.mode,
    )
    context.go_on_with(NextRun(options, prepare, draft, setup.model.effort, source))
