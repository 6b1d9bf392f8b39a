"""`OpenAIEmbedder` against a server on this machine."""

import pytest

from greenroom.core import ConfigurationError
from greenroom.core._internal import serde
from greenroom.llm import (
    ModelAuthenticationError,
    ModelConnectionError,
    ModelStreamError,
    ModelTimeoutError,
)
from greenroom.llm._internal import ModelCallForbiddenError, OpenAIEmbedder
from greenroom.memory import Embedder, SQLiteMemory
from tests.llm.server import Answer, model_server


def answer(request):
    texts = request.body["input"]
    data = [{"index": n, "embedding": [float(len(t)), 1.0]} for n, t in enumerate(texts)]
    return Answer(
        (serde.dumps({"data": data[::-1]}),), headers={"content-type": "application/json"}
    )


def embedder(server, **options):
    return OpenAIEmbedder("m", base_url=f"{server.url}/v1", api_key="sk-secret", **options)


async def test_vectors_come_in_the_order_of_the_texts_in_batches():
    async with model_server(answer) as server:
        made = embedder(server, dimensions=2)
        assert isinstance(made, Embedder)
        assert made.name.endswith(":m:2")
        texts = ["x" * (number % 7) for number in range(130)]
        found = await made.embed(texts)
        assert found == [[float(len(text) or 1), 1.0] for text in texts]
        assert [len(each.body["input"]) for each in server.requests] == [64, 64, 2]
        first = server.requests[0]
        assert (first.path, first.body["model"], first.body["dimensions"]) == (
            "/v1/embeddings",
            "m",
            2,
        )
        assert first.headers["authorization"] == "Bearer sk-secret"
        assert await made.embed(["y" * 9_000]) == [[8_000.0, 1.0]]
        assert await made.embed([]) == []
        await made.aclose()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (Answer.error(401, {"error": {"message": "bad key sk-secret"}}), ModelAuthenticationError),
        (Answer((b"<html>",)), ModelStreamError),
        (Answer((b'{"data": []}',)), ModelStreamError),
        (
            Answer(
                (
                    b'{"data": [{"index": 0, "embedding": [1.0]},'
                    b' {"index": 1, "embedding": [1.0, 2.0]}]}',
                )
            ),
            ModelStreamError,
        ),
        (Answer((b"{",), end="reset"), ModelConnectionError),
    ],
)
async def test_a_server_that_fails_is_a_model_error_without_the_key(given, error):
    async with model_server(lambda request: given) as server:
        made = embedder(server)
        with pytest.raises(error) as failed:
            await made.embed(["a", "b"])
        assert "sk-secret" not in str(failed.value)
        await made.aclose()


async def test_a_memory_does_without_a_server_that_fails():
    async with model_server(lambda request: Answer.error(500, {"error": "no"})) as server:
        made = embedder(server)
        memory = SQLiteMemory(embedder=made)
        await memory.add("the door is green")
        assert len(await memory.recall("door")) == 1
        assert memory.statistics().embedder_failures == 1
        await made.aclose()


async def test_a_server_that_hangs_is_given_up():
    async with model_server(lambda request: Answer((b"{",), end="hang")) as server:
        made = embedder(server, timeout=0.05)
        with pytest.raises(ModelTimeoutError):
            await made.embed(["a"])
        await made.aclose()


async def test_what_can_not_be_configured_is_refused(monkeypatch):
    with pytest.raises(ConfigurationError, match="no key"):
        OpenAIEmbedder(env={})
    with pytest.raises(ConfigurationError, match="dimensions"):
        OpenAIEmbedder(api_key="k", dimensions=0, env={})
    monkeypatch.setenv("GREENROOM_FORBID_MODEL_CALLS", "1")
    made = OpenAIEmbedder(api_key="k", env={})
    with pytest.raises(ModelCallForbiddenError):
        await made.embed(["a"])
    await made.aclose()
