"""URLs: which of them we fetch, and where a redirect leads."""

import re
from urllib.parse import SplitResult, urljoin, urlsplit

from greenroom.core import AddressRefusedError

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_LENGTH = 8_192
# Blanks, controls and backslashes: two parsers may read two different hosts out of them.
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f-\xa0\\]")


def checked_url(url: str) -> SplitResult:
    """Take an absolute web URL apart that every parser reads in the same way.

    Raises:
        AddressRefusedError: another scheme than http and https, no host, a user name or password,
            a character that makes it ambiguous, or more than 8,192 characters.

    Example:
        >>> checked_url("https://docs.python.org/3/").hostname
        'docs.python.org'
        >>> checked_url("file:///etc/passwd")
        Traceback (most recent call last):
        greenroom.core.errors.AddressRefusedError: the scheme 'file' ... (use http or https)
    """
    if len(url) > _MAX_LENGTH or _AMBIGUOUS.search(url):
        raise AddressRefusedError(
            "the URL is too long, or holds a blank, a control character or a backslash",
            hint="write %20 for a blank",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefusedError(f"this is no URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise AddressRefusedError(
            f"the scheme {parts.scheme!r} is not fetched", hint="use http or https"
        )
    if not parts.hostname or "%" in parts.hostname or port == 0:
        raise AddressRefusedError("the URL names no host", hint="write https://host/path")
    if "@" in parts.netloc:
        raise AddressRefusedError("the URL holds a user name or a password", hint="leave them out")
    return parts


def port_of(parts: SplitResult) -> int:
    """Return the port that a URL stands for, given or not."""
    return parts.port or _PORTS[parts.scheme]


def redirect_target(url: str, status: int, location: str) -> str | None:
    """Return where an answer redirects to, as an absolute URL, or None where it does not.

    Example:
        >>> redirect_target("http://a/b/c", 302, "../d")
        'http://a/d'
    """
    if status not in _REDIRECTS or not location:
        return None
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise AddressRefusedError(f"it redirects to what is no URL: {error}") from None


def same_host(one: str, other: str) -> bool:
    """Whether two URLs lead to the same server; a change from http to https is none.

    Example:
        >>> same_host("http://a/x", "https://a/y"), same_host("https://a/", "https://b/")
        (True, False)
    """
    first, second = checked_url(one), checked_url(other)
    if first.hostname != second.hostname:
        return False
    upgrade = (port_of(first), port_of(second)) == (80, 443)
    same = (first.scheme, port_of(first)) == (second.scheme, port_of(second))
    return same or (upgrade and second.scheme == "https")
