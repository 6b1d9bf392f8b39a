"""Servers that speak Chat Completions, by their addresses."""

import pytest

from greenroom.core import ConfigurationError, Message, TextBlock
from greenroom.llm import ModelRequest, OpenAIProvider, open_model
from greenroom.llm._internal import HOSTS, host_profile
from greenroom.llm.endpoint import LOCAL_PROGRAMS


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://acme.openai.azure.com/openai/v1", "azure"),
        ("https://acme.services.ai.azure.com/openai/v1", "azure"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("http://localhost:11434/v1", "ollama"),
        ("https://ollama.com/v1", "ollama"),
        ("http://0.0.0.0:4000", "litellm"),
        ("https://API.X.AI/v1", "xai"),
        ("https://notx.ai/v1", "notx.ai"),
        ("https://openai.com.example.com/v1", "openai.com.example.com"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("http://localhost:1234/v1", "localhost:1234"),
        ("http://192.168.1.7:8080/v1", "192.168.1.7:8080"),
        ("http://gpu:8000/v1", "gpu:8000"),
        ("http://gpu/v1", "gpu"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("https://llm.example.com:8443/v1", "llm.example.com"),
    ],
)
def test_a_server_is_named_by_its_address(url, name):
    assert host_profile(url).name == name
    assert OpenAIProvider("m", api_key="sk-1", base_url=url, env={}).name == name


@pytest.mark.parametrize("stored", ["127.0.0.1", "127.0.0.1:8000"])
def test_replies_of_older_sessions_are_the_server_s_own(stored):
    llm = OpenAIProvider("m", base_url="http://127.0.0.1:8000/v1", env={})
    thought = {"reasoning_content": "Hm."}
    before = Message("assistant", (TextBlock("So."),), provider=stored, extra=thought)
    messages = [Message.user("a"), before, Message.user("b")]
    assert llm.encode(ModelRequest(messages=messages))["messages"][1] == {
        "role": "assistant",
        "content": "So.",
        "reasoning_content": "Hm.",
    }
    other = OpenAIProvider("m", base_url="http://127.0.0.2:8000/v1", env={})
    sent = other.encode(ModelRequest(messages=messages))["messages"]
    assert "reasoning_content" not in sent[1]


def test_every_known_server_is_found_at_its_own_address():
    by_name_alone = {"azure", *LOCAL_PROGRAMS}  # an address of one's own, or a port of many
    for name, profile in HOSTS.items():
        assert name in by_name_alone or host_profile(profile.base_url).name == name
        assert profile.key_variables


@pytest.mark.parametrize(
    ("host", "env", "url"),
    [
        ("groq", {}, "https://api.groq.com/openai/v1"),
        ("groq", {"GROQ_BASE_URL": "https://eu.groq.com"}, "https://eu.groq.com/openai/v1"),
        ("cerebras", {"CEREBRAS_BASE_URL": "https://a.b/v2/"}, "https://a.b/v2"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0:11434"}, "http://0.0.0.0:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://0.0.0.0:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "gpu:80/v1"}, "http://gpu:80/v1"),
        ("groq", {"GROQ_BASE_URL": "eu.groq.com"}, "https://eu.groq.com/openai/v1"),
        ("openai", {"OPENAI_BASE_URL": "localhost:8000"}, "http://localhost:8000/v1"),
        ("ollama", {"OLLAMA_HOST": "gpu/a"}, "http://gpu:11434/a"),
        ("ollama", {"OLLAMA_HOST": "[::1]"}, "http://[::1]:11434/v1"),
        ("ollama", {"OLLAMA_HOST": "http://gpu"}, "http://gpu/v1"),
        ("azure", {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
         "https://r.openai.azure.com/openai/v1"),
    ],
)  # fmt: skip
def test_the_vendors_variables_say_where_a_server_is(host, env, url):
    assert HOSTS[host].base(env) == url


def test_a_server_is_given_the_key_of_its_vendor():
    keys = {"OPENAI_API_KEY": "sk-openai", "GROQ_API_KEY": "sk-groq"}
    groq = OpenAIProvider("m", host=HOSTS["groq"], env=keys)
    assert (groq.name, groq._endpoint.headers["authorization"]) == ("groq", "Bearer sk-groq")
    other = OpenAIProvider("m", base_url="https://llm.example.com/v1", env=keys)
    assert other._endpoint.headers["authorization"] == "Bearer sk-openai"
    with pytest.raises(ConfigurationError) as caught:
        OpenAIProvider("m", base_url="https://api.mistral.ai/v1", env={})
    assert "mistral" in str(caught.value)
    assert "MISTRAL_API_KEY" in caught.value.hint


@pytest.mark.parametrize("address", ["http://[::1", "[::1", "gpu:port", "gpu:99999", ":1234"])
def test_an_address_that_can_not_be_read_is_refused(address):
    with pytest.raises(ConfigurationError, match="base URL of ollama"):
        open_model("ollama:llama3.2", {"OLLAMA_HOST": address})
    with pytest.raises(ConfigurationError, match="base URL"):
        open_model("openai:gpt-5.4", {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "k"})


def test_a_server_without_a_common_address_asks_for_one():
    with pytest.raises(ConfigurationError, match="base URL of azure"):
        OpenAIProvider("m", host=HOSTS["azure"], env={"AZURE_OPENAI_API_KEY": "k"})


def test_a_server_is_passed_by_its_name():
    url = "https://ai.example.org"
    llm = OpenAIProvider("m", base_url=url, host="litellm", api_key="k", env={})
    assert llm.host is HOSTS["litellm"]
    with pytest.raises(ConfigurationError, match="no server is known as 'lightllm'") as caught:
        OpenAIProvider("m", host="lightllm", api_key="k", env={})
    assert "litellm" in caught.value.hint
