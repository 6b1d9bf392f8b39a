"""Makes results of what tools return: texts, values of JSON, and results of another type.

Images and PDFs are checked before a model sees them, by their headers and their ends, and an image
gets the media type that it has. A provider refuses a whole request for one image that it can't
read, and each later request repeats it. No pixels are decoded here: a file that passes may still be
broken inside.
"""

import base64
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from greenroom.core import DocumentBlock, ImageBlock, TextBlock, ToolError, ToolResult, ToolStatus
from greenroom.core._internal import ResultContent, valid_unicode

_BLOCKS = (TextBlock, ImageBlock, DocumentBlock)
_Media = TypeVar("_Media", bound=ImageBlock | DocumentBlock)


def to_result(name: str, value: object) -> ToolResult:
    """Make a result of the value that the tool of this name returned.

    A text is the result's text, None is "done", and blocks of text, images and documents are its
    content, alone or in a list, where texts may stand between them. Anything else becomes JSON.

    Raises:
        ToolError: JSON can't express it.

    Example:
        >>> to_result("add", 3).text, to_result("add", None).text
        ('3', 'done')
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult.ok("done")
    if isinstance(value, str):
        return ToolResult.ok(value)
    if blocks := _find_blocks(value):
        return ToolResult(blocks)
    return ToolResult.ok(_to_json(name, value))


def _find_blocks(value: object) -> tuple[ResultContent, ...]:
    """Return the blocks that a value consists of; none if it is anything else."""
    parts = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not any(isinstance(each, _BLOCKS) for each in parts):
        return ()  # a list of texts is a value like others
    blocks = [TextBlock(valid_unicode(each)) if isinstance(each, str) else each for each in parts]
    return tuple(blocks) if all(isinstance(each, _BLOCKS) for each in blocks) else ()


def _to_json(name: str, value: object) -> str:
    """Write a value as JSON: also dataclasses, models, structs, dates and the like."""
    from pydantic_core import to_json, to_jsonable_python

    try:
        by_msgspec = partial(msgspec.to_builtins, enc_hook=to_jsonable_python)
        return to_json(value, fallback=by_msgspec).decode()
    except ValueError as error:
        reason = str(error).rpartition("Error: ")[2]  # without the names of errors round it
        raise ToolError(
            f"{name} returned {type(value).__name__}, which can't be written as JSON: {reason}"
        ) from error


def read_result(name: str, value: object) -> ToolResult:
    """Do as `to_result`, but take what is like a result for one, so a failure stays one.

    It is an object with a text `content` and a `status` or an `is_error`.

    Raises:
        ToolError: JSON can't express it.
    """
    content: object = getattr(value, "content", None)
    is_result = hasattr(value, "status") or hasattr(value, "is_error")
    if isinstance(value, ToolResult) or not isinstance(content, str) or not is_result:
        return to_result(name, value)
    metadata: object = getattr(value, "metadata", None)
    message: object = getattr(value, "error_message", "")
    return ToolResult(
        (TextBlock(valid_unicode(content)),),
        _read_status(value),
        dict(metadata) if isinstance(metadata, Mapping) else {},
        message if isinstance(message, str) else "",
    )


def _read_status(value: object) -> ToolStatus:
    word: object = getattr(value, "status", ToolStatus.SUCCESS)
    try:
        status = ToolStatus(str(getattr(word, "value", word)).lower())
    except ValueError:
        return ToolStatus.ERROR  # when in doubt, it failed
    failed = status is ToolStatus.SUCCESS and getattr(value, "is_error", False)
    return ToolStatus.ERROR if failed else status


LONGEST_SIDE = 8_000
"""The most pixels that a side of an image may have."""

PDF = b"%PDF-"
_PDF_TYPE = "application/pdf"
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg"}
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIF = (b"GIF87a", b"GIF89a")

_BROKEN = "it is broken, or ends early"


def image_type(start: bytes) -> str:
    r"""Return the media type of an image by its first 12 bytes; empty for anything else.

    Example:
        >>> image_type(b"GIF89a\x01\x00\x01\x00\x00\x00"), image_type(b"hello")
        ('image/gif', '')
    """
    if start.startswith(_PNG):
        return "image/png"
    if start.startswith(_JPEG):
        return "image/jpeg"
    if start.startswith(_GIF):
        return "image/gif"
    return "image/webp" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else ""


def find_media_fault(data: bytes) -> str:
    r"""Say why providers would refuse an image (PNG, JPEG, GIF or WebP) or a PDF; empty if not.

    Data of any other kind has no fault.

    Example:
        >>> find_media_fault(b"%PDF-1.7\n")
        'it is broken, or ends early'
        >>> find_media_fault(b"GIF89a\xff\xff\x01\x00\x00\x00\x00;")
        'it has 65535 by 1 pixels, and a side may have 8000'
    """
    if data.startswith(PDF):
        return "" if b"%%EOF" in data else _BROKEN
    reader = _READERS.get(image_type(data[:12]))
    if reader is None:
        return ""
    size = reader(data)
    if size is None or 0 in size:
        return _BROKEN
    if max(size) > LONGEST_SIDE:
        return f"it has {size[0]} by {size[1]} pixels, and a side may have {LONGEST_SIDE}"
    return ""


def leave_out_faulty_media(result: ToolResult) -> ToolResult:
    """Return a result with a line of text for each image or PDF that providers would refuse."""
    content = tuple(map(_check_block, result.content))
    return result if content == result.content else replace(result, content=content)


def _check_block(block: ResultContent) -> ResultContent:
    if not isinstance(block, ImageBlock | DocumentBlock) or not block.data:
        return block
    checked, fault = check_media(block)
    kind = "image" if isinstance(block, ImageBlock) else "document"
    return TextBlock(f"[This {kind} was left out: {fault}]") if fault else checked


def check_media(block: _Media) -> tuple[_Media, str]:
    """Return an image or a document as its data says, and why providers would refuse it.

    They compare an image with its media type, and a history in which one does not fit is refused
    as a whole.
    """
    coded = "".join(block.data.split()).replace("-", "+").replace("_", "/")  # URL-safe base64, too
    coded += "=" * (-len(coded) % 4)
    try:
        data = base64.b64decode(coded, validate=True)
    except ValueError:
        return block, "its data is not base64"
    found = image_type(data[:12])
    kind = block.media_type.partition(";")[0].strip().lower()
    kind = found if isinstance(block, ImageBlock) and found else _OTHER_NAMES.get(kind, kind)
    if kind not in (*_READERS, _PDF_TYPE):
        kind = block.media_type  # nothing is known of it
    fault = find_media_fault(data)
    if (kind in _READERS and kind != found) or (kind == _PDF_TYPE and PDF not in data[:1024]):
        fault = f"it is not of the type {kind}"
    if (coded, kind) != (block.data, block.media_type):
        block = replace(block, data=coded, media_type=kind)
    return block, fault


def _read_png(data: bytes) -> tuple[int, int] | None:
    """Return width and height if the chunks are whole, up to the one that ends the image."""
    at, size, has_pixels = len(_PNG), None, False
    while at + 12 <= len(data):
        length, kind = _big(data, at, 4), data[at + 4 : at + 8]
        end = at + 8 + length
        is_critical = kind[:1].isupper()
        if is_critical and zlib.crc32(data[at + 4 : end]) != _big(data, end, 4):
            return None
        if size is None:
            if kind != b"IHDR" or length != 13:
                return None
            size = _big(data, at + 8, 4), _big(data, at + 12, 4)
        has_pixels |= kind == b"IDAT"
        if kind == b"IEND":
            return size if has_pixels else None
        at = end + 4
    return None


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN = 0xDA
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a segment
_END = b"\xff\xd9"


def _read_jpeg(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the frame's header, if the pixels and an end follow."""
    at, size = 2, None
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            size = _big(data, at + 7, 2), _big(data, at + 5, 2)
        if marker == _SCAN:
            return size if data.rfind(_END) > at else None
        at += 2 + max(2, _big(data, at + 2, 2))
    return None


def _read_gif(data: bytes) -> tuple[int, int] | None:
    size = _little(data, 6, 2), _little(data, 8, 2)
    return size if len(data) > 13 and data.rstrip(b"\0").endswith(b";") else None


def _read_webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if len(data) < max(30, 8 + _little(data, 4, 4)):
        return None
    if kind == b"VP8X":
        return 1 + _little(data, 24, 3), 1 + _little(data, 27, 3)
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = _little(data, 21, 4)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


def _big(data: bytes, at: int, count: int) -> int:
    return int.from_bytes(data[at : at + count], "big")


def _little(data: bytes, at: int, count: int) -> int:
    return int.from_bytes(data[at : at + count], "little")


_READERS: dict[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _read_png,
    "image/jpeg": _read_jpeg,
    "image/gif": _read_gif,
    "image/webp": _read_webp,
}
