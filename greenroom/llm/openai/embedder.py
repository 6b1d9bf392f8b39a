"""Embeddings by OpenAI and by every server that speaks its API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from greenroom.core import ConfigurationError
from greenroom.core._internal import InvalidJSONError, serde, valid_unicode
from greenroom.llm.endpoint import ModelTimeouts
from greenroom.llm.http_provider import open_client
from greenroom.llm.http_stream import fetch
from greenroom.llm.model_errors import ModelStreamError
from greenroom.llm.openai.hosts import HostProfile
from greenroom.llm.openai.provider import find_server

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport

_BATCH = 64  # texts in one request
_LONGEST = 8_000  # characters of a text; in most scripts below the 8,191 tokens that models take
_REPLY_LIMIT = 32 << 20  # bytes of one reply: 64 vectors of 4,096 numbers take 6 MB
_CONNECT = 10.0  # seconds


class OpenAIEmbedder:
    """Makes vectors with a model of OpenAI or of a compatible server, such as Ollama or vLLM.

    Texts are sent 64 at a time, each cut after 8,000 characters. Nothing is retried: a memory works
    without vectors, and makes them later.

    Args:
        model: the model's name.
        api_key: the key; else found in the environment as `OpenAIProvider` does.
        base_url: the server, with `/v1`; else that of `host`, else `OPENAI_BASE_URL`, else OpenAI's
            own.
        host: the server, if its address does not tell: its name, or its peculiarities.
        dimensions: the numbers in each vector, for models that support it; None: their default.
        client: an HTTP client to share; without one it opens its own.
        timeout: seconds for one request.
        headers: more headers for every request.
        env: where to look for the variables, by default in this process's environment.

    Raises:
        ConfigurationError: there is no key, or the key or the base URL can't be used.

    Example:
        >>> OpenAIEmbedder("nomic-embed-text", base_url="http://localhost:11434/v1", env={})
        OpenAIEmbedder('nomic-embed-text')
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        host: HostProfile | str | None = None,
        dimensions: int | None = None,
        client: "HttpTransport | None" = None,
        timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Read the configuration; nothing is sent yet."""
        if dimensions is not None and dimensions < 1:
            raise ConfigurationError(f"dimensions is {dimensions}: a vector has at least one")
        _, self._endpoint = find_server(host, base_url, "embeddings", api_key, headers or {}, env)
        self.model = model
        self._dimensions = dimensions
        self._timeouts = ModelTimeouts(min(_CONNECT, timeout), timeout, timeout, timeout)
        self._client = client or open_client(None)
        self._owns_client = client is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def name(self) -> str:
        """Server, model and size: only vectors of the same name are compared."""
        size = f":{self._dimensions}" if self._dimensions else ""
        return f"{self._endpoint.provider}:{self.model}{size}"

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """Return a vector for each text, in their order.

        Raises:
            ModelError: no connection, no answer in time, or an answer that is an error or no
                vectors.
            ModelCallForbiddenError: calls of real models are forbidden.
        """
        found: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            found += await self._embed(texts[start : start + _BATCH])
        return found

    async def aclose(self) -> None:
        """Close the connections, unless they are those of a client that was passed."""
        if self._owns_client:
            await self._client.aclose()

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        # A blank text is refused by servers.
        sent = [valid_unicode(text[:_LONGEST]) if text.strip() else "-" for text in texts]
        body: dict[str, object] = {"model": self.model, "input": sent, "encoding_format": "float"}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        content = serde.encode(body)
        reply = await fetch(self._client, self._endpoint, content, self._timeouts, _REPLY_LIMIT)
        return self._vectors(reply, len(texts))

    def _vectors(self, reply: bytes, count: int) -> list[list[float]]:
        """Return the vectors in a reply, in the order of the texts.

        Raises:
            ModelStreamError: the reply does not have these vectors.
        """
        provider = self._endpoint.provider
        try:
            data = {
                each.index: each.embedding for each in serde.decode(reply, _EmbeddingReply).data
            }
            found = [data[index] for index in range(count)]
        except (InvalidJSONError, KeyError) as error:
            raise ModelStreamError(
                f"{provider} did not answer with {count} vectors",
                provider=provider,
                hint="check the base URL, and that the model makes embeddings",
            ) from error
        if len({len(each) for each in found}) > 1:
            raise ModelStreamError(f"{provider} sent vectors of several lengths", provider=provider)
        return found


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingReply(msgspec.Struct):
    data: list[_Embedding]
