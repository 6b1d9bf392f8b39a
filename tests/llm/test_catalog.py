"""Models by name."""

import subprocess
import sys

import pytest

from greenroom.core import ConfigurationError
from greenroom.llm import (
    DEFAULT_MODELS,
    AnthropicProvider,
    LLMProvider,
    OfflineProvider,
    OpenAIProvider,
    default_model,
    open_model,
)

KEYS = {"ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o"}


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("anthropic:claude-x", AnthropicProvider, "claude-x"),
        ("openai:gpt-x", OpenAIProvider, "gpt-x"),
        ("openai:llama3.2:3b", OpenAIProvider, "llama3.2:3b"),
        ("openai:org/name", OpenAIProvider, "org/name"),
        ("anthropic:", AnthropicProvider, DEFAULT_MODELS["anthropic"]),
        ("claude-x-1", AnthropicProvider, "claude-x-1"),
        ("gpt-5-mini", OpenAIProvider, "gpt-5-mini"),
        ("o3-mini", OpenAIProvider, "o3-mini"),
        (" o4 ", OpenAIProvider, "o4"),
        ("offline:", OfflineProvider, "rules"),
        ("offline", OfflineProvider, "rules"),
        (None, AnthropicProvider, DEFAULT_MODELS["anthropic"]),
    ],
)
def test_a_name_opens_its_provider(name, provider, model):
    opened = open_model(name, KEYS)
    assert type(opened) is provider
    assert isinstance(opened, LLMProvider)
    assert opened.model == model


@pytest.mark.parametrize("name", ["mystery:model", "llama3.2", ":x", "omega", "offliner"])
def test_an_unknown_name_lists_the_providers(name):
    with pytest.raises(ConfigurationError, match="anthropic, offline, openai"):
        open_model(name, KEYS)


def test_a_named_model_without_its_key_is_an_error_and_not_another_model():
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        open_model("gpt-5", {"ANTHROPIC_API_KEY": "sk-a"})


@pytest.mark.parametrize(
    ("env", "provider"),
    [
        (KEYS, "anthropic"),
        ({"OPENAI_API_KEY": "sk-o", "ANTHROPIC_AUTH_TOKEN": "t"}, "anthropic"),
        ({"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": " "}, "openai"),
        ({}, "offline"),
    ],
)
def test_without_a_name_the_first_key_decides(env, provider):
    assert default_model(env) == f"{provider}:{DEFAULT_MODELS[provider]}"
    assert open_model(None, env).name == provider


def test_the_package_loads_no_http_before_a_provider_needs_it():
    code = (
        "import sys, greenroom.llm as llm\n"
        "loaded = lambda: {'httpx', 'greenroom.net'} & set(sys.modules)\n"
        "assert not loaded(), loaded()\n"
        "llm.open_model('offline:')\n"
        "assert not loaded(), loaded()\n"
        "llm.AnthropicProvider('m', api_key='k')\n"
        "assert len(loaded()) == 2\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
