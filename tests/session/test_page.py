"""The last page of a conversation: as a whole load ends, but without reading the rest."""

import os
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import Message, SessionError, SessionStorageError
from greenroom.core._internal import serde
from greenroom.fs._internal import durable
from greenroom.session import (
    AgentSession,
    SessionCorruptError,
    SQLiteStore,
    history as page_module,
    sqlite_database,
)
from greenroom.session._internal import read_backwards, read_last, read_page
from greenroom.session.entries import (
    FORMAT,
    CompactionEntry,
    FormatEntry,
    MessageEntry,
    RewindEntry,
    RewriteEntry,
    ToolsStartedEntry,
)
from greenroom.session.history import START, encode_line, read_history
from greenroom.session.transcript import Transcript
from greenroom.testing.session_stores import cancel_after
from tests.conftest import take_sample
from tests.session.test_compaction import calls
from tests.session.under_test import Postgres

PERSON = MessageEntry(Message.user("What does this function do, and who calls it? " * 4))
MANY, PER_LINE = 100_000, 50


def lined(groups, *, loose=False):
    """Encode entries as the lines of a history, each as if it were synced, or not."""
    place, lines = START, []
    for group in groups:
        line = encode_line([serde.encode(entry) for entry in group], place)
        lines.append(line)
        place = place.after(line) if loose else place.after(line).as_synced()
    return lines


def paged(data, count):
    blocks = read_backwards(lambda start, stop: data[start:stop], len(data))
    return read_page(blocks, len(data), count, session_id="s", path="h")


def texts(messages):
    return [message.text for message in messages]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, request):
    if "real_blocks" not in request.fixturenames:
        monkeypatch.setattr(page_module, "_BLOCK", 100)


@pytest.fixture
def real_blocks():
    """Let it read blocks of the real size."""


STEPS = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 4)),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.just("old rewind"), st.floats(0.9, 1)),
    st.tuples(st.just("compact"), st.floats(0, 1)),
    st.tuples(st.just("rewrite"), st.integers(0, 4)),
    st.tuples(st.just("note"), st.none()),
)


def history(steps):
    """Return groups of entries, and what they add up to."""
    transcript, groups = Transcript(), [[FormatEntry(1)]]
    for number, (step, value) in enumerate(steps):
        group, length = [], len(transcript)
        if step == "say":
            group = [MessageEntry(Message.user(f"{number}.{each}")) for each in range(value)]
        elif step == "note":
            group = [ToolsStartedEntry(("t",))]
        elif step == "compact" and length:
            keep = min(round(value * length), length - 1)
            group = [CompactionEntry(Message.user(f"S{number}"), keep)]
        elif step == "rewrite":
            group = [RewriteEntry(tuple(Message.user(f"{number}r{each}") for each in range(value)))]
        elif step.endswith("rewind"):
            to = round(value * length)
            group = [RewindEntry(to, None if step == "old rewind" else length - to)]
        for entry in group:
            transcript.apply(entry)
        if group:
            groups.append(group)
    return groups, transcript.messages


@given(st.lists(STEPS, max_size=30), st.integers(1, 12))
def test_a_page_is_what_the_whole_ends_with(steps, count):
    groups, whole = history(steps)
    data = b"".join(lined(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "_BLOCK", 100)
        page = paged(data, count)
    assert texts(page.messages) == texts(whole[-count:])
    assert (page.is_whole, page.repair) == (count >= len(whole), None)
    for message, line in zip(page.messages, page.lines, strict=True):
        assert serde.encode(message) in lined(groups)[line - 1]


SAID = [[FormatEntry(1), PERSON]] + [
    [MessageEntry(Message.user(f"{number}"))] for number in range(6)
]


@pytest.mark.parametrize("loose", [False, True])
def test_a_page_of_a_damaged_history_is_the_end_of_what_is_whole_or_an_error(loose):
    data = b"".join(lined([*SAID, [RewindEntry(5, 2)], [PERSON]], loose=loose))
    undamaged = paged(data, 2)
    outcomes = set()
    for index in take_sample(range(len(data)), 3):
        for value in (10, data[index] ^ 1):
            damaged = data[:index] + bytes([value]) + data[index + 1 :]
            outcomes.add(compare(damaged, undamaged))
    assert outcomes == ({"not seen", "torn"} if loose else {"not seen", "torn", "corrupt"})


def compare(damaged, undamaged):
    """See that a page tells what a whole load tells, unless the damage is in front of it."""
    whole = told(lambda: read_history(damaged, session_id="s", path="h"))
    page = told(lambda: paged(damaged, 2))
    if page == undamaged:
        return "not seen"
    if isinstance(whole, str):
        assert page == whole
        return "corrupt"
    assert page.messages == Transcript(whole.entries).messages[-2:]
    assert (page.repair.offset, page.repair.size) == (whole.end.size, len(whole.torn))
    return "torn"


def told(read):
    try:
        return read()
    except SessionCorruptError as error:
        return str(error)


def test_cut_off_anywhere_it_is_the_end_of_the_whole_lines():
    lines = lined([*SAID, [RewindEntry(5, 2)], [CompactionEntry(Message.user("S"), 3)], [PERSON]])
    data = b"".join(lines)
    for size in range(len(data)):
        whole = read_history(data[:size], session_id="s", path="h")
        page = paged(data[:size], 2)
        assert page.messages == Transcript(whole.entries).messages[-2:]
        assert (page.repair is None) == (whole.torn == b"")
        if page.repair is not None:
            assert (page.repair.offset, page.repair.size) == (whole.end.size, len(whole.torn))


def test_an_end_of_garbage_however_long_is_torn():
    data = b"".join(lined(SAID))
    for garbage in (b"\0", b"\n", b"}\n"):
        page = paged(data + garbage * 500, 1)
        assert texts(page.messages) == ["5"]
        assert page.repair.size == 500 * len(garbage)


def test_a_newer_format_is_refused_though_its_beginning_is_not_read():
    lines = lined([*SAID, *[[FormatEntry(FORMAT + 1), PERSON]] * 2])
    with pytest.raises(SessionError, match=f"format {FORMAT + 1}"):
        paged(b"".join(lines), 1)


def test_bytes_that_are_missing_are_damage():
    data = b"".join(lined(SAID))
    with pytest.raises(SessionCorruptError, match=f"h:8: {len(data) + 9} bytes were stored"):
        read_page([data], len(data) + 9, 99, session_id="s", path="h")


async def test_a_call_without_a_result_is_shown_as_it_is_stored(store):
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("go"))
    session.add_message(calls("t1"))
    await session.save()
    page = await read_last(session.session_id, 1, store=store)
    assert page.messages == session.history[-1:]
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history[-1].tool_results, "a load answers it"


async def test_looking_at_the_past_can_be_cancelled_at_any_moment(store, real_blocks):
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("go"))
    await session.save()
    for look in (
        session.read_branches,
        lambda: read_last(session.session_id, 1, store=store),
    ):
        steps, is_cut = 0, True
        while is_cut:
            with trio.CancelScope() as scope, cancel_after(scope, steps):
                await look()
            steps, is_cut = steps + 1, scope.cancelled_caught
        assert await look()


async def test_pages_are_read_while_somebody_writes(store, real_blocks):
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("0"))
    await session.save()
    is_done = trio.Event()

    async def write():
        await session.open()
        for number in range(1, 60):
            session.add_message(Message.user(str(number)))
            await session.save(flush=False)
        await session.close()
        is_done.set()

    async def read():
        last = 0
        while not is_done.is_set():
            page = await read_last(session.session_id, 5, store=store)
            numbers = [int(text) for text in texts(page.messages)]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert last <= numbers[-1]
            last = numbers[-1]

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(read)


@pytest.fixture
async def long(tmp_path, store_under_test, real_blocks):
    """A session of 100,000 messages, made by hand: each commit costs a save otherwise."""
    store = store_under_test.make()
    session = AgentSession.new("coder", session_id="long", store=store)
    session.add_message(PERSON.message)
    await session.save()
    lines = lined([[PERSON] * PER_LINE] * (MANY // PER_LINE))
    if isinstance(store_under_test, Postgres):
        store_under_test.put(lines)
    else:
        put(store, lines, session)
    return store, len(b"".join(lines))


def put(store, lines, session):
    """Put these lines in the place of a session's own."""
    if isinstance(store, SQLiteStore):
        with store._database.write_transaction() as connection:
            row = sqlite_database.select_row(connection, session.session_id)
            connection.execute("DELETE FROM lines")
            for number, line in enumerate(lines):
                connection.execute("INSERT INTO lines VALUES (?, ?, ?)", (row.key, number, line))
            size = len(b"".join(lines))
            connection.execute("UPDATE sessions SET size = ?", [size])
    elif folder := store.folder(session.session_id):
        Path(folder, "history.jsonl").write_bytes(b"".join(lines))
    else:
        store._sessions[session.session_id].history[:] = b"".join(lines)


async def test_the_last_page_of_a_hundred_thousand_messages_is_read_alone(long, monkeypatch):
    store, size = long
    read = []

    def counted(blocks, *arguments, **options):
        return page_of(
            (read.append(len(block)) or block for block in blocks), *arguments, **options
        )

    page_of = page_module.read_page
    for module in ("session_folder", "sqlite_store", "postgres_writer", "store"):
        monkeypatch.setattr(f"greenroom.session.{module}.read_page", counted)
    page = await read_last("long", 50, store=store)
    assert page.messages == (PERSON.message,) * 50
    assert page.lines == (MANY // PER_LINE,) * 50
    assert not page.is_whole
    assert size > 20_000_000
    assert sum(read) <= 160_000


async def test_of_a_file_no_more_is_read_than_its_blocks(files, monkeypatch, real_blocks):
    session = AgentSession.new("coder", session_id="long", store=files)
    session.add_message(PERSON.message)
    await session.save()
    lines = lined([[PERSON] * PER_LINE] * (MANY // PER_LINE))
    put(files, lines, session)
    read, real = [], os.pread

    def counted(fd, size, at):
        read.append(real(fd, size, at))
        return read[-1]

    monkeypatch.setattr(os, "pread", counted)
    await read_last("long", 50, store=files)
    described = len(session.description.record.encode())
    assert sum(map(len, read)) <= 2 * 64 * 1024 + described + 1000


async def test_a_file_that_shrinks_meanwhile_is_an_error_and_not_half_a_page(files, monkeypatch):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("x" * 1000))
    await session.save()
    path = Path(files.folder("mine"), "history.jsonl")
    real = durable.read_between

    def shrinking(fd, start, stop):
        os.truncate(path, 500)
        return real(fd, start, stop)

    monkeypatch.setattr(durable, "read_between", shrinking)
    with pytest.raises(SessionStorageError, match="changed by another"):
        await read_last("mine", 1, store=files)


async def test_a_file_of_four_gigabytes_is_refused(files):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.add_message(Message.user("x"))
    await session.save()
    os.truncate(Path(files.folder("mine"), "history.jsonl"), 1 << 32)
    with pytest.raises(SessionStorageError, match="File too large"):
        await read_last("mine", 1, store=files)


async def test_two_damaged_lines_at_the_end_of_a_database_are_no_torn_end(tmp_path):
    """Each of its lines was synced, so a crash leaves no such thing."""
    store = SQLiteStore(tmp_path / "sessions.db")
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("x"))
    await session.save()
    lines = lined(SAID, loose=True)
    put(store, [*lines[:-2], lines[-2].replace(b"4", b"9"), lines[-1]], session)
    with pytest.raises(SessionCorruptError, match="others follow it") as caught:
        await read_last("mine", 1, store=store)
    assert "sessions repair mine --sessions" in caught.value.hint
    with pytest.raises(SessionCorruptError, match="others follow it"):
        await AgentSession.load("mine", store=store)
