"""Contents between A2A and sessions: what clients send, and what agents have made."""

import base64
import binascii

from greenroom.core import ContentBlock, DocumentBlock, ImageBlock, SessionError, TextBlock
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.interop.a2a_wire import Artifact, Message, Part
from greenroom.interop.serving.a2a_faults import Fault, TaskRefusedError, invalid
from greenroom.interop.serving.a2a_tasks import Made
from greenroom.session import SessionStore
from greenroom.session._internal import KeepsFiles

MOST_BYTES = 8 << 20
"""Bytes of all artifacts in one reply, or of one in an event; what is beyond is only named."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The pictures that agents take."""

INPUT_MODES = ("text/plain", "application/json", *IMAGES, "application/pdf")
"""What a client may send, as media types."""

OUTPUT_MODES = ("text/plain", "application/json", "application/octet-stream")
"""What an agent may answer with."""


def content_of(message: Message) -> str | tuple[ContentBlock, ...]:
    """Return what a client says; nothing is fetched from anywhere.

    Raises:
        TaskRefusedError: there is nothing, or a part that agents don't take.
    """
    blocks = tuple(map(_block_of, message.parts))
    texts = [each.text for each in blocks if isinstance(each, TextBlock)]
    if len(texts) == len(blocks) and not "".join(texts).strip():
        raise invalid("message.parts", "the message is empty")
    return texts[0] if len(blocks) == len(texts) == 1 else blocks


def _block_of(part: Part) -> ContentBlock:
    match part.kinds:
        case ("text",):
            return TextBlock(str(part.text))
        case ("data",):
            return TextBlock(serde.to_text(part.data))
        case ("raw",):
            return _file_of(str(part.raw), part.media_type.lower().partition(";")[0].strip())
        case ("url",):
            raise TaskRefusedError(
                Fault.CONTENT_TYPE_NOT_SUPPORTED,
                "a file behind a URL is not fetched: send its bytes as `raw`",
            )
        case _:
            raise invalid("message.parts", "a part has one of text, raw, url and data")


def _file_of(data: str, media_type: str) -> ContentBlock:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("message.parts", "`raw` is not base64") from error
    if media_type in IMAGES:
        return ImageBlock(media_type, data)
    if media_type == "application/pdf":
        return DocumentBlock(media_type, data)
    if media_type.startswith("text/") or media_type == "application/json":
        return TextBlock(content.decode("utf-8", "replace"))
    raise TaskRefusedError(
        Fault.CONTENT_TYPE_NOT_SUPPORTED,
        f"files of the type {media_type[:100]!r} are not taken: send {', '.join(INPUT_MODES)}",
    )


async def read_artifact(
    store: SessionStore, session_id: str, made: Made, room: int
) -> tuple[Artifact, int]:
    """Return an artifact as the protocol has it, and how many bytes its content takes."""
    artifact = made.artifact
    size = artifact.size - made.start
    metadata: dict[str, object] = {"version": artifact.version}
    if made.url:
        part = Part(url=made.url)
    elif size <= room and isinstance(store, KeepsFiles):
        try:
            file = await store.open_file(session_id, artifact.file)
        except SessionError:
            part = Part("its content is gone", media_type="text/plain")
        else:
            part = _part_of(file.getvalue()[made.start : artifact.size], artifact.media_type)
    else:
        part = Part(f"{size:,} bytes, which are too many for this reply")
    size = min(size, room)
    name = artifact.name
    part = Part(part.text, part.raw, part.url, part.data, {}, name, artifact.media_type)
    return Artifact(name, (part,), name, metadata=metadata), size


def _part_of(content: bytes, media_type: str) -> Part:
    """Make a part of a content: a text or data where it is one, else its bytes."""
    if media_type == "application/json":
        try:
            return Part(data=serde.loads(content))
        except InvalidJSONError:
            pass
    if media_type.startswith("text/"):
        try:
            return Part(content.decode())
        except UnicodeDecodeError:
            pass
    return Part(raw=base64.b64encode(content).decode())
