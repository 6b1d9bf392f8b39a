"""The tokens of a request, counted by Anthropic itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from greenroom.core import Message, ModelRequest, ModelStreamError, Usage, serde
from greenroom.llm.endpoint import Endpoint
from greenroom.llm.events import StreamEnd, StreamEvent
from greenroom.llm.fields import integer, mapping
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.sse import SSEEvent
from greenroom.llm.timeouts import ModelTimeouts

if TYPE_CHECKING:
    from greenroom.net import HttpTransport

_COUNTED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
    | {"cache_control", "context_management", "compaction", "mcp_servers", "speed"}
    | {"billing_policy", "user_profile_id", "workspace_id"}
)
"""The fields of a request that the endpoint takes; it refuses the others, such as `max_tokens`."""


class TokenCount(HttpProvider):
    """The endpoint that counts: its reply is a message that has a usage and nothing else."""

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        client: "HttpTransport",
        timeouts: ModelTimeouts,
        encode: Callable[[ModelRequest], Mapping[str, object]],
    ) -> None:
        """Count what is encoded like that, and would be posted to that endpoint."""
        super().__init__(
            model, replace(endpoint, url=f"{endpoint.url}/count_tokens"), client, timeouts
        )
        self._encode = encode

    def encode(self, request: ModelRequest) -> Mapping[str, object]:
        """Make the body: that of the request, without what is not counted."""
        body = self._encode(request).items()
        return {name: value for name, value in body if name in _COUNTED}

    async def content(self, request: ModelRequest) -> bytes:
        """Encode the whole request in a thread: nothing of it is kept."""
        return serde.dumps(await trio.to_thread.run_sync(self.encode, request))

    def decoder(self) -> "_CountDecoder":
        """Make the reader of the answer."""
        return _CountDecoder()


class _CountDecoder:
    """Reads the one answer, which is not a stream."""

    def whole(self, value: dict[str, object]) -> Iterable[StreamEvent]:
        count = integer(mapping(value).get("input_tokens"))
        if count is None:
            raise ModelStreamError("the answer holds no count of tokens")
        return [StreamEnd(Message("assistant", usage=Usage(input_tokens=count)))]

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        raise ModelStreamError("a stream came where a count was asked for")

    def close(self) -> Iterable[StreamEvent]:
        raise ModelStreamError("the answer holds no count of tokens")
