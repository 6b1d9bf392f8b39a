"""The audit: nothing runs unwritten, and no change goes unnoticed."""

import errno
import json
import os
import random
import re
import resource
import tracemalloc

import pytest
import trio

from greenroom import Agent, AgentRuntime, InMemoryStore
from greenroom.core import AgentContext, Done, TextBlock, ToolRun, UserInput
from greenroom.observability import Audit, audit, verify_audit
from greenroom.observability._internal import AuditError
from greenroom.observability.audit import AuditReport
from greenroom.testing import ScriptedProvider, call
from tests.warm_python import start_warm

MUTATIONS = int(os.environ.get("GREENROOM_AUDIT", "400"))
KEY = b"the key"
ran = []


def fetch(page: str) -> str:
    """Fetch a page."""
    ran.append(page)
    return f"{page}!"


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


async def write(path, calls=3, key=KEY):
    steps = [[call("fetch", page=str(at))] for at in range(calls)]
    agent = Agent(ScriptedProvider(*steps, "done"), name="Ann", tools=[fetch])
    async with Audit(path, key=key) as audit:
        async with AgentRuntime(InMemoryStore(), gates=[audit]) as runtime:
            result = await agent.run("Go.", runtime=runtime)
    return audit.head, result


async def test_every_call_that_ran_is_there_by_its_hash_alone(tmp_path):
    path = tmp_path / "audit.jsonl"
    head, _ = await write(path)
    text = path.read_text()
    assert len(ran) == text.count('"event":"ran"') == 3
    assert text.count('"event":"ended"') == 3
    assert '"who":"rules"' in text
    assert '"page"' not in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert verify_audit(path, KEY, head) == AuditReport(True, text.count("\n"), head)


async def test_another_process_goes_on_where_the_last_one_ended(tmp_path):
    path = tmp_path / "audit.jsonl"
    first, _ = await write(path)
    second, _ = await write(path)
    report = verify_audit(path, KEY, first)
    assert report.ok
    assert report.head == second != first


async def test_each_change_is_noticed(tmp_path):
    path, changed = tmp_path / "audit.jsonl", tmp_path / "changed.jsonl"
    head, _ = await write(path, calls=8)
    data = path.read_bytes()
    for seed in range(MUTATIONS):
        mutant = mutate(data, random.Random(seed))
        if mutant == data:
            continue
        changed.write_bytes(mutant)
        report = verify_audit(changed, KEY, head)
        assert not report.ok, (seed, mutant)
        assert report.fault


def mutate(data, chance):
    lines = data.splitlines(keepends=True)
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            del lines[at:]
        case 4:
            lines.insert(at, b'{"seq":1,"event":"ran"}\n')
        case 5:
            place = chance.randrange(len(data))
            return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        case 6:
            place = chance.randrange(len(data))
            return data[:place] + data[place + 1 :]
        case _:
            return data[: chance.randrange(len(data))]
    return b"".join(lines)


async def test_without_the_key_nobody_writes_what_fits(tmp_path):
    path = tmp_path / "audit.jsonl"
    await write(path, key=b"another")
    assert verify_audit(path, KEY).fault == "line 1 was changed"


async def test_a_torn_line_is_said_to_be_torn_and_noted_by_the_next_audit(tmp_path):
    path = tmp_path / "audit.jsonl"
    head, _ = await write(path)
    with path.open("ab") as file:
        file.write(b'{"seq":99,"eve')
    report = verify_audit(path, KEY, head)
    assert (report.ok, report.torn, report.fault) == (False, True, "the last line is torn")
    await write(path)
    assert verify_audit(path, KEY, head).ok
    assert re.search(rb'\n\{"seq":\d+,"event":"torn"', path.read_bytes())


@pytest.mark.parametrize("room", [0, 1, 20])
async def test_a_torn_end_that_finds_no_room_for_its_note_is_noted_by_the_audit_after(
    tmp_path, monkeypatch, room
):
    path = tmp_path / "audit.jsonl"
    head, _ = await write(path)
    with path.open("ab") as file:
        file.write(b'{"seq":99,"eve')
    size, write_some, truncate = path.stat().st_size, os.write, os.ftruncate

    def fill_up(file, data):
        left = size + room - os.fstat(file).st_size
        if left <= 0:
            fail_to_write()
        return write_some(file, data[:left])

    monkeypatch.setattr(os, "write", fill_up)
    for cuts in (True, False):  # a process that is killed there leaves what it has written
        monkeypatch.setattr(os, "ftruncate", truncate if cuts else lambda *_: None)
        with pytest.raises(AuditError, match="can't be written: No space left on device"):
            await Audit(path, key=KEY).__aenter__()
    monkeypatch.undo()
    await write(path)
    assert verify_audit(path, KEY, head).ok


async def test_lines_that_can_t_be_read_are_not_kept_however_many_there_are(tmp_path):
    path = tmp_path / "other.log"
    path.write_bytes(b"a line of another program\n" * 50_000)
    tracemalloc.start()
    try:
        report = verify_audit(path)
        async with Audit(path, key=KEY):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.fault == "the last line can't be read"
    assert peak < path.stat().st_size / 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
async def test_on_a_full_disk_nothing_runs_and_the_model_is_told_why(tmp_path):
    model = ScriptedProvider([call("fetch", page="a")], "done")
    async with Audit(tmp_path / "audit.jsonl") as audit:
        whole, audit._file = audit._file, os.open("/dev/full", os.O_WRONLY)
        async with AgentRuntime(InMemoryStore(), gates=[audit]) as runtime:
            await Agent(model, tools=[fetch]).run("Go.", runtime=runtime)
        os.close(audit._file)
        audit._file = whole
    assert ran == []
    (result,) = model.requests[1].messages[-1].tool_results
    assert "the audit can't be written: No space left on device" in result.text


def make_context():
    return AgentContext(session_id="s-1", agent_type="ann", name="Ann")


async def note_turns(audit, agent, count):
    """Note these turns, with a chance for a thread to write between them."""
    for _ in range(count):
        audit.before_turn(agent, UserInput((TextBlock("Go."),)))
        audit.after_turn(agent, Done("i-1"))
        while audit._writing is not None:
            await audit._writing.wait()


@pytest.fixture
def bounds(monkeypatch):
    monkeypatch.setattr(audit, "MAX_WAITING", 100)
    monkeypatch.setattr(audit, "SOON", 10)


def fail_to_write(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("bounds")
async def test_many_turns_without_a_call_are_written_and_the_next_call_runs(tmp_path):
    path, agent = tmp_path / "audit.jsonl", make_context()
    async with Audit(path) as opened:
        await note_turns(opened, agent, 70)
        assert len(opened._waiting) < 20
        assert await opened.before_run(agent, ToolRun("t-1", "fetch", {})) is None
    report = verify_audit(path, head=opened.head)
    assert (report.ok, report.lines) == (True, 141)


@pytest.mark.usefixtures("bounds")
async def test_lines_for_which_there_was_no_room_are_counted_in_the_audit(tmp_path, monkeypatch):
    path, agent = tmp_path / "audit.jsonl", make_context()
    async with Audit(path) as opened:
        with monkeypatch.context() as full:
            full.setattr(os, "fsync", fail_to_write)
            await note_turns(opened, agent, 60)
            refused = await opened.before_run(agent, ToolRun("t-1", "fetch", {}))
            assert refused == "the audit can't be written: No space left on device"
        assert await opened.before_run(agent, ToolRun("t-2", "fetch", {})) is None
    report = verify_audit(path, head=opened.head)
    assert (report.ok, report.lines) == (True, 102)
    lines = [json.loads(each) for each in path.read_text().splitlines()[-2:]]
    assert [(each["event"], each.get("lines")) for each in lines] == [
        ("dropped", 21),
        ("ran", None),
    ]


@pytest.mark.usefixtures("bounds")
async def test_lines_for_which_there_is_no_thread_are_written_with_the_next_call(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise RuntimeError("can't start new thread")

    path, agent = tmp_path / "audit.jsonl", make_context()
    async with Audit(path) as opened:
        with monkeypatch.context() as busy:
            busy.setattr(trio.lowlevel, "start_thread_soon", fail)
            with pytest.raises(RuntimeError, match="can't start"):
                await note_turns(opened, agent, 10)
        assert await opened.before_run(agent, ToolRun("t-1", "fetch", {})) is None
    report = verify_audit(path, head=opened.head)
    assert (report.ok, report.lines) == (True, 11)


async def test_what_could_not_be_written_at_the_end_is_logged(tmp_path, monkeypatch, caplog):
    async with Audit(tmp_path / "audit.jsonl") as audit:
        audit.before_turn(make_context(), UserInput((TextBlock("Go."),)))
        monkeypatch.setattr(os, "fsync", fail_to_write)
    assert "1 lines of the audit could not be written: No space left on device" in caplog.text


async def test_an_audit_that_is_not_open_refuses():
    model = ScriptedProvider([call("fetch", page="a")], "done")
    async with AgentRuntime(InMemoryStore(), gates=[Audit("/nowhere")]) as runtime:
        await Agent(model, tools=[fetch]).run("Go.", runtime=runtime)
    assert ran == []
    assert "the audit is not open" in model.requests[1].messages[-1].tool_results[0].text


async def test_one_process_writes_and_no_link_is_followed(tmp_path):
    path = tmp_path / "audit.jsonl"
    async with Audit(path):
        with pytest.raises(AuditError, match="another process writes"):
            await Audit(path).__aenter__()
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(AuditError, match="can't be opened"):
        await Audit(tmp_path / "link").__aenter__()


PROGRAM = """
import sys, trio
from greenroom import Agent, AgentRuntime, InMemoryStore
from greenroom.observability import Audit
from greenroom.testing import ScriptedProvider, call
def fetch(page: str) -> str:
    "Fetch."
    print(page, flush=True)
    return page
async def main():
    steps = [[call("fetch", page=str(at))] for at in range(1000)]
    agent = Agent(ScriptedProvider(*steps), tools=[fetch])
    async with Audit(sys.argv[1]) as audit:
        async with AgentRuntime(InMemoryStore(), gates=[audit]) as runtime:
            await agent.run("Go.", runtime=runtime)
trio.run(main)
"""


async def test_an_end_that_is_cut_anywhere_within_its_line_is_said_to_be_torn(tmp_path):
    path = tmp_path / "audit.jsonl"
    await write(path)
    data = path.read_bytes()
    lines = data.count(b"\n")
    last = data.rindex(b"\n", 0, -1) + 1
    for end in range(last + 1, len(data)):
        path.write_bytes(data[:end])
        report = verify_audit(path, KEY)
        assert (report.torn, report.lines) == (True, lines - 1)


async def test_a_disk_that_fills_up_in_the_middle_of_a_line_lets_no_further_call_run(tmp_path):
    path = tmp_path / "audit.jsonl"
    steps = [[call("fetch", page=str(at))] for at in range(6)]
    model = ScriptedProvider(*steps, "done")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        async with Audit(path, key=KEY) as audit:
            async with AgentRuntime(InMemoryStore(), gates=[audit]) as runtime:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, limits[1]))  # some lines
                await Agent(model, tools=[fetch]).run("Go.", runtime=runtime)
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    results = [r.text for each in model.requests[-1].messages for r in each.tool_results]
    refused = [each for each in results if "the audit can't be written: No space" in each]
    assert 0 < len(ran) < 6
    assert len(ran) + len(refused) == len(results) >= 3
    assert verify_audit(path, KEY, audit.head).ok


KILLS = int(os.environ.get("GREENROOM_AUDIT_KILLS", "1"))


@pytest.mark.parametrize("calls", [1 + at * 7 % 40 for at in range(KILLS)])
def test_what_ran_before_a_kill_is_on_disk(tmp_path, calls):
    path = tmp_path / "audit.jsonl"
    with start_warm(["-c", PROGRAM, path], tmp_path, text=True) as process:
        done = [process.stdout.readline() for _ in range(calls)]
        process.kill()
        done += process.stdout.readlines()
    assert path.read_bytes().count(b'"event":"ran"') >= len([each for each in done if each.strip()])
    report = verify_audit(path)
    assert report.ok or report.torn


def test_a_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(AuditError, match="can't be read"):
        verify_audit(tmp_path / "none")
