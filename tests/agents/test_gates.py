"""Gates: asked before the rules and before each run, they can only tighten."""

from functools import partial

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    PermissionRequest,
    ToolUseBlock,
)
from greenroom.core import Ask, Deny, Gate, ToolEnd
from greenroom.core._internal import StateKind
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool

ALLOW = PermissionManager([PermissionRule.allow_all()])


class Answers:
    """A gate that gives the same answer to everything, and notes what it was asked."""

    def __init__(self, judge=None, run=None, timeout=5.0):
        self.answers, self.timeout = {"judge": judge, "run": run}, timeout
        self.asked = []

    async def judge(self, agent, call):
        return await self._answer("judge", call)

    async def before_run(self, agent, call):
        return await self._answer("run", call)

    async def _answer(self, method, call):
        self.asked.append((method, call))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        if answer == "hang":
            await trio.sleep_forever()
        if answer == "swallow":
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                return None  # as sloppy code does
        return answer


class Person:
    """Answers each question, and notes it."""

    def __init__(self, decision="allow", **answer):
        self.decision, self.answer, self.questions = decision, answer, []

    async def attend(self, handle, *, task_status):
        async with handle.subscribe("all", answers=True) as chunks:
            task_status.started()
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    self.questions.append(chunk)
                    await handle.respond_permission(chunk.request_id, self.decision, **self.answer)


async def run(gates, *, person=None, rules=ALLOW, function=None, calls=None):
    """Run one call; return what ran, the result of the call, and what the session has recorded."""
    ran = []

    async def touch(label: str) -> str:
        """Touch."""
        ran.append(label)
        return "touched"

    calls = calls or [ToolUseBlock("1", "touch", {"label": "a"})]
    agent = function or Agent(
        ScriptedProvider(calls, "done"), tools=[tool(touch)], permissions=rules
    )
    if function is not None:
        agent = partial(function, tools=ToolRegistry([tool(touch)]))
    session = AgentSession.new("a")
    runtime = AgentRuntime(InMemoryStore(), gates=gates)
    async with runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(session, agent, unattended="deny")
        if person is not None:
            await nursery.start(person.attend, handle)
        with trio.fail_after(600):
            await handle.ask("Go.")
        history, records = await handle.history(), await session.read_decisions()
        nursery.cancel_scope.cancel()
    result = history[2].tool_results[0].text if len(history) > 2 else ""
    return ran, result, [(str(each.decision), each.by) for each in records]


async def test_a_gate_that_has_no_objection_lets_a_call_run():
    gate = Answers()
    ran, result, _ = await run([gate])
    assert (ran, result) == (["a"], "touched")
    (judge, judged), (before, about) = gate.asked
    assert (judge, judged.id, judged.name, judged.input) == ("judge", "1", "touch", {"label": "a"})
    assert (before, about.id, about.name, about.input) == ("run", "1", "touch", {"label": "a"})
    assert (about.decision, about.by) == ("allow", "rules")
    assert len(about.digest) == 64
    assert about.rule


async def test_what_a_gate_denies_never_runs_and_is_a_denial():
    for gate in (Answers(judge=Deny("not today")), Answers(run="not today")):
        ran, result, decisions = await run([gate])
        assert ran == []
        assert "not today." in result
        assert decisions[-1] == ("deny", "gate")
    agent = Agent(ScriptedProvider(call("touch"), "done"), tools=[_touch])
    async with AgentRuntime(InMemoryStore(), gates=[Answers(run="no")]) as runtime:
        (denial,) = (await agent.run("Go.", runtime=runtime)).denials
    assert denial.tool == "touch"


@tool(name="touch")
async def _touch() -> str:
    """Touch."""
    return "touched"


@pytest.mark.parametrize("judge", [Ask("are you sure"), ValueError("broken"), "hang", "swallow", 7])
async def test_a_question_or_a_failure_asks_a_person(judge, autojump_clock):
    person, gate = Person(), Answers(judge=judge)
    ran, _, decisions = await run([gate], person=person)
    (question,) = person.questions
    assert ran == ["a"]
    said = {ValueError: "failed: ValueError: broken", str: "did not answer within 5", int: "int"}
    said = said.get(type(judge), "are you sure")
    assert said in question.reason
    assert decisions == [("allow", "user")]
    assert gate.asked[-1][1].by == "user"
    assert [method for method, _ in gate.asked] == ["judge", "run"]
    refused, denied = Person("deny"), Answers(judge=judge)
    ran, *_ = await run([denied], person=refused)
    assert (ran, len(refused.questions)) == ([], 1)
    ran, _, decisions = await run([Answers(judge=judge)])  # nobody is there
    assert (ran, decisions) == ([], [("deny", "unattended")])


@pytest.mark.parametrize("answer", ["no", "", ValueError("broken"), "hang", "swallow", Deny("x")])
async def test_a_text_or_a_failure_before_the_run_refuses_it(answer, autojump_clock):
    began = trio.current_time()
    ran, result, decisions = await run([Answers(run=answer, timeout=7)])
    assert (ran, decisions[-1]) == ([], ("deny", "gate"))
    assert result.startswith("touch was not run: ")
    assert trio.current_time() - began in (0, 7)


async def test_a_gate_can_t_allow_what_the_rules_deny():
    deny = PermissionManager([PermissionRule.deny_tool("touch")])
    for judge in (None, Ask("sure")):
        person, gate = Person(), Answers(judge=judge)
        ran, *_ = await run([gate], rules=deny, person=person)
        assert (ran, person.questions) == ([], [])
        assert [method for method, _ in gate.asked] == ["judge"]


async def test_the_strictest_of_several_counts_and_each_is_asked():
    one, two, three = Answers(judge=Ask("one")), Answers(), Answers(judge=Ask("three"))
    person = Person()
    await run([one, two, three], person=person)
    assert "one; three" in person.questions[0].reason
    assert [len(each.asked) for each in (one, two, three)] == [2, 2, 2]
    ran, *_ = await run([Answers(judge=Ask("one")), Answers(judge=Deny("two"))], person=Person())
    assert ran == []
    later = Answers()
    await run([Answers(run="no"), later])
    assert [method for method, _ in later.asked] == ["judge"]


async def test_what_a_person_writes_instead_is_judged_too():
    class NotB:
        async def judge(self, agent, call):
            return Deny("not b") if call.input["label"] == "b" else Ask("sure")

    for label, expected in (("b", []), ("c", ["c"])):
        ran, *_ = await run([NotB()], person=Person(input={"label": label}))
        assert ran == expected


async def test_calls_that_can_t_run_are_not_asked_about():
    gate = Answers()
    calls = [
        ToolUseBlock("1", "unknown", {}),
        ToolUseBlock("2", "touch", {"label": 7}),
        ToolUseBlock("3", "touch", {}, invalid="no JSON"),
    ]
    ran, *_ = await run([gate], calls=calls)
    assert (ran, gate.asked) == ([], [])


async def test_a_gate_can_t_change_what_is_judged_or_runs():
    class Greedy:
        async def judge(self, agent, call):
            agent.workspace.cwd = agent.allowed_paths = ("/",)  # of a snapshot
            with pytest.raises(TypeError):
                call.input["label"] = "b"

        async def before_run(self, agent, call):
            with pytest.raises(TypeError):
                call.input.clear()

    seen = Answers()
    ran, *_ = await run([Greedy(), seen])
    assert ran == ["a"]
    assert [about.input for _, about in seen.asked] == [{"label": "a"}] * 2


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize(
    "gate", [Answers(), Answers(judge=Deny("no")), Answers(judge=Ask("sure")), Answers(run="no")]
)
async def test_a_loop_of_its_own_passes_the_gates_alike(gate, judged):
    results = []

    async def loop(agent, tools):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.tool_call(call("touch", label="a")) as scope:
                    if judged and await agent.judge(scope.call) is not None:
                        continue
                    async with scope.running():
                        context = agent.context.with_tool_use_id(scope.call.id)
                        result = await tools.execute("touch", scope.call.input, context)
                    scope.end(result)
                    results.append(result)

    ran, *_ = await run([gate], function=loop)
    may_run = gate.answers == {"judge": None, "run": None}
    assert ran == (["a"] if may_run else [])
    assert may_run or all(each.status == "denied" for each in results)


async def test_a_loop_of_its_own_says_what_has_allowed_a_call():
    async def loop(agent, tools):
        async for message in agent.inputs():
            async with agent.turn(message):
                assert await agent.judge(call("touch", label="a")) == Ask("sure")
                context = agent.context.with_tool_use_id("7")
                context.approve("ann")
                await tools.execute("touch", {"label": "a"}, context)

    gate = Answers(judge=Ask("sure"))
    ran, *_ = await run([gate], function=loop)
    assert (ran, gate.asked[-1][1].by) == (["a"], "ann")


async def test_an_interrupt_while_a_gate_thinks_leaves_the_call_not_started(autojump_clock):
    agent = Agent(ScriptedProvider(ToolUseBlock("1", "touch", {}), "done"), tools=[_touch])
    async with AgentRuntime(InMemoryStore(), gates=[Answers(run="hang")]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), agent)
        await handle.send_input("Go.")
        await trio.sleep(1)
        assert handle.state.kind is StateKind.EXECUTING_TOOL
        await handle.interrupt()
        history = await handle.history()
    assert history[2].tool_results[0].text == "interrupted: the call was not started"


async def test_a_runtime_inside_of_a_tool_has_the_gates_around_it():
    inner = Agent(ScriptedProvider(call("touch"), "done"), tools=[_touch])

    async def nested() -> str:
        """Run an agent in a runtime of its own."""
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("b"), inner, unattended="deny")
            await handle.ask("Go.")
            return (await handle.history())[2].tool_results[0].text

    class NoTouch:
        async def judge(self, agent, call):
            return Deny("hands off") if call.name == "touch" else None

    agent = Agent(ScriptedProvider(call("nested"), "done"), tools=[nested])
    async with AgentRuntime(InMemoryStore(), gates=[NoTouch()]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), agent)
        await handle.ask("Go.")
        assert (await handle.history())[2].tool_results[0].text == "Denied: hands off."


async def test_one_with_hooks_is_attached_as_an_instrument():
    class Audit(Answers):
        def __init__(self):
            super().__init__()
            self.chunks = []

        def on_chunk(self, agent, chunk):
            self.chunks.append(chunk)

    audit = Audit()
    async with AgentRuntime(gates=[audit], instruments=[audit]) as runtime:
        assert runtime.instruments.statistics().attached == ("Audit",)
    await run([audit])
    assert sum(isinstance(chunk, ToolEnd) for chunk in audit.chunks) == 1
    for make in (
        lambda: AgentRuntime(instruments=[audit]),
        lambda: AgentRuntime().instruments.add(audit),
    ):
        with pytest.raises(ConfigurationError, match="Audit is a gate") as caught:
            make()
        assert "gates=" in caught.value.hint


class Sync:
    def judge(self, agent, call):
        pass


class Typo(Gate):
    def before_tool_rn(self, agent, call):
        pass

    async def judge(self, agent, call):
        return None


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        (object(), "object is not a gate"),
        (type("Plain", (Gate,), {})(), "Plain is not a gate"),
        (Answers, "Answers is a class"),
        (Sync(), "Sync.judge is not async"),
        (Answers(timeout=0), "timeout of Answers is 0"),
        (Answers(timeout="5"), "timeout of Answers is '5'"),
    ],
)
def test_what_can_t_be_a_gate_is_refused(gate, reason):
    with pytest.raises(ConfigurationError, match=reason):
        AgentRuntime(gates=[gate])


def test_half_a_gate_is_one():
    gate = Typo()
    assert [*AgentRuntime(gates=[gate])._kernel.gates] == [gate]


class Reviewer:
    """A gate that looks at results, and says this."""

    def __init__(self, said):
        self.said = said

    async def after_run(self, agent, call, result):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said and f"{call.name} said {result.text!r}: {self.said}"


async def test_what_a_gate_says_behind_a_call_is_added_to_its_result():
    gates = [Reviewer("fine"), Reviewer(None), Reviewer(ValueError("x"))]
    ran, result, _ = await run(gates)
    assert (ran, result.splitlines()) == (["a"], ["touched", "touch said 'touched': fine"])
    ran, result, _ = await run([Answers(judge=Deny("no")), Reviewer("fine")])
    assert (ran, "fine" in result) == ([], False)
