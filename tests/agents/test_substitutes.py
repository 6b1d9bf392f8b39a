"""Substitutes answer in place of models and tools; a cache of results is one of them."""

from pathlib import Path

import pytest
import trio

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    tool,
)
from greenroom.agents import ResultCache
from greenroom.core import ReadPath, ResourceMap, ToolResult, ToolStart, ToolUseBlock
from greenroom.llm import Substitutes
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import Reply, ScriptedProvider, call


class Answering(Substitutes):
    def __init__(self, llm=None, results=None):
        self.llm, self.results, self.asked = llm, results or {}, []

    def model(self, agent, llm):
        return self.llm

    async def result(self, agent, call):
        self.asked.append(call)
        found = self.results.get(call.name)
        if isinstance(found, Exception):
            raise found
        return found


class Runs:
    def __init__(self):
        self.seen = []

    async def before_run(self, agent, call):
        self.seen.append(call.name)

    def before_tool_run(self, agent, call):
        self.seen.append(call.name)


async def run(script, *substitutes, ran=None, permissions=None, gates=()):
    ran = [] if ran is None else ran

    def look(label: str) -> str:
        """Look."""
        ran.append(label)
        return f"seen {label}"

    async with AgentRuntime(InMemoryStore(), gates=gates) as runtime:
        for each in substitutes:
            runtime.resources.insert(each)
        agent = Agent(ScriptedProvider(*script), tools=[look], permissions=permissions)
        result = await agent.run("Go.", runtime=runtime)
    return ran, result


def texts(result):
    return [block.text for message in result.messages for block in message.tool_results]


LOOK = (call("look", label="a"), "done")


async def test_a_result_stands_in_for_a_run_and_nothing_else_runs():
    stand_in, runs = Answering(results={"look": ToolResult.ok("as before")}), Runs()
    ran, result = await run(LOOK, stand_in, gates=[runs])
    assert (ran, runs.seen, texts(result)) == ([], [], ["as before"])
    assert [(each.name, each.input) for each in stand_in.asked] == [("look", {"label": "a"})]


async def test_without_an_answer_the_tool_runs():
    ran, result = await run(LOOK, Answering(), gates=[runs := Runs()])
    assert (ran, runs.seen, texts(result)) == (["a"], ["look", "look"], ["seen a"])


async def test_it_is_asked_only_about_calls_that_are_valid_and_allowed():
    stand_in = Answering(results={"look": ToolResult.ok("as before")})
    calls = [ToolUseBlock("1", "look", {"label": 7}), ToolUseBlock("2", "unknown", {})]
    await run([calls, "done"], stand_in)
    denied = PermissionManager([PermissionRule.deny_tool("look")])
    await run(LOOK, stand_in, permissions=denied)
    assert stand_in.asked == []


async def test_several_form_a_chain_and_the_first_answer_wins():
    chain = [
        Answering(),
        Answering(ScriptedProvider(*LOOK), {"look": ToolResult.ok("one")}),
        Answering(ScriptedProvider("never"), {"look": ToolResult.ok("two")}),
    ]
    ran, result = await run(["never"], *chain)
    assert (ran, result.text, texts(result)) == ([], "done", ["one"])
    assert [len(each.asked) for each in chain] == [1, 1, 0]


@pytest.mark.parametrize(
    ("answer", "said"), [(ValueError("broken"), "ValueError: broken"), ("text", "returned str")]
)
async def test_a_broken_one_is_an_error_of_the_call(answer, said):
    ran, result = await run(LOOK, Answering(results={"look": answer}))
    assert ran == []
    assert said in texts(result)[0]


def test_a_map_holds_all_of_a_resource_type_and_those_of_the_runtime_after_its_own():
    shared = ResourceMap()
    own = ResourceMap(shared=shared)
    one, two, three = Answering(), Answering(), Answering()
    shared.insert(three)
    assert own.get(Substitutes) is three
    for each in (one, two, one):
        own.insert(each)
    assert own.get_all(Substitutes) == (one, two, three)
    assert own.get(Substitutes) is one
    assert own.contains(Substitutes)
    assert own.get(Answering) is None
    assert (len(own), tuple(own)) == (2, (one, two))
    assert own.remove(Substitutes) is one
    assert own.get_all(Substitutes) == (three,)
    shared.clear()
    assert not own.contains(Substitutes)


async def test_a_stored_message_is_a_step_of_a_script():
    llm = ScriptedProvider(Reply("hello", usage=None, stop_reason="max_tokens"), name="vendor")
    first = await Agent(llm).run("Hi.")
    (stored,) = (each for each in first.messages if each.role == "assistant")
    again = await Agent(ScriptedProvider(stored, lambda request: stored)).run("Hi.")
    (reply,) = (each for each in again.messages if each.role == "assistant")
    same = ("content", "stop_reason", "provider", "model", "usage")
    assert [getattr(reply, each) for each in same] == [getattr(stored, each) for each in same]
    assert reply.id != stored.id
    with pytest.raises(ConfigurationError, match="message of a user"):
        ScriptedProvider(first.messages[0])


LOOKED_UP = []


@tool(category="read", requires_permission=False)
async def look_up(word: str) -> str:
    """Look a word up."""
    LOOKED_UP.append(word)
    if word == "fails":
        raise ValueError("no")
    return word.upper()


async def look_up_all(cache, *words, wait=0.0, sessions=1):
    LOOKED_UP.clear()
    found = []
    async with AgentRuntime(InMemoryStore(), instruments=[cache]) as runtime:
        runtime.resources.insert(cache)
        for _ in range(sessions):
            script = [call("look_up", word=word) for word in words]
            result = await Agent(ScriptedProvider(*script, "done"), tools=[look_up]).run(
                "Go.", runtime=runtime
            )
            found.append([block.text for m in result.messages for block in m.tool_results])
            await trio.sleep(wait)
    return found


async def test_a_call_that_comes_again_has_the_earlier_result(autojump_clock):
    found = await look_up_all(ResultCache([look_up]), "a", "b", "a")
    assert (LOOKED_UP, found[0][2]) == (["a", "b"], "A")


async def test_failures_are_not_kept_nor_are_results_for_other_sessions(autojump_clock):
    await look_up_all(ResultCache([look_up]), "fails", "fails")
    assert LOOKED_UP == ["fails", "fails"]
    await look_up_all(ResultCache([look_up]), "a", sessions=2)
    assert LOOKED_UP == ["a", "a"]
    await look_up_all(ResultCache([look_up], shared=True), "a", sessions=2)
    assert LOOKED_UP == ["a"]


async def test_results_grow_old_and_have_a_limit(autojump_clock):
    cache = ResultCache([look_up], shared=True, max_age=10, max_results=2)
    await look_up_all(cache, "a", sessions=3, wait=6.0)
    assert LOOKED_UP == ["a", "a"]
    await look_up_all(ResultCache([look_up], max_results=2), "a", "b", "a", "c", "b", "c")
    assert LOOKED_UP == ["a", "b", "c", "b"]


@tool(category="read")
async def where(place: str, context: AgentContext) -> str:
    """Say where it begins."""
    begun = context.workspace.cwd
    await trio.sleep(2)
    return str(begun)


@tool(category="read")
async def move(place: str, context: AgentContext) -> str:
    """Move the agent."""
    await trio.sleep(1)
    context.workspace.cwd = Path(place)
    return "moved"


async def test_a_result_is_kept_for_the_folder_where_its_call_began(autojump_clock):
    cache, here = ResultCache([where]), ToolUseBlock("c1", "where", {"place": "x"})
    there = ToolUseBlock("c2", "move", {"place": "/etc"})
    llm = ScriptedProvider([here, there], [here], "done")
    async with AgentRuntime(InMemoryStore(), workspace="/usr", instruments=[cache]) as runtime:
        runtime.resources.insert(cache)
        result = await Agent(llm, tools=[where, move]).run("Go.", runtime=runtime)
    assert texts(result) == ["/usr", "moved", "/etc"]


class Reads:
    """A tool that only reads a file."""

    name, description, category, parameters = "read", "Read.", "read", {"type": "object"}
    requires_permission = False

    def effects(self, input, context):
        return [ReadPath("a.txt")]

    async def execute(self, input, context):
        return ToolResult.ok(str(context.workspace.cwd))


class Folders(Substitutes):
    """Notes in which folder each is told that a call runs."""

    def __init__(self):
        self.seen = []

    def note(self, context):
        self.seen.append((str(context.workspace.cwd), context.current_tool_use_id))

    async def result(self, agent, call):
        self.note(agent)

    async def before_run(self, agent, call):
        self.note(agent)

    def before_tool_run(self, agent, call):
        self.note(agent)

    def after_tool_run(self, agent, call, result):
        self.note(agent)


async def test_who_is_told_of_a_run_gets_the_folder_of_the_call():
    class Moving:
        """Moves the agent when a call is announced, as a command beside it may do."""

        def on_chunk(self, agent, chunk):
            if isinstance(chunk, ToolStart):
                self.handle._actor.context.workspace.cwd = Path("/etc")

    moving, folders = Moving(), Folders()
    script = (ToolUseBlock("c1", "read", {}), "done")
    runtime = AgentRuntime(InMemoryStore(), workspace="/usr", instruments=[moving], gates=[folders])
    async with runtime:
        runtime.resources.insert(folders)
        rules = PermissionManager([PermissionRule.allow_all()])
        agent = Agent(ScriptedProvider(*script), tools=[Reads()], permissions=rules)
        moving.handle = runtime.spawn(AgentSession.new("a"), agent)
        await moving.handle.ask("Go.")
        [result] = [r for m in await moving.handle.history() for r in m.tool_results]
    assert result.text == "/usr"
    assert folders.seen == [("/usr", "c1")] * 4


def test_only_tools_that_read_are_taken():
    def write(text: str) -> str:
        """Write."""

    with pytest.raises(ConfigurationError, match="write may do more than read"):
        ResultCache([write])
    ResultCache([write], any_tool=True)
    for wrong in ({"max_age": 0}, {"max_results": 0}):
        with pytest.raises(ConfigurationError, match="max_"):
            ResultCache([look_up], **wrong)
