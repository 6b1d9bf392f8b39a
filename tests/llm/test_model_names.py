"""Models by name."""

import re
import subprocess
import sys
import warnings

import pytest

from greenroom.core import ConfigurationError, Message
from greenroom.core._internal import serde
from greenroom.llm import (
    AnthropicProvider,
    GeminiProvider,
    LLMProvider,
    ModelOverloadedError,
    ModelRequest,
    OfflineProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
    open_model,
)
from greenroom.llm._internal import (
    DEFAULT_MODELS,
    HOSTS,
    VENDORS,
    ModelChoice,
    ModelNotFoundError,
    choose_model,
    default_model,
    full_name,
)
from greenroom.llm.provider_aliases import ALIASES, explain_provider
from greenroom.resilience import Backoff, RateLimit, Retry
from tests.llm import wire
from tests.llm.server import Answer, model_server

KEYS = {"ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o", "GEMINI_API_KEY": "g"}


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("anthropic:claude-x", AnthropicProvider, "claude-x"),
        ("openai:gpt-x", OpenAIResponsesProvider, "gpt-x"),
        ("gpt-5.4", OpenAIResponsesProvider, "gpt-5.4"),
        ("gpt-5.1", OpenAIProvider, "gpt-5.1"),
        ("openai:llama3.2:3b", OpenAIProvider, "llama3.2:3b"),
        ("openai:org/name", OpenAIProvider, "org/name"),
        ("anthropic:", AnthropicProvider, DEFAULT_MODELS["anthropic"]),
        ("claude-x-1", AnthropicProvider, "claude-x-1"),
        ("gpt-5-mini", OpenAIProvider, "gpt-5-mini"),
        ("o3-mini", OpenAIProvider, "o3-mini"),
        (" o4 ", OpenAIProvider, "o4"),
        ("google:gemini-x", GeminiProvider, "gemini-x"),
        ("google:", GeminiProvider, DEFAULT_MODELS["google"]),
        ("gemini-2.5-flash", GeminiProvider, "gemini-2.5-flash"),
        ("google:models/gemini-x", GeminiProvider, "gemini-x"),
        ("offline:", OfflineProvider, "rules"),
        ("offline", OfflineProvider, "rules"),
        (None, AnthropicProvider, DEFAULT_MODELS["anthropic"]),
    ],
)
def test_a_name_opens_its_provider(name, provider, model):
    opened = open_model(name, KEYS, retry=None)
    assert type(opened) is provider
    assert isinstance(opened, LLMProvider)
    assert opened.model == model


@pytest.mark.parametrize("name", ["mystery:model", "llama3.2", ":x", "omega", "offliner"])
def test_an_unknown_name_lists_the_providers(name):
    with pytest.raises(ConfigurationError, match=", ".join(sorted(VENDORS))):
        open_model(name, KEYS)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("antropic:claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("grok:openai/gpt-oss-120b", "groq:openai/gpt-oss-120b"),
        ("claud-sonnet-5", "anthropic:claude-sonnet-5"),
        ("mistral-large-2521", "mistral:mistral-large-2512"),
        ("OpenAI:gpt-5.4", "openai:gpt-5.4"),
        ("Anthropic", "anthropic:"),
        ("groq", "groq:MODEL"),
        ("anthropic/claude-sonnet-5", "anthropic:claude-sonnet-5"),
        ("llama3.2:3b", "ollama:llama3.2:3b"),
        ("qwen3-coder:latest", "ollama:qwen3-coder:latest"),
    ],
)
def test_a_name_with_a_slip_is_told_the_nearest_one(name, meant):
    with pytest.raises(ConfigurationError, match=rf"did you mean {meant}\?"):
        full_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("google-gla:gemini-3-pro", "write google:gemini-3-pro"),
        ("gemini/gemini-3-pro", "write google:gemini-3-pro"),
        ("Gemini", "write google:MODEL"),
        ("claude:claude-sonnet-5", "write anthropic:claude-sonnet-5"),
        ("grok:grok-4.7", "write xai:grok-4.7"),
        ("localai:qwen3", "set OPENAI_BASE_URL to its address.*write openai:qwen3"),
        ("mlx:qwen3", "set OPENAI_BASE_URL"),
        ("lm-studio:qwen3", "write lmstudio:qwen3"),
        ("llama.cpp:qwen3", "write llamacpp:qwen3"),
        ("hosted_vllm:qwen3", "write vllm:qwen3"),
        ("bedrock:anthropic.claude-v5", "no provider for bedrock yet.*litellm:MODEL.*`auth`"),
        ("cohere:command-a", "no provider for cohere yet.*of your own$"),
        ("vertex_ai:gemini-3-pro", "no provider for vertex_ai yet"),
        ("localhost:8000:qwen3", "set OPENAI_BASE_URL"),
    ],
)
def test_a_name_from_elsewhere_is_told_what_to_write_here(name, words):
    with pytest.raises(ConfigurationError) as caught:
        full_name(name, {})
    assert re.search(words, caught.value.hint)


def test_no_provider_of_ours_is_explained_away():
    assert [name for name in VENDORS if explain_provider(name)] == []
    assert set(ALIASES.values()) <= set(VENDORS)


@pytest.mark.parametrize("name", ["claude-sonet-5", "anthropic:claude-sonet-5"])
def test_a_misspelt_model_is_opened_with_a_warning(name):
    with pytest.warns(UserWarning, match=r"did you mean anthropic:claude-sonnet-5\?") as caught:
        assert open_model(name, KEYS).model == "claude-sonet-5"
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "name",
    [
        "claude-sonnet-6",
        "claude-sonnet-5-20260630",
        "claude-sonnet-5-latest",
        "gpt-5.4-nano",
        "openai:gpt-5.5-mini",
        "openai:gpt-4",
        "ollama:claude-sonet-5",
    ],
)
def test_a_new_model_a_variant_and_another_vendor_s_are_opened_without_a_word(name):
    open_model(name, KEYS)  # a warning would be an error here


def test_the_models_of_another_server_are_its_own():
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://llm.example.com/v1"}
    open_model("openai:gpt5.4", env)
    with pytest.warns(UserWarning, match="openai:gpt-5.4"):
        open_model("openai:gpt5.4", KEYS)


@pytest.mark.parametrize("stored", ["127.0.0.1", "127.0.0.1:8000"])
def test_a_local_server_is_found_again_by_its_name_with_or_without_its_port(stored):
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}
    opened = open_model(f"{stored}:llama3.2:3b", env)
    assert (opened.name, opened.model) == ("127.0.0.1:8000", "llama3.2:3b")
    assert full_name(f"{stored}:llama3.2:3b", env) == "127.0.0.1:8000:llama3.2:3b"


@pytest.mark.parametrize(
    ("provider", "model", "hint"),
    [
        ("anthropic", "claude-sonet-5", "did you mean anthropic:claude-sonnet-5?"),
        ("anthropic", "claude-sonnet-4", "did you mean anthropic:claude-sonnet-4-"),
        ("anthropic", "claude-sonnet-5", None),
        ("anthropic", "mystery", None),
        ("ollama", "llama9", "`ollama pull llama9` gets it"),
    ],
)
@pytest.mark.parametrize("in_band", [False, True])
async def test_a_model_that_does_not_exist_is_told_the_nearest_one(provider, model, hint, in_band):
    error = {"type": "not_found_error", "message": f"model: {model}"}
    events = b"event: error\ndata: " + serde.dumps({"type": "error", "error": error}) + b"\n\n"
    answer = Answer.stream(events) if in_band else Answer.error(404, {"error": error})
    async with model_server(answer) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "OLLAMA_HOST": server.url}
        with warnings.catch_warnings(action="ignore"):
            llm = open_model(f"{provider}:{model}", env)
        with pytest.raises(ModelNotFoundError) as caught:
            await llm.generate(ModelRequest(messages=[Message.user("Hi")]))
        await llm.aclose()
    said = caught.value.hint or caught.value.remedy
    assert (hint in said) if hint else ("did you mean" not in said)


@pytest.mark.parametrize("host", [host for host in HOSTS.values() if host.name != "openai"])
def test_each_compatible_server_has_a_name_a_key_and_an_address(host):
    own = {host.key_variables[0]: "sk-own", "OPENAI_API_KEY": "sk-openai"}
    if "://" not in host.base_url:
        with pytest.raises(ConfigurationError, match=host.base_variables[0]):
            open_model(f"{host.name}:some-model", own)
        own[host.base_variables[0]] = "https://mine.example"
    opened = open_model(f"{host.name}:some-model", own, retry=None)
    assert isinstance(opened, OpenAIProvider)
    assert (opened.name, opened.model, opened.host) == (host.name, "some-model", host)


def test_another_vendor_s_key_is_never_used_for_a_server():
    with pytest.raises(ConfigurationError, match="set GROQ_API_KEY"):
        open_model("groq:openai/gpt-oss-20b", {"OPENAI_API_KEY": "sk-openai"})


def test_a_server_on_this_machine_needs_no_key():
    assert open_model("ollama:llama3.2", {}).name == "ollama"
    with pytest.raises(ConfigurationError, match="set OLLAMA_API_KEY"):
        open_model("ollama:llama3.2", {"OLLAMA_HOST": "https://ollama.com"})


def test_a_provider_without_a_default_asks_for_the_model():
    with pytest.raises(ConfigurationError, match="write mistral:MODEL"):
        open_model("mistral:", {"MISTRAL_API_KEY": "k"})


def test_a_server_behind_openai_s_variables_is_found_again_by_the_name_that_it_gave():
    env = {"OPENAI_API_KEY": "sk-o", "OPENAI_BASE_URL": "https://llm.example.com/v1"}
    first = open_model("openai:their-model", env, retry=None)
    again = open_model(f"{first.name}:{first.model}", env, retry=None)
    assert (again.name, again.model) == ("llm.example.com", "their-model")
    env["OPENAI_BASE_URL"] = "https://openrouter.ai/api/v1"
    assert open_model("openrouter:x/y", env).name == "openrouter"
    env["OPENAI_BASE_URL"] = "http://gpu.example:11434/v1"
    assert open_model("ollama:x", env, retry=None)._endpoint.url.startswith(
        "http://gpu.example:11434/"
    )
    env["OLLAMA_HOST"] = "http://other.example:11434"
    env["OLLAMA_API_KEY"] = "k"
    assert open_model("ollama:x", env, retry=None)._endpoint.url.startswith(
        "http://other.example:11434/"
    )


def test_a_named_model_without_its_key_is_an_error_and_not_another_model():
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        open_model("gpt-5", {"ANTHROPIC_API_KEY": "sk-a"})


@pytest.mark.parametrize(
    ("env", "provider"),
    [
        (KEYS, "anthropic"),
        ({"OPENAI_API_KEY": "sk-o", "ANTHROPIC_AUTH_TOKEN": "t"}, "anthropic"),
        ({"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": " "}, "openai"),
        ({"GEMINI_API_KEY": "g", "GROQ_API_KEY": "k"}, "google"),
        ({"GOOGLE_API_KEY": "g"}, "google"),
        ({"GROQ_API_KEY": "k"}, "offline"),
        ({}, "offline"),
    ],
)
def test_without_a_name_the_first_key_decides(env, provider):
    assert default_model(env) == f"{provider}:{DEFAULT_MODELS[provider]}"
    assert open_model(None, env).name == provider


def test_the_variable_comes_first_then_the_settings_then_keys():
    env = {"GREENROOM_MODEL": "xai:grok-4.7", **KEYS}
    assert choose_model(env, "offline:") == ModelChoice(
        "xai:grok-4.7", "since GREENROOM_MODEL says so"
    )
    assert choose_model(KEYS, "offline:").name == "offline:rules"
    assert choose_model(KEYS).reason == "since ANTHROPIC_API_KEY is set"


def test_a_variable_that_names_no_model_is_named_in_the_error():
    with pytest.raises(ConfigurationError, match="GREENROOM_MODEL: 'frob' is not the name"):
        open_model(None, {"GREENROOM_MODEL": "frob"})


def test_a_key_whose_vendor_has_no_default_model_says_what_is_missing():
    choice = choose_model({"MISTRAL_API_KEY": "k"})
    assert choice.name == "offline:rules"
    assert "set GREENROOM_MODEL=mistral:MODEL" in choice.reason


def test_the_package_loads_no_http_before_a_provider_needs_it():
    code = (
        "import sys, greenroom.llm as llm\n"
        "loaded = lambda: {'httpx', 'greenroom.net'} & set(sys.modules)\n"
        "assert not loaded(), loaded()\n"
        "llm.open_model('offline:')\n"
        "assert not loaded(), loaded()\n"
        "llm.AnthropicProvider('m', api_key='k')\n"
        "assert loaded() == {'greenroom.net'}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


async def test_a_model_that_is_opened_by_name_holds_out_while_its_server_fails():
    down = Answer.error(503, {"error": {"message": "down"}})
    answers = [down, Answer.stream(wire.anthropic(*wire.text_block(0, "Hel", "lo")))]
    request = ModelRequest(messages=[Message.user("hi")])
    async with model_server(lambda _: answers.pop(0)) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        llm = open_model("anthropic:m", env, retry=Retry(backoff=Backoff(first=0)))
        assert (await llm.generate(request)).text == "Hello"
        await llm.aclose()
        answers = [down]
        llm = open_model("anthropic:m", env, retry=None)
        with pytest.raises(ModelOverloadedError):
            await llm.generate(request)
        await llm.aclose()


def test_a_model_that_is_opened_by_name_retries_and_waits_for_a_limit_unless_it_is_told_not_to():
    limit = RateLimit(requests=5)
    assert repr(open_model("gpt-5.4", KEYS)) == "resilient(OpenAIResponsesProvider('gpt-5.4'))"
    assert repr(open_model("gpt-5.4", KEYS, retry=None)) == "OpenAIResponsesProvider('gpt-5.4')"
    limited = open_model("gpt-5.4", KEYS, retry=None, rate_limit=limit)
    assert repr(limited) == "resilient(OpenAIResponsesProvider('gpt-5.4'))"
    assert repr(open_model("offline:", rate_limit=limit)) == "OfflineProvider()"
