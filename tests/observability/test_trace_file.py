"""Traces in files: complete, bounded, private, and in nobody's way."""

import builtins
import os
import stat
import threading

import pytest
import trio

from greenroom import Agent, AgentRuntime, ConfigurationError, FileStore, InMemoryStore
from greenroom.core import SessionNotFoundError
from greenroom.observability import Span, TraceFile, Tracer, read_trace
from greenroom.observability.line_files import BackgroundWriter, LineFile
from greenroom.observability.trace_file import read_trace_file
from greenroom.testing import ScriptedProvider, call


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def make_agent():
    inner = Agent(ScriptedProvider([call("fetch", page="b")], "found"), name="Sub", tools=[fetch])
    calls = [call("fetch", page="a"), call("ask", prompt="Find b.")]
    ask = inner.as_tool("ask", description="Ask.")
    return Agent(ScriptedProvider(calls, "done"), name="Ann", tools=[fetch, ask])


async def test_what_is_read_is_what_was_traced(tmp_path, kept):
    store = FileStore(tmp_path)
    async with TraceFile() as file:
        tracer = Tracer(file, kept, content="redacted")
        async with AgentRuntime(store, instruments=[tracer]) as runtime:
            session = (await make_agent().run("Go.", runtime=runtime)).session.session_id
    trace = await read_trace(session, store=store)
    assert list(trace.spans) == sorted(kept.spans, key=lambda each: each.start)
    alone = await read_trace(session, store=store, tree=False)
    assert [each.session_id for each in alone.spans] == [session] * len(alone.spans)
    assert [depth for depth, _ in trace.walk()] == [0, 1, 1, 1, 2, 3, 3, 3, 1]
    assert len(trace.waterfall(80).splitlines()) == len(trace.spans)
    assert all(len(line) <= 80 for line in trace.waterfall(80).splitlines())
    assert "invoke_agent Sub" in trace.to_html()


async def test_the_file_is_its_users_alone_and_grows_with_the_conversation(tmp_path):
    store = FileStore(tmp_path)
    steps = [[call("fetch", page=f"page {at} of the book")] for at in range(30)]
    agent = Agent(ScriptedProvider(*steps, "done"), tools=[fetch])
    async with TraceFile() as file:
        async with AgentRuntime(store, instruments=[Tracer(file, content="full")]) as runtime:
            session = (await agent.run("Go.", runtime=runtime)).session.session_id
    path = os.path.join(store.folder(session), "trace.jsonl")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    text = await trio.Path(path).read_text()
    for at in range(30):  # the reply, as it went back, and its call at both ends
        assert text.count(f'"page {at} of the book"') <= 4
    spans, _ = read_trace_file(store.folder(session))
    chats = [each for each in spans if each.kind == "model"]
    assert len(chats[-1].attributes["gen_ai.input.messages"]) == 2 * len(chats) - 1


async def test_the_loop_opens_no_file(tmp_path, monkeypatch):
    opened, loop = [], threading.get_ident()
    plain_open, os_open = builtins.open, os.open

    def note(function):
        def opening(path, *args, **named):
            if threading.get_ident() == loop and str(path).startswith(str(tmp_path)):
                opened.append(path)
            return function(path, *args, **named)

        return opening

    async with TraceFile(tmp_path) as file:
        monkeypatch.setattr(builtins, "open", note(plain_open))
        monkeypatch.setattr(os, "open", note(os_open))
        async with AgentRuntime(InMemoryStore(), instruments=[Tracer(file)]) as runtime:
            await make_agent().run("Go.", runtime=runtime)
        monkeypatch.undo()
    assert opened == []
    assert len(list(tmp_path.glob("*/trace.jsonl"))) == 2


async def test_a_session_without_a_trace_is_an_error():
    with pytest.raises(SessionNotFoundError, match="there is no trace of s-1"):
        await read_trace("s-1", store=InMemoryStore())


def test_a_sink_that_is_not_open_says_so():
    span = Span("turn", "invoke_agent Ann", "s-1", (), "t", "1")
    with pytest.raises(ConfigurationError, match="TraceFile is not open"):
        TraceFile("/nowhere").begin(span, None)


def test_what_a_kill_has_torn_is_left_out_and_the_next_line_is_whole(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"type":"begin","sp')
    file = LineFile(str(path), 10, 1_000)
    file.write({"type": "lost", "lines": 3})
    file.close()
    assert read_trace_file(tmp_path) == ([], 3)


def test_old_lines_go_and_that_is_said(tmp_path):
    file = LineFile(str(tmp_path / "trace.jsonl"), keep=10, max_bytes=1 << 20)
    gone = 0
    for _ in range(23):
        if file.is_full:
            gone += file.rotate()
        file.write({"type": "other"})
    file.close()
    lines = [path.read_text().count("\n") for path in tmp_path.glob("trace*.jsonl")]
    assert (gone, sum(lines)) == (15, 8)


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("")
    (tmp_path / "trace.jsonl").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        LineFile(str(tmp_path / "trace.jsonl"), 10, 1_000)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_loses_lines_and_counts_them(tmp_path, monkeypatch):
    file = LineFile(str(tmp_path / "trace.jsonl"), 100, 1 << 20)
    whole = file._fd
    file._fd = os.open("/dev/full", os.O_WRONLY)
    file.write({"type": "a"})
    file.write({"type": "b"})
    assert file.lost == 2
    os.close(file._fd)
    file._fd = whole
    file.write({"type": "c"})
    file.close()
    first, second = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert '"lines":2' in first
    assert second == '{"type":"c"}'


async def test_what_waits_is_written_even_if_the_block_is_cancelled():
    done = []
    with trio.CancelScope() as scope:
        async with BackgroundWriter("Example") as writer:
            for at in range(100):
                writer.put(lambda at=at: done.append(at))
            scope.cancel()
            await trio.sleep_forever()
    assert done == list(range(100))


async def test_a_writer_drops_what_finds_no_room_and_survives_what_fails(caplog):
    done = []
    async with BackgroundWriter("Example") as writer:
        writer.put(lambda: 1 // 0)
        took = [writer.put(lambda at=at: done.append(at)) for at in range(10_010)]
    assert (sum(took), writer.dropped) == (9_999, 11)
    assert done == list(range(9_999))
    assert "could not write" in caplog.text
