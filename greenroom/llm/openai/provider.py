"""OpenAI's models, and every server that speaks Chat Completions."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from greenroom.core import ConfigurationError, ModelRequest, Price
from greenroom.core._internal import OutputSchema
from greenroom.llm.catalog import model_profile
from greenroom.llm.endpoint import (
    Endpoint,
    ModelTimeouts,
    RequestAuth,
    host_of,
    is_local,
    missing_key,
    read_setting,
)
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.keys import read_key
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.openai.encode import ChatDialect
from greenroom.llm.openai.hosts import HOSTS, HostProfile, host_profile
from greenroom.llm.openai.local_windows import LocalModel
from greenroom.llm.request_encoder import EncodedRequest, RequestEncoder
from greenroom.llm.windows import ContextWindow

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport

_PATH = "chat/completions"


class OpenAIProvider(HttpProvider):
    """A model of OpenAI or of a compatible server, such as Ollama, vLLM or OpenRouter.

    The server's address decides the provider's name, such as "openrouter"; an unknown server is
    named after its host. Fields that only one server understands are sent back only to that server.

    Args:
        model: the model's name, such as "gpt-5.4".
        api_key: the key; else the variable of the server's vendor, such as `GROQ_API_KEY`, else
            `OPENAI_API_KEY`, or the file that the same name with `_FILE` names. A server on a
            private address needs none.
        base_url: the server, with `/v1`; else that of `host`, else `OPENAI_BASE_URL`, else OpenAI's
            own.
        host: the server, if its address does not tell: its name, such as "litellm", or its
            peculiarities.
        auth: returns headers for each request, such as a signature or a token that expires; see
            `RequestAuth`. With it no key is needed, and none is read from the environment.
        client: an HTTP client to share; without one the provider opens its own.
        connections: how many requests may run at a time, 100 by default; others wait in turn,
            without a time-out. A client that is passed has its own limit.
        max_tokens: the most tokens of a reply if the request does not say; None: no limit.
        headers: more headers for every request.
        timeouts: how long to wait.
        price: what the provider charges; without it no cost is known.
        window: the most tokens of a request and its reply together; else the server is asked if it
            is a local one, else the catalogue.
        env: where to look for the variables, by default in this process's environment;
            `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` count too.

    Raises:
        ConfigurationError: there is no key, or the key, the base URL, `connections` or the `window`
            can't be used.

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
        self.host, endpoint = find_server(host, base_url, _PATH, api_key, headers or {}, env, auth)
        super().__init__(model, endpoint, client, timeouts, price, connections, window)
        images, documents = self.profile.images, self.profile.documents
        limits = self.host.limits.of_model(images=images, documents=documents)
        host = replace(self.host, limits=limits)
        self._requests = RequestEncoder(ChatDialect(model, max_tokens, host))

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Return the body of a streaming request as it would be sent."""
        return self._requests.show(self.fit(request).request)

    async def prepare(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; of a conversation that has grown, only the new part."""
        return await self._requests.encode(request)

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the server is known to enforce schemas."""
        return self.host.json_schema is True

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return the context window that the program gave, or that a local server says it has.

        Args:
            has_replied: whether the model has replied before, so that its server has loaded it.
            load: whether to have Ollama load the model, whose window it knows only then.
        """
        base = self._endpoint.url.removesuffix(f"/{_PATH}")
        is_ollama = self.host.name == "ollama" and host_of(base) != "ollama.com"
        passed_on = model_profile(f"openai:{self.model}").context_window
        if passed_on and not self.window and self.host.name not in HOSTS:  # a proxy for OpenAI
            return ContextWindow(passed_on, "catalogue")
        # A recording holds the model's own exchanges only.
        if self.window or not (is_ollama or is_local(base)) or hasattr(self._client, "is_replay"):
            return await super().find_window()
        server = replace(self._endpoint, url=base)
        model = LocalModel(self._client, server, self.model, is_ollama)
        return await model.find_window(has_replied=has_replied, load=load)

    def decoder(self) -> OpenAIDecoder:
        """Return a decoder for one reply."""
        apart = self.host.counts_cache_apart
        is_apart = apart is not None and bool(apart.search(self.model))
        tags = self.host.has_tags
        return OpenAIDecoder(self.name, counts_cache_apart=is_apart, has_tags=tags)


def _known_host(name: str) -> HostProfile:
    if name not in HOSTS:
        raise ConfigurationError(
            f"no server is known as {name!r}", hint=f"known are {', '.join(sorted(HOSTS))}"
        )
    return HOSTS[name]


def find_server(
    host: HostProfile | str | None,
    base_url: str | None,
    path: str,
    api_key: str | None,
    headers: Mapping[str, str],
    env: Mapping[str, str] | None,
    auth: RequestAuth | None = None,
) -> tuple[HostProfile, Endpoint]:
    """Find the profile of a server, and the address and the key for one of its APIs.

    Raises:
        ConfigurationError: the key is missing, or the key, the base URL or the name of the host
            can't be used.
    """
    env = os.environ if env is None else env
    host = _known_host(host) if isinstance(host, str) else host
    base = (host or HOSTS["openai"]).base(env) if base_url is None else base_url.strip()
    host, base = host or host_profile(base), base.rstrip("/")
    variable = host.key_variables[0] if host.key_variables else "OPENAI_API_KEY"
    names = (*host.key_variables, "OPENAI_API_KEY")
    key = api_key.strip() if api_key is not None else "" if auth else read_key(env, *names)
    if not (key or auth or is_local(base)):
        raise missing_key(host.name, variable)
    optional = {"authorization": f"Bearer {key}" if key else ""}
    # An unknown server may be a proxy for OpenAI.
    if host is HOSTS["openai"] or host.name not in HOSTS:
        optional["openai-organization"] = read_setting(None, env, "OPENAI_ORG_ID")
        optional["openai-project"] = read_setting(None, env, "OPENAI_PROJECT_ID")
    sent = {"content-type": "application/json"} | {k: v for k, v in optional.items() if v}
    url, hint = f"{base}/{path}", "check `auth`" if auth else f"check {variable}"
    endpoint = Endpoint(host.name, url, sent | dict(headers), (key,), hint, auth=auth)
    return host, endpoint
