"""`run_tools`: judged, asked about, recorded, run, and answered in order."""

import threading
from typing import ClassVar

import pytest
import trio
import trio.testing

from greenroom.agents import applied_rules, run_tools, stream_reply
from greenroom.core import (
    AgentContext,
    AgentState,
    Done,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
    SessionStorageError,
    StateChange,
    TextDelta,
    ToolEnd,
    ToolInfo,
    ToolProgress,
    ToolResult,
    ToolStart,
    ToolStatus,
    ToolUseBlock,
    TurnStatus,
)
from greenroom.core._internal import describe_error
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.permissions._internal import read_rules
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import Grep, Read, ToolRegistry, tool
from greenroom.tools._internal import RegisteredTool
from tests.agents.loops import simple_loop


class Stage:
    """One agent on a scripted model, and everything that its subscribers saw."""

    def __init__(self, tools, *script, rules=(), **options):
        self.llm = ScriptedProvider(*script)
        self.tools = ToolRegistry(tools)
        self.permissions = PermissionManager(rules, read_only=False)
        self.store = options.pop("store", InMemoryStore())
        self.options = options
        self.chunks = []

    async def __aenter__(self):
        self.runtime = AgentRuntime(store=self.store, workspace=self.options.pop("workspace", "."))
        await self.runtime.__aenter__()
        self.handle = self.runtime.spawn(
            AgentSession.new("worker"),
            simple_loop,
            self.llm,
            self.tools,
            self.permissions,
            **self.options,
        )
        self.reader = self.handle.subscribe("all")
        return self

    async def __aexit__(self, *error):
        await self.runtime.__aexit__(*error)
        self.chunks = [chunk async for chunk in self.reader]

    def seen(self, *kinds):
        return [chunk for chunk in self.chunks if isinstance(chunk, kinds)]

    async def next(self, kind):
        """Read on to the next chunk of a kind."""
        with trio.fail_after(60):
            async for chunk in self.reader:
                if isinstance(chunk, kind):
                    return chunk
        raise AssertionError("the agent has ended")


ALL = [PermissionRule.allow_all()]


@tool(concurrent=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_call_is_run_and_its_result_goes_back_to_the_model():
    async with Stage([add], call("add", a=1, b=2), "three", rules=ALL) as stage:
        result = await stage.handle.ask("1+2?")
    assert result.text == "three"
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert (answer.text, answer.is_error) == ("3", False)
    (start,), (end,) = stage.seen(ToolStart), stage.seen(ToolEnd)
    assert start.id == end.id == answer.tool_use_id
    assert start.input == {"a": 1, "b": 2}


async def test_parallel_calls_run_side_by_side_and_answer_in_their_order():
    started = [trio.Event(), trio.Event()]

    @tool(concurrent=True)
    async def meet(mine: int) -> int:
        """Wait for the other one."""
        started[mine].set()
        await started[1 - mine].wait()
        return mine

    calls = [call("meet", mine=1), call("meet", mine=0)]
    async with Stage([meet], Reply(calls), "done", rules=ALL) as stage:
        with trio.fail_after(60):
            await stage.handle.ask("go")
    assert [block.text for block in stage.llm.requests[1].messages[-1].tool_results] == ["1", "0"]


@pytest.mark.parametrize("count", [0, 1])
async def test_a_cancel_that_nothing_has_caused_fails_its_call_only(count):
    @tool(concurrent=True)
    async def stray() -> None:
        """Raise a cancel that was kept from a scope which is left by then."""
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                kept = error
        raise kept

    calls = [call("stray"), *[call("add", a=1, b=2)] * count]
    async with Stage([stray, add], Reply(calls), "done", "again", rules=ALL) as stage:
        assert (await stage.handle.ask("go")).text == "done"
        assert (await stage.handle.ask("on")).text == "again"
    first, *others = stage.llm.requests[1].messages[-1].tool_results
    assert first.is_error
    assert first.text.endswith("stray raised trio.Cancelled, and nothing had cancelled it")
    assert [block.text for block in others] == ["3"] * count


async def test_an_unknown_tool_is_answered_with_the_names_that_exist():
    async with Stage([add], call("subtract", a=1), "sorry", rules=ALL) as stage:
        await stage.handle.ask("go")
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert answer.is_error
    assert "subtract" in answer.text
    assert "add" in answer.text
    assert stage.seen(PermissionRequest) == []


async def test_arguments_that_are_no_object_are_never_executed():
    broken = ToolUseBlock("t1", "add", {}, invalid="the key 'a' occurs twice", raw_input="{…}")
    async with Stage([add], broken, "sorry", rules=ALL) as stage:
        await stage.handle.ask("go")
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert answer.is_error
    assert "occurs twice" in answer.text
    assert len(stage.seen(ToolStart)) == len(stage.seen(ToolEnd)) == 1


async def test_nobody_is_asked_about_a_call_that_cannot_run():
    async with Stage([add], call("add", a="one", b=2), "sorry") as stage:
        await stage.handle.ask("go")
    assert stage.seen(PermissionRequest) == []
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert answer.is_error
    assert "a" in answer.text


async def test_a_denied_call_tells_the_model_why():
    rule = PermissionRule.deny_tool("add", message="Arithmetic is closed today.")
    async with Stage([add], call("add", a=1, b=2), "ok", rules=[rule]) as stage:
        result = await stage.handle.ask("go")
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert "closed today" in answer.text
    (end,) = stage.seen(ToolEnd)
    assert end.result.status is ToolStatus.DENIED
    assert result.status is TurnStatus.COMPLETED


async def test_a_person_is_asked_before_anything_runs():
    ran = []

    @tool
    async def launch(code: str) -> str:
        """Launch it."""
        ran.append(code)
        return "launched"

    async with Stage([launch], call("launch", code="00"), "bye") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        assert ran == []
        assert (request.tool_name, request.input) == ("launch", {"code": "00"})
        assert request.lineage == ("worker",)
        assert (await stage.handle.pending()) == (request,)
        assert await stage.handle.respond_permission(request.request_id, "allow")
        assert not await stage.handle.respond_permission(request.request_id, "deny")
        end = await stage.next(ToolEnd)
    assert ran == ["00"]
    assert end.result.text == "launched"


async def test_a_persons_no_and_their_words_reach_the_model():
    async with Stage([add], call("add", a=1, b=2), "ok") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "deny", message="use paper")
        await stage.next(ToolEnd)
    (answer,) = stage.llm.requests[1].messages[-1].tool_results
    assert answer.is_error
    assert "use paper" in answer.text


async def test_an_edited_input_is_what_runs():
    async with Stage([add], call("add", a=1, b=2), "ok") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "allow", input={"a": 40, "b": 2})
        assert (await stage.next(ToolStart)).input == {"a": 40, "b": 2}
        text = (await stage.next(ToolEnd)).result.text
    assert text == '[The user changed the arguments to {"a":40,"b":2}]\n42'


async def test_an_edited_input_makes_no_rule_of_the_one_that_was_asked_about():
    bash = FakeBash()
    calls = [call("Bash", command="touch made"), call("Bash", command="touch made")]
    async with Stage([bash], *calls, "ok") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(
            request.request_id, "allow", remember="session", input={"command": "echo hi"}
        )
        second = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(second.request_id, "deny")
        await stage.next(Done)
    assert bash.ran == ["echo hi"]
    assert stage.permissions.rules == ()


async def test_another_tool_of_the_same_name_does_not_run_on_the_approval():
    ran = []

    def deploy_to(place):
        @tool(name="deploy")
        async def deploy() -> str:
            """Deploy."""
            ran.append(place)
            return place

        return deploy

    async with Stage([deploy_to("staging")], call("deploy"), "ok") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        stage.tools.register(deploy_to("production"), replace=True)
        await stage.handle.respond_permission(request.request_id, "allow")
        end = await stage.next(ToolEnd)
    assert end.result.status is ToolStatus.DENIED
    assert ran == []


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "~nobody-of-this-name/x"])
async def test_a_path_that_is_none_is_the_tools_error_also_when_it_was_allowed(path, tmp_path):
    async with Stage([Read()], call("Read", file_path=path), "ok", workspace=tmp_path) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "allow")
        end = await stage.next(ToolEnd)
        done = await stage.next(Done)
    assert end.is_error
    assert done.status is TurnStatus.COMPLETED


async def test_a_rule_that_denies_a_path_opens_it_for_no_other_tool(tmp_path):
    secret = tmp_path / "out" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("TOP SECRET")
    work = tmp_path / "work"
    work.mkdir()
    rules = [
        PermissionRule.parse(f"Read({secret.parent}/**)", "deny"),
        PermissionRule.allow_tool("Grep"),
    ]
    calls = [
        call("Read", file_path=str(secret)),
        call("Grep", pattern="TOP", path=str(secret), output_mode="content"),
    ]
    async with Stage([Read(), Grep()], *calls, "ok", rules=rules, workspace=work) as stage:
        await stage.handle.ask("go")
    results = [end.result for end in stage.seen(ToolEnd)]
    assert [result.status for result in results] == [ToolStatus.DENIED, ToolStatus.ERROR]
    assert not any("SECRET" in result.text for result in results)


async def test_what_a_person_allowed_once_outside_the_workspace_is_not_open_afterwards(tmp_path):
    outside = tmp_path / "notes.txt"
    outside.write_text("far away")
    work = tmp_path / "work"
    work.mkdir()
    calls = [call("Read", file_path=str(outside)), call("Grep", pattern="far", path=str(outside))]
    rules = [PermissionRule.allow_tool("Grep")]
    async with Stage([Read(), Grep()], *calls, "ok", rules=rules, workspace=work) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "allow")
        assert "far away" in (await stage.next(ToolEnd)).result.text
        assert "outside the workspace" in (await stage.next(ToolEnd)).result.text


async def test_a_call_that_is_refused_shows_nothing_that_the_tool_would_say_of_it():
    told = []

    class Teller(FakeBash):
        def info(self, input):
            told.append(input)
            return ToolInfo("Tell", "a secret")

    rules = [PermissionRule.deny_all()]
    async with Stage([Teller()], call("Bash", command="ls"), "ok", rules=rules) as stage:
        await stage.handle.ask("go")
    (start,) = stage.seen(ToolStart)
    assert start.info is None
    assert told == []


async def test_an_edited_input_is_judged_again():
    rule = PermissionRule.deny_command("rm")
    bash = FakeBash()
    async with Stage([bash], call("Bash", command="ls"), "ok", rules=[rule]) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(
            request.request_id, "allow", input={"command": "rm -rf x"}
        )
        end = await stage.next(ToolEnd)
    assert end.result.status is ToolStatus.DENIED
    assert bash.ran == []


class FakeBash:
    """Bash's face, without a shell."""

    name = "Bash"
    description = "Run a command"
    category = "execute"
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    runs_context_command = True

    def __init__(self):
        self.ran = []

    def info(self, input):
        return ToolInfo("Run a command", str(input["command"]))

    def effects(self, input, context):
        from greenroom.core import ShellCommand

        return (ShellCommand(str(input["command"]), str(context.workspace.cwd)),)

    async def execute(self, input, context):
        self.ran.append(context.command or input["command"])
        return ToolResult.ok("ran")


async def test_what_was_approved_is_checked_again_right_before_it_runs(tmp_path):
    (tmp_path / "a").write_text("harmless")
    (tmp_path / "b").write_text("other")
    link = tmp_path / "link"
    link.symlink_to("a")
    bash = FakeBash()
    async with Stage([bash], call("Bash", command="cat link"), "ok", workspace=tmp_path) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        # While the person thinks, the agent's working directory moves.
        stage.runtime.get(stage.handle.session_id)._actor.context.workspace.cwd = tmp_path.parent
        await stage.handle.respond_permission(request.request_id, "allow")
        end = await stage.next(ToolEnd)
    assert end.result.status is ToolStatus.DENIED
    assert "changed" in end.result.text
    assert bash.ran == []


async def test_an_answer_for_the_session_is_not_asked_again():
    calls = [call("Bash", command="git status"), call("Bash", command="git status")]
    async with Stage([FakeBash()], *calls, "ok") as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        assert request.remembers
        await stage.handle.respond_permission(request.request_id, "allow", remember="session")
        assert not (await stage.next(ToolEnd)).is_error
        assert not (await stage.next(ToolEnd)).is_error
    assert len(stage.seen(PermissionRequest)) == 0


async def test_an_answer_for_the_project_is_kept_in_its_file(tmp_path):
    async with Stage(
        [FakeBash()], call("Bash", command="git status"), "ok", workspace=tmp_path
    ) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "allow", remember="project")
        await stage.next(ToolEnd)
    (rule,) = read_rules(tmp_path / ".greenroom" / "permissions.json")
    assert rule.decision is RuleDecision.ALLOW
    assert "git status" in str(rule)


async def test_with_nobody_to_ask_the_call_is_denied_and_the_turn_goes_on():
    async with Stage([add], call("add", a=1, b=2), "as you wish", unattended="deny") as stage:
        result = await stage.handle.ask("go")
    assert result.text == "as you wish"
    (response,) = stage.seen(PermissionResponse)
    assert (response.decision, response.by) == (RuleDecision.DENY, "unattended")


async def test_calls_are_durable_before_the_first_of_them_starts():
    store = InMemoryStore()
    found = []

    @tool
    async def look(context: AgentContext) -> str:
        """Look at what the store holds."""
        loaded = await AgentSession.load(context.session_id, store=store)
        found.extend(loaded.history)
        return "looked"

    async with Stage([look], call("look"), "ok", rules=ALL, store=store) as stage:
        await stage.handle.ask("go")
    assert [message.role for message in found] == ["user", "assistant", "user"]
    assert "outcome" in found[2].tool_results[0].text


async def test_nothing_starts_when_the_history_cannot_be_stored(monkeypatch):
    ran = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append(1)
        return "acted"

    save = AgentSession.save

    async def full(self, *, flush=True):
        if flush:
            raise SessionStorageError("the disk is full")
        await save(self, flush=flush)

    async with Stage([act], call("act"), rules=ALL) as stage:
        monkeypatch.setattr(AgentSession, "save", full)
        result = await stage.handle.ask("go")
        monkeypatch.undo()
    assert result.status is TurnStatus.FAILED
    assert "disk is full" in result.error
    assert ran == []
    (answer,) = (await stage.handle.history())[-1].tool_results
    assert "not started" in answer.text


async def test_progress_shows_before_the_end():
    @tool
    async def count(context: AgentContext) -> str:
        """Count."""
        for number in range(3):
            context.progress(f"{number}\n")
        return "counted"

    async with Stage([count], call("count"), "ok", rules=ALL) as stage:
        await stage.handle.ask("go")
    order = [type(chunk).__name__ for chunk in stage.seen(ToolStart, ToolProgress, ToolEnd)]
    assert order == ["ToolStart", "ToolProgress", "ToolProgress", "ToolProgress", "ToolEnd"]


@pytest.mark.parametrize("how", ["kill", "interrupt"])
async def test_a_call_whose_clean_up_is_cut_off_has_not_succeeded(how, autojump_clock):
    @tool
    async def book(context: AgentContext) -> str:
        """Write two halves."""
        with context.cleanup(60):
            await trio.sleep(30)
        return "booked"

    asked = call("book")
    async with Stage([book], asked, "ok", rules=ALL) as stage:
        await stage.handle.send_input("go")
        await stage.next(ToolStart)
        await trio.testing.wait_all_tasks_blocked()
        if how == "kill":
            stage.handle.kill()
            await stage.handle.wait()
        else:
            await stage.handle.interrupt(grace=1)
    session = await AgentSession.load(stage.handle.session_id, store=stage.store)
    [result] = [block for message in session.history for block in message.tool_results]
    assert (result.tool_use_id, result.is_error) == (asked.id, True)
    assert "interrupted" in result.text


async def test_a_call_whose_own_time_for_clean_up_is_over_goes_on(autojump_clock):
    @tool
    async def book(context: AgentContext) -> str:
        """Give up in time."""
        with context.cleanup(1):
            await trio.sleep(30)
        return "booked"

    async with Stage([book], call("book"), "ok", rules=ALL) as stage:
        await stage.handle.ask("go")
    [end] = stage.seen(ToolEnd)
    assert end.result.text == "booked"


async def test_an_interrupt_keeps_the_results_that_were_there(autojump_clock):
    cleaned = []

    @tool(concurrent=True)
    async def slow(context: AgentContext) -> str:
        """Never end."""
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup(1.0):
                await trio.sleep(0.2)
                cleaned.append("slow")
        return "never"

    calls = [call("add", a=1, b=2), call("slow")]
    async with Stage([add, slow], Reply(calls), "next", rules=ALL) as stage:
        await stage.handle.send_input("go")
        await stage.next(ToolEnd)
        await trio.testing.wait_all_tasks_blocked()
        report = await stage.handle.interrupt()
        history = await stage.handle.history()
        again = await stage.handle.ask("and now?")
    results = {block.tool_use_id: block for block in history[-1].tool_results} | {
        block.tool_use_id: block for block in history[-2].tool_results
    }
    assert results[calls[0].id].text == "3"
    assert "interrupted" in results[calls[1].id].text
    assert cleaned == ["slow"]
    assert report.repaired == (calls[1].id,)
    assert report.stopped == (f"tool slow ({calls[1].id})",)
    assert report.abandoned == ()
    assert len(report.cleaned) == 1
    assert again.text == "next"


async def test_every_start_has_one_end():
    calls = [call("add", a=1, b=2), call("add", a="x", b=2), call("nothing")]
    async with Stage([add], Reply(calls), "ok", rules=ALL) as stage:
        await stage.handle.ask("go")
    assert [chunk.id for chunk in stage.seen(ToolStart)] == [each.id for each in calls]
    assert [chunk.id for chunk in stage.seen(ToolEnd)] == [each.id for each in calls]
    assert [chunk.is_error for chunk in stage.seen(ToolEnd)] == [False, True, True]


async def test_results_are_on_record_while_the_next_reply_is_on_its_way():
    store = InMemoryStore()
    script = [call("add", a=1, b=2), Reply("thinking about it", hangs=True)]
    async with Stage([add], *script, rules=ALL, store=store) as stage:
        await stage.handle.send_input("go")
        await stage.next(TextDelta)
        loaded = await AgentSession.load(stage.handle.session_id, store=store)
        await stage.handle.interrupt()
    assert loaded.history[-1].tool_results[0].text == "3"


async def test_a_long_command_is_judged_beside_the_event_loop():
    threads = []

    class Noting(FakeBash):
        def effects(self, input, context):
            threads.append(threading.current_thread())
            return super().effects(input, context)

    for length, here in ((100, True), (60_000, False)):
        threads.clear()
        command = "echo " + "x" * length
        rules = [PermissionRule.allow_command("echo")]
        async with Stage([Noting()], call("Bash", command=command), "ok", rules=rules) as stage:
            await stage.handle.ask("go")
        assert stage.seen(ToolEnd)[0].result.text == "ran"
        assert all((thread is threading.main_thread()) is here for thread in threads)
        assert threads


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"edits": [{"old": "a", "new": "b"}]}, True),
        ({"edits": [{"old": "a" * 100, "new": "b" * 7_000}]}, True),
        ({"edits": [{"old": "a", "new": "b" * 10_000}]}, False),
        ({"edits": [{"old": "a", "new": "b" * 100}] * 100}, False),
        ({"files": {"name" * 3_000: True}}, False),
        ({"rows": [[0] * 100] * 100}, False),
        ({"first": "a" * 5_000, "second": "b" * 5_000}, False),
    ],
)
async def test_all_of_a_nested_input_counts_for_where_it_is_judged(given, here):
    threads = []

    class Noting(PermissionManager):
        def judge(self, *given, **options):
            threads.append(threading.current_thread())
            return super().judge(*given, **options)

    tool = RegisteredTool.of(FakeBash())
    context = AgentContext(session_id="s-1", agent_type="coder")
    await applied_rules.apply_rules(Noting(), tool, given, context, None)
    assert [thread is threading.main_thread() for thread in threads] == [here]


async def test_an_interrupt_waits_for_no_long_judgement():
    release, judged = threading.Event(), threading.Event()
    scope = trio.CancelScope()

    class Slow(PermissionManager):
        def judge(self, *given, **options):
            trio.from_thread.run_sync(scope.cancel)
            release.wait(60)
            judged.set()
            return super().judge(*given, **options)

    tool = RegisteredTool.of(FakeBash())
    context = AgentContext(session_id="s-1", agent_type="coder")
    with scope:
        await applied_rules.apply_rules(Slow(), tool, {"command": "x" * 10_000}, context, None)
    assert scope.cancelled_caught
    assert not judged.is_set()
    release.set()


class UnprintableError(Exception):
    def __str__(self):
        raise ZeroDivisionError

    __repr__ = __str__


def deep():
    error = ValueError("at the bottom")
    for _ in range(3000):
        error = ExceptionGroup("g", [error])
    return error


@pytest.mark.parametrize(
    "make",
    [UnprintableError, deep, lambda: ValueError("x" * 10_000_000)],
    ids=["unprintable", "deep", "long"],
)
@pytest.mark.parametrize("place", ["a tool", "its clean-up", "its description"])
def test_whatever_a_tool_raises_is_a_result_of_two_thousand_characters(make, place):
    async def main():
        class Bad:
            name, category, description, concurrent = "bad", "read", "Fails", True
            parameters: ClassVar = {"type": "object"}
            requires_permission, timeout = False, 60.0

            def info(self, input):
                if place == "its description":
                    raise make()
                return ToolInfo("fail")

            async def execute(self, input, context):
                try:
                    if place != "its clean-up":
                        raise make()
                finally:
                    with context.cleanup(1.0):
                        if place == "its clean-up":
                            raise make()

        async with AgentRuntime(store=InMemoryStore()) as runtime:
            llm = ScriptedProvider([call("bad"), call("bad")], "done", "still there")
            handle = runtime.spawn(AgentSession.new("worker"), coder_of(llm, Bad()))
            texts.append((await handle.ask("go")).text)
            texts.append((await handle.ask("again")).text)
            for message in await handle.history():
                texts.extend(
                    part.text for result in message.tool_results for part in result.content
                )

    texts, problem = [], ""
    try:
        trio.run(main)
    except BaseException as error:
        problem = describe_error(error)
    assert not problem
    assert texts[:2] == ["done", "still there"]
    assert len(texts) == 4
    assert max(map(len, texts)) <= 2_000


def coder_of(llm, *tools):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                while (reply := await stream_reply(agent, llm, ToolRegistry(tools))).tool_uses:
                    rules = PermissionManager([PermissionRule.allow_all()])
                    await run_tools(agent, reply.tool_uses, ToolRegistry(tools), rules)

    return agent_fn


async def test_a_tool_can_t_allow_paths_for_the_calls_after_it(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")

    @tool(category="read")
    async def widen(context: AgentContext) -> str:
        """Try to."""
        context.allowed_paths = (str(tmp_path),)
        return "tried"

    (tmp_path / "work").mkdir()
    async with AgentRuntime(store=InMemoryStore(), workspace=tmp_path / "work") as runtime:
        llm = ScriptedProvider(call("widen"), call("Read", file_path=str(secret)), "done")
        handle = runtime.spawn(
            AgentSession.new("worker"), coder_of(llm, widen, Read()), unattended="deny"
        )
        await handle.ask("go")
        results = [
            part.text
            for message in await handle.history()
            for result in message.tool_results
            for part in result.content
        ]
    assert results[0] == "tried"
    assert "secret" not in results[1].replace("secret.txt", "")


async def test_the_phase_of_the_work_goes_on_over_replies_and_tool_calls():
    """What the agent says it is doing is not taken back by the two steps of the usual loop."""

    @tool
    async def look(context: AgentContext) -> str:
        """Look."""
        return "seen"

    async def planner(agent, llm, tools, permissions):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.set_state(AgentState.processing("planning"))
                reply = await stream_reply(agent, llm, tools)
                await run_tools(agent, reply.tool_uses, tools, permissions)
                agent.set_state(AgentState.processing("answering"))
                await stream_reply(agent, llm, tools)

    llm, tools = ScriptedProvider([call("look")], "Done."), ToolRegistry([look])
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("planner"), planner, llm, tools, permissions)
        await handle.ask("go")
        async with handle.subscribe("all") as reader:
            await handle.shutdown()
            states = [str(chunk.state) async for chunk in reader if isinstance(chunk, StateChange)]
    assert states == [
        "processing",
        "processing: planning",
        "executing tool: look",
        "processing: planning",
        "processing: answering",
        "idle",
        "done",
    ]


async def test_a_call_of_a_name_that_appears_after_it_was_judged_does_not_run():
    ran = []

    @tool
    async def late() -> str:
        """Run, though nobody has allowed it."""
        ran.append(1)
        return "ran"

    @tool(concurrent=False)
    async def install() -> str:
        """Register a tool."""
        stage.tools.register(late)
        return "installed"

    rules = [PermissionRule.allow_tool("install"), PermissionRule.deny_tool("late")]
    script = [call("install"), call("late")]
    async with Stage([install], script, "end", rules=rules) as stage:
        await stage.handle.ask("go")
    first, second = stage.llm.requests[1].messages[-1].tool_results
    assert (first.text, ran) == ("installed", [])
    assert second.is_error
