"""What today's models accept: whatever was asked for, no vendor refuses a request of ours."""

import contextlib
from itertools import product

import pytest

from greenroom.core import (
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import NamedTool
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelRequest,
    OpenAIProvider,
    open_model,
)
from greenroom.llm._internal import DEFAULT_MODELS, MODELS, OutputModes, OutputType, with_output
from greenroom.llm.request_rules import EFFORTS
from tests.llm.refusals import refuse_chat, refuse_messages

UNLISTED = (
    *("claude-haiku-4-5-20251001", "claude-mythos-5", "claude-mythos-5-2"),
    *("gpt-5.4-2026-03-05", "gpt-5.2", "gpt-5.6-luna", "gpt-5", "gpt-4o-mini", "o4-mini"),
)
LISTED = (name for name in MODELS if name.startswith(("anthropic", "openai")))
NAMES = [*UNLISTED, *(name.partition(":")[2] for name in LISTED)]
WITHOUT_TOOLS = ("gpt-6.1-sol", "gpt-6-astra")
TOOL = ToolDefinition("look_up", "Looks it up.", {"type": "object", "properties": {}})
HELLO = (Message.user("hello"),)


def open_provider(name):
    if name.startswith("claude"):
        return AnthropicProvider(name, api_key="k", env={}), refuse_messages
    return OpenAIProvider(name, api_key="k", env={}), refuse_chat


def combine_settings(llm):
    """Every effort, budget and limit, with each other."""
    limits = (None, 900, 4_000, *([500_000] if llm.profile.max_output_tokens else []))
    wanted = product((None, *EFFORTS), (None, 0, 500, 8_000, 200_000), limits)
    for effort, thinking, most in wanted:
        yield {"effort": effort, "thinking": thinking, "max_tokens": most}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_model_takes_every_effort_and_budget_with_tools_and_without(name):
    llm, refuse = open_provider(name)
    for settings, tools in product(combine_settings(llm), ((), (TOOL,))):
        request = ModelRequest(messages=HELLO, tools=tools, **settings)
        if tools and name in WITHOUT_TOOLS:
            with pytest.raises(ModelBadRequestError, match="takes no tools over Chat Completions"):
                llm.encode(request)
        else:
            body = llm.encode(request)
            assert not refuse(body), (body, request)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_gives_a_value_of_any_type(name):
    llm, refuse = open_provider(name)
    for type_, effort in product((int, dict[str, int]), (None, *EFFORTS)):
        output, request = OutputType(type_), ModelRequest(messages=HELLO, effort=effort)
        modes = OutputModes(llm, request, output)
        assert modes.current != "forced tool" or name not in WITHOUT_TOOLS
        body = llm.encode(with_output(request, output, modes.current))
        assert not refuse(body), body


@pytest.mark.parametrize("name", NAMES)
def test_what_nothing_can_replace_is_refused_before_it_is_sent(name):
    llm, refuse = open_provider(name)
    settings = (
        {"temperature": 0.2},
        {"top_p": 0.5},
        {"tool_choice": "any", "tools": (TOOL,)},
        {"tool_choice": NamedTool("look_up"), "tools": (TOOL,)},
        {"messages": (*HELLO, Message.assistant("So"))},
    )
    for given, effort in product(settings, (None, *EFFORTS)):
        request = ModelRequest(**({"messages": HELLO, "effort": effort} | given))
        with contextlib.suppress(ModelBadRequestError):
            assert not refuse(llm.encode(request)), request
    assert llm.encode(ModelRequest(messages=HELLO, temperature=1, top_p=1))


def test_the_error_says_what_to_do():
    llm = AnthropicProvider("claude-sonnet-5-5", api_key="k", env={})
    with pytest.raises(ModelBadRequestError) as refused:
        llm.encode(ModelRequest(messages=HELLO, temperature=0))
    assert str(refused.value).startswith("anthropic:claude-sonnet-5-5 takes no temperature")
    assert refused.value.hint == "leave out temperature"
    llm = OpenAIProvider("gpt-5.5", api_key="k", env={})
    with pytest.raises(ModelBadRequestError) as refused:
        llm.encode(ModelRequest(messages=HELLO, top_p=0.5))
    assert refused.value.hint == 'leave out top_p, or set effort="none"'


def test_an_effort_is_the_nearest_one_and_a_budget_becomes_one():
    def send(name, **settings):
        body = open_provider(name)[0].encode(ModelRequest(messages=HELLO, **settings))
        config = body.get("output_config", {}).get("effort") or body.get("reasoning_effort")
        return config, body.get("thinking")

    adaptive = {"type": "adaptive"}
    assert send("claude-sonnet-5-5", effort="high") == ("high", adaptive)
    assert send("claude-sonnet-5-5", effort="none") == (None, {"type": "between_tools"})
    assert send("claude-opus-5-5", effort="none") == ("low", adaptive)
    assert send("claude-opus-4-6", effort="xhigh") == ("high", adaptive)
    assert send("claude-sonnet-5", thinking=0) == (None, {"type": "disabled"})
    assert send("claude-sonnet-5", thinking=8_000) == ("medium", adaptive)
    assert send("claude-haiku-4-5", effort="low")[1] == {"type": "enabled", "budget_tokens": 2_048}
    assert send("claude-haiku-4-5", thinking=30) == (
        None,
        {"type": "enabled", "budget_tokens": 1_024},
    )
    assert send("claude-opus-9", effort="max") == ("max", adaptive)
    assert send("gpt-5.4", effort="max") == ("xhigh", None)
    assert send("gpt-4o", effort="high") == (None, None)
    assert send("some-model", effort="max") == ("max", None)


def test_the_default_models_are_listed_and_take_tools():
    for vendor in ("anthropic", "openai"):
        name = DEFAULT_MODELS[vendor]
        assert f"{vendor}:{name}" in MODELS
        llm = open_model(f"{vendor}:", {f"{vendor.upper()}_API_KEY": "k"}, retry=None)
        request = ModelRequest(messages=HELLO, tools=(TOOL,), effort="high")
        assert llm.fit(request).request.effort == "high"
        assert llm.encode(request)["tools"]


def test_a_model_that_always_thinks_gets_room_for_it_where_none_was_wanted():
    request = ModelRequest(messages=HELLO, effort="none", max_tokens=500)
    assert open_provider("claude-opus-5-5")[0].encode(request)["max_tokens"] == 500 + 2_048
    assert open_provider("claude-opus-5")[0].encode(request)["max_tokens"] == 500


@pytest.mark.parametrize("limit", [1_000, 32_000, 100_000, 500_000])
@pytest.mark.parametrize("name", ["claude-haiku-4-5", "claude-opus-5", "claude-sonnet-5-5"])
def test_the_limit_of_a_provider_is_never_more_than_the_model_has(name, limit):
    llm = AnthropicProvider(name, api_key="k", max_tokens=limit, env={})
    for effort, thinking in product((None, *EFFORTS), (None, 0, 8_000, 200_000)):
        body = llm.encode(ModelRequest(messages=HELLO, effort=effort, thinking=thinking))
        assert not refuse_messages(body), body


CALL = Message("assistant", (ToolUseBlock("c1", "look_up", {}),), provider="openai")
RESULT = Message.user([ToolResultBlock("c1", (TextBlock("found"),))])
CUT_OFF = Message("assistant", (ThinkingBlock("hm"),), provider="google")
LATER = (
    (),
    (Message.user("Stop. What is it?"),),
    (Message.user("It is Monday.", sender="hook"), Message.user("Go on.")),
    (Message.user("Go on."), CUT_OFF, Message.user("Go on.")),
)


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("effort", EFFORTS)
def test_calls_that_were_made_without_thinking_are_answered_whatever_is_said_behind(effort, later):
    messages = (*HELLO, CALL, RESULT, *later)
    llm, refuse = open_provider("claude-haiku-4-5")
    body = llm.encode(ModelRequest(messages=messages, tools=(TOOL,), effort=effort))
    assert not refuse(body)
    answered = (*messages, Message.assistant("It is so."), Message.user("Sure?"))
    body = llm.encode(ModelRequest(messages=answered, tools=(TOOL,), effort=effort))
    assert not refuse(body)
    assert (body["thinking"]["type"] == "enabled") is (effort != "none")
