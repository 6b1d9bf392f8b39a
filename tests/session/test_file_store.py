"""Sessions in files: the layout, other people's files, damage and repair."""

import json
import logging
import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio

from greenroom.core import Message, SessionStorageError
from greenroom.core._internal import set_clock
from greenroom.fs._internal import durable
from greenroom.session import AgentSession, FileStore, SessionCorruptError
from greenroom.session.history import START, encode_line
from tests.conftest import take_sample

ROOT = Path(__file__).parents[2]
READERS = 32  # that a store has at once, in each run of trio


async def saved(files, messages, session_id="mine"):
    session = AgentSession.new("coder", session_id=session_id, store=files)
    for message in messages:
        session.add_message(message)
        await session.save()
    return session


def take(path):
    data = Path(path).read_bytes()
    os.unlink(path)
    return data


def folder_of(session):
    return Path(session.store.folder(session.session_id))


async def test_the_folder_holds_two_files_for_this_user_alone(files, conversation):
    session = await saved(files, conversation)
    folder = folder_of(session)
    assert sorted(os.listdir(folder)) == ["history.jsonl", "metadata.json"]
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_folders_above_the_store_are_made(tmp_path, conversation):
    store = FileStore(tmp_path / "a" / "b" / "sessions")
    await saved(store, conversation)
    assert (await AgentSession.load("mine", store=store)).history == conversation


async def test_metadata_json_has_exactly_the_published_keys(files, wall):
    session = AgentSession.new("coder", session_id="abc123", store=files)
    session.set_model("anthropic", "claude-sonnet-4-5-20250929")
    session.description.add_child("def456")
    session.description.add_child("ghi789")
    wall.move(15 * 60)
    session.set_metadata("custom_key", "custom_value")
    await session.save()
    assert (
        (folder_of(session) / "metadata.json").read_text()
        == """\
{
  "agent_type": "coder",
  "child_session_ids": [
    "def456",
    "ghi789"
  ],
  "created_at": "2026-01-14T10:30:00Z",
  "metadata": {
    "custom_key": "custom_value"
  },
  "model": "claude-sonnet-4-5-20250929",
  "parent_session_id": null,
  "parent_tool_use_id": null,
  "provider": "anthropic",
  "session_id": "abc123",
  "updated_at": "2026-01-14T10:45:00Z"
}
"""
    )


def read_with_the_standard_library(folder):
    """Rebuild a conversation as anybody can, without this project."""
    messages = []
    for line in (folder / "history.jsonl").read_bytes().split(b"\n")[:-1]:
        for entry in json.loads(line)["e"]:
            if entry["kind"] == "message":
                messages.append(entry["message"])
            elif entry["kind"] == "rewind":
                del messages[entry["to"] :]
    return json.loads((folder / "metadata.json").read_text()), messages


async def test_the_standard_library_alone_can_read_a_session(files, conversation):
    session = await saved(files, (*conversation, Message.user("oops")))
    await session.rewind(to=4)
    metadata, messages = read_with_the_standard_library(folder_of(session))
    assert metadata["session_id"] == "mine"
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[0]["content"] == [{"type": "text", "text": "read a.txt\u2028please"}]
    assert messages[1]["content"][1] == {
        "type": "tool_use",
        "id": "t1",
        "name": "Read",
        "input": {"file_path": "a.txt"},
    }


async def test_the_recorded_example_can_be_read():
    store = FileStore(ROOT / "sessions")
    session = await AgentSession.load("example", store=store)
    assert session.agent_type == "coder"
    assert session.repair is None
    assert session.is_saved
    uses = [use.name for message in session.history for use in message.tool_uses]
    assert uses == ["Read", "Grep", "Bash"]
    assert session.history[-1].role == "assistant"
    assert "example" in [each.session_id for each in await AgentSession.list_all(store=store)]
    assert len(read_with_the_standard_library(ROOT / "sessions" / "example")[1]) == 12


async def test_one_save_is_one_line(files, conversation):
    session = AgentSession.new("coder", store=files)
    for message in conversation:
        session.add_message(message)
    session.mark_tools_started(["t1"])
    await session.save()
    await session.save()
    assert (folder_of(session) / "history.jsonl").read_bytes().count(b"\n") == 1


async def test_metadata_is_rewritten_only_when_something_changed(files, conversation, wall):
    session = await saved(files, conversation[:1])
    path = folder_of(session) / "metadata.json"
    before = path.stat().st_ino, path.read_bytes()
    wall.move(60)
    session.add_message(conversation[3])
    await session.save()
    assert (path.stat().st_ino, path.read_bytes()) == before
    session.set_model("offline", "offline")
    await session.save()
    assert path.read_bytes() != before[1]


async def test_keys_of_newer_versions_survive_a_load_and_save(files, conversation):
    session = await saved(files, conversation)
    path = folder_of(session) / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tags": ["a"]}))
    loaded = await AgentSession.load("mine", store=files)
    loaded.set_metadata("title", "mine")
    await loaded.save()
    stored = json.loads(path.read_text())
    assert stored["tags"] == ["a"]
    assert stored["metadata"] == {"title": "mine"}


async def test_lines_of_newer_versions_survive_a_load_and_save(files, conversation):
    session = await saved(files, conversation)
    stored = await files.read("mine")
    writer = await files.acquire("mine")
    line = encode_line([b'{"kind":"hologram","points":[1]}'], stored.history.end)
    await writer.append(line, stored.history.end)
    await writer.release()
    loaded = await AgentSession.load("mine", store=files)
    assert loaded.history == conversation
    loaded.add_message(Message.user("more"))
    await loaded.save()
    assert line in (folder_of(session) / "history.jsonl").read_bytes()
    assert (await AgentSession.load("mine", store=files)).history[-1].text == "more"


NEWER = [
    {"kind": "format", "version": 1, "by": "a newer version"},
    {
        "kind": "message",
        "message": {
            "role": "user",
            "content": [{"type": "text", "text": "hi", "mood": 1}],
            "at": 2,
        },
        "seen": True,
    },
    {"kind": "hologram", "points": [1]},
    {
        "kind": "message",
        "message": {
            "role": "assistant",
            "content": [{"type": "smell", "of": "rose"}, {"type": "text", "text": "ho"}],
            "stop_reason": "bored",
        },
    },
]


async def test_what_a_newer_version_wrote_survives_all_that_is_done_to_its_session(files):
    """Nothing there is written anew; a fork is, and holds what this version can read."""
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.set_metadata("title", "mine")
    await session.save()
    history, metadata = (folder_of(session) / n for n in ("history.jsonl", "metadata.json"))
    line = encode_line([json.dumps(entry).encode() for entry in NEWER], START)
    history.write_bytes(line)
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "tags": ["a"]}))

    session = await AgentSession.load("mine", store=files)
    fork = await session.fork()
    session.set_model("offline", "offline")
    session.add_message(Message.user("more"))
    await session.save()
    await session.rewind(2)
    await session.compact("short", 1)
    await AgentSession.archive("mine", store=files)
    await AgentSession.archive("mine", store=files, archived=False)
    assert history.read_bytes().startswith(line)
    assert json.loads(metadata.read_text())["tags"] == ["a"]
    assert (await session.read_branches())[0].messages[1].content[0].raw == {
        "type": "smell",
        "of": "rose",
    }
    loaded = await AgentSession.load(fork.session_id, store=files)
    assert [message.text for message in loaded.history] == ["hi", "ho"]
    assert loaded.history[1].content[0].raw == {"type": "smell", "of": "rose"}


async def test_times_of_other_zones_are_read_as_utc(files, conversation):
    session = await saved(files, conversation)
    path = folder_of(session) / "metadata.json"
    metadata = {**json.loads(path.read_text()), "created_at": "2026-01-14T12:30:00+02:00"}
    path.write_text(json.dumps(metadata))
    loaded = await AgentSession.load("mine", store=files)
    assert loaded.created_at == datetime(2026, 1, 14, 10, 30, tzinfo=UTC)
    assert loaded.created_at.tzinfo is UTC


async def test_foreign_files_and_half_made_folders_are_not_listed(files, conversation, caplog):
    session = await saved(files, conversation)
    folder = folder_of(session).parent
    (folder / "README").write_text("hello")
    (folder / ".git").mkdir()
    (folder / "not an id").mkdir()
    (folder / "half").mkdir()
    (folder / "half" / "history.jsonl").write_bytes(b"")
    assert [each.session_id for each in await files.list_all()] == ["mine"]
    assert not caplog.records


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"session_id": "other", "agent_type": "x"}', "[]", "\xff"]
)
async def test_an_unreadable_description_is_logged_and_does_not_hide_others(
    files, conversation, caplog, text
):
    await saved(files, conversation)
    broken = folder_of(await saved(files, conversation, "broken")) / "metadata.json"
    broken.write_bytes(text.encode("latin-1"))
    with caplog.at_level(logging.WARNING, "greenroom.session"):
        assert [each.session_id for each in await files.list_all()] == ["mine"]
    assert "broken" in caplog.text
    with pytest.raises(SessionCorruptError) as caught:
        await AgentSession.load("broken", store=files)
    assert caught.value.path == str(broken)


async def test_a_folder_of_another_name_is_no_session(files, conversation):
    session = await saved(files, conversation)
    folder_of(session).rename(folder_of(session).parent / "copy")
    with pytest.raises(SessionCorruptError, match="another session, 'mine'"):
        await AgentSession.load("copy", store=files)


async def test_a_session_without_a_history_file_is_empty(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.set_metadata("title", "mine")
    await session.save()
    assert not (folder_of(session) / "history.jsonl").exists()
    assert (await AgentSession.load("mine", store=files)).history == ()


async def test_a_torn_end_is_reported_on_load_and_set_aside_on_open(files, conversation):
    session = await saved(files, conversation[:1])
    path = folder_of(session) / "history.jsonl"
    whole = path.read_bytes()
    session.add_message(conversation[3])
    await session.save()
    both = path.read_bytes()
    for size in take_sample(range(len(whole) + 1, len(both)), 3):
        path.write_bytes(both[:size])
        loaded = await AgentSession.load("mine", store=files)
        assert loaded.history == conversation[:1]
        assert (loaded.repair.line, loaded.repair.offset) == (2, len(whole))
        assert (loaded.repair.size, loaded.repair.set_aside) == (size - len(whole), "")
        assert "still in place" in str(loaded.repair)
        assert path.read_bytes() == both[:size]
        await loaded.open()
        await loaded.close()
        assert path.read_bytes() == whole
        assert loaded.repair.set_aside == f"{path}.torn.{len(whole)}"
        assert take(loaded.repair.set_aside) == both[len(whole) : size]
        assert "set aside in" in str(loaded.repair)
    loaded.add_message(conversation[3])
    await loaded.save()
    assert path.read_bytes() == both


async def test_what_was_set_aside_before_is_not_overwritten(files, conversation):
    session = await saved(files, conversation[:1])
    path = folder_of(session) / "history.jsonl"
    for tail in (b"one", b"two", b"three"):
        with path.open("ab") as file:
            file.write(tail)
        loaded = await AgentSession.load("mine", store=files)
        await loaded.open()
        await loaded.close()
    sides = sorted(path.parent.glob("history.jsonl.torn.*"))
    assert [side.read_bytes() for side in sides] == [b"one", b"two", b"three"]


async def test_damage_in_the_middle_names_file_and_line_and_changes_nothing(files, conversation):
    session = await saved(files, conversation)
    path = folder_of(session) / "history.jsonl"
    damaged = path.read_bytes().replace(b"Gladly", b"Gladlx")
    path.write_bytes(damaged)
    for ask in (AgentSession.load("mine", store=files), files.read("mine")):
        with pytest.raises(SessionCorruptError) as caught:
            await ask
        assert (caught.value.path, caught.value.line) == (str(path), 2)
        assert caught.value.session_id == "mine"
        assert "history.jsonl:2" in str(caught.value)
    assert path.read_bytes() == damaged


async def test_a_history_replaced_since_it_was_loaded_is_not_added_to(files, conversation):
    session = await saved(files, conversation)
    loaded = await AgentSession.load("mine", store=files)
    path = folder_of(session) / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"It says", b"He says"))
    loaded.add_message(Message.user("more"))
    with pytest.raises(SessionCorruptError, match="not the line"):
        await loaded.save()


@pytest.mark.parametrize("name", ["history.jsonl", "metadata.json"])
async def test_a_file_of_four_gigabytes_is_refused_and_not_read(files, conversation, name):
    session = await saved(files, conversation)
    await saved(files, conversation, "other")
    os.truncate(folder_of(session) / name, 1 << 32)
    with pytest.raises(SessionStorageError, match=f"{name}: File too large") as caught:
        await AgentSession.load("mine", store=files)
    assert "1 GiB" in caught.value.hint
    assert (await AgentSession.load("other", store=files)).history == conversation
    assert "other" in [each.session_id for each in await files.list_all()]


async def test_a_history_does_not_grow_beyond_what_can_be_read(files, conversation, monkeypatch):
    session = await saved(files, conversation)
    monkeypatch.setattr(
        durable, "_MAX_BYTES", (folder_of(session) / "history.jsonl").stat().st_size
    )
    session.add_message(Message.user("more"))
    with pytest.raises(SessionStorageError, match="File too large"):
        await session.save()
    assert (await AgentSession.load("mine", store=files)).history == conversation


async def test_what_another_hand_adds_while_it_is_open_is_noticed(files, conversation):
    session = await saved(files, conversation)
    path = folder_of(session) / "history.jsonl"
    await session.open()
    session.add_message(Message.user("more"))
    await session.save()
    with path.open("ab") as file:
        file.write(b"by another hand\n")
    session.add_message(Message.user("and more"))
    with pytest.raises(SessionStorageError, match="another") as caught:
        await session.save()
    assert "load the session again" in caught.value.hint
    path.unlink()
    with pytest.raises(SessionStorageError, match="another"):
        await session.save()
    await session.close()


async def test_a_folder_that_cannot_be_used_is_a_typed_error(tmp_path, conversation):
    (tmp_path / "file").write_text("in the way")
    store = FileStore(tmp_path / "file" / "sessions")
    session = AgentSession.new("coder", store=store)
    session.add_message(conversation[0])
    with pytest.raises(SessionStorageError, match="Not a directory"):
        await session.save()
    with pytest.raises(SessionStorageError):
        await store.list_all()
    assert not session.is_saved


async def test_a_listed_session_is_as_new_as_its_history(files, conversation):
    set_clock(lambda: datetime(2026, 1, 14, tzinfo=UTC))
    session = await saved(files, conversation)
    set_clock(None)
    os.utime(folder_of(session) / "history.jsonl", (2e9, 2e9))
    (listed,) = await files.list_all()
    assert listed.updated_at == datetime.fromtimestamp(2e9, UTC)


async def test_a_thousand_sessions_are_listed_without_reading_histories(files, conversation):
    session = await saved(files, conversation)
    description = (folder_of(session) / "metadata.json").read_text()
    for number in range(1000):
        folder = folder_of(session).parent / f"s{number}"
        (folder / "history.jsonl").mkdir(parents=True)  # reading it would fail
        (folder / "metadata.json").write_text(description.replace('"mine"', f'"s{number}"'))
    assert len(await files.list_all()) == 1001


async def test_a_disk_that_keeps_no_times_keeps_the_lines(tmp_path, monkeypatch):
    session = AgentSession.new("coder", store=FileStore(tmp_path))

    def refuse(*_):
        raise OSError(28, "no space left on device")

    session.add_message(Message.user("one"))
    monkeypatch.setattr(os, "utime", refuse)
    await session.save()
    monkeypatch.undo()
    session.add_message(Message.user("two"))
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=FileStore(tmp_path))
    assert [message.text for message in loaded.history] == ["one", "two"]


async def test_a_save_flushes_what_an_earlier_one_did_not(tmp_path, monkeypatch):
    flushed = []
    real = durable.sync
    monkeypatch.setattr(durable, "sync", lambda fd: (flushed.append(fd), real(fd)))
    session = AgentSession.new("coder", store=FileStore(tmp_path))
    session.add_message(Message.user("one"))
    await session.open()
    await session.save()
    flushed.clear()
    session.add_message(Message.user("two"))
    await session.save(flush=False)
    assert flushed == []
    await session.save()
    assert len(flushed) == 1
    await session.save()
    assert len(flushed) == 1
    await session.close()


async def test_a_folder_whose_parent_takes_none_is_a_clear_error():
    session = AgentSession.new("coder", store=FileStore("/proc/nowhere/sessions"))
    session.add_message(Message.user("one"))
    with pytest.raises(SessionStorageError, match="/proc/nowhere"):
        await session.save()


def test_a_store_serves_several_runs_at_once(files):
    started, over = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        started.release()
        over.wait()

    async def take_all() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(files.in_thread, hold)

    async def read() -> bool:
        with trio.fail_after(10):
            return await files.exists("mine")

    other = threading.Thread(target=trio.run, args=[take_all])
    other.start()
    try:
        for _ in range(READERS):
            started.acquire()
        assert trio.run(read) is False
    finally:
        over.set()
        other.join()
