"""The little of ASGI that serving needs: its types, a request, and replies."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, cast
from urllib.parse import parse_qsl, quote, unquote

import trio

from greenroom.core._internal import quantity, serde
from greenroom.interop.serving.refusals import RequestRefusedError, bad_request

Scope: TypeAlias = MutableMapping[str, object]
"""What a server says of a connection."""

Event: TypeAlias = Mapping[str, object]
"""What goes to and fro on it."""

Receive: TypeAlias = Callable[[], Awaitable[Event]]
"""Waits for the next event of the client."""

Send: TypeAlias = Callable[[Event], Awaitable[None]]
"""Sends an event to the client."""

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An application of ASGI."""

SAFE_HEADERS = (
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)
"""What every reply says to browsers: keep nothing, run nothing, embed nothing."""

_MOST_FIELDS = 100  # of a query


class Request:
    """The head of a request."""

    def __init__(self, scope: Scope) -> None:
        """Look at the scope of an HTTP request."""
        self.scope = scope
        self.method = str(scope["method"])

    @cached_property
    def headers(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each header, by its name in small letters."""
        found: dict[str, tuple[str, ...]] = {}
        for name, value in cast("list[tuple[bytes, bytes]]", self.scope["headers"]):
            key = name.decode("latin-1").lower()
            found[key] = (*found.get(key, ()), value.decode("latin-1"))
        return found

    def header(self, name: str) -> str:
        """Return the value of a header; empty if it is missing, or there are several."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, each decoded by itself: an id may hold a slash."""
        path = str(self.scope["path"])
        raw = self.scope.get("raw_path")
        text = raw.decode("latin-1") if isinstance(raw, bytes) else quote(path)
        root = quote(str(self.scope.get("root_path", "")))
        text = text.partition("?")[0].removeprefix(root)
        return tuple(unquote(each) for each in text.split("/")[1:])

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The fields of the query; of several with one name, the last.

        Raises:
            RequestRefusedError: it can't be read.
        """
        raw = cast("bytes", self.scope.get("query_string", b""))
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
            )
        except ValueError as error:
            raise bad_request("the query can't be read") from error
        return dict(pairs)

    def number(self, name: str, default: float, most: float) -> float:
        """Return a number of the query, from 0 to `most`.

        Raises:
            RequestRefusedError: it is something else.
        """
        text = self.query.get(name)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise bad_request(f"{name} is a number from 0 to {most:g}")
        return value


class ClientGoneError(Exception):
    """The client has closed its connection."""


async def end_with_client(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel a stream when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def read_body(request: Request, receive: Receive, limit: int, timeout: float) -> bytes:
    """Read a body as a whole.

    Raises:
        RequestRefusedError: it is too long, or takes too long.
        ClientGoneError: the client has left.
    """
    declared = request.header("content-length")
    parts, size = list[bytes](), int(declared) if declared.isdecimal() else 0
    if size > limit:
        raise _too_long(limit)
    size = 0
    with trio.move_on_after(timeout):
        while True:
            event = await receive()
            if event["type"] != "http.request":
                raise ClientGoneError
            part = cast("bytes", event.get("body", b""))
            size += len(part)
            if size > limit:
                raise _too_long(limit)
            parts.append(part)
            if not event.get("more_body", False):
                return b"".join(parts)
    raise RequestRefusedError(
        408,
        f"the body did not arrive within {quantity(timeout, 'second')}",
        kind="slow_body",
        hint="send it faster, or in parts",
    )


def _too_long(limit: int) -> RequestRefusedError:
    return RequestRefusedError(
        413,
        f"a body has at most {limit:,} bytes",
        kind="too_large",
        hint="send less, or have the server started with a higher limit",
    )


@dataclass(frozen=True)
class Reply:
    """What is sent as a whole."""

    status: int
    body: bytes = b""
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = field(default=())

    async def send(self, send: Send) -> None:
        """Send it."""
        await send_head(
            send,
            self.status,
            (
                ("content-type", self.media_type),
                ("content-length", str(len(self.body))),
                *self.headers,
            ),
        )
        await send({"type": "http.response.body", "body": self.body})


async def send_head(send: Send, status: int, headers: tuple[tuple[str, str], ...]) -> None:
    """Begin a reply; a header given here replaces the safe one of its name."""
    named = {**dict(SAFE_HEADERS), **dict(headers)}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


def json_reply(value: object, status: int = 200) -> Reply:
    """Make a reply of a value as JSON."""
    return Reply(status, serde.encode(value))


def refusal_reply(refusal: RequestRefusedError) -> Reply:
    """Make the reply of a refusal: `{"error", "kind", "hint"}`."""
    body = {"error": refusal.message, "kind": refusal.kind, "hint": refusal.hint}
    return Reply(refusal.status, serde.encode(body), headers=refusal.headers)
