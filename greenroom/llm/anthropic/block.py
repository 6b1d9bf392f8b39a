"""One block of an Anthropic reply while it arrives."""

from collections import defaultdict
from typing import Literal

from greenroom.core import serde
from greenroom.llm.calls import tool_use
from greenroom.llm.events import BlockDelta, Notice
from greenroom.llm.fields import items, mapping, text
from greenroom.llm.growing_text import GrowingText

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
        self._raw = dict(start)
        self._texts = defaultdict[str, GrowingText](GrowingText)
        self._citations = items(start.get("citations"))

    def add(self, delta: dict[str, object]) -> BlockDelta | Notice:
        """Take a piece; one of an unknown kind is merged field by field, and noticed."""
        name = text(delta.get("type"))
        if name in _TEXTS:
            field, kind = _TEXTS[name]
            piece = text(delta.get(field))
            self._texts[field].write(piece)
            return BlockDelta(self.index, kind, piece)
        if name == "citations_delta":
            self._citations.append(delta.get("citation"))
        else:
            self._raw |= delta | {"type": self.kind}
        return Notice(name)

    def begun(self) -> list[BlockDelta]:
        """Return the text that its start brought along, as a piece for readers."""
        return [
            BlockDelta(self.index, kind, said)
            for field, kind in _TEXTS.values()
            if kind == self.kind and (said := text(self._raw.get(field)))
        ]

    @property
    def is_bare(self) -> bool:
        """Whether no arguments of a call have come, neither in pieces nor with the start."""
        return not (self._text_of("partial_json") or self._raw.get("input"))

    def arguments(self) -> str:
        """Return the argument text of a call: what came in pieces, else what came with the start."""
        return (
            self._text_of("partial_json") or serde.dumps(mapping(self._raw.get("input"))).decode()
        )

    def whole(self) -> dict[str, object]:
        """Return the block as it would stand in a reply that is not streamed."""
        texts: dict[str, object] = {
            field: text(self._raw.get(field)) + self._text_of(field)
            for field in ("text", "thinking")
            if field in self._texts
        }
        cited = {"citations": self._citations} if self._citations else {}
        return self._raw | texts | cited | self._input()

    def _text_of(self, field: str) -> str:
        return self._texts[field].getvalue() if field in self._texts else ""

    def _input(self) -> dict[str, object]:
        if self.kind == "tool_use" or "partial_json" not in self._texts:
            return {}
        call = tool_use("", "", self.arguments())
        return {} if call.invalid else {"input": call.input}
