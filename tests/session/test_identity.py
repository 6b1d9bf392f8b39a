"""Ids, times and senders of messages: given once, kept for ever, and never invented."""

import io
import shutil
from pathlib import Path

import pytest

from greenroom.core import Message, TextBlock
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.export import export_session, import_session
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.session._internal import read_last
from greenroom.session.entries import decode_entries

EXAMPLE = Path(__file__).parents[2] / "sessions" / "example"

OLD_EXPORT = """{"format":"greenroom-session","version":1,
"session":{"session_id":"mine","agent_type":"coder","created_at":"2026-01-14T10:30:00Z",\
"updated_at":"2026-01-14T10:30:00Z"},
"messages":[
{"role":"user","content":[{"type":"text","text":"hi"}]},
{"role":"assistant","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn"}
]}"""


def identity(messages):
    return [(message.id, message.created_at) for message in messages]


async def exported(session):
    text = io.StringIO()
    await export_session(session, text.write, format="json")
    return text.getvalue()


async def test_every_message_of_a_conversation_has_an_id_and_a_time_and_keeps_them(store, wall):
    session = AgentSession.new("coder", session_id="mine", store=store)
    written_out = Message("assistant", (TextBlock("hello"),))
    session.add_message(first := Message.user("hi", sender="plan"))
    wall.move(seconds=60)
    session.add_message(written_out)
    session.add_message(written_out)
    await session.save()

    found = identity(session.history)
    assert found[0] == (first.id, first.created_at)
    assert [time.isoformat() for _, time in found] == [
        "2026-01-14T10:30:00+00:00",
        "2026-01-14T10:31:00+00:00",
        "2026-01-14T10:31:00+00:00",
    ]
    assert all(id_.startswith("m-") for id_, _ in found)
    assert len(dict(found)) == 3

    wall.move(seconds=3600)
    loaded = await AgentSession.load("mine", store=store)
    fork = await loaded.fork()
    copy = await import_session(await exported(loaded), store=store)
    page = await read_last("mine", 9, store=store)
    for messages in (loaded.history, fork.history, copy.history, page.messages):
        assert identity(messages) == found
        assert [message.sender for message in messages] == ["plan", "", ""]


async def test_a_summary_and_the_answers_to_open_calls_have_them_too(store, conversation):
    session = AgentSession.new("coder", store=store)
    for message in conversation[:2]:
        session.add_message(message)
    session.conversation.pair_tool_uses()
    await session.compact("two files were read", keep=0)
    session.add_message(conversation[1])
    session.conversation.pair_tool_uses()
    assert len(session.history) == 3
    assert all(id_ and time for id_, time in identity(session.history))
    await session.compact(Message("user", (TextBlock("nothing more"),)), keep=0)
    assert all(id_ and time for id_, time in identity(session.history))


async def test_a_session_from_before_there_were_ids_is_loaded_and_goes_on(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "example")
    store = FileStore(tmp_path)
    session = await AgentSession.load("example", store=store)
    count = len(session.history)
    assert count == 12
    assert identity(session.history) == [("", None)] * count
    session.add_message(Message.user("and now?"))
    await session.save()

    loaded = await AgentSession.load("example", store=store)
    fork = await loaded.fork()
    for messages in (loaded.history, fork.history):
        assert identity(messages[:-1]) == [("", None)] * count
        assert identity(messages[-1:]) == identity(session.history[-1:])


async def test_an_export_from_before_there_were_ids_is_imported_and_stays_as_it_is():
    session = await import_session(OLD_EXPORT, keep_id=True, store=InMemoryStore())
    assert identity(session.history) == [("", None)] * 2
    again = serde.loads(await exported(session))
    assert again["messages"] == serde.loads(OLD_EXPORT)["messages"]


def entry(**fields):
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}], **fields}
    return serde.dumps({"e": [{"kind": "message", "message": message}]})


def test_what_this_version_can_not_read_of_it_does_not_keep_a_session_from_being_loaded():
    for time in ("soon", 7, "2026-01-14T10:30:00", "0001-01-01T00:00:00+02:00"):
        [read] = decode_entries(entry(id="m-1", created_at=time))
        assert (read.message.id, read.message.created_at) == ("m-1", None)
    [read] = decode_entries(entry(created_at="2026-01-14T12:30:00+02:00"))
    assert read.message.created_at.isoformat() == "2026-01-14T10:30:00+00:00"
    [read] = decode_entries(entry(sender="x" * 99))
    assert read.message.sender == "unknown"
    with pytest.raises(InvalidJSONError, match="can't name a sender"):
        serde.decode(b'{"role":"user","sender":"a]"}', Message)
    with pytest.raises(InvalidJSONError, match="has no time zone"):
        serde.decode(b'{"role":"user","created_at":"2026-01-14T10:30:00"}', Message)
