"""What becomes of a server's result: blocks for the model, and a structured value for programs."""

from collections.abc import Iterable, Iterator

import mcp_types as types

from greenroom.core import DocumentBlock, ImageBlock, TextBlock, ToolResult, ToolStatus
from greenroom.core._internal import ResultContent, serde, valid_unicode

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_STRUCTURED = "structured"  # as tools of ours put it into their metadata


def read_result(result: types.CallToolResult) -> ToolResult:
    """Make a result of what a server returned.

    Texts, pictures and documents become blocks, and what no model can be shown becomes a line on
    it. The structured content goes into the metadata, and into the text if there is no other.
    """
    blocks = list(read_blocks(result.content))
    metadata: dict[str, object] = {}
    if result.structured_content is not None:
        metadata[_STRUCTURED] = result.structured_content
        if not blocks:
            blocks.append(TextBlock(serde.to_text(result.structured_content)))
    status = ToolStatus.ERROR if result.is_error else ToolStatus.SUCCESS
    return ToolResult(tuple(blocks) or (TextBlock("done"),), status, metadata)


def read_blocks(content: Iterable[types.ContentBlock]) -> Iterator[ResultContent]:
    """Make blocks of the content of a result or a prompt."""
    for each in content:
        match each:
            case types.TextContent():
                yield TextBlock(valid_unicode(each.text))
            case types.ImageContent():
                yield _read_media(each.mime_type, each.data, "a picture")
            case types.AudioContent():
                yield _read_media(each.mime_type, each.data, "a sound")
            case types.EmbeddedResource():
                yield read_resource(each.resource)
            case types.ResourceLink():
                about = f": {each.description}" if each.description else ""
                yield _note(f"resource {each.name}, {each.uri}{about}")


def read_resource(
    resource: types.TextResourceContents | types.BlobResourceContents,
) -> ResultContent:
    """Make a block of a resource: its text, its picture or document, or a line on it."""
    uri = str(resource.uri)
    if isinstance(resource, types.TextResourceContents):
        return TextBlock(valid_unicode(f"[resource {uri}]\n{resource.text}"))
    return _read_media(resource.mime_type or "", resource.blob, f"the resource {uri}")


def _read_media(kind: str, data: str, what: str) -> ResultContent:
    if kind in _PICTURES:
        return ImageBlock(media_type=kind, data=data)
    if kind == "application/pdf":
        return DocumentBlock(media_type=kind, data=data)
    return _note(f"{what} of the type {kind or 'unknown'}, {len(data) * 3 // 4:,} bytes, left out")


def _note(text: str) -> TextBlock:
    return TextBlock(f"[{valid_unicode(text)}]")
