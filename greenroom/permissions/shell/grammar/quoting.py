"""The text inside `$'…'`, decoded."""

import re

__all__ = ["decode_ansi_c"]

_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(c.)|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}


def decode_ansi_c(body: str) -> str | None:
    r"""Decode the escapes, or return None where the bytes that result can't be told.

    Example:
        >>> decode_ansi_c(r"\162\x6d")
        'rm'
        >>> decode_ansi_c(r"a\0b") is None
        True
    """
    parts: list[str] = []
    end = 0
    for found in _ESCAPE.finditer(body):
        char = _character(found)
        if char is None:
            return None
        parts += [body[end : found.start()], char]
        end = found.end()
    rest = body[end:]
    return None if "\\" in rest else "".join([*parts, rest])


def _character(found: re.Match[str]) -> str | None:
    octal, hexadecimal, short, long, control, simple = found.groups()
    if control is not None:
        return None
    if simple is not None:
        return _SIMPLE.get(simple, f"\\{simple}")
    if octal is not None:
        return _printable(int(octal, 8), 0x7E)
    if hexadecimal is not None:
        return _printable(int(hexadecimal, 16), 0x7E)
    return _printable(int(short or long, 16), 0x10FFFF)


def _printable(code: int, limit: int) -> str | None:
    """Refuse NUL, which ends the string, and bytes whose meaning depends on the locale."""
    if not 0 < code <= limit or 0xD800 <= code <= 0xDFFF:
        return None
    return chr(code)
