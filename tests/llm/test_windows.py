"""How large a model's window is: given, asked of its server, or listed."""

from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio

from greenroom.core import ConfigurationError, Message
from greenroom.llm import (
    ModelRequest,
    OpenAIProvider,
    ProviderWrapper,
    find_window,
    open_model,
    resilient,
)
from greenroom.llm._internal import ContextWindow, window_of
from greenroom.llm.openai import local_windows
from greenroom.testing import cassette
from tests.llm.local_servers import LocalServer, as_json, running, show
from tests.llm.server import Answer, model_server

NUM_CTX = 'stop                           "<|eot_id|>"\nnum_ctx                        8192\n'


@pytest.fixture
async def closed_later():
    async with AsyncExitStack() as stack:

        def take(llm):
            stack.push_async_callback(llm.aclose)
            return llm

        yield take


@pytest.fixture
def ollama(closed_later):
    def open_it(server, model="llama3.2", **options):
        return closed_later(open_model(f"ollama:{model}", {"OLLAMA_HOST": server.url}, **options))

    return open_it


@pytest.fixture
def compatible(closed_later):
    def open_it(server, model="m", **options):
        url = f"{server.url}/v1"
        return closed_later(OpenAIProvider(model, base_url=url, env={}, **options))

    return open_it


@pytest.mark.parametrize(
    ("paths", "model", "first", "after_a_reply"),
    [
        ({"/api/show": show(NUM_CTX)}, "m", (8192, "server", True), None),
        (
            {"/api/show": show(), "/api/ps": running(("other:latest", 1024), ("m:latest", 32_768))},
            "m",
            (32_768, "server", False),
            (32_768, "server", True),
        ),
        (
            {"/api/show": show("temperature 0.7"), "/api/ps": running(("M:8b", 16_384))},
            "m:8b",
            (16_384, "server", False),
            (16_384, "server", True),
        ),
        (
            {"/api/show": show(), "/api/ps": running(("m:8b", 16_384))},
            "m",
            (4096, "assumed", False),
            (4096, "assumed", True),
        ),
        ({}, "m", (4096, "assumed", False), (4096, "assumed", True)),
        (
            {"/api/show": as_json([1]), "/api/ps": Answer.stream(b"<html>")},
            "m",
            (4096, "assumed", False),
            (4096, "assumed", True),
        ),
        ({"/api/show": show(remote_host="ollama.com")}, "m", (131_072, "server", True), None),
    ],
)  # fmt: skip
async def test_ollama_is_asked_for_the_window_in_use(paths, model, first, after_a_reply, ollama):
    play = LocalServer(paths)
    async with model_server(play) as server:
        llm = ollama(server, model)
        assert await find_window(llm) == await find_window(llm) == ContextWindow(*first)
        assert len(play.asked) <= 2
        found = await find_window(llm, has_replied=True)
        assert found == ContextWindow(*(after_a_reply or first))
        await find_window(ollama(server, model), has_replied=True)
        assert play.asked.count("POST /api/show") == 1
        assert play.asked.count("GET /api/ps") == (2 if after_a_reply else 0)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ({"/v1/models": {"id": "m", "max_model_len": 40_960}}, (40_960, "server", True)),
        ({"/v1/models": {"id": "other", "max_model_len": 40_960}}, (None, "unknown", True)),
        (
            {"/api/v0/models": {"id": "m", "loaded_context_length": 8192, "max_context_length": 9}},
            (8192, "server", True),
        ),
        ({"/api/v0/models": {"id": "m", "max_context_length": 9999}}, (9999, "server", False)),
        ({"/v1/models": {"id": "m", "max_model_len": "many"}}, (None, "unknown", True)),
    ],
)  # fmt: skip
async def test_other_servers_are_asked_where_they_say_it(paths, expected, compatible):
    play = LocalServer({path: as_json({"data": [each]}) for path, each in paths.items()})
    async with model_server(play) as server:
        assert await find_window(compatible(server)) == ContextWindow(*expected)
        assert all(each.startswith("GET ") for each in play.asked)


async def test_an_adapter_has_the_window_of_its_model_and_llama_cpp_names_its_own(compatible):
    models = as_json(
        {"data": [{"id": "base", "max_model_len": 2048}, {"id": "m", "parent": "base"}]}
    )
    async with model_server(LocalServer({"/v1/models": models})) as server:
        assert (await find_window(compatible(server))).tokens == 2048
    props = as_json({"default_generation_settings": {"n_ctx": 65_536}})
    async with model_server(LocalServer({"/props": props})) as server:
        assert (await find_window(compatible(server))).tokens == 65_536


async def test_a_server_that_passes_a_listed_model_on_is_not_asked(compatible):
    play = LocalServer({})
    async with model_server(play) as server:
        found = await find_window(compatible(server, "gpt-5.4"))
        assert found == ContextWindow(1_050_000, "catalogue")
    assert play.asked == []


async def test_many_agents_ask_once(ollama):
    play = LocalServer({"/api/show": show(NUM_CTX)})
    async with model_server(play) as server, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(partial(find_window, ollama(server)))
    assert play.asked == ["POST /api/show"]


async def test_a_server_that_hangs_is_asked_once_and_one_that_is_away_again(monkeypatch, ollama):
    monkeypatch.setattr(local_windows, "_SECONDS", 0.2)
    hanging = Answer(end="hang", after=trio.Event())
    async with model_server(lambda _: hanging) as server:
        llm = ollama(server)
        assert await find_window(llm) == ContextWindow(4096, "assumed", is_final=False)
        asked = len(server.requests)
        assert await find_window(llm) == ContextWindow(4096, "assumed", is_final=False)
        assert len(server.requests) == asked
    async with model_server(LocalServer({})) as gone:
        pass
    assert (await find_window(ollama(gone))).source == "unknown"
    assert (gone.url, "llama3.2") not in local_windows._known


async def test_what_servers_said_is_forgotten_in_the_end(compatible):
    play = LocalServer({"/v1/models": as_json({"data": []})})
    async with model_server(play) as server:
        for number in range(local_windows._MODELS + 5):
            await find_window(compatible(server, f"m{number}"))
    assert len(local_windows._known) == local_windows._MODELS


async def test_a_window_that_is_given_wins_and_nobody_is_asked(ollama, compatible):
    play = LocalServer({"/api/show": show(NUM_CTX)})
    async with model_server(play) as server:
        given = ContextWindow(2048, "given")
        assert await find_window(ollama(server, window=2048)) == given
        assert await find_window(compatible(server, window=2048)) == given
        assert await find_window(resilient(ollama(server, window=2048))) == given
    assert play.asked == []
    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    for name in ("anthropic:claude-sonnet-5", "gpt-5.4", "offline:"):
        assert await find_window(open_model(name, env, window=2048)) == given
    assert (await find_window(open_model("gpt-5.4", env))).tokens == 1_050_000
    assert (await find_window(open_model("offline:"))).source == "unlimited"
    assert (await find_window(open_model("gpt-x", env))).source == "unknown"


@pytest.mark.parametrize("window", [True, 8.5, "8192", 0, -1, 100])
def test_a_window_is_a_number_of_tokens(window):
    with pytest.raises(ConfigurationError, match="window"):
        open_model("offline:", window=window)
    with pytest.raises(ConfigurationError, match="window"):
        open_model("gpt-5.4", {"OPENAI_API_KEY": "k"}, window=window)


async def test_a_wrapper_has_the_window_inside_and_fallbacks_share_the_smallest():
    class Wrapper(ProviderWrapper):
        def stream(self, request):
            return self.llm.stream(request)

    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    large, small = open_model("gpt-5.4", env), open_model("anthropic:claude-haiku-4-5", env)
    assert (await find_window(Wrapper(large))).tokens == 1_050_000
    assert (await find_window(Wrapper(open_model("gpt-x", env, window=999)))).tokens == 999
    assert (await find_window(resilient(large, fallback=[small]))).tokens == 200_000
    given = open_model("gpt-5.4", env, window=900_000)
    assert (await find_window(resilient(given, fallback=[small]))).tokens == 200_000
    assert window_of(resilient(given, fallback=[small])) is None
    assert window_of(resilient(Wrapper(given))) == 900_000


async def test_a_recording_holds_only_what_the_model_was_asked(tmp_path, compatible):
    play = LocalServer({"/api/show": show(NUM_CTX)})
    async with model_server(play) as server, cassette(tmp_path / "c.json", mode="record") as client:
        llm = compatible(server, client=client)
        assert (await find_window(llm)).source == "unknown"
        await llm.generate(ModelRequest(messages=[Message.user("Hi")]))
    assert play.asked == []
