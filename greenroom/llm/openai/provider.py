"""OpenAI's models, and every server that speaks Chat Completions."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from greenroom.core import ModelRequest, Price
from greenroom.llm.endpoint import Endpoint, host_of, is_local, missing_key, setting
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.openai.encode import LimitField, encode
from greenroom.llm.timeouts import ModelTimeouts

if TYPE_CHECKING:
    from greenroom.net import HttpClient

__all__ = ["OpenAIProvider"]


class OpenAIProvider(HttpProvider):
    """A model of OpenAI, or of a compatible server (Ollama, vLLM, OpenRouter, …) by its base URL.

    Args:
        model: the model's name, such as "gpt-5.4".
        api_key: the key; else `OPENAI_API_KEY`. A server on a private address needs none.
        base_url: the server, with `/v1`; else `OPENAI_BASE_URL`, else OpenAI's own.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 if left out; those beyond wait in
            turn, without a time-out. Where a client is given, its own limit holds.
        max_tokens: the most that a reply may take where the request does not say; None: no limit.
        headers: more headers for every request.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        env: where to look for the variables; `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` count too.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL or `connections` can't be used.

    Example:
        >>> OpenAIProvider("llama3.2", base_url="http://localhost:11434/v1", env={})
        OpenAIProvider('llama3.2')
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "HttpClient | None" = None,
        connections: int | None = None,
        max_tokens: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: ModelTimeouts | None = None,
        price: Price | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        """Read the configuration; nothing is sent yet."""
        endpoint = _endpoint(api_key, base_url, headers or {}, env)
        super().__init__(model, endpoint, client, timeouts, price, connections)
        self._max_tokens = max_tokens
        self._limit_field = _limit_field(endpoint.url)

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Make the body of a streaming request."""
        return encode(
            request,
            model=self.model,
            max_tokens=self._max_tokens,
            limit_field=self._limit_field,
        )

    def decoder(self) -> OpenAIDecoder:
        """Make the translator of one reply."""
        return OpenAIDecoder(self.name)


def _limit_field(url: str) -> LimitField:
    """Name the limit as the server knows it: OpenAI refuses the old name, others know no other."""
    return "max_completion_tokens" if host_of(url).endswith("openai.com") else "max_tokens"


def _endpoint(
    api_key: str | None, base_url: str | None, headers: Mapping[str, str], env: Mapping[str, str]
) -> Endpoint:
    base = setting(base_url, env, "OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/")
    key = setting(api_key, env, "OPENAI_API_KEY")
    if not (key or is_local(base)):
        raise missing_key("openai", "OPENAI_API_KEY")
    optional = {
        "authorization": f"Bearer {key}" if key else "",
        "openai-organization": setting(None, env, "OPENAI_ORG_ID"),
        "openai-project": setting(None, env, "OPENAI_PROJECT_ID"),
    }
    sent = {"content-type": "application/json"} | {k: v for k, v in optional.items() if v}
    url = f"{base}/chat/completions"
    return Endpoint("openai", url, sent | dict(headers), (key,), "check OPENAI_API_KEY")
