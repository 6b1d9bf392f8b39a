"""The encoding of a file's text, as far as its first bytes tell."""

import codecs

MARKS = {  # the longer ones first, as one is the beginning of another
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    b"\x84\x31\x95\x33": "gb18030",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""The encodings that have byte order marks, by the mark."""


def find_mark(start: bytes) -> bytes:
    """Return the byte order mark that a file begins with; empty without one."""
    return next((mark for mark in MARKS if start.startswith(mark)), b"")


def find_encoding(start: bytes) -> str | None:
    """Return the encoding that a file's byte order mark names, or None without one."""
    return MARKS.get(find_mark(start))


def is_binary(start: bytes) -> bool:
    """Whether a file with this beginning is not text: it has NULs, and no mark of UTF-16 or 32."""
    return b"\0" in start and not (find_encoding(start) or "").startswith(("utf-16", "utf-32"))


def decode_text(data: bytes) -> str:
    r"""Decode a text by its byte order mark, without one as UTF-8; stray bytes become U+FFFD.

    Example:
        >>> decode_text("\ufeffa".encode("utf-16-le")), decode_text(b"caf\xe9")
        ('a', 'caf�')
    """
    mark = find_mark(data)
    return data[len(mark) :].decode(MARKS.get(mark, "utf-8"), "replace")
