"""`greenroom permissions log`: what was decided in a session, and in those of its subagents."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from greenroom.cli.commands.sessions.row import one_line
from greenroom.cli.drawing.page import Page
from greenroom.cli.run.conversation import load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import tell
from greenroom.core import PermissionRecord, SessionError, serde, visible
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from rich.text import Text

    from greenroom.cli.commands.permissions.arguments import PermissionsOptions
    from greenroom.cli.drawing.theme import ColorScheme


@dataclass(frozen=True)
class _Row:
    """A decision, and the session that it is on record in."""

    session: AgentSession
    record: PermissionRecord


async def show_decisions(options: "PermissionsOptions") -> int:
    """Print what was decided, the oldest first; the exit code is 1 where a subagent's is missing.

    Raises:
        SessionError: the session is unknown or can't be read.
        OSError: standard output can't be written.
    """
    root = await load_session(options.session_id, open_store(options))
    rows, missing = await _rows(root)
    shown = rows[-options.last :] if options.last else rows
    page = Page()
    if options.json:
        await page.line(serde.dumps([_as_json(row) for row in shown]))
    elif not rows:
        await page.text("Nothing was decided in this session.")
    else:
        await _show(shown, root, page)
    tell(*missing)
    return 1 if missing else 0


async def _rows(root: AgentSession) -> tuple[list[_Row], list[str]]:
    """Read the decisions of a session and all below it, by their time; and what can't be read."""
    rows, missing, seen, waiting = list[_Row](), list[str](), set[str](), [root]
    while waiting:
        session = waiting.pop()
        rows += [_Row(session, record) for record in await session.decisions()]
        seen.add(session.session_id)
        for id_ in session.child_session_ids:
            if id_ not in seen:
                seen.add(id_)
                try:
                    waiting.append(await AgentSession.load(id_, store=root.store))
                except SessionError as error:
                    missing.append(error.message)
    return sorted(rows, key=lambda row: row.record.at), missing


async def _show(rows: list[_Row], root: AgentSession, page: Page) -> None:
    from greenroom.cli.drawing.theme import ColorScheme
    from greenroom.cli.questions.render_part import render_part

    scheme = ColorScheme()
    for row in rows:
        parts = [render_part(part, scheme) for part in row.record.parts]
        await page.show(_head(row, root, scheme), *parts, *_remarks(row.record, scheme))


def _head(row: _Row, root: AgentSession, scheme: "ColorScheme") -> "Text":
    from rich.text import Text

    record = row.record
    style = scheme.added if record.decision == "allow" else scheme.error
    head = Text(f"{record.at.astimezone():%Y-%m-%d %H:%M:%S}  ")
    head.append({"allow": "allowed", "deny": "denied"}[record.decision], style)
    head.append(f"  {visible(record.tool_name)}  by {visible(record.by)}")
    if row.session.session_id != root.session_id:
        head.append(f"  in the subagent {row.session.session_id}", scheme.subagent)
    return head


def _remarks(record: PermissionRecord, scheme: "ColorScheme") -> "list[Text]":
    from rich.text import Text

    lines = [f"{record.left_out} more parts"] if record.left_out else []
    lines += ["the input was changed by the person"] if record.edited else []
    lines += [f"said: {one_line(record.message)}"] if record.message else []
    if record.remember:
        lines.append(f"remembered ({record.remember}): {one_line(', '.join(record.rules))}")
    lines += [f"sandbox: {record.sandbox}"] if record.sandbox else []
    lines += [f"mode {record.mode}"] if record.mode != "default" else []
    return [Text(f"  {visible(line)}", scheme.note) for line in lines]


def _as_json(row: _Row) -> dict[str, object]:
    session = {"session_id": row.session.session_id, "agent_type": row.session.agent_type}
    record = {name: getattr(row.record, name) for name in row.record.__struct_fields__}
    return {**session, **msgspec.to_builtins(record)}
