"""How large images, documents and requests may be: what is too large is refused before it is sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ModelBadRequestError,
    ToolResultBlock,
)


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """What a provider takes at the most, in bytes as they are sent; None where it names no limit.

    Attributes:
        image: the base64 data of one image.
        document: the base64 data of one document.
        request: the body of a request.

    Example:
        >>> MediaLimits(image=3).check_message(Message.user([ImageBlock("image/png", "aGk=")]), 0, "acme")
        Traceback (most recent call last):
        greenroom.core.model_errors.ModelBadRequestError: acme takes images of at most 3 bytes of base64, and ...
    """

    image: int | None = None
    document: int | None = None
    request: int | None = None

    def check_message(self, message: Message, place: int, provider: str) -> None:
        """Check what the message at this place of a conversation brings.

        Raises:
            ModelBadRequestError: an image or a document is too large; the message says which.
        """
        for path, block in _media(message.content):
            most = self.image if isinstance(block, ImageBlock) else self.document
            if most is not None and len(block.data) > most:
                kind = "image" if isinstance(block, ImageBlock) else "document"
                raise ModelBadRequestError(
                    f"{provider} takes {kind}s of at most {_size(most)} of base64, and block {path} of "
                    f"message {place} ({_name(block)}) has {_size(len(block.data))}",
                    provider=provider,
                    hint=f"make the {kind} smaller, or pass its url; then leave out the message that has it",
                )

    def check_request(self, content: bytes, provider: str) -> None:
        """Check the body of a request.

        Raises:
            ModelBadRequestError: it is too large.
        """
        if self.request is not None and len(content) > self.request:
            raise ModelBadRequestError(
                f"{provider} takes requests of at most {_size(self.request)}, and this one has "
                f"{_size(len(content))}",
                provider=provider,
                hint="compact the conversation, or leave out images and documents",
            )


def _media(
    blocks: Sequence[ContentBlock], before: str = ""
) -> Iterator[tuple[str, ImageBlock | DocumentBlock]]:
    for place, block in enumerate(blocks):
        match block:
            case ImageBlock() | DocumentBlock():
                yield f"{before}{place}", block
            case ToolResultBlock(content=content):
                yield from _media(content, f"{before}{place}.")
            case _:
                pass


def _name(block: ImageBlock | DocumentBlock) -> str:
    title = block.title if isinstance(block, DocumentBlock) else ""
    return ", ".join(filter(None, (block.media_type, title)))


def _size(count: int) -> str:
    return f"{count / (1024 * 1024):.1f} MiB" if count >= 1024 * 1024 else f"{count} bytes"
