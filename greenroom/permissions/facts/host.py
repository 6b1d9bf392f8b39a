"""Hosts: read from a URL as strictly as an allowance needs, and as generously as a denial does."""

import ipaddress
import re
import socket
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from greenroom.core import RuleFileError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\]")
# A URL that every reader takes apart in the same way: no user, no backslash, nothing invisible.
_PLAIN_URL = re.compile(
    rf"https?://({_NAME.pattern})(?::([0-9]{{1,5}}))?(?:[/?#][!-\[\]-~]*)?",
    re.IGNORECASE | re.ASCII,
)
MAX_LENGTH = 1024
_EXAMPLE = "write docs.python.org, or *.readthedocs.io for its subdomains"


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a URL.

    Attributes:
        exact: its name, if the URL is one that every reader understands in the same way, else "".
        names: every name by which a lenient reader could take it, for denials.
    """

    exact: str
    names: frozenset[str]

    @classmethod
    def of(cls, url: str) -> "Host":
        """Read a URL; it never raises.

        Example:
            >>> Host.of("https://docs.python.org/3/").exact
            'docs.python.org'
            >>> Host.of("https://docs.python.org@evil.test/").exact
            ''
        """
        plain = _PLAIN_URL.fullmatch(url)
        usable = plain is not None and 0 < int(plain[2] or 80) < 1 << 16
        exact = _shortened(plain[1].lower()) if plain and usable else ""
        return cls(exact, frozenset(name for each in _crude(url) for name in _names(each)))


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host's name, or `*.name` for its subdomains but not for itself."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Read a pattern.

        Raises:
            RuleFileError: it is no host name, or its star stands elsewhere than at the start.
        """
        lowered = text.lower()
        name = lowered.removeprefix("*.")
        if not _NAME.fullmatch(name):
            raise RuleFileError(f"no host: {text!r}", hint=_EXAMPLE)
        return cls(_shortened(lowered))

    def matches(self, host: Host) -> bool:
        """Match the one name that every reader sees."""
        return bool(host.exact) and self._names(host.exact)

    def touches(self, host: Host) -> bool:
        """Match any name that some reader could see."""
        return any(self._names(name) for name in host.names)

    def _names(self, name: str) -> bool:
        if self.text.startswith("*."):
            return name.endswith(self.text[1:])
        return name == self.text


def _crude(url: str) -> set[str]:
    """Take the host as careless clients would: the scheme or the slashes missing, user-info dropped.

    Some take a backslash for a slash, and others for part of the user-info.
    """
    found = set()
    for text in (url, url.replace("\\", "/")):
        rest = re.sub(r"^[^:/\\?#]*:(?![0-9]{1,5}(?:[/?#]|$))", "", text.strip()).lstrip("/")
        place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        found.add(re.sub(r"^\[([^\]]*).*|:.*", r"\1", place, flags=re.DOTALL))
    return found


def _names(host: str) -> set[str]:
    """Write a host in every way that may mean it: composed, encoded, and as an address."""
    if len(host) > MAX_LENGTH:  # nobody resolves it, and composing may take the square of it
        return {host.casefold()}
    folded = unicodedata.normalize("NFKC", unquote(host)).casefold()
    visible = "".join(ch for ch in folded if unicodedata.category(ch)[0] not in "CZ")
    name = visible.replace("\N{IDEOGRAPHIC FULL STOP}", ".").rstrip(".").strip("[]")
    names = {name}
    with suppress(UnicodeError):
        names.add(name.encode("idna").decode("ascii"))
    with suppress(OSError, ValueError):  # a number that C libraries take, such as 0x7f.1
        names.add(socket.inet_ntoa(socket.inet_aton(name)))
    with suppress(ValueError):
        address = ipaddress.IPv6Address(name.partition("%")[0])
        names |= {f"[{address}]", str(address.ipv4_mapped or "")}
    return names - {""}


def _shortened(name: str) -> str:
    """Write an IPv6 address in brackets in its one short form; leave a name as it is."""
    with suppress(ValueError):
        return f"[{ipaddress.IPv6Address(name.strip('[]'))}]"
    return name
