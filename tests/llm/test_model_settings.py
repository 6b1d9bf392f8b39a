"""Settings of a model: they count where a request says nothing, and a run's given fields win."""

import math

import pytest

from greenroom import Agent
from greenroom.core import ConfigurationError, Message
from greenroom.core._internal import NamedTool
from greenroom.flow import handoff_team
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelRequest,
    ModelSettings,
    OpenAIProvider,
    open_model,
)
from greenroom.testing import ScriptedProvider, call
from tests.llm.test_request_rules import TOOL

HELLO = (Message.user("hello"),)


def look_up(topic: str) -> str:
    """Look something up."""
    return "All there is."


async def test_each_run_wins_over_the_agent_and_the_agent_over_the_model():
    script = ScriptedProvider("one", "two")
    usual = ModelSettings(temperature=0, seed=1, extra={"a": 1})
    agent = Agent(script, settings=usual)
    await agent.run("hello")
    await agent.run("hello", settings=ModelSettings(temperature=0.5, extra={"b": 2}))
    first, second = script.requests
    assert (first.temperature, first.seed, first.options) == (0, 1, {"a": 1})
    assert (second.temperature, second.seed, second.options) == (0.5, 1, {"a": 1, "b": 2})


def test_a_thinking_budget_replaces_an_effort_and_the_other_way_round():
    effort, budget = ModelSettings(effort="high"), ModelSettings(thinking=2_000)
    assert effort.merge(budget) == budget
    assert budget.merge(effort) == effort
    request = ModelRequest(messages=HELLO, thinking=0)
    assert effort.complete(request).effort is None


async def test_a_tool_is_forced_until_one_was_called():
    script = ScriptedProvider(call("look_up", topic="it"), "done", "more")
    agent = Agent(script, tools=[look_up], settings=ModelSettings(tool_choice=NamedTool("look_up")))
    assert (await agent.run("hello")).output == "done"
    choices = [request.tool_choice for request in script.requests]
    assert choices == [NamedTool("look_up"), "auto"]


def test_a_tool_that_a_request_does_not_offer_is_not_forced():
    settings = ModelSettings(tool_choice=NamedTool("other"))
    request = settings.complete(ModelRequest(messages=HELLO, tools=(TOOL,)))
    assert request.tool_choice == "auto"


def test_a_model_that_was_opened_with_settings_has_them_in_every_request():
    env = {"OPENAI_API_KEY": "k"}
    llm = open_model("gpt-5.4", env, settings=ModelSettings(temperature=0.5, stop=["END"]))
    assert (llm.name, llm.model) == ("openai", "gpt-5.4")
    request = llm.settings.complete(ModelRequest(messages=HELLO, temperature=0))
    assert (request.temperature, request.stop_sequences) == (0, ("END",))


def test_every_setting_is_sent_in_the_vendor_s_terms():
    request = ModelSettings(
        max_tokens=9, stop=["END"], effort="high", tool_choice="any", parallel_tools=False
    ).complete(ModelRequest(messages=HELLO, tools=(TOOL,)))
    sent = AnthropicProvider("claude-opus-5", api_key="k", env={}).encode(request)
    assert sent["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert sent["output_config"] == {"effort": "high"}
    assert (sent["max_tokens"], sent["stop_sequences"]) == (9, ["END"])
    request = ModelSettings(seed=3, parallel_tools=False).complete(request)
    sent = OpenAIProvider("gpt-5.1", api_key="k", env={}).encode(request)
    assert (sent["seed"], sent["parallel_tool_calls"]) == (3, False)
    assert (sent["tool_choice"], sent["reasoning_effort"]) == ("required", "high")


def test_a_setting_that_the_api_does_not_have_is_an_error_with_a_hint():
    llm = AnthropicProvider("claude-opus-5", api_key="k", env={})
    with pytest.raises(ModelBadRequestError, match="has no seed") as refused:
        llm.encode(ModelSettings(seed=1).complete(ModelRequest(messages=HELLO)))
    assert refused.value.hint == "leave it out"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": -1}, {"max_tokens": 0}, {"effort": "huge"}, {"stop": "END"}),
        *({"top_p": True}, {"temperature": "0"}, {"temperature": math.nan}, {"max_tokens": "100"}),
        *({"max_tokens": 1.5}, {"seed": "x"}, {"thinking": "hard"}, {"tool_choice": "required"}),
        *({"stop": 5}, {"extra": "top_k"}, {"top_p": math.inf}),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigurationError) as refused:
        ModelSettings(**wrong)
    assert refused.value.hint


async def test_a_team_takes_no_settings():
    team = handoff_team(Agent(ScriptedProvider("one"), name="first"))
    with pytest.raises(ConfigurationError, match="is not a single agent"):
        await team.run("hello", settings=ModelSettings(temperature=0))
