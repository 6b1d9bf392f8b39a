"""Tools in processes of their own: what crosses, what is killed, and what a pool keeps."""

import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from msgspec.structs import force_setattr

from greenroom.core import AgentContext, ResourceMap, ToolError, ToolStatus, Workspace
from greenroom.sandbox import process_tree as launcher
from greenroom.tools import ToolRegistry, WorkerPool
from greenroom.tools.isolation import worker_pool
from tests.tools import crossing, killable
from tests.tools.batch import run_batch

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")

TOOLS = ToolRegistry(
    value
    for name, value in (*vars(killable).items(), *vars(crossing).items())
    if hasattr(value, "isolation") and name != "hidden"
)


class Recorder:
    """A context, and what the calls in it told."""

    def __init__(self, pool):
        self.shown, self.abandoned = [], []
        self.news = trio.Event()
        self.context = AgentContext(
            session_id="s-1",
            agent_type="test",
            current_tool_use_id="t-1",
            on_progress=self._show,
            on_abandon=self.abandoned.append,
        )
        self.context.resources.insert(pool)

    def _show(self, _, text):
        self.shown.append(text)
        self.news.set()

    @property
    def text(self):
        return "".join(self.shown)

    async def call(self, name, **arguments):
        with trio.fail_after(60):
            return await TOOLS.execute(name, arguments, self.context)


@pytest.fixture
async def pool():
    made = WorkerPool()
    yield made
    await made.aclose()


@pytest.fixture
def recorder(pool):
    return Recorder(pool)


@pytest.fixture(scope="module")
def warm_pool():
    """One pool for all tests that leave its worker as it was."""
    made = WorkerPool(size=1)
    yield made
    trio.run(made.aclose)


@pytest.fixture
def warm(warm_pool):
    recorder = Recorder(warm_pool)
    yield recorder
    assert warm_pool.statistics().idle == 1
    assert recorder.abandoned == []


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def descendants():
    """The living processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@asynccontextmanager
async def running(recorder, folder, how="sleep"):
    """A call of `block` that has begun; its nursery and the id of its process."""
    async with trio.open_nursery() as nursery:
        recorder.news = trio.Event()
        nursery.start_soon(lambda: recorder.call("block", folder=str(folder), how=how))
        with trio.fail_after(60):
            await recorder.news.wait()
        yield nursery, int(recorder.text.removeprefix("began "))


async def test_it_runs_in_another_process_that_is_kept(recorder, pool):
    first, second = await recorder.call("who"), await recorder.call("who")
    assert first.text == second.text
    pid, group = map(int, first.text.strip("[]").split(","))
    assert pid == group != os.getpid()
    assert (pool.statistics().started, pool.statistics().idle) == (1, 1)


async def test_arguments_cross_in_their_types(warm):
    arguments = {
        "point": {"x": 1},
        "person": {"name": "Zoë", "born": "1819-11-22T00:00:00Z"},
        "colour": "red",
        "size": "m",
        "when": "2026-11-20T12:00:00+01:00",
        "data": "ü",
    }
    result = await warm.call("typed", **arguments)
    assert result.text == (
        "Point(x=1, y=0); Person(name='Zoë', born=datetime.datetime(1819, 11, 22, 0, 0, "
        "tzinfo=TzInfo(0))); <Colour.RED: 'red'>; 'm'; datetime.datetime(2026, 11, 20, 12, 0, "
        "tzinfo=TzInfo(3600)); b'\\xc3\\xbc'; 'ü'"
    )


async def test_results_cross_as_from_a_thread(warm):
    assert (await warm.call("give", what="none")).text == "done"
    assert (await warm.call("give", what="text")).text == "ü🌱\ufffd"
    assert (await warm.call("point", x=2)).text == '{"x":2,"y":0}'
    result = await warm.call("give", what="result")
    assert (result.text, result.facts) == ("text", {"exit_code": 3})


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("object", "give returned object, which can't be written as JSON"),
        ("bad metadata", "give returned a result that can't be used"),
        ("bad content", "give returned a result that can't be used"),
        ("coroutine", "give returned an awaitable, and nothing awaits it in its own process"),
        ("large", "bytes are too many for a tool in its own process; 16777216 is the limit"),
    ],
)
async def test_a_result_that_can_not_cross_is_an_error_and_the_worker_goes_on(warm, what, told):
    result = await warm.call("give", what=what)
    assert result.is_error
    assert told in result.text


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("tool", "no such planet (try another)"),
        ("value", "ValueError: 42 is wrong"),
        ("broken", "BrokenError: (its message can't be read)"),
        ("exit", "SystemExit: 3"),
        ("keyboard", "KeyboardInterrupt: "),
        ("group", "ValueError: one; the other"),
        ("memory", "MemoryError: "),
        ("unicode", "ValueError: \ufffd ü"),
        ("deep", "ValueError: deep down"),
    ],
)
async def test_what_it_raises_is_told_as_from_a_thread(warm, caplog, how, told):
    caplog.set_level(logging.ERROR, "greenroom.tools")
    result = await warm.call("fail", how=how)
    assert (result.status, result.text) == (ToolStatus.ERROR, told)
    if how == "tool":
        assert caplog.messages == []
    elif how != "deep":
        assert "crossing.py" in caplog.text


async def test_the_context_crosses_without_what_lives_here(warm):
    warm.context.workspace = Workspace("/srv", "/srv/sub")
    warm.context.spill_folder = "/spill"
    warm.context.set_metadata("a", [1])
    result = await warm.call("identity")
    here = crossing.identity.run_here({}, warm.context)
    assert result.text == here.text


@pytest.mark.parametrize("what", ["get", "insert", "len", "shared"])
async def test_resources_are_not_there_and_say_so(warm, what):
    result = await warm.call("use", what=what)
    assert result.text.startswith("context.resources was used in a tool's own process")


async def test_a_clean_up_scope_is_refused(warm):
    result = await warm.call("use", what="cleanup")
    assert result.text.startswith("context.cleanup was called in a tool's own process")


async def test_that_no_rules_are_known_there_is_said(warm):
    result = await warm.call("use", what="screen")
    assert result.text.startswith("context.screen_reads was called in a tool's own process")


async def test_changes_of_the_metadata_come_back(warm):
    for key in ("notes", "old", "kept"):
        warm.context.set_metadata(key, [])
    warm.context.set_metadata("elsewhere", 0)
    assert (await warm.call("remember")).text == "kept []"
    assert warm.context.metadata == {
        "notes": ["more"],
        "kept": [],
        "elsewhere": 0,
        "new": [1, {"ü": None}],
    }


async def test_changes_of_the_metadata_come_back_with_an_error(warm):
    assert (await warm.call("remember_and_fail")).is_error
    assert warm.context.metadata == {"new": 1}


async def test_metadata_that_are_no_json_are_an_error(warm):
    result = await warm.call("remember_no_json")
    assert "can't be written as JSON" in result.text
    assert warm.context.metadata == {}


async def test_what_it_prints_and_reports_is_shown(warm):
    assert (await warm.call("talk")).text == "done"
    assert "told 🌱" in warm.shown
    printed = warm.text.replace("told 🌱", "")
    assert printed == (
        "printed 🌱\nprinted as an error\nsaid by a child\nraw \ufffd\ufffd no newline"
    )


async def test_what_one_call_prints_is_not_shown_in_the_next(warm):
    await warm.call("talk")
    warm.shown.clear()
    await warm.call("who")
    assert warm.shown == []


async def test_a_flood_is_shown_up_to_a_limit(warm):
    assert (await warm.call("flood", characters=2_000_000)).text == "done"
    assert warm.text.endswith("\n… the rest of the output is not shown live …\n")
    assert len(warm.text) < 1_000_100


async def test_what_it_abandons_is_reported(recorder):
    await recorder.call("abandon")
    assert recorder.abandoned == ["a job elsewhere"]


async def test_folder_and_module_path_are_ours_at_each_call(warm, tmp_path, monkeypatch):
    await warm.call("who")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/somewhere")
    result = await warm.call("where")
    assert result.text.startswith(f'["{tmp_path}",["/somewhere",')


async def test_a_folder_that_is_gone_does_not_matter(warm, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert not (await warm.call("who")).is_error


async def test_another_tool_of_the_same_function_and_one_in_a_class_are_found(warm):
    assert (await warm.call("double", number=4)).text == "8"
    tools = ToolRegistry([crossing.Holder.inside])
    result = await tools.execute("inside", {}, warm.context)
    assert result.text == "from a class"


async def test_a_function_whose_name_another_one_has_taken_is_refused(warm):
    tools = ToolRegistry([crossing.hidden])
    result = await tools.execute("shadowed", {}, warm.context)
    assert "crossing.shadowed is not the function of <tool shadowed>" in result.text


@pytest.mark.every(3)
@pytest.mark.parametrize("how", ["sleep", "busy", "stubborn", "deaf", "setsid"])
async def test_a_cancel_kills_it_and_all_that_it_started(recorder, pool, tmp_path, how):
    before = descendants()
    async with running(recorder, tmp_path, how) as (nursery, pid):
        assert is_alive(pid)
        nursery.cancel_scope.cancel()
    assert not is_alive(pid)
    assert descendants() == before
    # Its `finally` blocks have run, unless it would not hear.
    left = [] if how == "stubborn" else ["tidied"]
    assert [entry.name for entry in tmp_path.iterdir() if "scratch" not in entry.name] == left
    assert recorder.abandoned == []
    assert (pool.statistics().idle, pool.statistics().ended) == (0, 1)
    assert not (await recorder.call("who")).is_error


async def test_a_call_is_told_to_end_also_after_one_that_held_signals_off(recorder, tmp_path):
    before = await recorder.call("hold_signals_off")
    async with running(recorder, tmp_path) as (nursery, pid):
        assert before.text == str(pid)
        nursery.cancel_scope.cancel()
    assert [entry.name for entry in tmp_path.iterdir()] == ["tidied"]


async def test_a_time_out_kills_it(recorder, tmp_path):
    before = descendants()
    slow = ToolRegistry()
    registered = slow.register(killable.block)
    force_setattr(registered, "timeout", 0.5)
    result = await slow.execute("block", {"folder": str(tmp_path)}, recorder.context)
    assert result.status is ToolStatus.TIMEOUT
    assert [entry.name for entry in tmp_path.iterdir()] in ([], ["tidied"])
    assert descendants() == before


async def test_a_cancel_that_comes_at_once_starts_nothing(recorder, pool):
    with trio.CancelScope() as scope:
        scope.cancel()
        await recorder.call("who")
    assert pool.statistics().started == 0


async def test_a_cancel_while_the_worker_starts_kills_it(recorder, pool):
    before = descendants()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.call, "who")
        with trio.fail_after(60):
            while not pool.statistics().started:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert descendants() == before
    assert pool.statistics().ended == 1


async def test_a_cancel_while_waiting_for_a_worker_leaves_the_others_alone(tmp_path):
    pool = WorkerPool(size=1)
    recorder = Recorder(pool)
    async with running(recorder, tmp_path) as (nursery, pid):
        with trio.CancelScope() as waiting:
            async with trio.open_nursery() as inner:
                inner.start_soon(recorder.call, "who")
                while pool.statistics().waiting == 0:
                    await trio.lowlevel.checkpoint()
                waiting.cancel()
        assert is_alive(pid)
        assert pool.statistics().waiting == 0
        nursery.cancel_scope.cancel()
    await pool.aclose()


async def test_a_result_that_has_come_is_not_lost_to_a_cancel(recorder, pool, monkeypatch):
    converse = worker_pool.WorkerProcess._converse

    async def and_cancel(self, *arguments):
        ended = await converse(self, *arguments)
        scope.cancel()
        return ended

    monkeypatch.setattr(worker_pool.WorkerProcess, "_converse", and_cancel)
    with trio.CancelScope() as scope:
        result = await TOOLS.execute("who", {}, recorder.context)
    assert result.status is ToolStatus.SUCCESS
    assert pool.statistics().idle == 1


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("os._exit", "die ended its process with exit code 3 before it returned"),
        ("segfault", "die crashed: its process was killed by signal 11 (SIGSEGV)"),
        (
            "kill",
            "die crashed: its process was killed by signal 9 (SIGKILL), which is what the system "
            "does when memory runs out",
        ),
        ("close", "die ended its process with exit code 1 before it returned"),
        ("garbage", "die was stopped: it wrote into the connection of its process"),
        ("no frame", "die was stopped: it wrote into the connection of its process"),
        ("guard", "die was stopped: its process was ended from outside"),
    ],
)
async def test_a_process_that_goes_down_is_an_error_and_the_next_call_works(
    recorder, pool, how, told
):
    before = descendants()
    result = await recorder.call("die", how=how)
    # Python ends with 120 where it can't write its last words, as when their file is closed.
    text = result.text.replace("exit code 120", "exit code 1")
    assert (result.status, text) == (ToolStatus.ERROR, told)
    assert descendants() == before
    assert not (await recorder.call("who")).is_error
    assert pool.statistics().ended == 1


async def test_a_crash_goes_to_the_log_with_its_last_words(recorder, caplog):
    caplog.set_level(logging.ERROR, "greenroom.tools")
    await recorder.call("die", how="segfault")
    assert "SIGSEGV" in caplog.text
    assert 'killable.py", line' in caplog.text


@pytest.mark.parametrize("what", ["child", "daemon"])
async def test_what_it_leaves_running_is_gone_when_the_call_returns(recorder, pool, what):
    before = descendants()
    result = await recorder.call("leave", what=what)
    assert not is_alive(int(result.text))
    assert descendants() == before
    assert pool.statistics().idle == 0


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "what", ["thread", "timer", "profiler's timer", "closed stream", "closed file"]
)
async def test_what_would_disturb_the_next_call_costs_the_worker(recorder, pool, what):
    result = await recorder.call("leave", what=what)
    assert result.status is ToolStatus.SUCCESS
    assert not is_alive(int(result.text))
    assert pool.statistics().idle == 0


async def test_a_dead_child_that_nobody_collected_is_nothing_left(warm):
    result = await warm.call("leave", what="zombie")
    assert is_alive(int(result.text))


async def test_a_function_that_forks_and_comes_back_twice_is_heard_once(recorder):
    assert (await recorder.call("fork_and_return")).text == "the parent"
    assert recorder.shown == []
    assert (await recorder.call("fork_and_return")).text == "the parent"


async def test_more_processor_time_than_allowed_stops_it(recorder, pool):
    assert (await recorder.call("burn", seconds=0.1)).text == "burnt"
    result = await recorder.call("burn", seconds=60)
    assert (result.status, result.text) == (
        ToolStatus.ERROR,
        "burn was stopped: it used more than 1 s of CPU time",
    )
    assert pool.statistics().idle == 0


async def test_more_memory_than_allowed_stops_it(recorder, pool):
    assert (await recorder.call("fill", megabytes=16)).text == "16"
    assert (await recorder.call("fill", megabytes=512, catch=True)).text == "did without"
    assert pool.statistics().idle == 1
    result = await recorder.call("fill", megabytes=512)
    assert result.text == "fill was stopped: it used more than 64 MB of memory"
    assert pool.statistics().idle == 0


async def test_a_limit_of_one_call_does_not_hold_for_the_next(warm):
    before = (await warm.call("show_limits")).text
    assert "true" in before
    await warm.call("burn", seconds=0)
    await warm.call("fill", megabytes=16)
    assert (await warm.call("show_limits")).text == before


async def test_a_crash_of_a_tool_with_a_memory_limit_names_the_limit(recorder):
    result = await recorder.call("crash_within_limits")
    assert result.text.endswith("(SIGSEGV); its limit is 64 MB of memory")


async def test_what_can_not_be_started_is_told(recorder, pool, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    result = await recorder.call("who")
    assert result.text.startswith("can't start /nowhere/python in .")
    assert pool.statistics().started == 0


@pytest.mark.parametrize("broken", ["raise SystemExit(3)", "import nothing.that.is.there"])
async def test_a_worker_that_does_not_come_up_is_told_and_not_tried_again(
    recorder, pool, monkeypatch, caplog, broken
):
    monkeypatch.setattr(worker_pool, "_PROGRAM", broken)
    result = await recorder.call("who")
    assert result.text == "who was not run: its process could not be started"
    assert ("nothing.that" in caplog.text) == ("nothing.that" in broken)
    assert pool.statistics().started == 1


async def test_a_launcher_that_fails_is_told(recorder, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(launcher, "__file__", str(tmp_path / "missing.py"))
    result = await recorder.call("who")
    assert result.text == "who was not run: its process could not be started"
    assert "missing.py" in caplog.text


async def test_it_has_our_environment_with_what_the_linker_reads(recorder, monkeypatch):
    monkeypatch.setenv("GREENROOM_TEST", "ü")
    monkeypatch.setenv("LD_GREENROOM_TEST", "kept")
    assert (await recorder.call("variable", key="GREENROOM_TEST")).text == "ü"
    assert (await recorder.call("variable", key="LD_GREENROOM_TEST")).text == "kept"


async def test_twenty_calls_share_two_workers():
    pool = WorkerPool(size=2)
    recorder = Recorder(pool)
    calls = [("who", {}, recorder.context)] * 20
    with trio.fail_after(60):
        results = await run_batch(calls, TOOLS, limit=20)
    assert 1 <= len({result.text for result in results}) <= 2
    assert pool.statistics().started <= 2
    assert pool.statistics().busy == 0
    await pool.aclose()


async def test_those_that_wait_are_served_in_turn():
    pool = WorkerPool(size=1)
    recorder, order = Recorder(pool), []

    async def call(number):
        await recorder.call("who")
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(call, number)
            while sum((pool.statistics().busy, pool.statistics().waiting)) <= number:
                await trio.lowlevel.checkpoint()
    assert order == [0, 1, 2, 3]
    await pool.aclose()


async def test_a_worker_that_dies_while_idle_is_replaced(recorder, pool):
    first = (await recorder.call("who")).text
    os.kill(int(first.strip("[]").split(",")[0]), signal.SIGKILL)
    second = await recorder.call("who")
    assert not second.is_error
    assert second.text != first
    assert pool.statistics().started == 2


async def test_a_worker_is_replaced_after_many_calls(recorder, pool, monkeypatch):
    monkeypatch.setattr(worker_pool, "_MAX_CALLS", 2)
    texts = [(await recorder.call("who")).text for _ in range(3)]
    assert texts[0] == texts[1] != texts[2]


async def test_calls_that_are_cut_off_at_any_moment_leave_no_process_and_no_open_file():
    processes, files = descendants(), set(os.listdir("/proc/self/fd"))
    pool = WorkerPool(size=2)
    recorder = Recorder(pool)

    async def cut_off(checkpoints):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.call, "talk")
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for checkpoints in (0, 1, 2, 3, 5, 8, 20, 100, 500, 1000, 2000, 4000, 8000):
                nursery.start_soon(cut_off, checkpoints)
    found = pool.statistics()
    assert (found.busy, found.waiting, found.idle) == (0, 0, found.started - found.ended)
    assert len(descendants() - processes) == 3 * found.idle
    assert not (await recorder.call("who")).is_error
    await pool.aclose()
    assert descendants() == processes
    assert set(os.listdir("/proc/self/fd")) <= files


async def test_closing_ends_the_idle_and_the_busy(recorder, pool, tmp_path):
    before = descendants()
    await run_batch([("who", {}, recorder.context)] * 2, TOOLS)
    results = []

    async def block():
        results.append(await recorder.call("block", folder=str(tmp_path)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(block)
        with trio.fail_after(60):
            while "began" not in recorder.text:
                await recorder.news.wait()
                recorder.news = trio.Event()
        await pool.aclose()
        assert descendants() == before
    told = "block was stopped: the pool of its process is closed"
    assert [result.text for result in results] == [told]
    assert (await recorder.call("who")).text.endswith("the pool of its process is closed")


async def test_a_call_that_ends_while_the_pool_is_closed_keeps_its_result_and_no_worker(
    recorder, pool, monkeypatch
):
    before = descendants()
    converse = worker_pool.WorkerProcess._converse

    async def and_close(self, *arguments):
        ended = await converse(self, *arguments)
        nursery.start_soon(pool.aclose)
        return ended

    monkeypatch.setattr(worker_pool.WorkerProcess, "_converse", and_close)
    async with trio.open_nursery() as nursery:
        result = await recorder.call("who")
    assert result.status is ToolStatus.SUCCESS
    assert pool.statistics().idle == 0
    assert descendants() == before


async def test_closing_is_not_stopped_by_a_cancel(recorder, pool):
    before = descendants()
    await recorder.call("who")
    with trio.CancelScope() as scope:
        scope.cancel()
        await pool.aclose()
    assert descendants() == before


async def test_without_a_runtime_the_worker_is_gone_when_the_call_returns():
    context = AgentContext(session_id="s-1", agent_type="test")
    result = await TOOLS.execute("who", {}, context)
    assert not is_alive(int(result.text.strip("[]").split(",")[0]))
    assert not context.resources.contains(WorkerPool)


async def test_the_first_call_puts_a_pool_among_what_agents_share():
    shared = ResourceMap()
    contexts = [
        AgentContext(session_id="s-1", agent_type="test", resources=ResourceMap(shared=shared))
        for _ in range(2)
    ]
    texts = [(await TOOLS.execute("who", {}, context)).text for context in contexts]
    assert texts[0] == texts[1]
    pool = shared.get(WorkerPool)
    assert pool.statistics().idle == 1
    await pool.aclose()


def test_a_pool_of_nothing_is_refused():
    with pytest.raises(ToolError, match="a pool of 0 workers runs nothing"):
        WorkerPool(size=0)
