"""What an earlier version wrote is read and goes on: files, a database and exports of it.

`formats/all-kinds` was written by the version before descriptions told of lines, and is never
changed.
"""

import shutil
from pathlib import Path

import pytest

from greenroom.core import Message
from greenroom.export import import_session
from greenroom.session import AgentSession, FileStore, InMemoryStore, SQLiteStore
from greenroom.session._internal import read_last

WRITTEN = Path(__file__).parent / "formats" / "all-kinds"
BEFORE = ["read a.txt\u2028please", "Gladly.", "", "It says hällo."]


@pytest.fixture(params=["files", "sessions.db"])
async def stored(request, tmp_path):
    """A store that holds a copy of what was written then."""
    path = tmp_path / request.param
    if request.param == "files":
        shutil.copytree(WRITTEN / request.param, path)
        yield FileStore(path)
    else:
        shutil.copy(WRITTEN / request.param, path)
        async with SQLiteStore(path) as store:
            yield store


def texts(messages):
    return [message.text for message in messages]


async def test_sessions_that_were_stored_before_are_read_as_they_were(stored):
    listed = await AgentSession.list_all(store=stored, archived=True)
    assert {each.session_id for each in listed} == {"parent", "child"}
    parent = await AgentSession.load("parent", store=stored)
    assert parent.repair is None
    assert texts(parent.history) == ["a.txt was read", *BEFORE[1:], "thanks"]
    assert (parent.model, parent.get_metadata("title")) == ("m", "read a.txt")
    assert parent.child_session_ids == ("child",)
    assert [record.decision for record in await parent.read_decisions()] == ["allow"]
    first, current = await parent.read_branches()
    assert texts(first.history[:4]) == BEFORE
    assert len(first.history) == 6
    assert current.history == parent.history
    page = await read_last("parent", 2, store=stored)
    assert page.messages == parent.history[-2:]
    child = await AgentSession.load("child", store=stored)
    assert (child.parent_session_id, child.description.record.is_archived) == ("parent", True)
    assert "outcome is unknown" in child.history[-1].tool_results[0].text


async def test_sessions_that_were_stored_before_go_on(stored):
    session = await AgentSession.load("parent", store=stored)
    await session.open()
    session.add_message(Message.user("and now?"))
    await session.save()
    await session.close()
    loaded = await AgentSession.load("parent", store=stored)
    assert loaded.history == session.history
    assert texts(loaded.history[-2:]) == ["thanks", "and now?"]
    assert await stored.salvage("parent") is None
    await AgentSession.delete("parent", store=stored, children=True)
    assert await AgentSession.list_all(store=stored, archived=True) == []


@pytest.mark.parametrize("session_id", ["parent", "child"])
async def test_exports_that_were_written_before_are_imported(stored, session_id):
    before = await AgentSession.load(session_id, store=stored)
    data = (WRITTEN / f"{session_id}.json").read_bytes()
    session = await import_session(data, store=InMemoryStore())
    assert session.history == before.history
    assert (session.agent_type, session.model) == (before.agent_type, before.model)
