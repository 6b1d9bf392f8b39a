"""A request that has found its route: who sends it, what it names, and its body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from greenroom.core._internal import InvalidJSONError, serde
from greenroom.interop.serving.asgi import Receive, Request, Send
from greenroom.interop.serving.refusals import bad_request
from greenroom.interop.serving.tokens import Caller

T = TypeVar("T")

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class Call:
    """One request to one route.

    Attributes:
        request: its head.
        caller: who sends it.
        names: what the path names, such as "session".
        body: its body, whole.
        receive: what the client sends behind the body: that it leaves.
        send: what sends the events of a reply that is a stream.
    """

    request: Request
    caller: Caller
    names: Mapping[str, str]
    body: bytes
    receive: Receive
    send: Send

    @property
    def session_id(self) -> str:
        """The session that the path names."""
        return self.names["session"]

    def read(self, kind: type[T]) -> T:
        """Return the body as a value; an empty body is an empty object.

        Raises:
            RequestRefusedError: it is not one.
        """
        try:
            return serde.decode(self.body or b"{}", kind)
        except InvalidJSONError as error:
            reason = error.message.removeprefix(f"not a {kind.__name__}: ")
            fields = ", ".join(getattr(kind, "__struct_encode_fields__", ()))
            hint = f"its fields are {fields}; GET /openapi.json describes them" if fields else ""
            raise bad_request(f"the body does not fit: {reason}", hint) from error


def with_traceparent(metadata: dict[str, object], request: Request) -> dict[str, object]:
    """Return an input's metadata with the client's trace, which its turn is then part of."""
    parent = request.header("traceparent")
    if "traceparent" in metadata or not _TRACEPARENT.fullmatch(parent):
        return metadata
    return {**metadata, "traceparent": parent}
