"""Google's Gemini models, over the API that is their own."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from greenroom.core import ModelRequest, Price
from greenroom.core._internal import OutputSchema
from greenroom.llm.endpoint import (
    GEMINI,
    GEMINI_KEYS,
    Endpoint,
    ModelTimeouts,
    RequestAuth,
    is_local,
    missing_key,
    read_setting,
)
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.gemini.encode import GeminiDialect
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.keys import read_key
from greenroom.llm.merged_messages import MediaLimits
from greenroom.llm.request_encoder import EncodedRequest, RequestEncoder

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport

_VERSION = re.compile(r"/v\d\w*(/|$)")


class GeminiProvider(HttpProvider):
    """A Gemini model over Google's own API.

    Nothing is stored at the vendor's: each request has the whole conversation, and the signatures
    of thoughts go back as they came. The vendor's own tools, such as Google Search, are `options`.

    Args:
        model: the model's name, such as "gemini-3.8-flash".
        api_key: the key; else `GOOGLE_API_KEY`, else `GEMINI_API_KEY`, or a file that one of these
            names with `_FILE` behind it names.
        base_url: the server, without `/v1beta`, else `GOOGLE_GEMINI_BASE_URL`, else Google's own.
            If it has a version, as on Vertex AI, it is where the models are.
        auth: returns headers for each request, such as a signature or a token that expires; see
            `RequestAuth`. With it no key is needed, and none is read from the environment.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 by default; others wait in turn,
            without a time-out. A client that is passed has its own limit.
        max_tokens: the most tokens of a reply, thoughts included, if the request does not say;
            None: the model's own limit.
        headers: more headers for every request.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        window: the tokens that the model takes, if not as many as the catalogue says.
        env: where to look for the variables, by default in this process's environment.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL or `connections` can't be
            used.

    Example:
        >>> GeminiProvider("gemini-3.8-flash", api_key="k", env={})
        GeminiProvider('gemini-3.8-flash')
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
        timeouts: ModelTimeouts | None = None,
        price: Price | None = None,
        window: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Read the configuration; nothing is sent yet."""
        env = os.environ if env is None else env
        model = model.removeprefix("models/")
        endpoint = _find_endpoint(model, api_key, base_url, headers or {}, env, auth)
        super().__init__(model, endpoint, client, timeouts, price, connections, window)
        images, documents = self.profile.images, self.profile.documents
        limits = MediaLimits().of_model(images=images, documents=documents)
        rules = self.profile.rules
        thinks = bool(rules.efforts) or rules.budget is not None
        self._dialect = GeminiDialect(model, max_tokens, thinks, limits)
        self._requests = RequestEncoder(self._dialect)

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Return the body of a streaming request as it would be sent."""
        return self._requests.show(self.fit(request).request)

    async def prepare(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; of a conversation that has grown, only the new part."""
        return await self._requests.encode(request)

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the model takes a schema together with tools; Gemini 2 takes one of the two."""
        return self._dialect.is_new

    def decoder(self) -> GeminiDecoder:
        """Return a decoder for one reply."""
        return GeminiDecoder(self.name, self.model)


def _find_endpoint(
    model: str,
    api_key: str | None,
    base_url: str | None,
    headers: Mapping[str, str],
    env: Mapping[str, str],
    auth: RequestAuth | None,
) -> Endpoint:
    base = read_setting(base_url, env, "GOOGLE_GEMINI_BASE_URL", GEMINI).rstrip("/")
    key = api_key.strip() if api_key is not None else "" if auth else read_key(env, *GEMINI_KEYS)
    if not (key or auth or is_local(base)):
        raise missing_key("google", "GEMINI_API_KEY")
    version = "" if _VERSION.search(base) else "/v1beta"
    base = base.removesuffix("/models")
    name = quote(model if "/" in model else f"models/{model}")
    sent = {"content-type": "application/json", **({"x-goog-api-key": key} if key else {})}
    url = f"{base}{version}/{name}:streamGenerateContent?alt=sse"
    hint = "check `auth`" if auth else f"check {' and '.join(GEMINI_KEYS)}"
    return Endpoint("google", url, sent | dict(headers), (key,), hint, auth=auth)
