"""Handoffs: one conversation moves between agents, and keeps its place whatever happens."""

import pytest
import trio
from hypothesis import given, settings, strategies as st

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    BudgetExceededError,
    ConfigurationError,
    Custom,
    FileStore,
    Guard,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    Reject,
    RuleDecision,
    RunContext,
    ToolStart,
    builtin_tools,
)
from greenroom.agents._internal import HandoffLimitError
from greenroom.agents.handoff import MAX_SWITCHES, Team
from greenroom.resilience import Budget
from greenroom.testing import Reply, Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from tests.conftest import few

SECONDS = 60


def look() -> str:
    """Look."""
    return "rain"


def agent(name, *script, **options):
    return Agent(ScriptedProvider(*script), name=name, **options)


def to(name):
    return call(f"transfer_to_{name}")


def pair(sales, triage=None, **options):
    """Triage, which hands off to sales at once, and back."""
    seller = agent("sales", *sales, handoffs=["triage"], description="Sells.", **options)
    return agent("triage", *(triage or [to("sales")]), handoffs=[seller])


async def run(agent, text="Go", **options):
    """Run it; return the result and the handoffs that were told of."""
    with trio.fail_after(SECONDS):
        async with agent.stream(text, **options) as run:
            chunks = [chunk async for chunk in run]
    told = [chunk.data for chunk in chunks if isinstance(chunk, Custom) and chunk.kind == "handoff"]
    return run.result, [(each["from"], each["to"]) for each in told]


def last_system(agent):
    return agent.llm.requests[-1].system


async def test_the_next_step_is_made_by_the_other_agent_with_what_is_its_own():
    seller = agent(
        "sales", call("look"), '{"value": 12}', instructions="Sell.", tools=[look], output_type=int
    )
    triage = agent("triage", to("sales"), instructions="Find out.", handoffs=[seller])
    result, told = await run(triage, "How much?")
    assert (result.output, result.steps, told) == (12, 3, [("triage", "sales")])
    [asked] = triage.llm.requests
    assert [tool.name for tool in asked.tools] == ["transfer_to_sales"]
    first, second = seller.llm.requests
    assert (asked.system, first.system) == ("Find out.", "Sell.")
    assert "look" in [tool.name for tool in first.tools]
    assert "transfer_to_sales" not in [tool.name for tool in first.tools]
    # One history, as it was and with what was said since.
    assert [message.role for message in first.messages] == ["user", "assistant", "user"]
    assert first.messages[0].text == "How much?"
    [block] = first.messages[2].tool_results
    assert "sales has the conversation now" in block.text
    assert second.messages[:3] == first.messages
    assert result.session.records("agent.handoff") == ({"from": "triage", "to": "sales"},)


async def test_the_model_is_told_what_the_other_agents_are_good_for():
    triage = pair(["Sold."], ["Hello."])
    await run(triage)
    [tool] = triage.llm.requests[0].tools
    assert tool.description == "Pass the conversation to sales. Sells."


async def test_tools_that_a_function_names_stand_beside_the_transfers():
    def tools(context: RunContext) -> list[object]:
        return [look] if context.step == 1 else []

    triage = agent("triage", call("look"), to("b"), tools=tools, handoffs=[agent("b", "Done.")])
    result, _ = await run(triage)
    assert result.output == "Done."
    names = [[tool.name for tool in request.tools] for request in triage.llm.requests]
    assert names == [["look", "transfer_to_b"], ["transfer_to_b"]]


async def test_its_guards_and_its_permissions_hold():
    ran = []

    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    def no_keys(context, text):
        return Reject("it holds a key") if "sk-" in text else None

    denied = PermissionManager([PermissionRule.deny_tool("pay")])
    careful = agent("b", call("pay"), "It is sk-1.", tools=[pay], permissions=denied)
    careful = Agent(
        careful.llm, name="b", tools=[pay], permissions=denied, guards=[Guard(no_keys, on="text")]
    )
    result, _ = await run(agent("a", call("pay"), to("b"), tools=[pay], handoffs=[careful]))
    assert ran == ["pay"]
    assert [denial.tool for denial in result.denials] == ["pay"]
    assert (result.status, result.error.message) == (
        "failed",
        "no_keys has rejected the text: it holds a key",
    )


async def test_all_share_the_deps():
    def who(context: RunContext[str]) -> str:
        """Say who is logged in."""
        return context.deps

    def say(request):
        return request.messages[-1].tool_results[0].text

    b = agent("b", call("who"), say, tools=[who], deps_type=str)
    result, _ = await run(agent("a", to("b"), handoffs=[b], deps_type=str), deps="ada")
    assert result.output == "ada"


async def test_later_turns_go_on_with_the_agent_that_has_the_conversation(tmp_path):
    store = FileStore(tmp_path)
    triage = pair(["Hello.", "Still here.", to("triage")], [to("sales"), "Welcome back."])
    for expected, handoffs in [
        ("Hello.", [("triage", "sales")]),
        ("Still here.", []),
        ("Welcome back.", [("sales", "triage")]),
    ]:
        result, told = await run(triage, session="ann", store=store)
        assert (result.output, told) == (expected, handoffs)


async def test_who_has_the_conversation_is_on_file_before_the_next_model_is_asked(tmp_path):
    """So a kill there leaves no history that says something else."""

    def reply(request):
        return str(any("agent.handoff" in file.read_text() for file in tmp_path.rglob("*.jsonl")))

    triage = agent("triage", to("sales"), handoffs=[agent("sales", reply)])
    result, _ = await run(triage, store=FileStore(tmp_path))
    assert result.output == "True"


async def test_a_spawned_agent_goes_on_with_it_too():
    triage = pair(["Hello.", "Still here."])
    with trio.fail_after(SECONDS):
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("team"), triage)
            assert [(await handle.ask("Go")).text for _ in range(2)] == ["Hello.", "Still here."]


async def test_the_input_of_a_later_turn_is_seen_by_its_guards_alone():
    def no_swords(context, text):
        return Reject("no swords") if "sword" in text else None

    seller = agent("sales", "Hello.", guards=[Guard(no_swords, on="input")])
    triage = agent("triage", to("sales"), handoffs=[seller])
    result, _ = await run(triage, "A sword?")
    assert result.output == "Hello."
    result, _ = await run(triage, "A sword!", session=result.session)
    assert result.error.message == "no_swords has rejected the input: no swords"
    assert "sword!" not in repr(result.session.history)


async def test_a_rewind_drops_the_handoff():
    triage = pair(["Hello."], [to("sales"), "From the start."])
    result, _ = await run(triage)
    await result.session.rewind(0)
    result, _ = await run(triage, session=result.session)
    assert result.output == "From the start."


async def test_an_agent_that_is_not_there_any_more_leaves_the_conversation_to_the_first():
    result, _ = await run(pair(["Hello."]))
    alone = agent("desk", "At your service.")
    result, told = await run(alone, session=result.session)
    assert (result.output, told) == ("At your service.", [("sales", "desk")])
    assert result.warnings == ("sales had the conversation and is not here: desk goes on",)


@given(
    turns=st.lists(st.lists(st.sampled_from("abc"), max_size=MAX_SWITCHES), min_size=1, max_size=3),
    data=st.data(),
)
@settings(max_examples=few(30))
def test_whoever_was_given_the_conversation_last_answers(turns, data):
    """Each turn has a path through the agents; then the conversation is rewound to one of them."""
    waiting = []

    def step(request):
        if waiting and (target := waiting.pop(0)) in {
            tool.name.removeprefix("transfer_to_") for tool in request.tools
        }:
            return to(target)
        waiting.clear()
        return request.system

    def member(name, *handoffs):
        llm = ScriptedProvider(*[step] * 100)
        return Agent(llm, name=name, instructions=name, handoffs=handoffs)

    first = member("a", member("b", member("c", "a", "b"), "a"), "c")

    async def main():
        session, holder, places = AgentSession.new("team", store=InMemoryStore()), "a", []
        for way in turns:
            places.append((len(session.history), holder))
            waiting[:] = way
            for name in way:
                if name == holder:
                    break
                holder = name
            assert (await first.run("Go", session=session)).output == holder
        place, holder = data.draw(st.sampled_from(places))
        await session.rewind(place)
        waiting.clear()
        assert (await first.run("Go", session=session)).output == holder

    trio.run(main)


@pytest.mark.parametrize("first", ["transfer", "call"])
async def test_other_calls_of_the_reply_are_those_of_the_agent_that_made_them(first):
    calls = [to("b"), call("look")] if first == "transfer" else [call("look"), to("b")]
    b = agent("b", "Done.", tools=[])
    a = agent("a", calls, tools=[look], handoffs=[b])
    async with a.stream("Go") as stream:
        chunks = [chunk async for chunk in stream]
    results = {each.tool_use_id: each.text for each in stream.result.messages[2].tool_results}
    assert list(results) == [each.id for each in calls]
    assert results[next(each.id for each in calls if each.name == "look")] == "rain"
    kinds = [each for each in chunks if isinstance(each, ToolStart | Custom)]
    assert isinstance(kinds[-1], Custom)  # only now is it the other's
    assert stream.result.output == "Done."


async def test_of_several_transfers_the_first_counts():
    c = agent("c", "Wrong.")
    result, told = await run(agent("a", [to("b"), to("c")], handoffs=[agent("b", "Right."), c]))
    assert (result.output, told) == ("Right.", [("a", "b")])
    first, second = result.messages[2].tool_results
    assert (first.is_error, second.is_error) == (False, True)
    assert second.text == "This was not done: b has the conversation already."
    assert c.llm.requests == []


async def test_a_conversation_that_goes_back_and_forth_is_ended():
    triage = pair([to("triage")] * 5, [to("sales")] * 5)
    result, told = await run(triage)
    assert isinstance(result.error, HandoffLimitError)
    way = " → ".join(["triage", "sales"] * 3 + ["triage"])
    assert f"would have been passed on more than {MAX_SWITCHES} times" in result.error.message
    assert way in result.error.message
    assert len(told) == MAX_SWITCHES
    assert result.session.records("agent.handoff")[-1] == {"from": "triage", "to": "sales"}


async def test_so_many_switches_may_be():
    triage = pair([to("triage"), to("triage"), "Done."], [to("sales")] * 3)
    result, told = await run(triage)
    assert (result.output, len(told)) == ("Done.", MAX_SWITCHES)


async def test_the_steps_and_the_budget_are_those_of_the_agent_that_was_run():
    def last(request):
        return "Cut short." if request.tool_choice == "none" else call("look")

    seller = agent("sales", *[last] * 9, tools=[look], max_steps=1, budget=Budget(model_calls=1))
    result, _ = await run(agent("a", to("sales"), handoffs=[seller], max_steps=4))
    assert (result.output, result.steps, result.is_truncated) == ("Cut short.", 4, True)
    seller = agent("sales", *[call("look")] * 9, tools=[look])
    result, _ = await run(agent("a", to("sales"), handoffs=[seller], budget=Budget(model_calls=3)))
    assert isinstance(result.error, BudgetExceededError)
    assert len(seller.llm.requests) == 2


async def test_a_transfer_is_no_question_but_may_be_denied():
    def team(*rules):
        b = agent("b", "Done.")
        permissions = PermissionManager(rules)
        return agent("a", to("b"), "I stay.", handoffs=[b], permissions=permissions)

    result, _ = await run(team())
    assert (result.output, result.denials) == ("Done.", ())
    result, told = await run(team(PermissionRule.deny_tool("transfer_to_b")))
    assert (result.output, told) == ("I stay.", [])
    assert [denial.tool for denial in result.denials] == ["transfer_to_b"]


@pytest.mark.parametrize("final", [False, True])
async def test_what_is_allowed_for_the_session_is_denied_by_final_rules_alone(
    final, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    async def approve(request):
        return Answer(RuleDecision.ALLOW, remember="session")

    denies = PermissionManager([PermissionRule.deny_tool("Bash", final=final)])
    runs, tools = call("Bash", command="touch made"), builtin_tools()
    b = agent("b", runs, "Done.", tools=tools, permissions=denies)
    a = agent("a", runs, to("b"), tools=tools, handoffs=[b])
    result, _ = await run(a, approve=approve)
    assert (result.output, len(result.denials)) == ("Done.", final)


async def test_after_an_interrupt_the_other_agent_goes_on():
    triage = pair([Reply("Hel", hangs=True), "Hello."])
    with trio.fail_after(SECONDS):
        async with triage.stream("Go") as stream:
            async for piece in stream.text():
                assert piece == "Hel"
                await stream.handle.interrupt()
        result, told = await run(triage, None, session=stream.result.session)
    assert (stream.result.status, result.output, told) == ("interrupted", "Hello.", [])


async def test_an_interrupt_after_the_transfer_leaves_it_done():
    async def wait() -> str:
        """Wait."""
        await trio.sleep_forever()

    b = agent("b", "I am b.")
    a = agent("a", [to("b"), call("wait")], "I am a.", tools=[wait], handoffs=[b])
    with trio.fail_after(SECONDS):
        async with a.stream("Go") as stream:
            async for chunk in stream:
                if isinstance(chunk, ToolStart) and chunk.name == "wait":
                    await stream.handle.interrupt()
    results = [block for each in stream.result.messages for block in each.tool_results]
    done, interrupted = results
    assert (done.is_error, interrupted.is_error) == (False, True)
    result, _ = await run(a, session=stream.result.session)
    assert result.output == "I am b."


@pytest.mark.parametrize("answer", ["allow", "deny"])
@pytest.mark.parametrize("asks", ["a", "b"])
async def test_a_question_is_answered_by_a_later_run(asks, answer, tmp_path):
    """The first agent asks beside its transfer, which does not wait; or the second one asks."""
    store, ran = FileStore(tmp_path), []

    def deploy() -> str:
        """Deploy."""
        ran.append(asks)
        return "deployed"

    def team():
        rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
        own = {"tools": [deploy], "permissions": rules}

        def reply(request):
            results = [block for each in request.messages for block in each.tool_results]
            return "Done." if len(results) == 2 else call("deploy")

        script = [to("b"), call("deploy")] if asks == "a" else to("b")
        b = agent("b", reply, reply, **own)
        return agent("a", script, handoffs=[b], **own)

    result, told = await run(team(), store=store, approve="later")
    assert (result.status, [each.tool_name for each in result.pending]) == ("waiting", ["deploy"])
    assert (ran, told) == ([], [("a", "b")])
    again = team()
    answers = {result.pending[0].request_id: answer}
    session = result.session.session_id
    result, told = await run(again, None, session=session, store=store, answers=answers)
    assert (result.output, again.llm.requests) == ("Done.", [])
    assert ran == ([asks] if answer == "allow" else [])
    assert told == []


def test_a_cancel_at_any_checkpoint_leaves_nothing_behind():
    async def wait() -> str:
        """Wait."""
        await trio.sleep(20)
        return "rain"

    def scenario():
        def answer(request):
            results = request.messages[-1].tool_results
            return to("a") if results and results[0].text == "rain" else call("wait")

        async def pass_on(context, text):
            await trio.sleep(1)

        def front(request):
            seen = [block.text for each in request.messages for block in each.tool_results]
            return "Done." if "rain" in seen else to("b")

        guards = [Guard(pass_on, on=on) for on in ("input", "text", "output")]
        b = agent("b", *[answer] * 50, tools=[wait], handoffs=["a"], guards=guards)
        return Scenario(agent("a", *[front] * 50, handoffs=[b]), inputs="Go")

    report = cancel_at_every_checkpoint(scenario, at_most=few(24))
    assert report.violations == ()


async def test_a_subagent_may_hand_off_and_its_output_is_the_other_agents():
    desk = agent("desk", to("expert"), handoffs=[agent("expert", "It rains.")])
    tool = desk.as_tool("ask", "Ask.")
    result, _ = await run(agent("boss", call("ask", prompt="?"), "Thanks.", tools=[tool]))
    [block] = result.messages[2].tool_results
    assert (block.text, result.output) == ("It rains.", "Thanks.")


async def test_what_is_denied_to_the_caller_is_denied_to_whom_its_subagent_hands_off():
    ran = []

    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    desk = agent("desk", to("bank"), handoffs=[agent("bank", call("pay"), "No.", tools=[pay])])
    rules = PermissionManager([PermissionRule.deny_tool("pay")])
    boss = agent("boss", call("ask", prompt="?"), "Oh.", tools=[desk.as_tool("ask", "Ask.")])
    boss = Agent(boss.llm, tools=[desk.as_tool("ask", "Ask.")], permissions=rules, name="boss")
    result, _ = await run(boss)
    assert (ran, [denial.tool for denial in result.denials]) == ([], ["pay"])


async def test_the_conversation_is_not_passed_to_an_agent_that_waits_for_what_comes_of_it():
    """The boss asks the desk, which would hand off to the boss."""
    found = []

    async def ask() -> str:
        """Ask the desk."""
        desk = agent("desk", to("boss"), "I do it.", handoffs=[boss])
        result, _ = await run(desk)
        found.extend(block.text for each in result.messages for block in each.tool_results)
        return result.output

    boss = agent("boss", call("ask"), lambda r: r.messages[-1].tool_results[0].text, tools=[ask])
    result, _ = await run(boss)
    assert result.output == "I do it."
    assert found == ["boss can't take over: it is waiting for the result of this turn."]


async def test_who_has_handed_off_waits_for_nothing_and_may_be_asked():
    def reply(request):
        return to("b") if request.messages[0].text == "Go" else "I am a."

    async def ask() -> str:
        """Ask the first one."""
        return (await a.run("Who?")).output

    b = agent("b", call("ask"), lambda r: r.messages[-1].tool_results[0].text, tools=[ask])
    a = agent("a", reply, reply, handoffs=[b])
    result, _ = await run(a)
    assert result.output == "I am a."


def transfer_to_b() -> str:
    """Do something else."""
    return ""


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"handoffs": "b"}, "handoffs is 'b'"),
        ({"handoffs": Agent("offline:", name="b")}, r"handoffs is Agent"),
        ({"handoffs": [look]}, "is not an agent or the name of one"),
        ({"handoffs": ["a"]}, "a can't hand off to 'a': 'transfer_to_a' is taken"),
        ({"handoffs": ["b", "b"]}, "'transfer_to_b' is taken"),
        ({"handoffs": ["the shop"]}, "'transfer_to_the shop' is not a name for a tool"),
        ({"handoffs": [""]}, "'transfer_to_' is not a name"),
        ({"handoffs": ["b" * 53]}, "is not a name for a tool"),
        ({"handoffs": [Agent("offline:", name="a")]}, "two agents .* are named 'a'"),
        ({"handoffs": ["b"], "tools": [transfer_to_b]}, "'transfer_to_b' is taken"),
        ({"capabilities": "German"}, "capabilities is 'German'"),
        ({"capabilities": ["German", " "]}, "a capability is a word or two, not ' '"),
        ({"capabilities": [7]}, "a capability is a word or two, not 7"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_agent_is_made(options, match):
    with pytest.raises(ConfigurationError, match=match):
        Agent("offline:", name="a", **options)


def test_two_agents_of_one_name_are_refused_wherever_they_are():
    inner = [agent("c", handoffs=[agent("b")]), agent("b")]
    with pytest.raises(ConfigurationError, match=r"two agents .* are named 'b'"):
        agent("a", handoffs=inner)


@pytest.mark.parametrize("deps_type", [int, None])
def test_other_deps_are_refused_when_the_agent_is_made(deps_type):
    with pytest.raises(TypeError, match="b gets the deps of a"):
        agent("a", deps_type=str, handoffs=[agent("b", deps_type=deps_type)])


async def test_names_are_resolved_when_it_is_run():
    b = agent("b", to("a"), handoffs=["a", "c"])
    with pytest.raises(ConfigurationError, match="but no agent has this name among a, b"):
        await run(agent("a", to("b"), handoffs=[b]))
    other = agent("b", deps_type=str, handoffs=["c"])
    team = agent("a", handoffs=[other, agent("c", deps_type=str)], deps_type=str)
    assert set(Team.of(team).members) == {"a", "b", "c"}


async def test_a_tool_that_takes_the_name_of_a_transfer_later_ends_the_turn():
    def tools(context: RunContext) -> list[object]:
        return [transfer_to_b]

    result, _ = await run(agent("a", tools=tools, handoffs=[agent("b")]))
    assert "transfer_to_b" in result.error.message


async def test_a_team_may_be_more_than_what_can_be_reached():
    """What a package of teams is made of: others by name, and a bound of its own."""
    a, b = agent("a", to("b"), to("b"), handoffs=["b"]), agent("b", to("a"), handoffs=["a"])
    team = Team.of(a, [b], max_switches=2)

    async def function(internals):
        await a(internals, team=team)

    with trio.fail_after(SECONDS):
        async with AgentRuntime(InMemoryStore()) as runtime:
            result = await runtime.spawn(AgentSession.new("team"), function).ask("Go")
    assert (result.status, "a → b → a → b" in result.error) == ("failed", True)


def test_capabilities_are_kept():
    assert agent("a", capabilities=["refunds", "German"]).capabilities == ("refunds", "German")
