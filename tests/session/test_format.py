"""The reader on the format's page, which uses only the standard library, reads our files."""

import json
import re
import shutil
from pathlib import Path
from random import Random
from typing import get_args

import pytest
import trio

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
    Usage,
    utc_now,
)
from greenroom.core._internal import Checkpoint, PermissionRecord, serde
from greenroom.session import AgentSession, FileStore, SessionCorruptError
from greenroom.session.entries import FORMAT, Entry, FormatEntry
from greenroom.session.history import START, encode_line, read_history
from tests.conftest import take_sample

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "session-format.md").read_text()


@pytest.fixture(scope="module")
def reader():
    """The page's reader, without the lines at its end that use it."""
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(source.partition("\nmetadata, ")[0], names)
    assert not [name for name in names if "greenroom" in name]
    return names


@pytest.fixture
def folder(files, conversation):
    """A few lines with entries of every kind, results among them that were not synced at once."""
    trio.run(fill, files, conversation)
    return Path(files.folder("mine"))


async def fill(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    await session.open()
    session.conversation.copy_messages(())
    for message in conversation:
        session.add_message(message)
        session.conversation.begin_turn("i-1")
        if message.tool_uses:
            session.conversation.add_grants(
                [{"decision": "allow", "tool": "Read", "session": "mine"}]
            )
            session.conversation.add_checkpoint(Checkpoint("c-1", "/work", ("t1",)))
            session.conversation.add_decision(
                PermissionRecord("t1", "Read", at=utc_now(), decision="allow")
            )
            session.add_record("plan.step", {"id": "read", "status": "done"})
            session.add_usage(Usage(3, 2), "small")
            session.mark_tools_started(use.id for use in message.tool_uses)
        await session.save(flush=not message.tool_results)
    picture, plan = ImageBlock("image/png", data="aQ=="), DocumentBlock("text/plain", url="a:b")
    session.add_message(Message.user([TextBlock("oops"), picture, plan]))
    thoughts = [ThinkingBlock("so", "s"), RedactedThinkingBlock("x"), UnknownBlock({"type": "new"})]
    session.add_message(Message.assistant(thoughts))
    session.conversation.revoke_grants()
    session.conversation.end_turn(["i-1"], "completed")
    await session.save()
    await session.rewind(to=4)
    await session.compact("a.txt was to be read", keep=2)
    await session.rewrite([*session.history, Message.assistant("as said")])
    await session.close()


def as_json(folder, reader):
    metadata, messages = reader["read_session"](folder)
    return metadata["session_id"], [(each["role"], each["content"]) for each in messages]


async def test_the_page_s_reader_sees_what_we_see(folder, files, reader):
    ours = await AgentSession.load("mine", store=files)
    id_, messages = as_json(folder, reader)
    assert id_ == "mine"
    assert [role for role, _ in messages] == [each.role for each in ours.history]
    texts = ["".join(block.get("text", "") for block in content) for _, content in messages]
    assert texts == [each.text for each in ours.history]
    assert messages[1][1][1]["input"] == {"file_path": "a.txt"}


def test_it_knows_every_kind_of_entry_and_block_that_the_page_lists(folder, reader):
    entries, torn = reader["read_entries"](folder / "history.jsonl")
    kinds = [entry["kind"] for entry in entries]
    assert set(kinds) == {kind.__struct_config__.tag for kind in get_args(Entry)}
    messages = [entry[key] for entry in entries for key in ("message", "summary") if key in entry]
    blocks = {block["type"] for message in messages for block in message["content"]}
    assert blocks == {kind.__struct_config__.tag for kind in get_args(ContentBlock)}
    assert kinds[0] == "format"
    assert torn == 0


@pytest.mark.parametrize(("head", "kinds"), [("kind", Entry), ("block's `type`", ContentBlock)])
def test_the_page_lists_every_kind_of_entry_and_block_with_all_its_keys(head, kinds):
    rows = table(head)
    found = {kind.__struct_config__.tag: kind.__struct_encode_fields__ for kind in get_args(kinds)}
    assert rows.keys() == found.keys()
    for kind, keys in found.items():
        missing = [key for key in keys if f"`{key}`" not in rows[kind] + "`extra`"]
        assert missing == [], kind


def table(head):
    """The rows of the page's table with this head, by each name in their first column."""
    (body,) = re.findall(
        rf"^\| {re.escape(head)} \|.*\n\|[- |]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE
    )
    rows = [line.split(" | ", 1) for line in body.splitlines()]
    return {name: rest for first, rest in rows for name in re.findall(r"`(\w+)`", first)}


def test_it_finds_a_line_of_another_session_and_one_that_is_left_out(folder, reader):
    path = folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for spliced in (
        [*lines[:2], lines[2].replace(b"t1", b"t2"), *lines[3:]],
        [*lines[:3], *lines[4:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        [*lines[:2], lines[1], *lines[2:]],
    ):
        path.write_bytes(b"".join(spliced))
        with pytest.raises(ValueError, match=r"history.jsonl:\d: the line is damaged"):
            reader["read_session"](folder)


def test_it_and_ours_agree_on_every_damaged_byte(folder, reader):
    path = folder / "history.jsonl"
    data = path.read_bytes()
    for index in take_sample(range(len(data)), 5):
        for value in (10, data[index] ^ 1):
            damaged = data[:index] + bytes([value]) + data[index + 1 :]
            path.write_bytes(damaged)
            try:
                theirs = reader["read_entries"](path)[1]
            except ValueError as error:
                theirs = str(error).split(":")[1]
            try:
                ours = len(read_history(damaged, session_id="mine", path="h").torn)
            except SessionCorruptError as error:
                ours = str(error.line)
            assert theirs == ours, index


async def test_what_the_page_does_not_know_it_passes_over(folder, files, reader):
    stored = await files.read("mine")
    entries = [b'{"kind":"hologram","points":[1]}', b'{"kind":"rewind","to":1,"why":"dull"}']
    writer = await files.acquire("mine")
    await writer.append(encode_line(entries, stored.history.end), stored.history.end)
    await writer.release()
    assert len(reader["read_session"](folder)[1]) == 1
    assert len((await AgentSession.load("mine", store=files)).history) == 1


def test_a_newer_version_is_refused(folder, files, reader):
    path = folder / "history.jsonl"
    path.write_bytes(
        encode_line([json.dumps({"kind": "format", "version": FORMAT + 1}).encode()], START)
    )
    with pytest.raises(ValueError, match="newer"):
        reader["read_session"](folder)


FORMATS = Path(__file__).parent / "formats"


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
async def test_a_session_of_every_version_is_read_and_goes_on_as_it_is(tmp_path, version, reader):
    """The files were written by the first release of each version, and are never changed."""
    shutil.copytree(FORMATS / f"version-{version}", tmp_path / f"version-{version}")
    path = tmp_path / f"version-{version}" / "history.jsonl"
    before = path.read_bytes()
    expected = {
        1: ["read a.txt", "Gladly.", "", "It says hällo.", "thanks"],
        2: ["a.txt says hällo.", "It says hällo.", "thanks"],
        3: ["read b.txt", "It says hello.", "thanks"],
    }
    session = await AgentSession.load(f"version-{version}", store=FileStore(tmp_path))
    assert [each.text for each in session.history] == expected[version]
    left = (await session.read_branches())[0].messages
    assert [each.text for each in left] == [*expected[1][:4], "oops"]
    await session.rewind(to=2)
    await session.compact("short", keep=1)
    await session.rewrite(session.history[:1])
    assert path.read_bytes().startswith(before)
    loaded = await AgentSession.load(session.session_id, store=FileStore(tmp_path))
    assert loaded.history == session.history
    assert len(reader["read_session"](path.parent)[1]) == len(session.history)


async def test_a_history_is_of_the_oldest_version_that_can_tell_it(files):
    """So an older reader refuses what it would misread, and no other."""
    session = AgentSession.new("coder", session_id="mine", store=files)
    for text in "abcd":
        session.add_message(Message.user(text))
        await session.save()
    await session.rewind(to=3)
    await session.compact("short", keep=1)
    session.add_message(Message.user("x"))
    await session.save()
    loaded = await AgentSession.load("mine", store=files)
    await loaded.rewrite(loaded.history)
    await loaded.compact("short", keep=1)
    lines = Path(files.folder("mine"), "history.jsonl").read_bytes().splitlines()
    first = [json.loads(line)["e"][0] for line in lines]
    versions = [each.get("version") for each in first]
    assert versions == [1, None, None, None, None, 2, 2, 3, 3]
    assert (await loaded.fork()).history == loaded.history
    (fork,) = (await files.read((await loaded.fork()).session_id)).history.entries[:1]
    assert fork == FormatEntry(1), "a fork has no compaction of its own"


def retold(entries):
    """All branches, the rules that hold, and the records, as the page says in words."""
    now, left, rules, records, is_said = [], [], [], [], False
    for entry in entries:
        match entry["kind"]:
            case "message":
                now.append(entry["message"])
                is_said = True
            case "grant":
                rules += [(len(now), rule) for rule in entry["rules"]]
            case "revoke":
                rules.clear()
            case "record":
                records.append((len(now), entry["value"]))
            case "rewind":
                if is_said and entry["to"] < len(now):
                    left.append(list(now))
                    is_said = False
                del now[entry["to"] :]
                rules = [(at, rule) for at, rule in rules if at < entry["to"]]
                records = [(at, each) for at, each in records if at <= entry["to"]]
            case "compaction":
                left += [list(now)] if is_said else []
                is_said, cut = True, len(now) - entry["keep"]
                now[:cut] = [entry["summary"]]
                rules = [(max(at - cut + 1, 0), rule) for at, rule in rules]
                records = [(at and max(at - cut, 0) + 1, each) for at, each in records]
            case "rewrite":
                left += [list(now)] if is_said else []
                now = list(entry["messages"])
                is_said = bool(now)
                rules = [(min(at, len(now)), rule) for at, rule in rules]
                records = [(min(at, len(now)), each) for at, each in records]
    return [*left, now], [rule for _, rule in rules], [each for _, each in records]


DEEDS = ("say", "say", "grant", "record", "rewind", "compact", "rewrite", "revoke")


@pytest.mark.parametrize("seed", range(3))
async def test_branches_rules_and_records_can_be_told_from_the_page_s_words(files, reader, seed):
    chance, session = Random(seed), AgentSession.new("coder", session_id="mine", store=files)
    session.durability = "none"
    await session.open()
    for number in range(60):
        length = len(session.history)
        match chance.choice(DEEDS):
            case "record":
                session.add_record("step", number)
            case "rewrite":
                await session.rewrite(session.history[chance.randrange(3) :])
            case "say":
                session.add_message(Message.user(str(number)))
            case "grant":
                session.conversation.add_grants([{"decision": "allow", "tool": str(number)}])
            case "rewind":
                await session.rewind(length - min(chance.randrange(4), length))
            case "compact" if length:
                await session.compact(f"short {number}", keep=chance.randrange(length))
            case "revoke" if chance.random() < 0.2:
                session.conversation.revoke_grants()
        await session.save()
        path = Path(files.folder("mine"), "history.jsonl")
        told, rules, records = retold(reader["read_entries"](path)[0] if path.exists() else [])
        branches = [branch.history for branch in await session.read_branches()]
        assert [len(each) for each in told] == [len(each) for each in branches]
        assert json.loads(serde.encode(branches)) == told
        assert rules == list(session.conversation.grants)
        assert records == list(session.records("step"))
    await session.close()


def test_every_key_of_a_description_is_on_the_page(folder):
    for key in json.loads((folder / "metadata.json").read_text()):
        assert f"`{key}`" in PAGE


def test_every_key_of_a_usage_is_on_the_page():
    for key in Usage.__struct_encode_fields__:
        assert f"`{key}`" in PAGE
