r"""Takes secrets out of recordings, in whatever form the other side has echoed them.

These are secrets: keys, cookies, organisations and the like in the headers of a request and of its
answer, sensitive parts of an address, the vendors' keys in the environment, whatever looks like a
vendor's key or organisation, and the texts that the caller names. Each is found in plain, escaped
for JSON (`\/`, `\u002d`, even in JSON within JSON), escaped for a URL, and in base64, also as a
part of something longer. It is not found in a hash, in an encrypted text, or spelt backwards.
"""

import base64
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

from greenroom.core import ConfigurationError
from greenroom.core._internal import KEY_FORM, InvalidJSONError, serde
from greenroom.llm._internal import VENDORS, SSEDecoder, read_key

PLACEHOLDER = "[secret]"

_SENSITIVE = re.compile(
    r"auth|key|token|secret|cookie|organi[sz]ation|project|session|sig", re.IGNORECASE
)
_LOOKS_SECRET = re.compile(r"(?=.*\d)[\w.+/=~-]{16,}")
_SCHEMES = frozenset({"basic", "bearer", "digest", "token"})
_IDENTIFYING = re.compile(r"cookie|organi[sz]ation|project", re.IGNORECASE)
_MIN_LENGTH = 8  # of a key; a shorter one is made up, such as "test", and is part of many a word
_MIN_NAMED_LENGTH = 4  # of what the caller names

# These are secrets wherever they are found: organisations, projects and keys of vendors.
_KNOWN_FORMS = rb"\b(?:org|proj)[-_][A-Za-z0-9]{12,}|" + KEY_FORM.encode()


def secrets_in(url: str, headers: Mapping[str, str]) -> Iterator[str]:
    """Find the secrets in a request's address and headers; a text too short for a key is none.

    Example:
        >>> headers = {"Authorization": "Bearer sk-12345"}
        >>> list(secrets_in("https://x.example/?key=AIza-1234", headers))
        ['sk-12345', 'AIza-1234']
    """
    parts = urlsplit(url)
    secrets = [
        *_secrets_of_headers(headers),
        parts.password or "",
        *(value for name, value in parse_qsl(parts.query) if _SENSITIVE.search(name)),
    ]
    yield from (each for each in secrets if len(each) >= _MIN_LENGTH)


def secrets_of_answer(headers: Mapping[str, str]) -> Iterator[str]:
    """Find in an answer's headers what identifies the caller: cookies, organisations, projects."""
    named = {name: value for name, value in headers.items() if _IDENTIFYING.search(name)}
    yield from (each for each in _secrets_of_headers(named) if len(each) >= _MIN_LENGTH)


def _secrets_of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if "cookie" in name.lower():
            yield from (each.partition("=")[2].strip() for each in re.split("[;,]", value))
        elif _SENSITIVE.search(name):
            words = [each for each in value.split() if each.lower() not in _SCHEMES]
            yield from words
            yield from _passwords(words)
        elif _LOOKS_SECRET.fullmatch(value):
            yield value


def _passwords(words: Iterable[str]) -> Iterator[str]:
    """Return what follows a colon in base64, as in basic authentication."""
    for word in words:
        with suppress(ValueError):
            yield base64.b64decode(word, validate=True).decode().partition(":")[2]


def _read_key(name: str) -> str:
    with suppress(ConfigurationError):  # a file that can't be used holds no key that could leak
        return read_key(os.environ, name)
    return ""


class Concealment:
    """Takes secrets out of texts and of bodies that came in pieces."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Conceal these secrets, and the vendors' keys in the environment."""
        keys = (_read_key(name) for each in VENDORS.values() for name in each.keys)
        self._secrets: set[str] = set()
        self._forms: set[str] = set()
        self.add(each for each in keys if len(each) >= _MIN_LENGTH)
        self.add(each for each in secrets if len(each) >= _MIN_NAMED_LENGTH)

    def add(self, secrets: Iterable[str]) -> None:
        """Conceal more secrets."""
        more = set(secrets) - self._secrets
        self._secrets |= more
        self._forms.update(form for each in more for form in _forms(each))

    def conceal(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Take secrets out of a body, wherever it was cut; return as many pieces."""
        body = b"".join(pieces)
        spans = deque(each.span() for each in self._pattern(body).finditer(body))
        result, at = [], 0
        for piece in pieces:
            end = at + len(piece)
            while spans and spans[0][1] <= at:
                spans.popleft()
            result.append(_cut_secrets(body, at, end, spans))
            at = end
        return result

    def _pattern(self, body: bytes) -> re.Pattern[bytes]:
        """Make a pattern of those known forms that the body holds, hardly ever more than one."""
        plain = _unescape(body)
        here = [form for form in self._forms if _unescape(form.encode("utf-8", _ANY)) in plain]
        # The longest first, so that of a key and its beginning the key is taken.
        here.sort(key=len, reverse=True)
        return re.compile(b"|".join([*map(_escaped_pattern, here), _KNOWN_FORMS]))

    def conceal_text(self, text: str) -> str:
        """Take secrets out of a text."""
        return self.conceal([text.encode("utf-8", _ANY)])[0].decode("utf-8", "replace")

    def has_secret(self, body: bytes) -> bool:
        """Whether a body still holds a secret: escaped twice, or spread over several events."""
        plain = _unescape(body)
        forms = (form for form in self._forms if len(form) >= _MIN_LENGTH)
        return any(form.encode("utf-8", _ANY) in plain for form in forms) or self._is_spread(body)

    def _is_spread(self, body: bytes) -> bool:
        joined: dict[str, list[str]] = {}
        decoder = SSEDecoder(len(body) + 2)
        for event in (*decoder.feed(body), *decoder.close()):
            try:
                value = serde.loads(event.data)
            except InvalidJSONError:
                continue
            for path, text in _strings(value):
                joined.setdefault(path, []).append(text)
        texts = ("".join(parts).replace(PLACEHOLDER, "") for parts in joined.values())
        return any(secret in text for text in texts for secret in self._secrets)


def _cut_secrets(body: bytes, start: int, end: int, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return a piece of a body without secrets; the placeholder is put where each begins."""
    result, at = bytearray(), start
    for first, last in spans:
        if first >= end:
            break
        result += body[at : max(first, at)]
        if first >= start:
            result += PLACEHOLDER.encode()
        at = min(last, end)
    return bytes(result + body[at:end])


def _unescape(body: bytes) -> bytes:
    """Undo the escapes of JSON and URLs; the result may be nonsense, but holds the secrets."""
    if b"\\u" in body:
        body = _UNICODE.sub(_decode_units, body)
    if b"%" in body:
        body = _PERCENT.sub(lambda found: bytes([int(found[1], 16)]), body)
    return body.replace(b"\\", b"")


def _decode_units(match: re.Match[bytes]) -> bytes:
    units = bytes.fromhex(b"".join(_HEX.findall(match[0])).decode())
    return units.decode("utf-16-be", _ANY).encode("utf-8", _ANY)


_ANY = "surrogatepass"
_UNICODE = re.compile(rb"(?:\\{1,64}u[0-9a-fA-F]{4})+")
_HEX = re.compile(rb"u([0-9a-fA-F]{4})")
_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")


def _forms(secret: str) -> Iterator[str]:
    """Write a secret in plain and in base64, where it has a form for each of three offsets."""
    yield secret
    data = secret.encode("utf-8", _ANY)
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode()
        # The first letters depend on what comes before, the last ones on what follows.
        first = -(-before * 8 // 6)
        core = coded[first : (before + len(data)) * 8 // 6]
        yield core
        yield core.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


def _escaped_pattern(form: str) -> bytes:
    """Make a pattern that finds a form also where some of it is escaped, for JSON or for a URL."""
    return b"".join(map(_letter_pattern, form))


def _letter_pattern(letter: str) -> bytes:
    data = letter.encode("utf-8", _ANY)
    units = letter.encode("utf-16-be", _ANY)
    escaped = b"".join(
        rb"\\{1,64}u%02x%02x" % pair for pair in zip(units[::2], units[1::2], strict=True)
    )
    percent = b"".join(b"%%%02x" % byte for byte in data)
    plain = re.escape(data) if letter.isalnum() else rb"\\{0,64}" + re.escape(data)
    return rb"(?:%b|(?i:%b|%b))" % (plain, escaped, percent)


def _strings(value: serde.JSON, path: str = "") -> Iterator[tuple[str, str]]:
    """Walk over the texts in a JSON value; the same place in two events has the same path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, f"{path}[]")
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _strings(each, f"{path}.{name}")
