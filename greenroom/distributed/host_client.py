"""Requests to hosts: signed, and sent again by whoever knows that this is safe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

from greenroom.core import ConfigurationError, GreenroomError, NetworkError
from greenroom.core._internal import InvalidJSONError, clip, serde
from greenroom.distributed.places import Target
from greenroom.distributed.signing import HEARTBEAT, sign
from greenroom.interop import RemoteError
from greenroom.net import HttpClient
from greenroom.net._internal import HttpResponse, Timeouts, shows_distrust

T = TypeVar("T")

_LONGEST = 64 << 20  # bytes of a reply
_SHORT = Timeouts(response=5.0)
_STREAM = Timeouts(response=5.0, read=3 * HEARTBEAT)
_MOST = 200  # connections


class HostClient:
    """Asks hosts over HTTP, for a name."""

    def __init__(self, secret: str, name: str) -> None:
        """Sign by this secret, for a name."""
        self._secret = secret
        self._name = name
        self._client = HttpClient(connections=_MOST)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def ask(
        self,
        target: Target,
        method: str,
        path: str,
        kind: type[T],
        body: object = None,
        wait: float = 0.0,
    ) -> T:
        """Send a request, and return what the host answers.

        Raises:
            NetworkError: the host can't be reached.
            RemoteError: it refuses, or answers something else.
            ConfigurationError: its secret or its clock is another, or its certificate not trusted.
        """
        content = b"" if body is None else serde.encode(body)
        timeout = Timeouts(response=_SHORT.response + wait)
        async with self._open(target, method, path, content, timeout) as reply:
            data = await reply.read(_LONGEST)
            return self._read(target.address, reply.status, data, kind)

    @asynccontextmanager
    async def open_stream(
        self, target: Target, session_id: str, after: str
    ) -> AsyncIterator[HttpResponse]:
        """Open the stream of an agent's chunks, from a position on.

        Raises:
            NetworkError: the host can't be reached.
            RemoteError: it refuses.
            ConfigurationError: its secret or its clock is another, or its certificate not trusted.
        """
        path = f"/api/stream?session={quote(session_id, safe='')}"
        path += f"&after={after}" if after else ""
        async with self._open(target, "GET", path, b"", _STREAM) as reply:
            if reply.status != 200:
                data = await reply.read(_LONGEST)
                raise self._make_error(target.address, reply.status, data)
            yield reply

    @asynccontextmanager
    async def _open(
        self, target: Target, method: str, path: str, content: bytes, timeout: Timeouts
    ) -> AsyncIterator[HttpResponse]:
        signature = sign(self._secret, target.host, method, path, content, self._name)
        headers = {"authorization": signature}
        try:
            async with self._client.stream(
                method,
                f"{target.address}{path}",
                headers=headers,
                content=content if method == "POST" else None,
                timeout=timeout,
            ) as reply:
                yield reply
        except NetworkError as error:
            if shows_distrust(error):  # which no further attempt changes
                raise ConfigurationError(
                    f"the certificate of the host at {target.address} is not trusted",
                    hint="name the authority of its certificate in SSL_CERT_FILE; the certificate "
                    "is for the name or the number in the address",
                ) from error
            raise

    def _read(self, address: str, status: int, data: bytes, kind: type[T]) -> T:
        if status >= 400:
            raise self._make_error(address, status, data)
        try:
            return serde.decode(data, kind)
        except InvalidJSONError as error:
            raise RemoteError(f"{address} answers {status} with no JSON of ours") from error

    def _make_error(self, address: str, status: int, data: bytes) -> GreenroomError:
        try:
            told = serde.decode(data, dict[str, object])
        except InvalidJSONError:
            told = {}
        message = clip(str(told.get("error", f"it answers {status}")), 2_000)
        hint = clip(str(told.get("hint", "")), 500)
        if status == 401:
            return ConfigurationError(f"the host at {address} refuses: {message}", hint=hint)
        return RemoteError(f"{address}: {message}", status=status, hint=hint)


def session_path(session_id: str, *parts: str) -> str:
    """Return the path of something of a session."""
    return "/".join(["/api/sessions", *(quote(each, safe="") for each in (session_id, *parts))])


def mailbox_path(session_id: str) -> str:
    """Return the path of an agent's mailbox."""
    return f"/api/mailbox/{quote(session_id, safe='')}"
