"""Hosts: read from a URL as strictly as an allowance needs, and as generously as a denial does."""

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from greenroom.core import RuleFileError

__all__ = ["Host", "HostPattern"]

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_ADDRESS = re.compile(r"\[[0-9a-f:.]+\]")
_BRACKETS = re.compile(
    r"[^\[\]]*|\[[^\[\]]*\](?::[0-9]*)?"
)  # urlsplit ignores what else stands there
_PLAIN_URL = re.compile(r"[!-\[\]-~]+")
MAX_LENGTH = 1024
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
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
        if len(url) > MAX_LENGTH and not url.isascii():  # see `_names`; `urlsplit` composes it, too
            return cls("", _names(_crude(url)))
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            usable = parts.scheme in ("http", "https") and "@" not in parts.netloc
            usable = usable and parts.port != 0 and bool(_BRACKETS.fullmatch(parts.netloc))
        except ValueError:
            return cls("", _names(_crude(url)))
        shown = _bracketed(host) if ":" in host else host
        plain = _PLAIN_URL.fullmatch(url) and (_NAME.fullmatch(shown) or _ADDRESS.fullmatch(shown))
        crude = _crude(url)
        names = _names(host) if crude == host else _names(host) | _names(crude)
        return cls(shown if usable and plain else "", names)


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
        if not (_NAME.fullmatch(name) or _ADDRESS.fullmatch(name)):
            raise RuleFileError(f"no host: {text!r}", hint=_EXAMPLE)
        return cls(_bracketed(lowered[1:-1]) if lowered.startswith("[") else lowered)

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


def _crude(url: str) -> str:
    """Take the host as a careless client would: backslashes as slashes, user-info dropped."""
    rest = re.sub(r"^[^:/\\?#]*:", "", url.strip()).replace("\\", "/").lstrip("/")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]


def _names(host: str) -> frozenset[str]:
    if len(host) > MAX_LENGTH:  # nobody resolves it, and composing may take the square of it
        return frozenset({host.casefold()})
    folded = unicodedata.normalize("NFKC", unquote(host)).casefold()
    visible = "".join(ch for ch in folded if unicodedata.category(ch)[0] not in "CZ")
    name = visible.replace("\N{IDEOGRAPHIC FULL STOP}", ".").rstrip(".")
    bare = name.strip("[]")
    names = {name, bare, _ascii(bare), _address(bare), *_long_address(bare)}
    return frozenset(names - {""})


def _bracketed(address: str) -> str:
    """Write an IPv6 address in its one short form, in brackets."""
    try:
        return f"[{ipaddress.IPv6Address(address)}]"
    except ValueError:
        return f"[{address}]"


def _long_address(name: str) -> set[str]:
    """Write an IPv6 address in its short form, and as the IPv4 address that it stands for."""
    try:
        address = ipaddress.IPv6Address(name.partition("%")[0])
    except ValueError:
        return set()
    inner = address.ipv4_mapped or address.sixtofour
    packed = address.packed
    if packed[:12] == bytes(12) and packed[12:] > bytes([0, 0, 0, 1]):
        inner = ipaddress.IPv4Address(packed[12:])
    return {f"[{address}]", str(inner) if inner else ""}


def _ascii(name: str) -> str:
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""


def _address(name: str) -> str:
    """Write a number that C libraries read as an IPv4 address, such as 0x7f.1, in the usual way."""
    numbers = name.split(".")
    if len(numbers) > 4 or not all(_NUMBER.fullmatch(each) for each in numbers):
        return ""
    try:
        values = [_number(each) for each in numbers]
        value = values[-1]
        for place, each in enumerate(values[:-1]):
            value += each << (24 - 8 * place)
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        return ""


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)
