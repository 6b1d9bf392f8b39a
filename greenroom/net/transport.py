"""What a provider needs of an HTTP client: the place where another one can be put."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from greenroom.net.response import HttpResponse
from greenroom.net.timeouts import Timeouts


class HttpTransport(Protocol):
    """Sends requests: an `HttpClient`, or what takes the place of one, such as a recording of it."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: Timeouts = ...,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; the block begins when the headers of the answer have come.

        Raises:
            NetworkError: the other side can't be reached or broke off.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
