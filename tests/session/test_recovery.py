"""After damage: what is left, what is not, and everything that can be verified is kept."""

import itertools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from greenroom.core import Message, SessionNotFoundError
from greenroom.core._internal import serde
from greenroom.session import AgentSession, FileStore, SessionCorruptError
from greenroom.session._internal import read_last
from greenroom.session.history import START, encode_line, read_lines
from greenroom.session.salvage import salvage_history
from greenroom.session.transcript import Transcript
from tests.session.accepted import check_accepted
from tests.session.under_test import Files, SQLite

MISSING = "is missing here"


@pytest.fixture(params=[Files, SQLite])
def case(request, tmp_path):
    return request.param(tmp_path)


async def talk(store, session_id="mine", *, pairs=6):
    """Store twelve messages in six lines."""
    session = AgentSession.new("coder", session_id=session_id, store=store)
    session.set_metadata("title", "a talk")
    await session.open()
    for number in range(pairs):
        session.add_message(Message.user(f"question {number}"))
        session.add_message(Message.assistant(f"answer {number}"))
        await session.save()
    await session.close()
    return session


def texts(messages):
    return [message.text for message in messages]


def said(*numbers):
    return [f"{word} {number}" for number in numbers for word in ("question", "answer")]


@pytest.mark.parametrize("line", range(5))
async def test_every_other_line_is_kept_behind_a_note(case, line):
    await talk(case.make())
    await case.damage("mine", line)
    store = case.make()
    with pytest.raises(SessionCorruptError, match="repair mine"):
        await AgentSession.load("mine", store=store)
    report = await store.salvage("mine")
    session = await AgentSession.load("mine", store=store)
    note = session.history[2 * line].text
    assert f"line {line + 1} of its history" in note
    assert MISSING in note
    before, behind = range(line), range(line + 1, 6)
    assert texts(session.history) == [*said(*before), note, *said(*behind)]
    assert (report.line, report.kept) == (line + 1, 2 * len(behind))
    assert f"{2 * len(behind)} messages verify and were kept" in str(report)
    check_accepted(session.history)
    session.add_message(Message.user("go on"))
    await session.save()
    assert len((await AgentSession.load("mine", store=store)).history) == 12
    assert await store.salvage("mine") is None


@pytest.mark.parametrize(
    "harm", ["cut short", "end lost", "longer", "newline", "gone", "twice", "zeros"]
)
async def test_however_a_line_is_damaged_all_others_are_kept(files, harm):
    await talk(files)
    path = Path(files.folder("mine")) / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = {
        "cut short": [lines[2][:40] + lines[2][60:]],
        "end lost": [lines[2][:40]],
        "longer": [lines[2][:40] + b"\n{}" + lines[2][40:]],
        "newline": [lines[2][:-1] + b"\x0b"],
        "gone": [],
        "twice": [lines[1]],
        "zeros": [bytes(len(lines[2]) - 1) + b"\n"],
    }[harm]
    harmed = b"".join([*lines[:2], *damaged, *lines[3:]])
    path.write_bytes(harmed)
    report = await files.salvage("mine")
    session = await AgentSession.load("mine", store=files)
    found = [text for text in texts(session.history) if MISSING not in text]
    kept = range(6) if harm == "newline" else (0, 1, 3, 4, 5)
    assert found == said(*kept)
    side = Path(report.set_aside).read_bytes()
    assert harmed.endswith(side)
    assert path.read_bytes().startswith(harmed[: len(harmed) - len(side)])


async def test_two_damaged_lines_leave_two_notes(case):
    await talk(case.make())
    for line in (1, 3):
        await case.damage("mine", line)
    store = case.make()
    await store.salvage("mine")
    session = await AgentSession.load("mine", store=store)
    notes = [place for place, text in enumerate(texts(session.history)) if MISSING in text]
    assert notes == [2, 5]
    assert [text for text in texts(session.history) if MISSING not in text] == said(0, 2, 4, 5)


async def test_what_a_lost_line_may_have_revoked_holds_no_longer(files):
    session = AgentSession.new("coder", session_id="mine", store=files)
    await session.open()
    session.add_message(Message.user("one"))
    session.conversation.add_grants([{"decision": "allow", "tool": "Bash"}])
    await session.save()
    session.conversation.revoke_grants()
    await session.save()
    session.add_message(Message.assistant("two"))
    session.conversation.add_grants([{"decision": "allow", "tool": "Read"}])
    await session.save()
    await session.close()
    await Files(Path(files.folder("mine")).parents[1]).damage("mine", 1)
    await files.salvage("mine")
    loaded = await AgentSession.load("mine", store=files)
    assert loaded.conversation.grants == ({"decision": "allow", "tool": "Read"},)


async def test_calls_and_results_that_were_parted_are_still_a_conversation(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    await session.open()
    for message in (*conversation, *conversation):
        session.add_message(message)
        await session.save()
    await session.close()
    for line in range(7):
        store = FileStore(Path(files.folder("mine")).parents[1] / f"copy{line}")
        target = Path(store.folder("mine"))
        target.mkdir(parents=True)
        for name in os.listdir(files.folder("mine")):
            (target / name).write_bytes((Path(files.folder("mine")) / name).read_bytes())
        path = target / "history.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        lines[line] = lines[line].replace(b'"role"', b'"rule"', 1)
        path.write_bytes(b"".join(lines))
        await store.salvage("mine")
        loaded = await AgentSession.load("mine", store=store)
        assert len(loaded.history) == 8
        check_accepted(loaded.history)


def history(entries):
    """Write each of these entries in a line of its own."""
    at, lines = START, []
    for entry in ({"kind": "format", "version": 2}, *entries):
        line = encode_line([serde.encode(entry)], at)
        at = at.after(line).as_synced()
        lines.append(line)
    return lines


def message(text, role="user"):
    content = [{"type": "text", "text": text}]
    return {"kind": "message", "message": {"role": role, "content": content}}


def recovered(lines, damaged):
    lines = [
        line.replace(b'"kind"', b'"kinx"', 1) if n in damaged else line
        for n, line in enumerate(lines)
    ]
    found = salvage_history(b"".join(lines), session_id="mine", path="mine")
    whole = b"".join(lines)[: found.end.size] + found.line
    read = read_lines(whole, session_id="mine", path="mine")
    assert read.torn == b""
    return found, Transcript(itertools.chain.from_iterable(read.entries))


def test_a_conversation_that_was_compacted_rewritten_or_rewound_past_the_damage_is_whole_again():
    letters = [message(letter) for letter in "abcdef"]
    summary = {"kind": "compaction", "summary": message("sum")["message"], "keep": 2}
    _, transcript = recovered(history([*letters, summary, message("g")]), {2})
    assert texts(transcript.messages) == ["sum", "e", "f", "g"]
    rewrite = {"kind": "rewrite", "messages": [message(letter)["message"] for letter in "xyz"]}
    back = {"kind": "rewind", "to": 2, "left": 1}
    _, transcript = recovered(history([*letters, rewrite, back, message("g")]), {2})
    assert texts(transcript.messages) == ["x", "y", "g"]
    rewind = {"kind": "rewind", "to": 1, "left": 5}
    _, transcript = recovered(history([*letters, rewind, message("g")]), {3})
    assert texts(transcript.messages) == ["a", "g"]


def test_a_rewind_behind_the_damage_is_counted_from_the_end():
    letters = [message(letter) for letter in "abcdef"]
    rewind = {"kind": "rewind", "to": 4, "left": 2}
    _, transcript = recovered(history([*letters, rewind, message("g")]), {2})
    first, note, *rest = texts(transcript.messages)
    assert (first, rest) == ("a", ["c", "d", "g"])
    assert MISSING in note
    into = {"kind": "rewind", "to": 2, "left": 4}  # to where something is missing
    _, transcript = recovered(history([*letters, into, message("g")]), {2})
    assert [text for text in texts(transcript.messages) if MISSING not in text] == ["a", "g"]


def test_what_a_newer_version_wrote_is_kept_as_it_is():
    lines = history(
        [message("a"), message("b"), {"kind": "hologram", "points": [1.0]}, message("c")]
    )
    found, transcript = recovered(lines, {2})
    assert b'{"kind":"hologram","points":[1.0]}' in found.line
    assert texts(transcript.messages)[-1] == "c"


@given(st.sets(st.integers(1, 11), min_size=1), st.randoms(use_true_random=False))
def test_whatever_is_damaged_each_line_that_is_kept_was_said_and_in_that_order(damaged, random):
    lines = history([message(str(number)) for number in range(12)])
    for number in damaged:
        line = bytearray(lines[number])
        for _ in range(random.randint(1, 3)):
            line[random.randrange(len(line) - 1)] ^= 1 << random.randrange(8)
        lines[number] = bytes(line)
    found = salvage_history(b"".join(lines), session_id="mine", path="mine")
    data = b"".join(lines)[: found.end.size] + found.line
    read = read_lines(data, session_id="mine", path="mine")
    transcript = Transcript(itertools.chain.from_iterable(read.entries))
    kept = [int(text) for text in texts(transcript.messages) if MISSING not in text]
    intact = [number - 1 for number in range(1, 13) if number not in damaged]
    assert kept == sorted(set(kept))
    assert set(kept) <= set(range(12))
    between = {n for n in intact if n + 1 in intact}  # each of these verifies with its follower
    assert between <= set(kept)


@pytest.mark.parametrize("left", [0, 1, 5])
async def test_a_history_that_is_cut_off_at_a_line_is_told_of_until_somebody_goes_on(files, left):
    await talk(files)
    path = Path(files.folder("mine")) / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:left]))
    for _ in range(2):
        session = await AgentSession.load("mine", store=files)
        assert texts(session.history) == said(*range(left))
        assert (session.repair.line, session.repair.missing) == (left + 1, 6 - left)
        assert f"at least {6 - left} line" in str(session.repair)
    session.add_message(Message.user("go on"))
    await session.save()
    assert Path(session.repair.set_aside).read_bytes() == b""
    again = await AgentSession.load("mine", store=files)
    assert texts(again.history) == [*said(*range(left)), "go on"]
    assert again.repair is None


async def test_a_repair_goes_on_with_what_is_there(files):
    await talk(files)
    path = Path(files.folder("mine")) / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    report = await files.salvage("mine")
    assert (report.missing, report.kept) == (2, 0)
    assert (await AgentSession.load("mine", store=files)).repair is None
    assert await files.salvage("mine") is None


async def test_a_history_that_is_gone_is_told_of(files):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("one"))
    await session.save()
    path = Path(files.folder("mine")) / "history.jsonl"
    data = path.read_bytes()
    path.unlink()
    loaded = await AgentSession.load("mine", store=files)
    page = await read_last("mine", 1, store=files)
    assert loaded.repair.missing == page.repair.missing == 1
    path.write_bytes(data)  # from the backup
    assert texts((await AgentSession.load("mine", store=files)).history) == ["one"]


async def test_short_programs_that_save_once_are_counted_now_and_then(files):
    session = AgentSession.new("coder", session_id="mine", store=files)
    for number in range(20):
        session.add_message(Message.user(str(number)))
        await session.save()
    path = Path(files.folder("mine")) / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:10]))
    assert (await AgentSession.load("mine", store=files)).repair.missing == 6


async def test_lines_that_were_never_synced_are_not_counted(files):
    session = await talk(files, pairs=2)
    await session.open()
    for _ in range(3):
        session.add_message(Message.user("loose"))
        await session.save(flush=False)
    await session.close()
    about = json.loads((Path(files.folder("mine")) / "metadata.json").read_text())
    assert about["lines"] == 2


async def test_a_torn_end_that_is_set_aside_is_no_loss_from_then_on(files):
    await talk(files)
    path = Path(files.folder("mine")) / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    session = await AgentSession.load("mine", store=files)
    assert session.repair is not None
    await session.open()
    await session.close()
    assert texts((await AgentSession.load("mine", store=files)).history) == said(*range(5))


def describe(case, data):
    """Put these bytes in the place of a description, or take it away."""
    if isinstance(case, SQLite):
        case.execute("UPDATE sessions SET metadata = ? WHERE session_id = 'mine'", data)
    else:
        path = case.folder / "mine" / "metadata.json"
        path.unlink() if data is None else path.write_bytes(data)


@pytest.mark.parametrize("data", [None, b"", b'{"session_id": "mi', b"[]", b"\xff", b"{}"])
async def test_a_conversation_without_a_description_is_told_of_and_described_anew(case, data):
    store = case.make()
    await talk(store)
    await talk(store, "other")
    child = AgentSession.new_subagent("helper", "mine", session_id="child", store=store)
    child.add_message(Message.user("help"))
    await child.save()
    parent = AgentSession.new("boss", session_id="parent", store=store)
    parent.description.add_child("mine")
    await parent.save()
    describe(case, data)
    survey = await store.survey()
    assert {each.session_id for each in survey.sessions} == {"other", "child", "parent"}
    (error,) = survey.damaged
    assert error.session_id == "mine"
    assert "repair mine" in error.hint
    with pytest.raises((SessionCorruptError, SessionNotFoundError)) as caught:
        await AgentSession.load("mine", store=store)
    assert "repair mine" in caught.value.hint
    report = await store.salvage("mine")
    assert "agent_type" in report.restored
    assert "agent_type" in str(report)
    session = await AgentSession.load("mine", store=store)
    assert texts(session.history) == said(*range(6))
    assert (session.agent_type, session.parent_session_id) == ("unknown", "parent")
    assert session.child_session_ids == ("child",)
    assert session.get_metadata("title") == "question 0"
    assert (await store.survey()).damaged == ()
    assert await store.salvage("mine") is None


async def test_what_can_be_read_of_a_description_is_kept(case):
    store = case.make()
    session = await talk(store)
    about = {
        **serde.loads(serde.encode(session.description.record)),
        "hologram": 1,
        "created_at": "yesterday",
    }
    describe(case, serde.dumps(about))
    report = await store.salvage("mine")
    assert report.restored == ("created_at",)
    loaded = await AgentSession.load("mine", store=store)
    assert (loaded.agent_type, loaded.get_metadata("title")) == ("coder", "a talk")
    assert loaded.created_at == loaded.updated_at
    assert loaded.description.record.unknown == {"hologram": 1}


async def test_a_key_of_a_newer_version_may_be_called_unknown(case):
    store = case.make()
    session = await talk(store)
    about = {**serde.loads(serde.encode(session.description.record)), "unknown": 5}
    describe(case, serde.dumps(about))
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.description.record.unknown == {"unknown": 5}
    describe(case, serde.dumps({**about, "created_at": "yesterday"}))
    assert (await store.salvage("mine")).restored == ("created_at",)
    repaired = await AgentSession.load("mine", store=store)
    assert repaired.description.record.unknown == {"unknown": 5}


async def test_a_damaged_description_is_set_aside_and_other_keys_survive(files):
    session = await talk(files)
    about = {**serde.loads(serde.encode(session.description.record)), "hologram": 1, "model": 7}
    path = Path(files.folder("mine")) / "metadata.json"
    path.write_bytes(serde.dumps(about))
    await files.salvage("mine")
    assert json.loads(path.read_text())["hologram"] == 1
    assert serde.loads((path.parent / "metadata.json.damaged").read_bytes()) == about


@pytest.mark.parametrize("odd", [b'"\xff": 1', b'"odd": "\xff"'])
async def test_an_unknown_key_that_is_no_text_is_damage_like_any_other(case, odd):
    store = case.make()
    session = await talk(store)
    await talk(store, "other", pairs=1)
    describe(case, serde.encode(session.description.record).replace(b"{", b"{" + odd + b",", 1))
    with pytest.raises(SessionCorruptError, match="repair mine"):
        await AgentSession.load("mine", store=store)
    assert [each.session_id for each in await store.list_all()] == ["other"]
    await store.salvage("mine")
    assert texts((await AgentSession.load("mine", store=store)).history) == said(*range(6))


async def test_a_folder_that_was_renamed_is_described_by_its_name(files):
    await talk(files, "old")
    os.rename(files.folder("old"), files.folder("mine"))
    with pytest.raises(SessionCorruptError, match="describes another session"):
        await AgentSession.load("mine", store=files)
    await files.salvage("mine")
    session = await AgentSession.load("mine", store=files)
    assert (session.session_id, session.get_metadata("title")) == ("mine", "a talk")


async def test_a_session_that_is_being_made_is_not_told_of(case):
    store = case.make()
    writer = await store.acquire("mine")
    await writer.append(encode_line([b'{"kind":"format","version":1}'], START), START)
    assert (await store.survey()).damaged == ()
    await writer.release()
    (error,) = (await store.survey()).damaged
    assert "has a history in" in error.message


async def test_nothing_is_made_of_nothing(case):
    store = case.make()
    await talk(store, "other")
    with pytest.raises(SessionNotFoundError):
        await store.salvage("mine")
    assert [each.session_id for each in await store.list_all()] == ["other"]
