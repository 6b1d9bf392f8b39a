"""A session that is damaged in the middle: refused with the way out, and usable again after it."""

from pathlib import Path

import pytest

from greenroom.core import Message, SessionLockedError, SessionNotFoundError, TextBlock
from greenroom.session import AgentSession, SessionCorruptError
from greenroom.session.history import START, encode_line


@pytest.fixture
async def damaged(files, conversation):
    """The path of a history whose second line of four is damaged, and what it holds."""
    session = AgentSession.new("coder", session_id="mine", store=files)
    for message in conversation:
        session.add_message(message)
        await session.save()
    path = Path(files.folder("mine")) / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Gladly", b"Gladlx"))
    return path


async def test_the_error_names_the_command_that_salvages(files, damaged):
    with pytest.raises(SessionCorruptError, match="`greenroom sessions repair mine`") as caught:
        await AgentSession.load("mine", store=files)
    assert caught.value.line == 2


async def test_the_lines_before_the_damage_stay_and_all_else_is_set_aside(files, damaged):
    data = damaged.read_bytes()
    report = await files.salvage("mine")
    first = data.index(b"\n") + 1
    assert (report.path, report.line, report.offset) == (str(damaged), 2, first)
    assert report.size == len(data) - first
    assert damaged.read_bytes().startswith(data[:first])
    assert damaged.read_bytes().count(b"\n") == 2
    assert Path(report.set_aside).read_bytes() == data[first:]
    session = await AgentSession.load("mine", store=files)
    told = [message.text for message in session.history]
    assert (told[0], told[-1]) == ("read a.txt\u2028please", "It says hällo.")
    session.add_message(Message.user("go on"))
    await session.save()
    assert len((await AgentSession.load("mine", store=files)).history) == 5


async def test_what_can_not_be_decoded_is_salvaged_as_well(files, damaged):
    damaged.write_bytes(encode_line([b'{"kind":"rewind"}'], START))
    report = await files.salvage("mine")
    assert (report.line, report.offset) == (1, 0)
    assert (await AgentSession.load("mine", store=files)).history == ()


async def test_line_ends_of_windows_cost_no_message(files, conversation, damaged):
    for sound in (0, 2):
        data = damaged.read_bytes().replace(b"Gladlx", b"Gladly")
        lines = data.splitlines(keepends=True)
        text = b"".join(lines[:sound]) + b"".join(lines[sound:]).replace(b"\n", b"\r\n")
        damaged.write_bytes(text)
        report = await files.salvage("mine")
        assert report.kept == len(conversation) - sound
        assert Path(report.set_aside).read_bytes() == text[report.offset :]
        session = await AgentSession.load("mine", store=files)
        told = [message.content for message in session.history]
        assert told == [message.content for message in conversation]
        damaged.write_bytes(data)


async def test_a_sound_session_is_left_alone(files, conversation):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(conversation[0])
    await session.save()
    assert await files.salvage("mine") is None
    assert (await AgentSession.load("mine", store=files)).history == conversation[:1]


async def test_a_session_that_is_being_written_is_not_touched(files, damaged):
    data = damaged.read_bytes()
    writer = await files.acquire("mine")
    with pytest.raises(SessionLockedError):
        await files.salvage("mine")
    await writer.release()
    assert damaged.read_bytes() == data


async def test_there_is_nothing_to_salvage_where_nothing_is(files, damaged):
    with pytest.raises(SessionNotFoundError):
        await files.salvage("other")
    assert not Path(files.folder("other")).exists()


async def test_what_a_crash_left_of_a_session_never_stored_is_reported(files, conversation):
    writer = await files.acquire("mine")
    await writer.release()
    folder = Path(files.folder("mine"))
    folder.mkdir()
    (folder / "history.jsonl").write_bytes(b"half a line")
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user([TextBlock("hello")]))
    await session.save()
    assert (session.repair.line, session.repair.offset, session.repair.size) == (1, 0, 11)
    assert Path(session.repair.set_aside).read_bytes() == b"half a line"
