"""`react`: thought, action and observation, its limits, and a cancel at any of its checkpoints."""

from itertools import pairwise

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Custom,
    Done,
    InMemoryStore,
    StateChange,
    TextDelta,
    ToolStart,
)
from greenroom.core import TurnStatus
from greenroom.flow import TextTools, react
from greenroom.llm import ModelSettings
from greenroom.resilience import Budget, Retry
from greenroom.testing import Reply, Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from greenroom.testing._internal import run_agent_async
from greenroom.tools import calculator
from tests.conftest import few

SEED = (
    "Thought: I need to calculate 15 * 3. "
    "Action: {'tool': 'calculator', 'arguments': {'expression': '15 * 3'}}",
    "Thought: The result is 45. Final Answer: 45",
)


async def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: sunny, 18 °C"


async def translate(text: str, language: str) -> str:
    """Translate a text."""
    return f"[{language}] {text}"


def steps(run):
    """The reported steps, without ids."""
    told = []
    for chunk in run.of(Custom):
        match chunk.kind, chunk.data:
            case "react.thought", {"text": text}:
                told.append(("thought", text))
            case "react.action", {"tool": tool, "arguments": arguments}:
                told.append(("action", tool, arguments))
            case "react.observation", {"text": text}:
                told.append(("observation", text))
            case kind, _:
                told.append((kind,))
    return told


@pytest.mark.checkpoint("2.3 a result is in the next prompt")
async def test_fifteen_times_three_takes_two_iterations():
    llm = ScriptedProvider(*SEED)
    run = await run_agent_async(react(llm, [calculator]), inputs="Calculate 15 times 3")
    assert len(llm.requests) == 2
    assert llm.requests[1].messages[-1].text == "Observation: 45"
    assert run.text == "45"
    assert run.results[0].status is TurnStatus.COMPLETED
    assert steps(run) == [
        ("thought", "I need to calculate 15 * 3."),
        ("action", "calculator", {"expression": "15 * 3"}),
        ("observation", "45"),
        ("thought", "The result is 45."),
    ]


async def test_eighteen_percent_of_250_is_45():
    call = '{"tool": "calculator", "args": {"expression": "18% of 250"}}'
    act = f"Thought: A percentage.\nAction: {call}"

    def answer(request):
        return f"Thought: done\nFinal Answer: {request.messages[-1].text.split()[-1]}"

    run = await run_agent_async(
        react(ScriptedProvider(act, answer), [calculator]), inputs="What is 18% of 250?"
    )
    assert run.text == "45"


async def test_the_weather_in_another_language():
    llm = ScriptedProvider(
        'Thought: First the weather.\nAction: {"tool": "weather", "arguments": {"city": "Tokyo"}}',
        "Thought: Now in French.\nAction: translate\nAction Input: "
        '{"text": "Tokyo: sunny, 18 °C", "language": "fr"}',
        "Thought: I have both.\nFinal Answer: Ensoleillé, 18 °C",
    )
    run = await run_agent_async(
        react(llm, [weather, translate]), inputs="Weather in Tokyo, in French?"
    )
    assert [kind for kind, *_ in steps(run)] == ["thought", "action", "observation"] * 2 + [
        "thought"
    ]
    assert ("observation", "[fr] Tokyo: sunny, 18 °C") in steps(run)
    assert run.text == "Ensoleillé, 18 °C"
    # The goal and each result are in the last prompt.
    last = [message.text for message in llm.requests[-1].messages]
    assert last[0] == "Weather in Tokyo, in French?"
    assert "Observation: Tokyo: sunny, 18 °C" in last


def phases(run):
    """What the agent did, in the words of the loop's states."""
    told = ["IDLE"]
    for chunk in run.chunks:
        match chunk:
            case StateChange(state=state) if state.kind == "processing":
                told.append("THINKING")
            case Custom(kind="react.reformat"):
                told.append("ERROR")
            case ToolStart():
                told.append("ACTING")
            case Custom(kind="react.observation"):
                told.append("OBSERVING")
            case Done():
                told.append("FINISHED")
            case _:
                pass
    return [now for now, before in zip(told, ["", *told], strict=False) if now != before]


ACT = 'Action: {"tool": "weather", "arguments": {"city": "Tokyo"}}'
FAIL = 'Action: {"tool": "weather", "arguments": {"town": "Tokyo"}}'
TRANSITIONS = [
    ("IDLE", "THINKING", ["Final Answer: 1"]),
    ("THINKING", "ACTING", [ACT, "Final Answer: 1"]),
    ("THINKING", "FINISHED", ["Final Answer: 1"]),
    # What is observed is shown to the model when it is asked again.
    ("THINKING", "OBSERVING", [ACT, "Final Answer: 1"]),
    ("OBSERVING", "FINISHED", [ACT, ACT.replace("Tokyo", "Rome")]),  # its limit
    ("THINKING", "ERROR", ["Hm.", "Final Answer: 1"]),
    ("ACTING", "THINKING", [FAIL, "Final Answer: 1"]),
]


@pytest.mark.parametrize(("before", "after", "replies"), TRANSITIONS)
async def test_each_transition_of_the_loop(before, after, replies):
    run = await run_agent_async(
        react(ScriptedProvider(*replies), [weather], max_steps=2), inputs="Go."
    )
    found = phases(run)
    assert (before, after) in set(pairwise(found))
    assert found[-1] == "FINISHED"


@pytest.mark.checkpoint("2.1 the limit of iterations")
async def test_it_stops_at_its_limit():
    for limit in (3, 5):
        llm = ScriptedProvider(*[ACT.replace("Tokyo", f"Tokyo {number}") for number in range(9)])
        run = await run_agent_async(react(llm, [weather], max_steps=limit), inputs="Go.")
        assert len(llm.requests) == limit
        assert len(run.of(ToolStart)) == limit - 1
        assert "can't call tools any more" in llm.requests[-1].messages[-1].text
        assert run.results[0].status is TurnStatus.COMPLETED


async def test_words_without_end_fail_the_turn():
    llm = ScriptedProvider(*["I need to think more"] * 9)
    run = await run_agent_async(react(llm, [weather]), inputs="Go.", check=False)
    assert len(llm.requests) == 4
    assert run.results[0].status is TurnStatus.FAILED
    assert "could not be read" in run.results[0].error
    begun_anew = [("reply.restarted",), ("react.reformat",)] * 3
    assert steps(run) == [*begun_anew, ("reply.discarded",)]
    # None of it is in the history.
    assert [message.role for message in run.history] == ["user"]


async def test_an_action_that_comes_again_is_warned_of_and_then_ends_the_turn():
    llm = ScriptedProvider(*[ACT] * 9)
    run = await run_agent_async(react(llm, [weather]), inputs="Go.", check=False)
    observed = [text for kind, text, *_ in steps(run) if kind == "observation"]
    assert "call 2 of the same kind" in observed[1]
    assert "5 times in a row" in run.results[0].error


async def test_an_unknown_tool_is_answered_with_those_that_there_are():
    llm = ScriptedProvider(ACT.replace("weather", "forecast"), ACT, "Final Answer: sunny")
    run = await run_agent_async(react(llm, [weather, translate]), inputs="Go.")
    observed = next(text for kind, text, *_ in steps(run) if kind == "observation")
    assert "weather" in observed
    assert "translate" in observed
    assert run.text == "sunny"


async def test_each_attempt_counts_as_a_model_call():
    llm = ScriptedProvider(*["Hm."] * 9)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        session = AgentSession.new("react")
        handle = runtime.spawn(session, react(llm, [weather]), budget=Budget(model_calls=2))
        result = await handle.ask("Go.")
    assert (result.status, len(llm.requests)) == (TurnStatus.FAILED, 2)
    assert "2 model calls" in result.error
    assert result.usage.total == 30


async def test_a_retry_around_a_run_does_not_keep_it_from_asking_for_another_form():
    agent = react(ScriptedProvider("Action: {", "Thought: It is. Final Answer: 45"), [calculator])
    assert (await Retry().call(agent.run, "What is 15 * 3?")).output == "45"


async def test_an_interrupt_in_an_action_leaves_what_was_said(autojump_clock):
    llm = ScriptedProvider(Reply(f"Thought: I look.\n{ACT}", hangs=True), "Final Answer: sunny")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("react"), react(llm, [weather]))
        await handle.send_input("Go.")
        await trio.sleep(1)
        await handle.interrupt()
        said = (await handle.history())[-1]
        assert (said.text.strip(), said.tool_uses) == ("Thought: I look.", ())
        assert (await handle.ask("Once more.")).text == "sunny"


async def test_a_session_goes_on_from_words_to_native_calls_and_back():
    store = InMemoryStore()
    native = ScriptedProvider(call("weather", city="Rome"), "Both are sunny.")
    words = ScriptedProvider(ACT, "Final Answer: Tokyo is sunny.", "Thought: hm\nFinal Answer: yes")
    for llm, number in ((TextTools(words), 0), (native, 1), (TextTools(words), 2)):
        result = await Agent(llm, tools=[weather]).run(
            f"Question {number}", session="s", store=store
        )
        assert result.status is TurnStatus.COMPLETED
    assert [block.name for m in native.requests[0].messages for block in m.tool_uses] == ["weather"]
    texts = [message.text for message in words.requests[-1].messages]
    assert any('"city":"Rome"' in text for text in texts)
    assert "Final Answer: Both are sunny." in texts


async def test_the_action_is_no_text_of_the_stream():
    run = await run_agent_async(react(ScriptedProvider(*SEED), [calculator]), inputs="Go.")
    shown = "".join(chunk.text for chunk in run.of(TextDelta))
    assert shown == "Thought: I need to calculate 15 * 3.Thought: The result is 45.45"


def scenario():
    """Reformat, act, answer, whatever was said before."""
    faults = iter(["Hm."])

    async def look(city: str) -> str:
        """Look."""
        await trio.sleep(20)
        return f"rain in {city}"

    def answer(request):
        last = request.messages[-1].text
        if "could not be read" not in last and (fault := next(faults, "")):
            return fault
        if last.startswith("Observation: rain"):
            return "Thought: I know.\nFinal Answer: rain"
        return 'Thought: I look.\nAction: {"tool": "look", "arguments": {"city": "Tokyo"}}'

    return Scenario(react(ScriptedProvider(*[answer] * 50), [look]), inputs="Look!")


def test_a_cancel_at_any_checkpoint_leaves_nothing_behind():
    report = cancel_at_every_checkpoint(scenario, at_most=few(25))
    assert report.violations == ()
    assert report.checkpoints > 20


async def test_a_run_asks_the_model_with_other_settings():
    llm = ScriptedProvider(*SEED)
    agent = react(llm, [calculator])
    assert (await agent.run("15 * 3?", settings=ModelSettings(temperature=0.5))).output == "45"
    assert [request.temperature for request in llm.requests] == [0.5, 0.5]
    other = agent.replace_settings(ModelSettings(seed=1))
    assert (other.name, other.identity) == (agent.name, agent.identity)
