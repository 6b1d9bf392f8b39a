"""What a person sends from an editor, as an agent takes it, and back for a session that is shown.

Files that an editor names are sent as it has them, with unsaved text; a link is only named, since
the agent can read what it leads to.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from greenroom.core import ContentBlock, DocumentBlock, ImageBlock, TextBlock
from greenroom.interop.acp.json_rpc import INVALID_PARAMS, RPCError
from greenroom.interop.acp.wire import Block, Resource

_PDF = "application/pdf"


def read_blocks(blocks: Sequence[Block]) -> list[ContentBlock]:
    """Read the blocks of an input.

    Raises:
        RPCError: one is of a kind that was not offered, or there is nothing in them.
    """
    found = [_read_block(each) for each in blocks]
    if not any(not isinstance(each, TextBlock) or each.text.strip() for each in found):
        raise RPCError(INVALID_PARAMS, "the prompt is empty")
    return found


def _read_block(block: Block) -> ContentBlock:
    match block.type:
        case "text":
            return TextBlock(block.text)
        case "image" if block.data and block.mime_type:
            return ImageBlock(block.mime_type, block.data)
        case "resource_link" if block.uri:
            return TextBlock(f"[{block.name or block.uri}]({_place(block.uri)})")
        case "resource" if block.resource is not None:
            return _read_resource(block.resource)
        case _:
            raise RPCError(
                INVALID_PARAMS, f"a block of the type {block.type[:40]!r} can't be used here"
            )


def _read_resource(resource: Resource) -> ContentBlock:
    place = _place(resource.uri)
    if resource.text is not None:
        return TextBlock(f'<file path="{place}">\n{resource.text}\n</file>')
    kind, data = resource.mime_type or "", resource.blob or ""
    if kind.startswith("image/") and data:
        return ImageBlock(kind, data)
    if kind == _PDF and data:
        return DocumentBlock(kind, data, title=Path(place).name)
    return TextBlock(f"[{place}, which is not text]")


def _place(uri: str) -> str:
    """Return the path of a file's address, and any other address as it is.

    Example:
        >>> _place("file:///work/a%20b.py"), _place("https://example.com/a")
        ('/work/a b.py', 'https://example.com/a')
    """
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and not parts.netloc else uri


def write_blocks(blocks: Sequence[ContentBlock]) -> Iterator[dict[str, object]]:
    """Write what an editor can show of blocks."""
    for block in blocks:
        match block:
            case TextBlock(text=text) if text:
                yield {"type": "text", "text": text}
            case ImageBlock(media_type=kind, data=data) if data:
                yield {"type": "image", "mimeType": kind, "data": data}
            case DocumentBlock(title=title):
                yield {"type": "text", "text": f"[{title or 'a document'}]"}
            case _:
                pass
