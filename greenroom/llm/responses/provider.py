"""OpenAI's models over the Responses API, and other servers that speak it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from greenroom.core import ModelRequest, Price
from greenroom.core._internal import OutputSchema
from greenroom.llm.endpoint import ModelTimeouts, RequestAuth
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.openai.hosts import HostProfile
from greenroom.llm.openai.provider import find_server
from greenroom.llm.request_encoder import EncodedRequest, RequestEncoder
from greenroom.llm.responses.decode import API, ResponsesDecoder
from greenroom.llm.responses.encode import ResponsesDialect

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport


class OpenAIResponsesProvider(HttpProvider):
    """A model of OpenAI over the Responses API, over which it can think and call tools.

    Nothing is stored at the vendor's: each request has the whole conversation, and reasoning goes
    back encrypted, as it came. The vendor's own tools, such as web search, are `options`.

    Args:
        model: the model's name, such as "gpt-6.1-sol".
        api_key: the key; else `OPENAI_API_KEY`, or the file that `OPENAI_API_KEY_FILE` names.
        base_url: the server, with `/v1`; else that of `host`, else `OPENAI_BASE_URL`, else OpenAI's
            own.
        host: the server, if its address does not tell: its name, or its peculiarities.
        auth: returns headers for each request, such as a signature or a token that expires; see
            `RequestAuth`. With it no key is needed, and none is read from the environment.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 by default; others wait in turn,
            without a time-out. A client that is passed has its own limit.
        max_tokens: the most tokens of a reply, reasoning included, if the request does not say;
            None: no limit.
        headers: more headers for every request.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        window: the tokens that the model takes, if not as many as the catalogue says.
        env: where to look for the variables, by default in this process's environment;
            `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` count too.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL or `connections` can't be
            used.

    Example:
        >>> OpenAIResponsesProvider("gpt-6.1-sol", api_key="sk-1", env={})
        OpenAIResponsesProvider('gpt-6.1-sol')
    """

    api = API

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        host: HostProfile | str | None = None,
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
        self.host, endpoint = find_server(
            host, base_url, "responses", api_key, headers or {}, env, auth
        )
        super().__init__(model, endpoint, client, timeouts, price, connections, window)
        self.profile = structs.replace(self.profile, rules=self.profile.rules.over_responses())
        thinks = self.profile.rules.efforts != ()
        images, documents = self.profile.images, self.profile.documents
        limits = self.host.limits.of_model(images=images, documents=documents)
        host = structs.replace(self.host, limits=limits)
        self._requests = RequestEncoder(ResponsesDialect(model, max_tokens, host, thinks))

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Return the body of a streaming request as it would be sent."""
        return self._requests.show(self.fit(request).request)

    async def prepare(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; of a conversation that has grown, only the new part."""
        return await self._requests.encode(request)

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the server is known to enforce schemas."""
        return self.host.json_schema is True

    def decoder(self) -> ResponsesDecoder:
        """Return a decoder for one reply."""
        return ResponsesDecoder(self.name)
