"""Reasoning in Chat Completions, which has no standard field for it.

Servers send it as `reasoning_content` (DeepSeek, xAI, SGLang, llama.cpp), as `reasoning`
(OpenRouter, Groq, Ollama, vLLM since 2026), or as parts of a `content` that is a list (Mistral).
OpenRouter adds `reasoning_details`, which contain signatures and encrypted reasoning, and must be
sent back whole.
"""

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from greenroom.core import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from greenroom.llm.json_fields import as_dict, as_int, as_text
from greenroom.llm.stream import GrowingText

CONTENT_FIELD = "content"
"""The field of reasoning that came as a part of the content."""

_FIELDS = ("reasoning_content", "reasoning")
_GROWING = frozenset({"text", "summary", "data"})


def find_reasoning(delta: dict[str, object]) -> tuple[str, str]:
    """Return the field of a delta that has reasoning, and the piece; both may be empty.

    Some gateways send the same piece in both fields, so only the first counts.
    """
    for name in _FIELDS:
        if piece := as_text(delta.get(name)):
            return name, piece
    return "", ""


def reasoning_for_server(block: ContentBlock, names: frozenset[str]) -> ContentBlock | None:
    """Return a block as a server that takes these fields gets it back, or None if it does not.

    Reasoning that was a part of the content is always sent back.
    """
    if not isinstance(block, ThinkingBlock):
        return block
    field = block.extra.get("field")
    extra = {k: v for k, v in block.extra.items() if k in names}
    if field == CONTENT_FIELD or field in names:
        extra["field"] = field
    if not extra:
        return None
    return block if extra == block.extra else replace(block, extra=extra)


def has_field(block: ContentBlock) -> bool:
    """Whether a block is anything but reasoning that no field was named for."""
    if isinstance(block, ThinkingBlock):
        return bool(block.extra.keys() & {"field", "reasoning_details"})
    return not isinstance(block, RedactedThinkingBlock)


def merge_details(pieces: Iterable[object]) -> list[object]:
    """Merge pieces of `reasoning_details`: those of the same index and type become one entry.

    Texts are joined; of any other field, such as a signature, the last value that is not empty
    counts. Entries without an index are not merged.

    Example:
        >>> merge_details(
        ...     [
        ...         {"type": "reasoning.text", "index": 0, "text": "a", "signature": ""},
        ...         {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        ...     ]
        ... )
        [{'type': 'reasoning.text', 'index': 0, 'text': 'ab', 'signature': 's'}]
    """
    entries: list[_Detail] = []
    latest: dict[tuple[int, str], _Detail] = {}
    for piece in map(as_dict, pieces):
        index = as_int(piece.get("index"))
        key = None if index is None else (index, as_text(piece.get("type")))
        if key is None or key not in latest:
            entries.append(_Detail())
        if key is not None:
            latest.setdefault(key, entries[-1]).add(piece)
        else:
            entries[-1].add(piece)
    return [detail.entry() for detail in entries]


class _Detail:
    """One entry of `reasoning_details` and its texts so far."""

    def __init__(self) -> None:
        self._fields: dict[str, object] = {}
        self._texts = defaultdict[str, GrowingText](GrowingText)

    def add(self, piece: dict[str, object]) -> None:
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._fields.setdefault(name)
                self._texts[name].write(value)
            elif value not in (None, "") or name not in self._fields:
                self._fields[name] = value

    def entry(self) -> dict[str, object]:
        return self._fields | {name: texts.getvalue() for name, texts in self._texts.items()}
