"""One block of an Anthropic reply while it arrives."""

from typing import Literal

from greenroom.core import InvalidJSONError, serde
from greenroom.llm.events import BlockDelta, Notice
from greenroom.llm.fields import items, mapping, text

__all__ = ["OpenBlock"]

_Kind = Literal["text", "thinking", "tool_input"]
_TEXTS: dict[str, tuple[str, _Kind]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool_input"),
}


class OpenBlock:
    """A block as its start gave it, and the pieces that have come since."""

    def __init__(self, index: int, start: dict[str, object]) -> None:
        """Begin with the `content_block` of `content_block_start`."""
        self.index = index
        self.kind = text(start.get("type"))
        self._raw = start
        self._pieces: dict[str, list[str]] = {}

    def add(self, delta: dict[str, object]) -> BlockDelta | Notice:
        """Take a piece; one of an unknown kind is merged field by field, and noticed."""
        name = text(delta.get("type"))
        if name in _TEXTS:
            field, kind = _TEXTS[name]
            piece = text(delta.get(field))
            self._pieces.setdefault(field, []).append(piece)
            return BlockDelta(self.index, kind, piece)
        if name == "citations_delta":
            cited = items(self._raw.get("citations"))
            self._raw = {**self._raw, "citations": [*cited, delta.get("citation")]}
        else:
            self._raw = {**self._raw, **delta, "type": self.kind}
        return Notice(name)

    @property
    def is_bare(self) -> bool:
        """Whether no arguments of a call have come, neither in pieces nor with the start."""
        return not ("".join(self._pieces.get("partial_json", ())) or self._raw.get("input"))

    def arguments(self) -> str:
        """Return the argument text of a call: what came in pieces, else what came with the start."""
        pieces = "".join(self._pieces.get("partial_json", ()))
        return pieces or serde.dumps(mapping(self._raw.get("input"))).decode()

    def whole(self) -> dict[str, object]:
        """Return the block as it would stand in a reply that is not streamed."""
        texts: dict[str, object] = {
            field: text(self._raw.get(field)) + "".join(self._pieces[field])
            for field in ("text", "thinking")
            if field in self._pieces
        }
        return {**self._raw, **texts, **self._input()}

    def _input(self) -> dict[str, object]:
        if self.kind == "tool_use" or "partial_json" not in self._pieces:
            return {}
        try:
            return {"input": serde.loads_object(self.arguments())}
        except InvalidJSONError:
            return {}
