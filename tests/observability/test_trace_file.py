"""Traces in files: complete, bounded, private, and in nobody's way."""

import builtins
import errno
import json
import os
import stat
import threading
from functools import partial

import pytest
import trio
from msgspec.structs import replace

from greenroom import Agent, AgentRuntime, ConfigurationError, FileStore, InMemoryStore
from greenroom.core import SessionNotFoundError
from greenroom.core._internal import freeze, serde
from greenroom.observability import Span, TraceFile, Tracer, line_files, read_trace
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
    with (
        pytest.warns(RuntimeWarning, match="nothing is written: TraceFile is not open"),
        pytest.raises(ConfigurationError, match="TraceFile is not open"),
    ):
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


def test_a_disk_without_room_for_another_file_closes_nothing_of_others(tmp_path, monkeypatch):
    def open_(path, *args):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    file = LineFile(str(tmp_path / "trace.jsonl"), keep=4, max_bytes=1 << 20)
    for at in range(4):
        if file.is_full:
            file.rotate()
        file.write({"at": at})
    others = []
    with monkeypatch.context() as full:
        full.setattr(line_files.os, "open", open_)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                file.rotate()
            others.append(os.dup(0))  # takes the lowest number that is free
    assert [os.fstat(each).st_mode for each in others] == [os.fstat(0).st_mode] * 3
    assert (file.rotate(), file.is_full) == (0, False)
    file.write({"at": "last"})
    file.close()
    for each in others:
        os.close(each)
    (counted, last) = map(json.loads, (tmp_path / "trace.jsonl").read_text().splitlines())
    assert (counted["lines"], last) == (5, {"at": "last"})


def test_the_older_half_is_read_also_where_there_is_no_newer_one(tmp_path):
    file = LineFile(str(tmp_path / "trace.jsonl"), keep=2, max_bytes=1 << 20)
    file.write({"type": "lost", "lines": 3})
    file.rotate()
    file.close()
    (tmp_path / "trace.jsonl").unlink()  # the disk was full, or it is only being made
    assert read_trace_file(tmp_path) == ([], 3)


def test_a_newer_half_that_becomes_the_older_one_meanwhile_is_read_once(tmp_path):
    (tmp_path / "trace.jsonl").write_bytes(serde.encode({"type": "lost", "lines": 3}) + b"\n")
    os.link(tmp_path / "trace.jsonl", tmp_path / "trace.1.jsonl")  # as if renamed in between
    assert read_trace_file(tmp_path) == ([], 3)


def test_lines_that_make_no_sense_are_left_out(tmp_path):
    good = Span("turn", "invoke_agent Ann", "s", (), "t", "1", start=1)
    odd = {"type": "begin", "span": {"attributes": {"gen_ai.system_instructions": {"$value": []}}}}
    lines = [{"type": "value", "number": [], "value": 1}, odd, {"type": "begin", "span": good}]
    text = "".join(serde.encode(each).decode() + "\n" for each in lines)
    (tmp_path / "trace.jsonl").write_text(text + "3\n")
    assert read_trace_file(tmp_path) == ([good], 0)


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


async def keep_spans(file, folder, *spans):
    """Write these spans of the session "s-1", each before the next, and return what is read."""
    for span in spans:
        file.end(span, None)
        written = trio.Event()
        token = trio.lowlevel.current_trio_token()
        file._writer.put(partial(token.run_sync_soon, written.set))
        await written.wait()
    (found,) = folder.iterdir()
    return read_trace_file(found)


def make_span(id_, **attributes):
    return Span("tool", "execute_tool fetch", "s-1", (), "t", id_, attributes=attributes)


async def test_arguments_that_look_like_a_reference_are_read_as_they_were(tmp_path):
    said = [{"role": "user", "parts": []}]
    span = make_span(
        "1",
        **{
            "gen_ai.input.messages": said,
            "gen_ai.tool.call.arguments": {"$value": os.getpid() << 32},
            "greenroom.request.options": [{"$value": 0}],
        },
    )
    async with TraceFile(tmp_path) as file:
        ((read,), _) = await keep_spans(file, tmp_path, span)
    assert read.attributes == span.attributes


async def test_what_a_full_disk_has_lost_is_written_again_for_the_next_span(tmp_path, monkeypatch):
    said = freeze([{"role": "user", "parts": [{"type": "text", "content": "Go."}]}])
    first, second = (make_span(each, **{"gen_ai.input.messages": said}) for each in "12")
    async with TraceFile(tmp_path) as file:
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda *_: 0)
            await keep_spans(file, tmp_path, first)
        spans, missing = await keep_spans(file, tmp_path, second)
    assert spans == [second]
    assert missing == 2


async def test_what_finds_no_room_on_its_way_is_said_in_the_file(tmp_path, monkeypatch):
    async with TraceFile(tmp_path) as file:
        with monkeypatch.context() as busy:
            busy.setattr(line_files, "MAX_WAITING", 0)
            for each in "123":
                file.end(make_span(each), None)
        spans, missing = await keep_spans(file, tmp_path, make_span("4"))
    assert [each.span_id for each in spans] == ["4"]
    assert missing == file.dropped == 3


async def test_of_more_sessions_than_open_files_each_value_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr(line_files, "MAX_OPEN", 2)
    said = [{"role": "user", "parts": []}]
    async with TraceFile(tmp_path) as file:
        for at in range(15):
            span = make_span(str(at), **{"gen_ai.input.messages": said})
            file.end(replace(span, session_id=f"s-{at % 5}"), None)
    folders = list(tmp_path.iterdir())
    assert len(folders) == 5
    for folder in folders:
        assert (folder / "trace.jsonl").read_text().count('"type":"value"') == 1
        spans, missing = read_trace_file(folder)
        assert missing == 0
        assert [each.attributes["gen_ai.input.messages"] for each in spans] == [said] * 3


@pytest.mark.parametrize("gone", ["a/trace.jsonl", "a"])
async def test_a_file_that_was_removed_while_it_was_closed_gets_its_values_again(
    tmp_path, monkeypatch, gone
):
    monkeypatch.setattr(line_files, "MAX_OPEN", 1)
    said = [{"role": "user", "parts": []}]
    span = make_span("1", **{"gen_ai.input.messages": said})
    file = TraceFile(tmp_path)
    for session in ("a", "b"):
        file._write("end", replace(span, session_id=session), None, 0)
    (tmp_path / gone).rename(tmp_path / "gone")
    file._write("end", replace(span, session_id="a"), None, 0)
    file._files.close()
    (found,) = read_trace_file(tmp_path / "a")[0]
    assert found.attributes["gen_ai.input.messages"] == said


async def test_what_is_known_of_files_is_bounded_and_holds_values_of_open_ones_only(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(line_files, "MAX_KNOWN", 10)
    monkeypatch.setattr(line_files, "MAX_OPEN", 3)
    said = [{"role": "user", "parts": []}]
    file = TraceFile(tmp_path)
    for at in range(20):
        span = make_span(str(at), **{"gen_ai.input.messages": said})
        file._write("end", replace(span, session_id=f"s-{at}"), None, 0)
    assert len(file._known) == 13
    assert sum(len(each._seen) for each in file._known.values()) == 3
    file._files.close()
    assert len(file._known) == 0


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
    done, begun, go_on = [], threading.Event(), threading.Event()

    def fail():
        begun.set()
        go_on.wait(30)
        raise ZeroDivisionError

    async with BackgroundWriter("Example") as writer:
        for _ in range(3):
            writer.put(fail)
        await trio.to_thread.run_sync(begun.wait, 30)
        took = [writer.put(lambda at=at: done.append(at)) for at in range(10_008)]
        go_on.set()
    assert (sum(took), writer.dropped) == (9_998, 10)
    assert done == list(range(9_998))
    assert caplog.text.count("could not write") == 1
