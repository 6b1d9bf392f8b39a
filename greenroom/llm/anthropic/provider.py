"""Anthropic's models, over the Messages API, which counts tokens as well."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from greenroom.core import ModelRequest, Price
from greenroom.core._internal import InvalidJSONError, OutputSchema, serde
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.anthropic.encode import MessagesDialect
from greenroom.llm.endpoint import (
    Endpoint,
    ModelTimeouts,
    RequestAuth,
    host_of,
    is_local,
    missing_key,
    read_setting,
)
from greenroom.llm.http_provider import HttpProvider, invalid_request
from greenroom.llm.http_stream import fetch, read_reply
from greenroom.llm.json_fields import as_int
from greenroom.llm.keys import read_key
from greenroom.llm.model_errors import ModelStreamError
from greenroom.llm.portable_calls import dotted_names
from greenroom.llm.request_encoder import EncodedRequest, RequestEncoder
from greenroom.llm.strict_schema import ANTHROPIC, strict_schema

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport


_COUNTED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
    | {"cache_control", "context_management", "compaction", "mcp_servers", "speed"}
    | {"billing_policy", "user_profile_id", "workspace_id", "anthropic_version"}
)
"""The fields that the endpoint for counting accepts; it refuses others, such as `max_tokens`."""

_COUNT_LIMIT = 64 * 1024  # bytes

ON_VERTEX = "/publishers/anthropic/models"
"""How an address on Google's Vertex AI ends, where the model is a part of it."""

_VERTEX_COUNT = "count-tokens:rawPredict"


class AnthropicProvider(HttpProvider):
    """A model of Anthropic, or of a server that speaks its API.

    Requests are marked for the cache, so a growing conversation pays the full price of each message
    once; `ModelRequest.cache` turns that off, and so does a request with its own `cache_control`.

    Args:
        model: the model's name, such as "claude-sonnet-5-5".
        api_key: the key; else `ANTHROPIC_API_KEY`, and `ANTHROPIC_AUTH_TOKEN` for gateways, or the
            files that `ANTHROPIC_API_KEY_FILE` and `ANTHROPIC_AUTH_TOKEN_FILE` name.
        base_url: the server, without `/v1`; else `ANTHROPIC_BASE_URL`, else Anthropic's own. One
            that ends in `/publishers/anthropic/models` is of Vertex AI, and gets the model.
        auth: returns headers for each request, such as a signature or a token that expires; see
            `RequestAuth`. With it no key is needed, and none is read from the environment.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 by default; others wait in turn,
            without a time-out. A client that is passed has its own limit.
        max_tokens: the most tokens of a reply if the request does not say; by default a quarter of
            what the model can write, or 16,000 if that is not known. Thinking counts as well.
        headers: more headers for every request, such as `anthropic-beta`.
        version: the version of the API, "2023-06-01" or "2026-10-21"; the later one refuses
            `temperature`, `top_p` and `top_k`.
        max_image_bytes: the most bytes of an image in base64, if not as many as with Anthropic; 0
            for a model that reads none.
        max_request_bytes: the most bytes of a request, if not as many.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        window: the most tokens of a request and its reply together, if not as the catalogue says.
        env: where to look for the variables, by default in this process's environment.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL, `connections` or the `window`
            can't be used.

    Example:
        >>> AnthropicProvider("claude-sonnet-5-5", api_key="sk-ant-1")
        AnthropicProvider('claude-sonnet-5-5')
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        auth: RequestAuth | None = None,
        client: "HttpTransport | None" = None,
        connections: int | None = None,
        max_tokens: int | None = None,
        headers: Mapping[str, str] | None = None,
        version: str = "2023-06-01",
        max_image_bytes: int | None = None,
        max_request_bytes: int | None = None,
        timeouts: ModelTimeouts | None = None,
        price: Price | None = None,
        window: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Read the configuration; nothing is sent yet."""
        all_headers = {"anthropic-version": version, **(headers or {})}
        endpoint = _endpoint(model, api_key, base_url, all_headers, env, auth)
        super().__init__(model, endpoint, client, timeouts, price, connections, window)
        bound_to = model if self.profile.rules.binds_thinking else ""
        most = self.profile.max_output_tokens
        limit = max_tokens or (most or 64_000) // 4
        self._on_vertex = ON_VERTEX in endpoint.url
        dialect = MessagesDialect(
            model,
            limit,
            version=version,
            bound_to=bound_to,
            max_output=most,
            on_vertex=self._on_vertex,
        )
        limits = replace(
            dialect.limits,
            image=dialect.limits.image if max_image_bytes is None else max_image_bytes,
            request=dialect.limits.request if max_request_bytes is None else max_request_bytes,
        )
        images, documents = self.profile.images, self.profile.documents
        limits = limits.of_model(images=images, documents=documents)
        dialect = replace(dialect, limits=limits)
        self._requests = RequestEncoder(dialect)

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Return the body of a streaming request as it would be sent."""
        return self._requests.show(self.fit(request).request)

    async def prepare(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; of a conversation that has grown, only the new part."""
        return await self._requests.encode(request)

    async def count_tokens(self, request: ModelRequest) -> int:
        """Ask the provider how many input tokens a request will take; no model runs.

        Anthropic does not charge for this, but limits how often it may be asked. `EstimatedCounter`
        counts locally.

        Raises:
            ModelError: the request failed; the subclass says why. It is a `ModelNotFoundError` if
                another server that speaks the API does not have this endpoint.
        """
        dotted_names(request.tools)  # raises for two tools of one name
        try:
            content = await trio.to_thread.run_sync(self._encode_count, request)
        except InvalidJSONError as error:
            raise invalid_request(error, self.name) from error
        url = f"{self._endpoint.url}/count_tokens"
        if self._on_vertex:
            url = f"{self._endpoint.url.partition(ON_VERTEX)[0]}{ON_VERTEX}/{_VERTEX_COUNT}"
        endpoint = replace(self._endpoint, url=url)
        body = await fetch(self._client, endpoint, content, self._timeouts, _COUNT_LIMIT)
        count = as_int(read_reply(body, endpoint).get("input_tokens"))
        if count is None:
            raise ModelStreamError("the answer has no count of tokens", provider=self.name)
        return count

    def _encode_count(self, request: ModelRequest) -> bytes:
        body = {"model": self.model, **self.encode(request)}
        return serde.dumps({k: v for k, v in body.items() if k in _COUNTED})

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the API enforces this schema; other servers that speak it may not."""
        is_anthropic = host_of(self._endpoint.url).endswith("anthropic.com")
        return is_anthropic and strict_schema(output.schema, ANTHROPIC) is not None

    def decoder(self) -> AnthropicDecoder:
        """Return a decoder for one reply."""
        return AnthropicDecoder(self.name)


def _endpoint(
    model: str,
    api_key: str | None,
    base_url: str | None,
    headers: Mapping[str, str],
    env: Mapping[str, str] | None,
    auth: RequestAuth | None,
) -> Endpoint:
    env = os.environ if env is None else env
    base = read_setting(base_url, env, "ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    base = base.rstrip("/")
    reads = api_key is None and auth is None
    key = read_key(env, "ANTHROPIC_API_KEY") if reads else (api_key or "").strip()
    token = read_key(env, "ANTHROPIC_AUTH_TOKEN") if reads else ""
    if not (key or token or auth or is_local(base)):
        raise missing_key("anthropic", "ANTHROPIC_API_KEY")
    sent = {"content-type": "application/json"}
    sent |= {"x-api-key": key} if key else {}
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    url = f"{base.removesuffix('/v1')}/v1/messages"
    if base.endswith(ON_VERTEX):
        url = f"{base}/{model}:streamRawPredict"
    hint = "check `auth`" if auth else "check ANTHROPIC_API_KEY"
    return Endpoint("anthropic", url, sent | dict(headers), (key, token), hint, auth=auth)
