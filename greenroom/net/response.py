"""Responses: status and headers at once, the body as it comes."""

from collections.abc import Mapping

from greenroom.net.body import ChunkIterator

DEFAULT_BODY_LIMIT = 1 << 20
"""Bytes of a body that `read` returns at the most where it is not told otherwise."""


class HttpResponse:
    """The answer to one request, inside the block of `HttpClient.stream`.

    Attributes:
        status: the HTTP status.
        headers: by name, in any case; of a header that stands twice, the values joined by commas.
        url: the URL that was asked for.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], url: str, chunks: ChunkIterator
    ) -> None:
        """Only `HttpClient.stream` makes responses."""
        self.status = status
        self.headers = headers
        self.url = url
        self._chunks = chunks

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status}>"

    def chunks(self) -> ChunkIterator:
        """Return the iterator of the decompressed body: one for each response, read once."""
        return self._chunks

    async def read(self, limit: int = DEFAULT_BODY_LIMIT) -> bytes:
        """Return the body, or the first `limit` bytes of it; what is beyond is never fetched.

        Raises:
            NetworkTimeoutError: no piece came in time.
            NetworkError: the connection broke before the end.
        """
        body = bytearray()
        async for chunk in self._chunks:
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])
