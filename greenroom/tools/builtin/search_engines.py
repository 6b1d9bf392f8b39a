"""The search engines that `WebSearch` knows: SearXNG, the Brave Search API, Tavily.

Each is one request, and one reading of its answer. What they share is `_Api`: a bounded answer, no
redirect, and a key that stands in one header and nowhere else, whatever the other side sends back.
"""

import html
from collections.abc import Callable, Mapping
from typing import TypeGuard
from urllib.parse import urlencode

from greenroom.core import ConfigurationError, NetworkError, ToolError
from greenroom.core._internal import InvalidJSONError, clip, conceal_secrets, serde
from greenroom.net import HttpClient
from greenroom.net._internal import Timeouts, check_url

_MAX_BYTES = 2_000_000
_MAX_DETAIL = 300  # characters of what an engine says about an error
_TIMEOUTS = Timeouts(connect=10.0, response=20.0, read=20.0, total=30.0)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SECRET = "[secret]"  # noqa: S105 (what stands in place of one)
_HINTS = {
    401: "check the key",
    403: "check the key, and what its plan allows",
    422: "a query has at most 400 characters and 50 words",
    429: "search less often, or wait",
    432: "the limit of the plan is reached",
    433: "the limit of what may be spent is reached",
}


class _Api:
    """The API of a search engine that answers in JSON.

    Args:
        name: what the engine is called in errors.
        url: where it is.
        key: its key, or an empty text.
        hints: what to do about an answer with this HTTP status.

    Raises:
        ConfigurationError: the address can't be used, or the key would be sent in the clear.
    """

    def __init__(
        self, name: str, url: str, key: str = "", hints: Mapping[int, str] = _HINTS
    ) -> None:
        """Check the address."""
        self._name, self._url = name, url.rstrip("/")
        self._key, self._hints = key, hints
        try:
            parts = check_url(self._url)
        except NetworkError as error:
            what = f"the address of {name} can't be used: {error.message}"
            raise ConfigurationError(what, hint=error.hint) from None
        if key and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ConfigurationError(
                f"the key of {name} would be sent without encryption", hint="write https://"
            )

    async def ask(
        self, path: str, headers: Mapping[str, str], body: Mapping[str, object] | None = None
    ) -> Mapping[str, object]:
        """Send one request, by POST where it has a body, and return the object that is answered.

        Raises:
            NetworkError: there is no answer.
            ToolError: the answer is an error, too long, or no JSON object.
        """
        async with (
            HttpClient() as client,
            client.stream(
                "GET" if body is None else "POST",
                f"{self._url}{path}",
                headers={"Accept": "application/json", **headers},
                content=None if body is None else serde.dumps(body),
                timeout=_TIMEOUTS,
            ) as response,
        ):
            data = await response.read(_MAX_BYTES + 1)
            status, wait = response.status, response.headers.get("retry-after", "")
        if not 200 <= status < 300:
            raise self._refusal(status, data, wait)
        if len(data) > _MAX_BYTES:
            raise ToolError(f"{self._name} answered with more than {_MAX_BYTES:,} bytes")
        answer = _read_json(data)
        if not isinstance(answer, Mapping):
            raise ToolError(f"{self._name} did not answer with a JSON object")
        return answer

    def _refusal(self, status: int, data: bytes, wait: str) -> ToolError:
        detail = clip(conceal_secrets(self.hide(_find_detail(_read_json(data)))), _MAX_DETAIL)
        said = f": {detail}" if detail else ""
        later = f"; it says to wait {wait} seconds" if wait.isdecimal() and len(wait) < 8 else ""
        moved = "it has moved: write its new address into url" if 300 <= status < 400 else ""
        hint = moved or self._hints.get(status, "")
        return ToolError(f"{self._name} answered with HTTP {status}{said}{later}", hint=hint)

    def results(
        self, given: object, text_name: str, clean: Callable[[str], str] = str
    ) -> list[dict[str, str]]:
        """Read results; what is no text counts as empty, and what is no object is left out."""
        rows = [each for each in given if isinstance(each, Mapping)] if _is_list(given) else []
        names = ("title", "url", text_name)
        found = ([self.hide(clean(_text(row.get(name)))) for name in names] for row in rows)
        return [{"title": title, "url": url, "text": text} for title, url, text in found]

    def hide(self, text: str) -> str:
        """Return a text of the engine's without the key, which it may send back."""
        return text.replace(self._key, _SECRET) if self._key else text


def _is_list(given: object) -> TypeGuard[list[object]]:
    return isinstance(given, list)


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""


def _read_json(data: bytes) -> object:
    try:
        return serde.loads(data)
    except InvalidJSONError:
        return None


def _find_detail(found: object) -> str:
    """Find what an answer says about an error: `{"error": {"detail": …}}`, or the other way."""
    for name in ("error", "detail", "error"):
        if isinstance(found, Mapping):
            found = found.get(name, found)
    return _text(found)


class Searxng:
    """A SearXNG of somebody's own: `GET /search?format=json`."""

    def __init__(self, url: str) -> None:
        """Search at this address, with or without `/search`."""
        hints = {403: "add json to search.formats in its settings.yml", 429: _HINTS[429]}
        self._api = _Api("SearXNG", url.rstrip("/").removesuffix("/search"), hints=hints)

    async def search(self, query: str, limit: int) -> list[dict[str, str]]:
        """Return the results of its first page."""
        answer = await self._api.ask(f"/search?{urlencode({'q': query, 'format': 'json'})}", {})
        found = self._api.results(answer.get("results"), "content")
        silent = answer.get("unresponsive_engines")
        if not found and _is_list(silent) and silent:
            names = [": ".join(map(str, each)) for each in silent if _is_list(each)]
            raise ToolError(f"no engine of SearXNG answered: {clip(', '.join(names), _MAX_DETAIL)}")
        return found[:limit]


class Brave:
    """The Brave Search API: `GET /res/v1/web/search`."""

    def __init__(self, url: str, key: str) -> None:
        """Search with this key."""
        self._key = _check_key("Brave", key)
        self._api = _Api("Brave", url, self._key)

    async def search(self, query: str, limit: int) -> list[dict[str, str]]:
        """Return the results of the web."""
        asked = {"q": query, "count": limit, "result_filter": "web", "text_decorations": "false"}
        path = f"/res/v1/web/search?{urlencode(asked)}"
        answer = await self._api.ask(path, {"X-Subscription-Token": self._key})
        web = answer.get("web")
        found = web.get("results") if isinstance(web, Mapping) else None
        return self._api.results(found, "description", html.unescape)


class Tavily:
    """The Tavily API: `POST /search`."""

    def __init__(self, url: str, key: str) -> None:
        """Search with this key."""
        self._key = _check_key("Tavily", key)
        self._api = _Api("Tavily", url, self._key)

    async def search(self, query: str, limit: int) -> list[dict[str, str]]:
        """Return the results of its basic depth."""
        asked = {"query": query, "max_results": limit, "search_depth": "basic"}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        answer = await self._api.ask("/search", headers, asked)
        return self._api.results(answer.get("results"), "content")


def _check_key(name: str, key: str) -> str:
    key = key.strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f"{name} needs a key, of printable ASCII", hint="its dashboard shows it"
        )
    return key
