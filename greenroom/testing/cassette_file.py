"""The file of a cassette: JSON that people can read and compare, written whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from greenroom.core import CassetteError, InvalidJSONError, serde

MAX_SIZE = 64 * 1024 * 1024
"""The most bytes that a cassette may take."""


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not text."""

    base64: bytes


_NO_JSON = msgspec.Raw()


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request as it is recorded: its body as JSON where it is JSON, else as it is."""

    method: str
    url: str
    json: msgspec.Raw = _NO_JSON
    content: str | Binary | None = None


class Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer as it is recorded; it is not complete where its reader left before its end."""

    status: int
    headers: dict[str, str]
    chunks: list[str | Binary]
    complete: bool = True

    @property
    def pieces(self) -> list[bytes]:
        """The body, byte by byte, cut as it came."""
        return [each.base64 if isinstance(each, Binary) else each.encode() for each in self.chunks]


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request and its answer."""

    request: Request
    response: Response


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a file holds."""

    format: Literal["greenroom cassette"]
    version: Literal[1]
    exchanges: list[Exchange]


def pieces_of(data: bytes) -> str | Binary:
    """Return bytes as text where they are text, so that people can read them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Binary(data)


def read(path: Path) -> list[Exchange]:
    """Read a cassette.

    Raises:
        CassetteError: it can't be read, is too large, or is not a cassette of this version.
    """
    try:
        if path.stat().st_size > MAX_SIZE:
            raise CassetteError(f"{path}: larger than {MAX_SIZE >> 20} MiB", hint=_AGAIN)
        return serde.decode(path.read_bytes(), Recording).exchanges
    except (OSError, InvalidJSONError) as error:
        raise CassetteError(f"{path} can't be read: {error}", hint=_AGAIN) from error


def write(path: Path, exchanges: list[Exchange]) -> None:
    """Write a cassette anew, readable by its owner alone: to a file beside it, then renamed over it.

    Raises:
        CassetteError: it is too large, or the disk refuses; what was there stays.
    """
    recording = Recording("greenroom cassette", 1, exchanges)
    data = serde.dumps(serde.loads(serde.encode(recording)), pretty=True) + b"\n"
    if len(data) > MAX_SIZE:
        raise CassetteError(f"{path} would be larger than {MAX_SIZE >> 20} MiB", hint="record less")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A temporary file is made with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CassetteError(f"{path} can't be written: {error}") from error


_AGAIN = "record it anew, with mode='record'"
