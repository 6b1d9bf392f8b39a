"""Hosts as programs read them: in a URL strictly, and generously in any word.

No two programs agree on every URL. So what surely is the host is told apart from what some program
could take for it.
"""

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote

import msgspec

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\]")
"""Matches a name in small letters, or an address in brackets."""

# A URL that every client parses in the same way: no user, no backslash, nothing invisible.
_PLAIN_URL = re.compile(
    rf"https?://({HOST_NAME.pattern})(?::([0-9]{{1,5}}))?(?:[/?#][!-\[\]-~]*)?",
    re.IGNORECASE | re.ASCII,
)
_FULL_STOP = "\N{IDEOGRAPHIC FULL STOP}"
_HOST_TOKEN = re.compile("[\\w.\u0300-\u036f-]+")
_ADDRESS = re.compile("[0-9a-f:.]+")
_OPTION = re.compile("-[a-z0-9][\\w-]{1,64}")
_QUOTES = re.compile("[\"'`\\\\\0-\x1f\x7f]")
MAX_COLONS = 9  # of an address
MAX_HOST = 1024


class Host(msgspec.Struct, frozen=True):
    """The host of a URL.

    Attributes:
        exact: its name, if every client parses the URL in the same way, else "".
        names: every name that a lenient client could read, for denials.
    """

    exact: str
    names: frozenset[str]

    @classmethod
    def of(cls, url: str) -> "Host":
        """Parse a URL; it never raises.

        Example:
            >>> Host.of("https://docs.python.org/3/").exact
            'docs.python.org'
            >>> Host.of("https://docs.python.org@evil.test/").exact
            ''
        """
        plain = _PLAIN_URL.fullmatch(url)
        usable = plain is not None and 0 < int(plain[2] or 80) < 1 << 16
        exact = shorten_host(plain[1].lower()) if plain and usable else ""
        return cls(exact, frozenset().union(*map(_list_names, _read_crudely(url))))

    @classmethod
    def among(cls, text: str) -> "Host":
        """Collect all names in a text that some program could take for a host; it never raises.

        Example:
            >>> {"evil.test", "127.0.0.1"} <= Host.among("-xme@EVIL.test.:80,0x7f.1").names
            True
        """
        return cls("", frozenset().union(*map(_list_plain_names, _read_anywhere(text))))


def _read_crudely(url: str) -> set[str]:
    """Read the host as careless clients would: without scheme, slashes and user info.

    Some of them take a backslash for a slash, others for part of the user info.
    """
    found = set()
    for text in (url, url.replace("\\", "/")):
        rest = re.sub(r"^[^:/\\?#]*:(?![0-9]{1,5}(?:[/?#]|$))", "", text.strip()).lstrip("/")
        place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        found.add(re.sub(r"^\[([^\]]*).*|:.*", r"\1", place, flags=re.DOTALL))
    return found


def _read_anywhere(text: str) -> Iterator[str]:
    """List what may be a name in a text: after decoding it, and with or without its quotes."""
    plain = simplify_host(unquote(text))
    for spelled in {plain, _QUOTES.sub("", plain)}:
        yield from {token.strip(".-") for token in _HOST_TOKEN.findall(spelled)}
        yield from {run for run in _ADDRESS.findall(spelled) if 1 < run.count(":") < MAX_COLONS}
        if option := _OPTION.match(spelled):  # its value may begin behind any letter
            token = _HOST_TOKEN.match(spelled)
            whole = token[0].rstrip(".-") if token else ""
            yield from {whole[at:] for at in range(2, option.end())}


def simplify_host(text: str) -> str:
    """Write a text as clients read a host: in small letters, and without what can't be seen."""
    return text.lower() if text.isascii() else "".join(map(_simplify_character, text))


@lru_cache(maxsize=1024)
def _simplify_character(char: str) -> str:
    shown = "" if unicodedata.category(char) == "Cf" else char
    return unicodedata.normalize("NFKC", shown).casefold().replace(_FULL_STOP, ".")


def _list_plain_names(name: str) -> set[str]:
    """List the spellings of a name that is in small letters, most of which have only one."""
    return {name} if name.isascii() and name[:1].isalpha() else _list_names(name)


def _list_names(host: str) -> set[str]:
    """List the spellings that may mean a host: normalized, encoded, and as an address."""
    if len(host) > MAX_HOST:  # no resolver takes it, and to normalize it may take quadratic time
        return {host.casefold()}
    folded = unicodedata.normalize("NFKC", unquote(host)).casefold()
    visible = "".join(ch for ch in folded if unicodedata.category(ch)[0] not in "CZ")
    name = visible.replace(_FULL_STOP, ".").rstrip(".").strip("[]")
    names = {name}
    with suppress(UnicodeError):
        names.add(name.encode("idna").decode("ascii"))
    with suppress(OSError, ValueError):  # a number that C libraries accept, such as 0x7f.1
        names.add(socket.inet_ntoa(socket.inet_aton(name)))
    with suppress(ValueError):
        address = ipaddress.IPv6Address(name.partition("%")[0])
        names |= {f"[{address}]", str(address.ipv4_mapped or "")}
    return names - {""}


def shorten_host(name: str) -> str:
    """Write an IPv6 address in its canonical short form, in brackets; leave a name as it is."""
    with suppress(ValueError):
        return f"[{ipaddress.IPv6Address(name.strip('[]'))}]"
    return name
