"""What was decided about tool calls: on record over every store, whatever becomes of the talk."""

import io
import json
from pathlib import Path

import pytest
import trio

from greenroom.core import Message, SessionError, ToolUseBlock
from greenroom.core._internal import InvalidJSONError, PermissionRecord
from greenroom.export import export_session, import_session
from greenroom.session import AgentSession
from greenroom.session.history import encode_line


def record(number, wall, **words):
    return PermissionRecord(f"t{number}", "Bash", at=wall.moment, decision="allow", **words)


@pytest.fixture
async def session(store):
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("go"))
    return session


async def test_decisions_come_back_in_order_stored_or_not(session, wall):
    found = [record(1, wall, by="user", rules=("allow Bash(ls)",)), record(2, wall, edited=True)]
    session.conversation.add_decision(found[0])
    await session.save()
    session.conversation.add_decision(found[1])
    assert await session.read_decisions() == tuple(found)
    await session.save()
    loaded = await AgentSession.load("mine", store=session.store)
    assert await loaded.read_decisions() == tuple(found)


async def test_a_decision_alone_is_worth_a_save(session, wall):
    await session.save()
    session.conversation.add_decision(record(1, wall))
    assert not session.is_saved


async def test_no_rewind_and_no_compaction_takes_one_back(session, wall):
    session.conversation.add_decision(record(1, wall))
    await session.rewind(to=0)
    session.add_message(Message.user("again"))
    session.add_message(Message.assistant("well"))
    session.conversation.add_decision(record(2, wall))
    await session.compact("short", keep=0)
    assert [each.tool_use_id for each in await session.read_decisions()] == ["t1", "t2"]
    assert len((await session.read_branches())[0].history) == 1


async def test_a_fork_and_an_import_have_decided_nothing(session, wall):
    session.add_message(Message.assistant([ToolUseBlock("t1", "Bash", {})]))
    session.conversation.add_decision(record(1, wall))
    await session.save()
    assert await (await session.fork()).read_decisions() == ()
    await export_session(session, (text := io.StringIO()).write, "json")
    assert "decision" not in text.getvalue()
    assert await (await import_session(text.getvalue(), store=session.store)).read_decisions() == ()


async def test_what_is_no_record_is_refused_at_once(session, wall):
    with pytest.raises(TypeError, match="not a PermissionRecord"):
        session.conversation.add_decision({"decision": "allow"})
    with pytest.raises(InvalidJSONError):
        session.conversation.add_decision(record(1, wall, message=object()))
    assert await session.read_decisions() == ()


async def test_one_of_a_newer_version_does_not_keep_the_session_from_being_loaded(files, wall):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("go"))
    await session.save()
    stored = await files.read("mine")
    newer = {"tool_use_id": "t", "tool_name": "Bash", "at": "2026-01-01T00:00:00Z"}
    entry = {"kind": "decision", "decision": {**newer, "decision": "perhaps"}}
    line = encode_line([json.dumps(entry).encode()], stored.history.end)
    path = Path(files.folder("mine"), "history.jsonl")
    await trio.Path(path).write_bytes(path.read_bytes() + line)
    loaded = await AgentSession.load("mine", store=files)
    assert len(loaded.history) == 1
    with pytest.raises(SessionError, match="can't be read"):
        await loaded.read_decisions()
