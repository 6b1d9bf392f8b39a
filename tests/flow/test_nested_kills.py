"""An agent as a tool is never in doubt after a kill: it is continued, and asks about its calls."""

import copy
import random
import shutil
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from pydantic import BaseModel

from greenroom import Agent, Answer, FileStore, InMemoryStore, RuleDecision, SQLiteStore
from greenroom.flow import handoff_team, pipeline, react
from greenroom.flow.resume import find_inspection
from greenroom.llm._internal import ANSWER_TOOL
from greenroom.testing import ScriptedProvider, call
from tests.conftest import take_sample


class World:
    """Effects, and a person who sees them and answers truthfully."""

    def __init__(self, effects=(), at_moment=lambda world: None):
        self.effects, self.asked = list(effects), []
        self.moments = 0
        self.at_moment = at_moment

    def moment(self):
        self.moments += 1
        self.at_moment(self)

    def tool(self):
        async def act(effect: str) -> str:
            """Have an effect."""
            self.moment()
            self.effects.append(effect)
            self.moment()
            return f"{effect} is done"

        return act

    async def approve(self, request):
        assert request.may_have_run
        self.asked.append(request.tool_name)
        if request.tool_name != "act":
            return True  # the function has no effect of its own
        effect = request.input["effect"]
        if effect not in self.effects:
            return True
        return Answer(RuleDecision.DENY, input={"result": f"{effect} is done"})

    def model(self, *calls):
        """A model that makes these calls, one after the other, as far as the history has none."""

        def answer(request):
            self.moment()
            results = [each for message in request.messages for each in message.tool_results]
            assert not any(each.is_error for each in results), results
            return calls[len(results)] if len(results) < len(calls) else "done"

        return ScriptedProvider(*[answer] * 99)

    def leaf(self, name, *effects, **options):
        calls = [call("act", effect=each) for each in effects]
        return Agent(
            self.model(*calls), name=name, description=name, tools=[self.tool()], **options
        )

    def boss(self, name, *tools, **options):
        calls = [call(getattr(each, "name", "ask"), prompt="Do it") for each in tools]
        return Agent(self.model(*calls), name=name, description=name, tools=tools, **options)


def of_two(world):
    return world.boss(
        "boss", world.leaf("one", "a", "b").as_tool(), world.leaf("two", "c").as_tool()
    )


def of_three_deep(world):
    inner = world.boss("inner", world.leaf("leaf", "a", "b", "c").as_tool())
    return world.boss("boss", world.boss("middle", inner.as_tool()).as_tool())


def of_team(world):
    team = pipeline(world.leaf("one", "a", "b"), world.leaf("two", "c"), name="team")
    return world.boss("boss", team.as_tool(description="A team."))


def of_function(world):
    leaf = world.leaf("leaf", "a", "b", "c")

    async def ask(prompt: str) -> str:
        """Ask it."""
        return (await leaf.run(prompt)).output

    return world.boss("boss", ask)


def of_handoff(world):
    calls = [call("act", effect="a"), call("transfer_to_other"), call("leaf", prompt="Do it")]
    llm = world.model(*calls)
    other = Agent(llm, name="other", tools=[world.leaf("leaf", "b", "c").as_tool()])
    return handoff_team(Agent(llm, name="desk", tools=[world.tool()], handoffs=["other"]), other)


def of_pattern(world):
    middle = world.boss("middle", world.leaf("leaf", "a", "b").as_tool())
    return pipeline(world.boss("boss", middle.as_tool()), world.leaf("end", "c"), name="chain")


KINDS = [of_two, of_three_deep, of_team, of_function, of_handoff, of_pattern]


def copy_memory(store):
    """What a kill would leave of a store in memory."""
    left = InMemoryStore()
    left._sessions = copy.deepcopy(store._sessions)
    for each in left._sessions.values():
        each.is_locked = False
    return left


async def kill_at(make, moment, given, effects, store):
    """Run to the end; return what a kill at a moment would have left, and the moments there are."""
    left = []

    def look(world):
        if world.moments == moment:
            left.append((list(world.effects), copy_memory(store)))

    world = World(effects, look)
    result = await make(world).run(given, session="root", store=store, approve=world.approve)
    assert result.status == "completed", result.error
    return result, world, left


@pytest.mark.every(3)
@pytest.mark.parametrize("make", KINDS)
async def test_every_effect_happens_once_wherever_it_is_killed_once_and_again(make):
    _, world, _ = await kill_at(make, 0, "Do it", (), InMemoryStore())
    assert (Counter(world.effects), world.asked) == (Counter("abc"), [])
    chance = random.Random(make.__name__)
    for moment in take_sample(range(1, world.moments + 1), 2):
        _, _, left = await kill_at(make, moment, "Do it", (), InMemoryStore())
        effects, store = left[0]
        stored = await store.exists("root")
        again = chance.randint(1, world.moments)
        _, second, left = await kill_at(make, again, None if stored else "Do it", effects, store)
        assert Counter(second.effects) == Counter("abc"), moment
        if left:
            effects, store = left[0]
            stored = await store.exists("root")
            given = None if stored else "Do it"
            _, third, _ = await kill_at(make, 0, given, effects, store)
            assert Counter(third.effects) == Counter("abc"), (moment, again)


@asynccontextmanager
async def open_store(kind, folder):
    if kind == "files":
        yield FileStore(folder / "sessions")
    else:
        async with SQLiteStore(folder / "sessions.db") as store:
            yield store


@pytest.mark.parametrize("kind", ["files", "sqlite"])
async def test_it_goes_on_in_files_and_databases(kind, tmp_path):
    left = tmp_path / "left"

    def look(world):
        if len(world.effects) == 2 and not left.exists():
            shutil.copytree(tmp_path / "first", left)

    (tmp_path / "first").mkdir()
    async with open_store(kind, tmp_path / "first") as store:
        world = World((), look)
        await of_three_deep(world).run("Do it", session="root", store=store)
    async with open_store(kind, left) as store:
        world = World("ab")
        await of_three_deep(world).run(None, session="root", store=store, approve=world.approve)
    assert (world.effects, world.asked) == (["a", "b", "c"], ["act"])


async def kill_behind(make, effect):
    """Return what a kill right after an effect leaves."""
    store, left = InMemoryStore(), []

    def look(world):
        if world.effects[-1:] == [effect] and not left:
            left.append(copy_memory(store))

    await make(World((), look)).run("Do it", session="root", store=store)
    return left[0]


async def test_questions_wait_and_are_answered_ahead():
    store = await kill_behind(of_handoff, "a")
    world = World("a")
    result = await of_handoff(world).run(None, session="root", store=store, approve="later")
    assert result.status == "waiting"
    (question,) = result.pending
    assert (question.tool_name, question.input) == ("act", {"effect": "a"})
    answers = {question.request_id: Answer(RuleDecision.DENY, input={"result": "a is done"})}
    result = await of_handoff(world).run(session="root", store=store, answers=answers)
    assert (result.status, world.effects) == ("completed", ["a", "b", "c"])


async def test_where_nobody_answers_the_model_is_told_and_nothing_is_run_again():
    store = await kill_behind(lambda world: world.leaf("leaf", "a"), "a")
    llm = ScriptedProvider(lambda request: request.messages[-1].tool_results[0].text)
    result = await Agent(llm, tools=[World().tool()]).run(None, session="root", store=store)
    assert "had started" in result.output


class Report(BaseModel):
    words: int


async def test_the_typed_answer_of_an_agent_that_had_ended_stays_typed():
    """The agent had ended, and the kill came before its caller had recorded it."""
    outputs, asked, store, left = [], [], InMemoryStore(), []

    def build():
        llm = ScriptedProvider(lambda request: asked.append(1) or '{"words": 3}')
        writer = Agent(llm, output_type=Report, name="writer")

        async def write() -> str:
            """Write."""
            outputs.append((await writer.run("Write.")).output)
            left.append(copy_memory(store))
            return "written"

        return Agent(ScriptedProvider(call("write"), "done"), tools=[write]), writer

    await build()[0].run("Go", session="root", store=store)
    boss, _ = build()

    async def approve(request):
        return True

    boss = Agent(ScriptedProvider("done"), tools=boss.tools)
    await boss.run(None, session="root", store=left[0], approve=approve)
    assert outputs == [Report(words=3)] * 2
    assert asked == [1]


@pytest.mark.parametrize(
    "answer", ['{"words": 3}', call(ANSWER_TOOL, words=3)], ids=["as text", "in a tool"]
)
async def test_a_typed_member_that_had_ended_gives_its_value(answer):
    """The kill came between its last save and the record of its end."""
    member = Agent(ScriptedProvider(answer), output_type=Report, name="writer")
    result = await member.run("Write.", store=InMemoryStore())
    assert result.output == Report(words=3)
    trace = find_inspection(member)(result.session)
    assert (trace.kind, trace.result) == ("result", {"words": 3})


async def test_react_asks_about_its_action_that_was_cut_off():
    def build(world):
        def model(request):
            world.moment()
            said = "\n".join(message.text for message in request.messages)
            done = "a is done" in said
            return (
                "Final Answer: done" if done else "Action: {'tool': 'act', 'args': {'effect': 'a'}}"
            )

        return react(ScriptedProvider(*[model] * 9), [world.tool()])

    world = World("a")
    store = await kill_behind(build, "a")
    result = await build(world).run(None, session="root", store=store, approve=world.approve)
    assert (result.output, world.asked, world.effects) == ("done", ["act"], ["a"])
