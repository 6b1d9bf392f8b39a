"""The calls of one reply: side by side, once each is allowed, in order where effects may touch."""

from contextvars import ContextVar

import pytest
import trio
import trio.testing
from hypothesis import given, settings, strategies as st

from greenroom.core import (
    AgentContext,
    AgentState,
    Opaque,
    PermissionRequest,
    ReadPath,
    ToolEnd,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStart,
    TurnStatus,
    WritePath,
)
from greenroom.core._internal import EndStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import Edit, Read, ToolRegistry, Write, run_python, tool
from greenroom.tools._internal import CallOrder, Reach, RegisteredTool
from tests.agents.loops import simple_loop
from tests.agents.test_tool_calls import FakeBash, Stage
from tests.session.accepted import check_accepted

ALL = [PermissionRule.allow_all()]


async def test_functions_run_side_by_side_unless_they_say_otherwise(autojump_clock):
    @tool
    async def work(number: int) -> int:
        """Work for 0.1 seconds."""
        await trio.sleep(0.1)
        return number

    @tool(concurrent=False)
    async def alone(number: int) -> int:
        """Work for 0.1 seconds."""
        await trio.sleep(0.1)
        return number

    for name, seconds in (("work", 0.1), ("alone", 0.5)):
        calls = [call(name, number=number) for number in range(5)]
        async with Stage([work, alone], Reply(calls), "done", rules=ALL) as stage:
            began = trio.current_time()
            await stage.handle.ask("go")
            assert trio.current_time() - began == seconds
        answers = stage.llm.requests[1].messages[-1].tool_results
        assert [each.text for each in answers] == list("01234")


async def test_a_read_does_not_wait_for_a_question_and_a_touching_one_does(tmp_path):
    (tmp_path / "a.txt").write_text("before")
    calls = [
        call("Bash", command="make"),
        call("Read", file_path="a.txt"),
        call("Write", file_path="b.txt", content="b"),
        call("Read", file_path="b.txt"),
    ]
    rules = [PermissionRule.allow_tool("Read"), PermissionRule.allow_tool("Write")]
    bash = FakeBash()
    tools = [bash, Read(), Write()]
    async with Stage(tools, Reply(calls), "ok", rules=rules, workspace=tmp_path) as stage:
        await stage.handle.send_input("go")
        seen = [await stage.next((PermissionRequest, ToolEnd)) for _ in range(2)]
        request, end = sorted(seen, key=lambda chunk: isinstance(chunk, ToolEnd))
        assert (end.id, "before" in end.result.text) == (calls[1].id, True)
        await trio.testing.wait_all_tasks_blocked()
        assert not (tmp_path / "b.txt").exists()  # the command may read or write it
        assert stage.handle.state == AgentState.waiting_for_permission()
        await stage.handle.respond_permission(request.request_id, "allow")
        ends = [await stage.next(ToolEnd) for _ in range(3)]
    assert [each.id for each in ends] == [calls[0].id, calls[2].id, calls[3].id]
    assert "b" in ends[2].result.text


async def test_an_interrupted_question_keeps_what_was_allowed_and_says_what_did_not_start(tmp_path):
    calls = [
        call("look"),
        call("Bash", command="make"),
        call("Write", file_path="b.txt", content="b"),
    ]
    rules = [PermissionRule.allow_tool("look"), PermissionRule.allow_tool("Write")]

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    tools = [look, FakeBash(), Write()]
    async with Stage(tools, Reply(calls), "ok", rules=rules, workspace=tmp_path) as stage:
        await stage.handle.send_input("go")
        await stage.next(ToolEnd)
        await trio.testing.wait_all_tasks_blocked()
        await stage.handle.interrupt()
        history = await stage.handle.history()
    results = {each.tool_use_id: each.text for m in history for each in m.tool_results}
    assert results[calls[0].id] == "seen"
    assert "the call was not started" in results[calls[1].id]
    assert "the call was not started" in results[calls[2].id]
    check_accepted(history)


async def test_a_call_that_only_reads_does_not_follow_a_command_that_moves(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("above")

    class Move(FakeBash):
        async def execute(self, input, context):
            context.workspace.cwd = tmp_path / "sub"
            return await super().execute(input, context)

    calls = [call("Bash", command="cd sub"), call("Read", file_path="a.txt")]
    tools = [Move(), Read()]
    async with Stage(tools, Reply(calls), "ok", rules=ALL, workspace=tmp_path) as stage:
        await stage.handle.ask("go")
    answers = stage.llm.requests[1].messages[-1].tool_results
    assert "above" in answers[1].text


def test_what_touches_what(tmp_path):
    context = AgentContext(session_id="s-1", agent_type="coder")

    @tool
    async def own() -> None:
        """A function of the program."""

    class Server:
        """A tool of a server."""

        name, description, category, parameters = "remote", "", "network", {"type": "object"}

        def __init__(self, read_only):
            self.read_only = read_only

        def info(self, input):
            return ToolInfo("Ask")

        async def execute(self, input, context):
            return ToolResult.ok("")

    def reach(thing, **given):
        return Reach.of(RegisteredTool.of(thing), given, context)

    a = {"file_path": str(tmp_path / "a")}
    read, write = reach(Read(), **a), reach(Write(), **a, content="")
    edit = reach(Edit(), **a, old_string="x", new_string="y")
    other = reach(Write(), file_path=str(tmp_path / "b"), content="")
    bash, python = reach(FakeBash(), command="make"), reach(run_python(), code="1")
    function, reader, writer = reach(own), reach(Server(True)), reach(Server(False))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    link = reach(Read(), file_path=str(tmp_path / "link"))
    touching = [
        *((write, read), (edit, read), (edit, link), (read, edit), (write, write), (read, bash)),
        *((bash, write), (bash, bash), (bash, python), (writer, function), (function, writer)),
        *((writer, writer), (writer, bash), (writer, write), (read, writer)),
    ]
    free = [
        *(
            (bash, read),
            (python, read),
            (writer, read),
            (write, other),
            (other, read),
            (read, read),
        ),
        *((function, bash), (bash, function), (reader, bash), (bash, reader), (function, function)),
        *((function, write), (function, read), (reader, reader), (read, read)),
    ]
    assert [earlier.delays(later) for earlier, later in touching] == [True] * len(touching)
    assert [earlier.delays(later) for earlier, later in free] == [False] * len(free)


async def test_a_call_that_a_person_moves_to_another_file_waits_for_those_that_use_it(
    autojump_clock,
):
    events = []

    async def run(index):
        events.append(f"begin {index}")
        await trio.sleep(1)
        events.append(f"end {index}")

    order = CallOrder([Reach(writes=("/a",)), Reach(writes=("/b",)), Reach(reads=("/b",))], 5)
    order.allow(1, Reach(writes=("/b",)))
    order.allow(2, Reach(reads=("/b",)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(order.run, run)
        await trio.sleep(0.5)
        order.allow(0, Reach(writes=("/b",)))
    assert events == [f"{what} {index}" for index in (1, 0, 2) for what in ("begin", "end")]


# --- Random replies ------------------------------------------------------------------------------

PATHS = ("a", "b", "d", "d/c")


class Files:
    """A tool that states what it touches, and takes some turns of the loop."""

    description, category, parameters = "", "other", {"type": "object"}
    requires_permission = True

    def __init__(self, name, world, effects, *, concurrent=False):
        self.name, self.world, self.state_effects = name, world, effects
        self.concurrent = concurrent

    def info(self, input):
        return ToolInfo(self.name)

    def effects(self, input, context):
        return self.state_effects(input["path"])

    async def execute(self, input, context):
        await self.world.use(self.name, input, context.current_tool_use_id)
        return ToolResult.ok(input["label"])


class World:
    """What ran when, and which calls were allowed by then."""

    def __init__(self):
        self.events = []
        self.allowed = set()

    async def use(self, name, input, call_id):
        assert not input["asked"] or call_id in self.allowed, "it ran before it was allowed"
        self.events.append(("begin", call_id))
        for _ in range(input["turns"]):
            await trio.lowlevel.checkpoint()
        if input["fails"]:
            self.events.append(("end", call_id))
            raise ToolError("a failure")
        self.events.append(("end", call_id))


ONE_CALL = st.tuples(
    st.sampled_from(["read", "write", "anything", "own"]),
    st.sampled_from(PATHS),
    st.sampled_from(["no", "allow", "deny"]),
    st.integers(0, 3),
    st.booleans(),
    # No rule allows what can't be known beforehand.
).map(lambda one: (*one[:2], "allow", *one[3:]) if one[0] == "anything" and one[2] == "no" else one)


def touches(earlier, later):
    """The rule again, in the words of the page on tools."""
    (kind, path, *_), (other, other_path, *_) = earlier, later
    same = path == other_path or f"{path}/" in f"{other_path}/" or f"{other_path}/" in f"{path}/"
    if other == "read":
        return kind == "write" and same
    if "own" in (kind, other):
        return False
    return kind == "anything" or other == "anything" or same


@settings(deadline=None)
@given(st.lists(ONE_CALL, min_size=1, max_size=8), st.none() | st.integers(1, 60))
def test_random_replies(drawn, stop_after):
    world = World()
    tools = ToolRegistry(
        [
            Files("read", world, lambda path: [ReadPath(path)], concurrent=True),
            Files("write", world, lambda path: [WritePath(path)]),
            Files("anything", world, lambda path: [Opaque("a command")]),
            Files("own", world, lambda path: [], concurrent=True),
        ]
    )
    calls = [
        call(kind, path=path, asked=asked != "no", turns=turns, fails=fails, label=str(index))
        for index, (kind, path, asked, turns, fails) in enumerate(drawn)
    ]
    answers = {each.id: one[2] for each, one in zip(calls, drawn, strict=True)}
    status, history, chunks = trio.run(play, tools, world, calls, answers, stop_after)
    begun = [id_ for what, id_ in world.events if what == "begin"]
    assert len(begun) == len(set(begun)), "a call ran twice"
    places = {event: place for place, event in enumerate(world.events)}
    for at, later in enumerate(calls):
        for earlier, one in zip(calls[:at], drawn[:at], strict=True):
            if touches(one, drawn[at]) and ("begin", later.id) in places:
                if ("begin", earlier.id) in places:
                    assert places["end", earlier.id] < places["begin", later.id], "out of order"
                else:
                    assert answers[earlier.id] == "deny", "it did not wait for one that is asked"
    check_accepted(history)
    results = [each for message in history for each in message.tool_results]
    made = [each.id for message in history for each in message.tool_uses]
    assert sorted(each.tool_use_id for each in results) == sorted(made)
    for each in results:
        if "the call was not started" in each.text:
            assert each.tool_use_id not in begun
    if status is TurnStatus.COMPLETED:
        assert [each.tool_use_id for each in results] == [each.id for each in calls]
        ran = {each.id for each, one in zip(calls, drawn, strict=True) if one[2] != "deny"}
        assert set(begun) == ran
    starts = [chunk.id for chunk in chunks if isinstance(chunk, ToolStart)]
    ends = [chunk.id for chunk in chunks if isinstance(chunk, ToolEnd)]
    assert len(starts) == len(set(starts))
    assert sorted(starts) == sorted(ends)


async def stop(handle, turns):
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    await handle.interrupt()


async def play(tools, world, calls, answers, stop_after):
    """Run the calls as one turn; answer the questions, and interrupt it after some answers."""
    unasked = PermissionRule.allow_if(lambda tool, input: not input["asked"])
    permissions = PermissionManager([unasked], read_only=False)

    llm = ScriptedProvider(Reply(calls), "done")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        session = AgentSession.new("worker")
        handle = runtime.spawn(session, simple_loop, llm, tools, permissions)
        chunks = []
        async with handle.subscribe(answers=True), trio.open_nursery() as nursery:
            receipt = await handle.send_input("go")
            if stop_after is not None:
                nursery.start_soon(stop, handle, stop_after)
            async for chunk in handle.stream(receipt):
                chunks.append(chunk)
                if isinstance(chunk, PermissionRequest):
                    answer = answers[chunk.tool_use_id]
                    if answer == "allow":
                        world.allowed.add(chunk.tool_use_id)
                    await handle.respond_permission(chunk.request_id, answer)
            nursery.cancel_scope.cancel()
        history = await handle.history()
    return chunks[-1].status, history, chunks


@pytest.mark.parametrize("count", [1, 2])
async def test_a_call_changes_no_context_variable_of_the_next_one(count):
    variable, seen = ContextVar("variable", default="unset"), []

    @tool
    async def mark() -> str:
        """Set a variable."""
        seen.append(variable.get())
        variable.set("of a call")
        await trio.lowlevel.checkpoint()
        return variable.get()

    replies = [Reply([call("mark")] * count)] * 2
    async with Stage([mark], *replies, "done", rules=ALL) as stage:
        await stage.handle.ask("go")
    assert seen == ["unset"] * 2 * count


@pytest.mark.parametrize("count", [1, 2])
async def test_an_agent_crashes_if_a_tool_leaves_a_nursery_open(count):
    @tool
    async def careless() -> str:
        """Leave a nursery open."""
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(trio.sleep_forever)
        return "done"

    calls = [call("careless")] * count
    async with Stage([careless], Reply(calls), "done", rules=ALL) as stage:
        result = await stage.handle.ask("go")
        outcome = await stage.handle.wait()
    assert result.status is TurnStatus.FAILED
    assert outcome.status is EndStatus.CRASHED
    assert "Nursery stack corrupted" in str(outcome.error)
