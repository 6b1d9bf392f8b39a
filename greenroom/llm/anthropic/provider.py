"""Anthropic's models, over the Messages API."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from greenroom.core import ModelRequest, Price
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.anthropic.encode import encode
from greenroom.llm.endpoint import Endpoint, is_local, missing_key, setting
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.timeouts import ModelTimeouts

if TYPE_CHECKING:
    from greenroom.net import HttpClient

__all__ = ["AnthropicProvider"]


class AnthropicProvider(HttpProvider):
    """A model of Anthropic, or of a server that speaks its API.

    Args:
        model: the model's name, such as "claude-sonnet-5".
        api_key: the key; else `ANTHROPIC_API_KEY`, and `ANTHROPIC_AUTH_TOKEN` for gateways.
        base_url: the server, without `/v1`; else `ANTHROPIC_BASE_URL`, else Anthropic's own.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 if left out; those beyond wait in
            turn, without a time-out. Where a client is given, its own limit holds.
        max_tokens: the most that a reply may take where the request does not say.
        headers: more headers for every request, such as `anthropic-beta`.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        env: where to look for the variables.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL or `connections` can't be used.

    Example:
        >>> AnthropicProvider("claude-sonnet-5", api_key="sk-ant-1")
        AnthropicProvider('claude-sonnet-5')
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "HttpClient | None" = None,
        connections: int | None = None,
        max_tokens: int = 16_000,
        headers: Mapping[str, str] | None = None,
        timeouts: ModelTimeouts | None = None,
        price: Price | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        """Read the configuration; nothing is sent yet."""
        endpoint = _endpoint(api_key, base_url, headers or {}, env)
        super().__init__(model, endpoint, client, timeouts, price, connections)
        self._max_tokens = max_tokens

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Make the body of a streaming request."""
        return encode(request, model=self.model, max_tokens=self._max_tokens)

    def decoder(self) -> AnthropicDecoder:
        """Make the translator of one reply."""
        return AnthropicDecoder(self.name)


def _endpoint(
    api_key: str | None, base_url: str | None, headers: Mapping[str, str], env: Mapping[str, str]
) -> Endpoint:
    base = setting(base_url, env, "ANTHROPIC_BASE_URL", "https://api.anthropic.com").rstrip("/")
    key = setting(api_key, env, "ANTHROPIC_API_KEY")
    token = "" if api_key is not None else setting(None, env, "ANTHROPIC_AUTH_TOKEN")
    if not (key or token or is_local(base)):
        raise missing_key("anthropic", "ANTHROPIC_API_KEY")
    sent = {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    sent |= {"x-api-key": key} if key else {}
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    url = f"{base.removesuffix('/v1')}/v1/messages"
    return Endpoint("anthropic", url, sent | dict(headers), (key, token), "check ANTHROPIC_API_KEY")
