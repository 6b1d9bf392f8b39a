"""HTTP/1.1 in bytes: how a request is written, and how the answer to it is read.

Nothing here waits for anything. `AnswerReader` is fed with what has come and says what it means;
RFC 9112 has the grammar. Where that lets a reader choose, it is strict: a model's answer is read
over a connection that the next request uses as well, and what two readers take for the end of an
answer must be the same place.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

from greenroom.core._internal import compile_later

HEAD_LIMIT: Final = 64 * 1024
"""The most bytes before a body, with all informational answers, and the most after it."""

LINE_LIMIT: Final = 4 * 1024
"""The most bytes of the line that begins a chunk of a body."""

_NAME = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_IS_TOKEN = compile_later(_NAME)
_STATUS = compile_later(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\x00-\x08\x0a-\x1f\x7f]*)?")
_FIELD = compile_later(rf"({_NAME}):([^\x00\r]*)")
_LENGTH = compile_later(r"[0-9]{1,20}")
_SIZE = compile_later(rb"([0-9A-Fa-f]{1,20})[ \t]*(?:;[^\x00\r\n]*)?")
_PLAIN_SIZE = compile_later(rb"([0-9A-Fa-f]{1,20})\r\n")
_END = compile_later(rb"\n\r?\n")
_BEGINNING = b"HTTP/1."
_BODILESS = frozenset({204, 304})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods of which a request says the length of its body, though it has none."""

T = TypeVar("T")


class ProtocolError(Exception):
    """The bytes are not an answer in HTTP/1.1, or a request can't be written in it."""


class Headers(Mapping[str, str]):
    """Header fields by name, in any case; values of the same name are joined by commas.

    Example:
        >>> headers = Headers([("Vary", "a"), ("vary", "b")])
        >>> headers["VARY"], list(headers)
        ('a, b', ['vary'])
    """

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        """Hold the fields of one answer."""
        self._values: dict[str, str] = {}
        for name, value in fields:
            key = name.lower()
            known = self._values.get(key)
            self._values[key] = value if known is None else f"{known}, {value}"

    def __getitem__(self, name: str) -> str:
        """Return the value of a field.

        Raises:
            KeyError: there is no such field.
        """
        return self._values[name.lower()]

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get(self, key: str, default: str | T, /) -> str | T: ...
    def get(self, key: str, default: object = None, /) -> object:
        """Return the value of a field, or the default, without the error in between."""
        return self._values.get(key.lower(), default)

    def __iter__(self) -> Iterator[str]:
        """Go through the names, in lower case and in their order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Count the names."""
        return len(self._values)


class Head(NamedTuple):
    """What comes before the body of an answer."""

    status: int
    headers: Headers


_Part: TypeAlias = Literal[
    "head", "length", "rest", "size", "chunk", "chunk end", "trailer", "done"
]
"""What of an answer comes next: the head; a body of a known length, or that ends with the
connection; the line that begins a chunk of a body, the chunk, and what ends it; what follows all
chunks; nothing. Not an enum, whose members are slow to get before Python 3.12."""


class RequestWriter:
    r"""Writes the requests of one connection; the head of one that is like the last is kept.

    Args:
        own: the headers of every request, except those that it has itself.

    Example:
        >>> RequestWriter({"Host": "a"}).write("POST", "/", {"X": "1"}, b"hello")
        b'POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\nContent-Length: 5\r\n\r\nhello'
    """

    def __init__(self, own: Mapping[str, str]) -> None:
        """Write nothing yet."""
        self._own = own
        self._asked: tuple[str, str, Mapping[str, str]] = ("", "", {})
        self._head = b""

    def write(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None
    ) -> bytes:
        """Return a request in bytes, with its body.

        Raises:
            ProtocolError: the method or a header can't be written.
        """
        if (method, target, headers) != self._asked:
            self._head = self._write_head(method, target, headers)
            self._asked = method, target, dict(headers)  # the caller's own may change
        if content is None and method not in _WITH_BODY:
            return self._head + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(content or b""), content or b"")

    def _write_head(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """Return the lines before the length of the body."""
        given = {name.lower() for name in headers}
        own = {name: value for name, value in self._own.items() if name.lower() not in given}
        fields = {**own, **headers}
        if not _IS_TOKEN.fullmatch(method) or not all(map(_IS_TOKEN.fullmatch, fields)):
            raise ProtocolError("a method or a header's name holds what none can")
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value.strip()}" for name, value in fields.items()]
        try:
            head = "\r\n".join((*lines, "")).encode("ascii")
        except UnicodeEncodeError:
            raise ProtocolError("a request holds what is not ASCII") from None
        if head.count(b"\n") != len(lines):
            raise ProtocolError("a request holds a line break")
        return head


class AnswerReader:
    r"""Reads the answer to one request, from pieces that are cut anywhere.

    Args:
        method: of the request: the answer to HEAD has no body.

    Example:
        >>> reader = AnswerReader("GET")
        >>> reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
        >>> reader.read_head().status, reader.read_body(), reader.is_complete
        (200, b'hel', False)
        >>> reader.feed(b"lo")
        >>> reader.read_body(), reader.is_complete, reader.allows_another
        (b'lo', True, True)
    """

    def __init__(self, method: str) -> None:
        """Begin before the first byte."""
        self.has_begun = False
        self._method = method
        self._buffer = bytearray()  # what has come and was not read yet
        self._part: _Part = "head"
        self._left = 0  # bytes of the body, or of its chunk
        self._scanned = 0  # bytes of the buffer in which no head ends
        self._head_size = 0
        self._is_kept = False
        self._has_ended = False

    def feed(self, data: bytes) -> None:
        """Take what has come; no bytes mean that the other side sends nothing more."""
        self.has_begun = self.has_begun or bool(data)
        self._has_ended = self._has_ended or not data
        self._buffer += data

    def read_head(self) -> Head | None:
        """Return the status and the headers, or None if more has to come before.

        Raises:
            ProtocolError: this is no answer in HTTP/1.1, it is too large, or it breaks off.
        """
        while (lines := self._take_head()) is not None:
            head = self._parse_head(lines)
            if head.status == 101:
                raise ProtocolError("the other side changes the protocol, which nobody asked for")
            if head.status >= 200:
                return head
        return None

    def read_body(self) -> bytes:
        """Return what has come of the body since the last call; nothing if more has to come.

        Raises:
            ProtocolError: a chunk is not one, or the body breaks off.
        """
        if not self._buffer and not self._has_ended:  # as before each wait
            return b""
        data, self._buffer = bytes(self._buffer), bytearray()
        match self._part:
            case "length":
                body, rest = data[: self._left], data[self._left :]
                self._left -= len(body)
                if not self._left:
                    self._part = "done"
            case "rest":
                body, rest = data, b""
                if self._has_ended:
                    self._part = "done"
            case "done":
                body, rest = b"", data
            case _:
                body, rest = self._read_chunks(data)
        self._buffer += rest
        if self._has_ended and not body:
            self._check_end()
        return body

    @property
    def is_complete(self) -> bool:
        """Whether all of the answer has been read."""
        return self._part == "done"

    @property
    def allows_another(self) -> bool:
        """Whether the connection may carry another request."""
        return self.is_complete and self._is_kept and not self._buffer and not self._has_ended

    def _take_head(self) -> list[str] | None:
        """Take the lines up to the next empty one out of the buffer."""
        buffer = self._buffer
        if self._part == "head" and not buffer.startswith(_BEGINNING[: len(buffer)]):
            raise ProtocolError("the answer does not begin as one in HTTP/1.1")
        end = _END.search(buffer, max(0, self._scanned - 2))
        if self._head_size + (end.end() if end else len(buffer)) > HEAD_LIMIT:
            raise ProtocolError(f"the headers are larger than {HEAD_LIMIT} bytes")
        if end is None:
            self._scanned = len(buffer)
            self._check_end()
            return None
        block = bytes(buffer[: end.start()])
        del buffer[: end.end()]
        self._head_size += end.end()
        self._scanned = 0
        try:
            text = block.decode()
        except UnicodeDecodeError:
            text = block.decode("latin-1")
        return [line.removesuffix("\r") for line in text.split("\n")]

    def _parse_head(self, lines: list[str]) -> Head:
        status = _STATUS.fullmatch(lines[0])
        if status is None:
            raise ProtocolError("the status line is not one of HTTP/1.1")
        head = Head(int(status[2]), Headers(_parse_fields(lines[1:])))
        if head.status >= 200:
            options = head.headers.get("connection", "").lower().split(",")
            self._is_kept = status[1] == "1" and "close" not in map(str.strip, options)
            self._part, self._left = self._frame(head)
        return head

    def _frame(self, head: Head) -> tuple[_Part, int]:
        """Return how the body is framed, and its length where that is known (RFC 9112, 6.3)."""
        encoding = head.headers.get("transfer-encoding")
        length = head.headers.get("content-length")
        if encoding is not None and (length is not None or encoding.lower() != "chunked"):
            raise ProtocolError("the length of the body is given in a way that can't be relied on")
        lengths = {each.strip() for each in length.split(",")} if length is not None else set()
        if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            raise ProtocolError("the length of the body is not a number")
        if self._method == "HEAD" or head.status in _BODILESS:
            return "done", 0
        if encoding is not None:
            return "size", 0
        if not lengths:
            self._is_kept = False
            return "rest", 0
        left = int(lengths.pop())
        return ("length", left) if left else ("done", 0)

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what `data` holds of the body, and what has to wait for more."""
        pieces: list[bytes] = []
        at = 0
        while True:
            if self._part == "size":
                at = _take_whole_chunks(data, at, pieces)
                end = data.find(b"\r\n", at)
                if (end if end >= 0 else len(data)) - at > LINE_LIMIT:
                    raise ProtocolError("the line that begins a chunk is too long")
                if end < 0:
                    break
                size = _SIZE.fullmatch(data, at, end)
                if size is None:
                    raise ProtocolError("a chunk of the body begins without its size")
                at, self._left = end + 2, int(size[1], 16)
                self._part = "chunk" if self._left else "trailer"
            elif self._part == "chunk":
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._part = "chunk end"
            elif self._part == "chunk end":
                end = at + 2
                if not b"\r\n".startswith(data[at:end]):
                    raise ProtocolError("a chunk of the body is not as long as it says")
                if len(data) < end:
                    break
                self._part, at = "size", end
            else:
                break
        rest = data[at:]
        if self._part == "trailer":
            rest = self._read_trailer(rest)
        return b"".join(pieces), rest

    def _read_trailer(self, data: bytes) -> bytes:
        """Read on to the empty line after the last chunk; nobody needs the fields before it."""
        for empty in (b"\r\n", b"\n"):
            if data.startswith(empty):
                self._part = "done"
                return data[len(empty) :]
        end = _END.search(data)
        if (end.end() if end else len(data)) > HEAD_LIMIT:
            raise ProtocolError(f"the trailer is larger than {HEAD_LIMIT} bytes")
        if end is None:
            return data
        _parse_fields(data[: end.start()].decode("latin-1").replace("\r\n", "\n").split("\n"))
        self._part = "done"
        return data[end.end() :]

    def _check_end(self) -> None:
        if self._has_ended and self._part != "done":
            raise ProtocolError("the answer breaks off")


def _take_whole_chunks(data: bytes, at: int, pieces: list[bytes]) -> int:
    """Add the chunks from here on to the pieces, while all of one has come; return where they end.

    Most have, and no extension of their sizes, so they are read without a step for each part.
    """
    match_size = _PLAIN_SIZE.match
    while line := match_size(data, at):
        begin = line.end()
        end = begin + int(line[1], 16)
        if end == begin or data[end : end + 2] != b"\r\n":
            break
        pieces.append(data[begin:end])
        at = end + 2
    return at


def _parse_fields(lines: list[str]) -> list[tuple[str, str]]:
    """Read header fields; one that goes on in the next line is refused (RFC 9112, 5.2)."""
    fields = []
    match_field = _FIELD.fullmatch
    for line in lines:
        field = match_field(line)
        if field is None:
            raise ProtocolError("a line among the headers is not a field")
        fields.append((field[1], field[2].strip(" \t")))
    return fields
