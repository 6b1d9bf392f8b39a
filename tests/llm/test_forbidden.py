"""The switch that keeps real models from being called."""

import pytest

from greenroom.core import ConfigurationError, Message, ModelRequest
from greenroom.llm import (
    AnthropicProvider,
    Endpoint,
    OfflineProvider,
    OpenAIProvider,
    RecordedProvider,
)
from greenroom.llm._internal import (
    FORBID_VARIABLE,
    HOSTS,
    ModelCallForbiddenError,
    check_call,
    forbids_calls,
)
from greenroom.net import HttpClient
from greenroom.testing import ScriptedProvider, forbid_model_calls
from tests.llm.server import Answer, model_server

HELLO = ModelRequest(messages=(Message.user("hello"),))


class Untouchable:
    """A client that fails where anything is sent."""

    def stream(self, *args, **kwargs):
        raise AssertionError("something was sent")

    async def aclose(self):
        pass


def providers():
    yield AnthropicProvider("m", api_key="sk-1", client=Untouchable(), env={})
    for host in HOSTS.values():
        base = "https://mine.example/v1" if "://" not in host.base_url else host.base_url
        base = base.replace("localhost", "gpu.example")
        yield OpenAIProvider(
            "m", host=host, base_url=base, api_key="k", client=Untouchable(), env={}
        )


@pytest.mark.parametrize("llm", list(providers()), ids=lambda llm: llm.name)
async def test_no_provider_sends_anything_while_calls_are_forbidden(llm):
    with forbid_model_calls():
        with pytest.raises(
            ModelCallForbiddenError, match="ScriptedProvider or a cassette"
        ) as caught:
            await llm.generate(HELLO)
        assert caught.value.provider == llm.name
        assert caught.value.host in str(caught.value)
        assert isinstance(caught.value, ConfigurationError)
    with pytest.raises(AssertionError, match="something was sent"):
        await llm.generate(HELLO)


async def test_what_calls_nobody_goes_on_working():
    reply = await ScriptedProvider("one").generate(HELLO)
    with forbid_model_calls():
        assert (await ScriptedProvider("two").generate(HELLO)).text == "two"
        assert (await RecordedProvider([reply]).generate(HELLO)).text == "one"
        assert (await OfflineProvider().generate(HELLO)).text


async def test_a_server_on_this_machine_may_be_asked():
    async with model_server(Answer.error(529, {"error": {"message": "full"}})) as server:
        llm = OpenAIProvider("m", base_url=f"{server.url}/v1", env={})
        with forbid_model_calls():
            with pytest.raises(Exception, match="full"):
                await llm.generate(HELLO)
        await llm.aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("localhost", True),
        ("ollama.localhost", True),
        ("192.168.0.7", False),
        ("0.0.0.0", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("gpu", False),
    ],
)
def test_only_loopback_is_this_machine(host, allowed):
    endpoint = Endpoint("some", f"http://{host}:8000/v1", {})
    with forbid_model_calls():
        if allowed:
            check_call(endpoint, HttpClient())
        else:
            with pytest.raises(ModelCallForbiddenError):
                check_call(endpoint, HttpClient())


@pytest.mark.parametrize(
    ("value", "forbids"), [("1", True), ("true", True), ("yes", True), ("0", False), ("OFF", False)]
)
def test_the_variable_can_be_set_by_any_test_runner(value, forbids):
    assert forbids_calls({FORBID_VARIABLE: value}) is forbids


def test_blocks_may_be_nested_and_leave_the_variable_as_it_was(monkeypatch):
    monkeypatch.delenv(FORBID_VARIABLE, raising=False)
    with forbid_model_calls():
        with forbid_model_calls():
            assert forbids_calls()
        assert forbids_calls()
    assert not forbids_calls()
