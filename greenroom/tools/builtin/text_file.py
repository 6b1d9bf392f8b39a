"""A text file's content: decoded for editing, and back without a byte changed elsewhere."""

import codecs
import re
from dataclasses import dataclass

from greenroom.core import ToolError

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_BEYOND_ASCII = re.compile("[\x80-\ud7ff\ue000-\U0010ffff]")


def is_binary(start: bytes) -> bool:
    """Whether a file that begins so is no text: it holds NUL, and is not UTF-16 with its mark."""
    return b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@dataclass(frozen=True)
class TextContent:
    r"""A file's text, with what it takes to write it as it was.

    UTF-8 and UTF-16 (the latter by its byte order mark) are known. Anything else is taken as Latin-1,
    or, where it holds some UTF-8 beyond ASCII, as UTF-8 with stray bytes. Either way each byte comes
    back as it was.

    Example:
        >>> content = TextContent.decode(b"caf\xe9\r\n")
        >>> content.text, content.newline, content.encode("th\xe9\r\n")
        ('café\r\n', '\r\n', b'th\xe9\r\n')
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    errors: str = "strict"

    @classmethod
    def decode(cls, data: bytes) -> "TextContent":
        """Decode a file's bytes.

        Raises:
            ToolError: it is no text: binary, or broken UTF-16.
        """
        if is_binary(data):
            raise ToolError("the file is binary, so it can't be edited as text")
        mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
        encoding, body = _MARKS.get(mark, "utf-8"), data[len(mark) :]
        try:
            return cls(body.decode(encoding), encoding, mark)
        except UnicodeDecodeError as error:
            if encoding != "utf-8":
                raise ToolError(f"the file begins as UTF-16 but is not: {error.reason}") from error
        text = body.decode("utf-8", "surrogateescape")
        if mark or _BEYOND_ASCII.search(text):
            return cls(text, "utf-8", mark, "surrogateescape")
        return cls(body.decode("latin-1"), "latin-1")

    @property
    def newline(self) -> str:
        """The line end that most of its lines have."""
        pairs = self.text.count("\r\n")
        return "\r\n" if pairs > self.text.count("\n") - pairs else "\n"

    def encode(self, text: str) -> bytes:
        """Encode a changed text in the file's own encoding.

        Raises:
            ToolError: the encoding has no such character.
        """
        try:
            return self.mark + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the file is {self.encoding}, which can't hold {text[error.start]!r}"
            ) from error
