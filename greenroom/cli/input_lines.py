"""What a program writes to a headless run that it drives: one JSON object a line.

`InputLines` reads standard input and says what each line asks for; what can't be read becomes a
`BadLine`, and the run goes on.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from greenroom.cli.stdio import read_some
from greenroom.core import ImageBlock, TextBlock
from greenroom.core._internal import InvalidJSONError, Wire, clip, serde
from greenroom.threads._internal import run_heavy
from greenroom.tools._internal import check_media

MAX_LINE = 32 << 20
"""The most bytes of a line, which may hold pictures; a longer one is skipped, and said to be."""

AnswerChoice: TypeAlias = Literal["once", "session", "project", "always", "no", "never"]
"""What may be answered to a question: as the terminal has it, in whole words."""


class PictureSource(Wire, frozen=True):
    """The bytes of a picture in base64, or where it is, as Anthropic writes it."""

    media_type: str = ""
    data: str = ""
    url: str = ""


class PictureLine(PictureSource, frozen=True, tag="image"):
    """A picture: its bytes in base64, or where it is, here or in `source`."""

    source: PictureSource | None = None


class UserMessage(Wire, frozen=True):
    """What the person says: a text, or texts and pictures."""

    content: str | tuple[TextBlock | PictureLine, ...]
    role: Literal["user"] = "user"

    @property
    def blocks(self) -> str | tuple[TextBlock | ImageBlock, ...]:
        """The content as `send_input` takes it."""
        if isinstance(self.content, str):
            return self.content
        return tuple(
            _image(each) if isinstance(each, PictureLine) else each for each in self.content
        )


def _image(picture: PictureLine) -> ImageBlock:
    found = picture.source or picture
    return ImageBlock(found.media_type, found.data, found.url)


class UserLine(Wire, frozen=True, tag="user"):
    """An input; its turn begins when the turns of those before it have ended."""

    message: UserMessage


class AnswerLine(Wire, frozen=True, tag="answer"):
    """An answer to the question with this id; the reason is for the model."""

    request_id: str
    choice: AnswerChoice
    reason: str | None = None


class InterruptLine(Wire, frozen=True, tag="interrupt"):
    """Interrupts the turn of the oldest input that has no result yet."""


class BadLine(Wire, frozen=True):
    """A line that can't be read, and why."""

    message: str


InputLine: TypeAlias = UserLine | AnswerLine | InterruptLine | BadLine
"""What one line asks for."""


class InputLines:
    """The lines of standard input, read as they come; use it once, with `async for`.

    Attributes:
        number: how many lines have been read; that of the newest one.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self.number = 0
        self._descriptor = descriptor
        self._unread = bytearray()
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[InputLine]:
        """Return itself."""
        return self

    async def __anext__(self) -> InputLine:
        """Return the next line that is not blank.

        Raises:
            StopAsyncIteration: the input is at its end.
            OSError: it can't be read.
        """
        while (line := await self._next_line()) is not None:
            self.number += 1
            if len(line) > MAX_LINE:
                return BadLine(f"the line has more than {MAX_LINE >> 20} MiB")
            if line.strip():
                return await run_heavy(partial(read_line, line), line)
        raise StopAsyncIteration

    async def _next_line(self) -> bytes | None:
        """Return the next line, the last one also without its end; None behind it."""
        searched = 0
        while True:
            end = self._unread.find(b"\n", searched)
            if end >= 0:
                line = self._take(end)
                del self._unread[:1]
                return line
            if self._has_ended:
                return self._take(len(self._unread)) if self._unread else None
            searched = len(self._unread)
            more = await self._read()
            self._has_ended = not more
            # Of a line that is too long, enough is kept to know that it is.
            room = MAX_LINE + 1 - searched
            end = more.find(b"\n")
            self._unread += more if end >= 0 else more[: max(room, 0)]

    async def _read(self) -> bytes:
        try:
            return await read_some(self._descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard input") from error

    def _take(self, size: int) -> bytes:
        line = bytes(self._unread[:size])
        del self._unread[:size]
        return line


def read_line(line: bytes) -> InputLine:
    r"""Read one line.

    Example:
        >>> read_line(b'{"type": "user", "message": {"content": "mend the test"}}').message.content
        'mend the test'
        >>> read_line(b'{"type": "stop"}').message
        "not an input: Invalid value 'stop' - at `$.type`"
    """
    try:
        found = serde.convert(
            serde.loads_object(line.decode()), UserLine | AnswerLine | InterruptLine
        )
    except UnicodeDecodeError:
        return BadLine("not UTF-8")
    except InvalidJSONError as error:
        return BadLine(clip(error.message, 500))
    except msgspec.ValidationError as error:
        return BadLine(clip(f"not an input: {error}", 500))
    return _check(found.message) if isinstance(found, UserLine) else found


def _check(message: UserMessage) -> UserLine | BadLine:
    """Make sure that a message can be sent, with each picture as its data says."""
    parts: list[TextBlock | PictureLine] = []
    blocks = message.blocks
    for each in (TextBlock(blocks),) if isinstance(blocks, str) else blocks:
        if isinstance(each, TextBlock):
            parts.append(each)
            continue
        if not (each.url or (each.data and each.media_type)):
            return BadLine("not an input: an image needs data and media_type, or url")
        picture, fault = check_media(each) if each.data else (each, "")
        if fault:
            return BadLine(f"not an input: an image can't be sent: {fault}")
        parts.append(PictureLine(picture.media_type, picture.data, picture.url))
    if not any(isinstance(each, PictureLine) or each.text.strip() for each in parts):
        return BadLine("not an input: the message is empty")
    return UserLine(message if isinstance(blocks, str) else UserMessage(tuple(parts)))
