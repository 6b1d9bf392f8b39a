"""Fetching: one page by GET, with every host on the way judged before it is contacted."""

import trio

from greenroom.core import ToolError, ToolResult
from greenroom.net import (
    HttpClient,
    HttpResponse,
    Timeouts,
    checked_url,
    port_of,
    proxy_for,
    public_address,
    redirect_target,
    same_host,
)
from greenroom.tools.builtin.page import page_text

_MAX_BYTES = 2_000_000
_MAX_REDIRECTS = 5
_MAX_ERROR = 2_000
_TIMEOUTS = Timeouts(connect=10.0, response=20.0, read=20.0)
_HEADERS = {"Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"}


async def fetch(url: str, limit: int, *, allow_private: bool) -> ToolResult:
    """Return the first `limit` characters of a page, or where on another host it has moved to.

    Raises:
        NetworkError: the URL or a host is refused, or the host can't be reached.
        ToolError: the page is no text, or redirects without an end.
    """
    async with HttpClient() as client:
        for _ in range(_MAX_REDIRECTS + 1):
            address = await _address(url, allow_private=allow_private)
            async with client.stream(
                "GET", url, headers=_HEADERS, address=address, timeout=_TIMEOUTS
            ) as response:
                target = redirect_target(url, response.status, response.headers.get("location", ""))
                if target is None:
                    return await _result(url, response, limit)
            if not same_host(url, target):
                return ToolResult.ok(
                    f"{url} has moved to another host. To follow it, fetch {target}",
                    location=target,
                )
            url = target
    raise ToolError(f"{url} redirects more than {_MAX_REDIRECTS} times")


async def _address(url: str, *, allow_private: bool) -> str | None:
    """Return the judged address to connect to, or None where the name may lead anywhere."""
    parts = checked_url(url)
    if allow_private:
        return None
    host = parts.hostname or ""
    proxied = proxy_for(parts.scheme, host) is not None
    return await public_address(host, port_of(parts), proxied=proxied)


async def _result(url: str, response: HttpResponse, limit: int) -> ToolResult:
    body = await response.read(_MAX_BYTES + 1)
    kind = response.headers.get("content-type", "")
    text = await trio.to_thread.run_sync(
        page_text, body[:_MAX_BYTES], kind, url, abandon_on_cancel=True
    )
    if response.status >= 400:
        return ToolResult.error(
            f"{url} answered with HTTP {response.status}.\n{text[:_MAX_ERROR]}",
            http_status=response.status,
        )
    if len(body) > _MAX_BYTES:
        text += f"\n… the page is longer than {_MAX_BYTES:,} bytes; the rest was not fetched"
    if len(text) > limit:
        text = f"{text[:limit]}\n… {len(text):,} characters in all; max_characters asks for more"
    return ToolResult.ok(text or "The page is empty.", url=url, http_status=response.status)
