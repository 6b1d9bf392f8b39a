"""What a client gets of our tools: their definitions, and the results of calls."""

from collections.abc import Iterator

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from greenroom.core import DocumentBlock, ImageBlock, TextBlock, ToolResult, UnknownBlock
from greenroom.core._internal import ResultContent, thaw
from greenroom.tools._internal import RegisteredTool

_STRUCTURED = "structured"  # as tools of ours put it into their metadata
_CONTENT: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def write_tool(tool: RegisteredTool) -> types.Tool:
    """Describe a tool as the protocol does; hints only where the tool states a fact."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **thaw(tool.parameters)},
        output_schema=thaw(tool.output_schema) if _is_object(tool) else None,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
        ),
    )


def _is_object(tool: RegisteredTool) -> bool:
    return tool.output_schema is not None and tool.output_schema.get("type") == "object"


def write_result(result: ToolResult, tool: RegisteredTool) -> types.CallToolResult:
    """Write a result as the protocol has it; the model at the other end sees what ours would."""
    structured = result.metadata.get(_STRUCTURED)
    is_stated = _is_object(tool) and isinstance(structured, dict) and not result.is_error
    return types.CallToolResult(
        content=list(_write_blocks(result.content)),
        structured_content=thaw(structured) if is_stated else None,
        is_error=result.is_error,
    )


def _write_blocks(blocks: tuple[ResultContent, ...]) -> Iterator[types.ContentBlock]:
    for number, block in enumerate(blocks, 1):
        match block:
            case TextBlock():
                yield types.TextContent(text=block.text)
            case ImageBlock(data=data) if data:
                yield types.ImageContent(data=data, mime_type=block.media_type)
            case DocumentBlock(data=data) if data:
                uri = f"greenroom://result/{number}"
                content = types.BlobResourceContents(uri=uri, mime_type=block.media_type, blob=data)
                yield types.EmbeddedResource(resource=content)
            case ImageBlock(url=url) | DocumentBlock(url=url):
                yield types.ResourceLink(uri=url, name=url, mime_type=block.media_type or None)
            case UnknownBlock():
                yield _write_unknown(block)


def _write_unknown(block: UnknownBlock) -> types.ContentBlock:
    """Pass on a block that our models have no kind for, such as a sound, if the protocol has."""
    try:
        return _CONTENT.validate_python(thaw(block.raw))
    except ValidationError:
        return types.TextContent(text=f"[a block of the kind {block.raw.get('type')!s:.40}]")
