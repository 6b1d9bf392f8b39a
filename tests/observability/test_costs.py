"""What watching costs: calls in the loop's thread, and no file that it opens."""

import builtins
import io
import logging
import os
import threading

import trio

from benchmarks import spans
from greenroom import Agent, AgentRuntime, FileStore
from greenroom.observability import (
    JsonLog,
    Recorder,
    TraceFile,
    Tracer,
    configure_logging,
    read_trace,
)
from greenroom.testing import ScriptedProvider, call

MOST = {"files and metrics": 170, "OpenTelemetry": 600}


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def test_a_span_takes_few_function_calls_in_the_loop():
    bounds = spans.CALLS_OF_A_SPAN
    counted = spans.measure_spans()
    assert counted.keys() == bounds.keys()
    for (kind, content), count in counted.items():
        assert 0 < count <= bounds[kind, content]
        assert content != "none" or bounds[kind, content] <= MOST[kind]


def test_nothing_of_it_runs_where_nothing_watches():
    off = trio.run(spans.watched, "", "", "")
    assert not [path for path in off if "observability" in path or path.endswith("instrument.py")]
    on = trio.run(spans.watched, "OpenTelemetry", "none", "")
    assert [path for path in on if path.endswith("instrument.py")]


class Opened:
    """Files that were opened, by the thread that did."""

    def __init__(self, monkeypatch):
        self.by_thread = {}
        for owner, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "makedirs")):
            monkeypatch.setattr(owner, name, self._watch(getattr(owner, name)))

    def _watch(self, function):
        def watched(path, *args, **named):
            paths = self.by_thread.setdefault(threading.get_ident(), [])
            paths.append(str(path))
            return function(path, *args, **named)

        return watched

    def named(self, *endings, thread):
        return [each for each in self.by_thread.get(thread, ()) if each.endswith(endings)]


async def test_no_file_is_opened_in_the_loop(tmp_path, monkeypatch):
    opened, here = Opened(monkeypatch), threading.get_ident()
    store = FileStore(tmp_path / "sessions")
    handler = configure_logging(tmp_path / "run.log")
    agent = Agent(ScriptedProvider([call("fetch", page="a")], "done"), tools=[fetch])
    try:
        async with TraceFile() as file, Recorder() as recorder:
            watching = [Tracer(file, JsonLog()), recorder]
            async with AgentRuntime(store, instruments=watching) as runtime:
                result = await agent.run("Go.", runtime=runtime)
    finally:
        logging.getLogger("greenroom").removeHandler(handler)
        logging.getLogger("greenroom").setLevel(logging.NOTSET)
        handler.close()
    endings = "trace.jsonl", "debugger", "_model_request.json", "run.log"
    written = [
        each for thread in opened.by_thread for each in opened.named(*endings, thread=thread)
    ]
    assert {each.rpartition("/")[2][-9:] for each in written} == {
        "ace.jsonl",
        "debugger",
        "uest.json",
        "run.log",
    }
    assert opened.named(*endings, thread=here) == []
    assert "invoke_agent" in (tmp_path / "run.log").read_text()
    assert (await read_trace(result.session.session_id, store=store)).spans


def test_a_log_that_can_t_keep_up_drops_lines_and_says_how_many(tmp_path):
    handler = configure_logging(tmp_path / "run.log")
    busy, go_on = threading.Event(), threading.Event()

    class Waits(logging.Filter):
        def filter(self, record):
            busy.set()
            return go_on.wait(30)

    handler._file.addFilter(Waits())
    logger = logging.getLogger("greenroom")
    try:
        logger.info("first")
        assert busy.wait(30)
        for at in range(10_003):
            logger.info("%s", at)
        go_on.set()
        handler._listener.stop()
        handler._listener.start()
        logger.info("last")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        handler.close()
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert len(lines) == 10_003
    assert '"lines":3' in lines[-2]
    assert '"message":"last"' in lines[-1]
