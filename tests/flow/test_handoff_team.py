"""Teams that hand a conversation over: names, limits, and teams within other patterns."""

import pytest

from greenroom import Agent, ConfigurationError, Custom, InMemoryStore, RunContext
from greenroom.agents._internal import HandoffLimitError
from greenroom.flow import handoff_team, pipeline
from greenroom.testing import ScriptedProvider, call


def agent(name, *script, **options):
    return Agent(ScriptedProvider(*script), name=name, **options)


def to(name):
    return call(f"transfer_to_{name}")


def pair(*script, other=("Hello.",), **options):
    """Two agents that name each other."""
    return (
        agent("a", *script, handoffs=["b"], **options),
        agent("b", *other, handoffs=["a"], **options),
    )


async def test_two_agents_name_each_other_and_the_session_knows_who_has_it():
    a, b = pair(to("b"), other=["I am b.", "Still b."])
    team, store = handoff_team(a, b), InMemoryStore()
    async with team.stream("Hi", session="s", store=store) as run:
        told = [chunk.data async for chunk in run if isinstance(chunk, Custom)]
    assert (run.result.output, told) == ("I am b.", [{"from": "a", "to": "b"}])
    assert (await team.run("And now?", session="s", store=store)).output == "Still b."
    assert [m.text for m in b.llm.requests[1].messages if m.text] == ["Hi", "I am b.", "And now?"]


@pytest.mark.parametrize("most", [1, 5])
async def test_back_and_forth_stops_at_the_bound(most):
    a, b = pair(*[to("b")] * 9, other=[to("a")] * 9)
    result = await handoff_team(a, b, max_switches=most).run("Hi")
    assert isinstance(result.error, HandoffLimitError)
    way = " → ".join("ab"[n % 2] for n in range(most + 2))
    assert f"more than {most} times in a turn: {way}" in str(result.error)


async def test_a_team_is_a_member_and_a_tool():
    team = handoff_team(*pair(to("b"), other=["b has it."] * 2), name="team", description="Helps.")
    after = agent("after", lambda request: f"after {request.messages[-1].text}")
    assert (await pipeline(team, after).run("Hi")).output == "after b has it."
    boss = agent("boss", call("team", prompt="Hi"), "Done.", tools=[team.as_tool()])
    team.as_tool()
    a, b = pair(to("b"), other=["b has it."])
    boss = agent(
        "boss",
        call("team", prompt="Hi"),
        "Done.",
        tools=[handoff_team(a, b).as_tool("team", "Helps.")],
    )
    assert (await boss.run("Go.")).messages[2].tool_results[0].text == "b has it."


async def test_a_team_whose_first_agent_waits_is_refused_with_the_chain():
    a = agent(
        "a", call("team", prompt="?"), "Done.", handoffs=["b"], tools=lambda _: [team.as_tool()]
    )
    team = handoff_team(a, agent("b", "Hi"), name="team", description="Helps.")
    result = await team.run("Hi")
    assert (
        "team can't be asked: it waits for this very answer (a → team)"
        in result.messages[2].tool_results[0].text
    )


async def test_all_are_given_the_same_deps():
    def who(context: RunContext[str]) -> str:
        """Answer with the name."""
        return context.deps

    script = call("who"), lambda request: request.messages[-1].tool_results[0].text
    a, b = pair(to("b"), other=script, deps_type=str, tools=[who])
    team = handoff_team(a, b)
    assert (await team.run("Hi", deps="ada")).output == "ada"
    with pytest.raises(TypeError, match="wants deps of the type str"):
        await team.run("Hi")


async def test_a_conversation_is_passed_to_a_pattern_and_back():
    parts = [agent(name, *[lambda r: f"({r.messages[-1].text})"] * 2) for name in "xy"]
    a = agent("a", to("b"), "Bye.", handoffs=["b"])
    team, store = handoff_team(a, pipeline(*parts, name="b")), InMemoryStore()
    result = await team.run("Hi", session="s", store=store)
    assert (result.output, result.usage.total) == ("((Hi))", 45)
    assert result.messages[-1].model == "b"
    assert (await team.run("And now?", session="s", store=store)).output == "((And now?))"


async def test_a_pattern_that_fails_fails_the_turn_and_gives_no_circle():
    a = agent("a", *[to("b")] * 3, handoffs=["b"])
    team = handoff_team(a, pipeline(a, name="b"))
    result = await team.run("Hi")
    assert result.status == "failed"


def test_what_makes_no_sense_is_refused():
    a, b = pair()
    with pytest.raises(ConfigurationError, match="no agent has this name"):
        handoff_team(a)
    with pytest.raises(ConfigurationError, match="no agent hands off to c"):
        handoff_team(a, b, agent("c"))
    with pytest.raises(ConfigurationError, match="max_switches is 0"):
        handoff_team(a, b, max_switches=0)
    with pytest.raises(ConfigurationError, match="two agents"):
        handoff_team(a, b, agent("b", handoffs=["a"]))


def test_what_is_not_an_agent_is_refused_by_what_it_is():
    async def function(internals):
        """Not an agent of a team."""

    desk = agent("desk", handoffs=["pipeline"])
    with pytest.raises(ConfigurationError, match="<pattern pipeline> can't be the first agent"):
        handoff_team(pipeline(desk), desk)
    with pytest.raises(ConfigurationError, match="can't be an agent of a team") as refused:
        handoff_team(desk, function)
    assert refused.value.hint == "give an Agent, or a function in a Pattern"
