"""Sessions as JSON: what is exported comes back the same, and nothing else comes in."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    Message,
    SessionError,
    SessionNotFoundError,
    SessionStorageError,
    TextBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import InvalidJSONError, InvalidSessionIdError
from greenroom.export import import_session, json_document as document
from greenroom.export.json_document import from_json, to_json
from greenroom.session import AgentSession, InMemoryStore, SessionExistsError
from tests.export.talk import EVERYTHING, WHEN, content, messages, reply


def exported(*messages, **fields):
    return "".join(to_json(content(*messages, **fields)))


def plain(*messages, **fields):
    return json.loads(exported(*messages, **fields))


def test_it_is_one_object_with_a_message_a_line():
    text = exported(*EVERYTHING)
    read = json.loads(text)
    assert list(read) == ["format", "version", "session", "messages"]
    assert read["format"] == "greenroom-session"
    assert read["version"] == 1
    assert read["session"]["session_id"] == "mine"
    assert len(read["messages"]) == len(EVERYTHING)
    assert [json.loads(line.rstrip(",")) for line in text.splitlines()[3:-1]] == read["messages"]


def test_a_conversation_comes_back_the_same():
    fields = {"metadata": {"title": "t", "n": [1]}, "child_session_ids": ("a",), "model": "m"}
    assert from_json(exported(*EVERYTHING, **fields)) == content(*EVERYTHING, **fields)


@given(st.lists(messages, max_size=3))
def test_any_conversation_comes_back_the_same(said):
    first = from_json(exported(*said))
    assert first == from_json("".join(to_json(first)))
    # Lone surrogates, which JSON can't carry, are the one thing that changes.
    assert len(first.messages) == len(said)


@pytest.mark.parametrize(
    "layout",
    [
        lambda value: json.dumps(value, indent=4),
        lambda value: json.dumps(value, indent=2).replace("\n", "\r\n"),
        lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True),
        lambda value: "\n\n" + json.dumps(value) + "\n\n",
        lambda value: json.dumps(value, ensure_ascii=True).encode(),
        lambda value: b"\xef\xbb\xbf" + json.dumps(value, ensure_ascii=False).encode(),
    ],
)
def test_the_layout_does_not_matter(layout):
    assert from_json(layout(plain(*EVERYTHING))) == content(*EVERYTHING)


def newer():
    """What a newer version of the same format might write."""
    value = plain(*EVERYTHING)
    value["checked_by"] = {"name": "ada"}
    value["session"]["colour"] = "green"
    value["messages"][0]["mood"] = "calm"
    value["messages"][1]["usage"]["water"] = 3
    value["messages"][1]["content"][0]["depth"] = 2
    value["messages"][2]["content"][0]["content"][0]["lines"] = 1
    value["messages"][5]["content"] += [{"type": "smell", "of": "roses"}]
    return value


def test_fields_that_are_not_known_survive_in_their_places():
    value = newer()
    read = json.loads("".join(to_json(from_json(json.dumps(value)))))
    smell = read["messages"][5]["content"].pop()
    assert smell == {"type": "unknown", "raw": value["messages"][5]["content"].pop()}
    assert read == value


async def test_fields_that_are_not_known_are_stored_with_the_session():
    store = InMemoryStore()
    session = await import_session(json.dumps(newer()), store=store)
    loaded = await AgentSession.load(session.session_id, store=store)
    again = json.loads("".join(to_json(content(*loaded.history, metadata=loaded.metadata))))
    assert again["checked_by"] == {"name": "ada"}
    assert again["session"]["colour"] == "green"
    assert again["messages"][0]["mood"] == "calm"
    assert UnknownBlock({"type": "smell", "of": "roses"}) in loaded.history[5].content


@pytest.mark.parametrize(
    "kept",
    [3, [3], [{}], [{"at": [], "fields": 3}], [{"at": ["content", 9], "fields": {"a": 1}}]]
    + [[{"at": at, "fields": {"role": "x"}}] for at in ([], ["role"], [0], ["content", "a"], 3)],
)
def test_kept_fields_that_fit_nowhere_change_nothing(kept):
    message = Message("user", (TextBlock("a"),), extra={"unknown_fields": kept})
    [read] = plain(message)["messages"]
    assert read == {"role": "user", "content": [{"type": "text", "text": "a"}]}


def broken(**changes):
    return json.dumps({**plain(*EVERYTHING), **changes})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON: .*line 1"),
        ('{"format": "greenroom-session",\n "version": 1,\n oops}', "line 3"),
        (exported(*EVERYTHING)[:-20], "line 15"),
        (
            exported(Message.user("zz")).encode().replace(b"zz", b"\xff"),
            r"\$\.messages\[0\]: .*(?i:utf-8)",
        ),
        ("[]", "not a JSON object"),
        ('"greenroom-session"', "not a JSON object"),
        ("{}", r"\$\.format is not"),
        ('{"messages": [], "session": {}}', r"\$\.format is not"),
        (broken(format="other"), r"\$\.format is not"),
        (broken(version=2.5), r"\$\.version: Expected `int`"),
        (broken(version=0), r"\$\.version"),
        ('{"format":"greenroom-session"}', r"\$\.version is missing"),
        ('{"format":"greenroom-session","version":1}', r"\$\.session is missing"),
        (broken(session={}), r"\$\.session: .*missing required field `session_id`"),
        (
            broken(session={**plain()["session"], "created_at": "once"}),
            r"\$\.session\.created_at: ",
        ),
        (
            broken(session={**plain()["session"], "created_at": "0001-01-01T00:00:00+10:00"}),
            "created_at is not a time",
        ),
        (broken(session={**plain()["session"], "metadata": 3}), r"\$\.session\.metadata: "),
        (broken(messages={}), r"\$\.messages: Expected `array`"),
        (broken(messages=[plain(*EVERYTHING)["messages"][0], 3]), r"\$\.messages\[1\]: Expected"),
        (broken(messages=[{"role": "wizard"}]), r"\$\.messages\[0\]\.role: "),
        (broken(messages=[{"role": "user", "content": 3}]), r"\$\.messages\[0\]\.content: "),
    ],
)
async def test_what_is_no_export_is_refused_with_the_place(text, words):
    store = InMemoryStore()
    with pytest.raises(InvalidJSONError, match=words):
        await import_session(text, store=store)
    assert await store.list_all() == []


async def test_a_newer_version_is_refused():
    with pytest.raises(SessionError, match="version 2; this version of greenroom reads up to 1"):
        await import_session(broken(version=2), store=InMemoryStore())


@pytest.mark.parametrize("field", ["session_id", "parent_session_id", "child_session_ids"])
async def test_an_id_that_is_not_plain_text_is_refused(field):
    hostile = ["a\0x"] if field == "child_session_ids" else "a\0x"
    with pytest.raises(InvalidSessionIdError):
        await import_session(
            broken(session={**plain()["session"], field: hostile}), store=InMemoryStore()
        )


async def test_a_text_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(document, "LONGEST_IMPORT", 100)
    with pytest.raises(InvalidJSONError, match="longer than 100 bytes"):
        await import_session(exported(*EVERYTHING), store=InMemoryStore())


async def test_an_import_is_a_session_of_its_own_that_says_where_it_comes_from(store):
    fields = {"parent_session_id": "top", "parent_tool_use_id": "t", "metadata": {"title": "t"}}
    session = await import_session(exported(*EVERYTHING[:5], **fields), store=store)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == EVERYTHING[:5]
    assert loaded.session_id.startswith("s-")
    assert loaded.metadata == {"title": "t", "imported_from": {"session_id": "mine"}}
    known = {"session_id": "mine", "updated_at": WHEN, "metadata": {"title": "t"}}
    assert msgspec.structs.replace(loaded.description.record, **known) == content(**fields).metadata


async def test_it_keeps_its_id_where_that_is_asked_for_and_free(store):
    session = await import_session(exported(EVERYTHING[0]), keep_id=True, store=store)
    assert session.session_id == "mine"
    with pytest.raises(SessionExistsError):
        await import_session(exported(EVERYTHING[0], EVERYTHING[0]), keep_id=True, store=store)
    assert len((await AgentSession.load("mine", store=store)).history) == 1


async def test_what_an_import_was_copied_from_has_paid_for_it_and_keeps_what_was_granted(store):
    session = AgentSession.new("coder", store=store)
    for message in EVERYTHING[:3]:
        session.add_message(message)
    session.conversation.add_grants([{"decision": "allow", "tool": "Bash"}])
    await session.save()
    copy = await import_session(exported(*session.history), store=store)
    copy = await AgentSession.load(copy.session_id, store=store)
    assert session.used.usage.total
    assert copy.used.usage.total == 0
    assert copy.conversation.grants == ()


async def test_a_session_without_a_message_can_be_imported(store):
    session = await import_session(exported(), store=store)
    assert (await AgentSession.load(session.session_id, store=store)).history == ()


async def test_a_call_without_a_result_is_answered_as_one_whose_outcome_is_unknown(store):
    asking = (Message.user("go"), reply(TextBlock("so"), ToolUseBlock("t1", "Bash", {})))
    session = await import_session(exported(*asking), store=store)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history[:2] == asking
    [answer] = loaded.history[2].tool_results
    assert answer.is_error
    assert "outcome is unknown" in answer.text


class Full(InMemoryStore):
    """A store whose disk is full, from its description on or at once."""

    def __init__(self, what):
        super().__init__()
        self._what = what

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)

        async def refuse(*args, **options):
            raise SessionStorageError("the disk is full", session_id=session_id)

        setattr(writer, self._what, refuse)
        return writer


@pytest.mark.parametrize("what", ["append", "write_metadata"])
async def test_a_failed_import_leaves_no_session(what):
    store = Full(what)
    with pytest.raises(SessionStorageError, match="full"):
        await import_session(exported(*EVERYTHING), keep_id=True, store=store)
    assert await store.list_all() == []
    with pytest.raises(SessionNotFoundError):
        await AgentSession.load("mine", store=store)
