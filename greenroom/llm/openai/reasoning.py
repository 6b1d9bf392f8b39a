"""Reasoning in Chat Completions, which has no field of its own for it.

Servers send it as `reasoning_content` (DeepSeek, xAI, vLLM), as `reasoning` (OpenRouter, Groq,
Ollama), or as parts of a `content` that is a list (Mistral). OpenRouter adds `reasoning_details`,
which hold signatures and encrypted reasoning and must come back whole.
"""

from collections.abc import Iterable

from greenroom.llm.fields import integer, mapping, text

__all__ = ["CONTENT_FIELD", "merged_details", "reasoning_in"]

CONTENT_FIELD = "content"
"""The field of reasoning that came as a part of the content."""

_FIELDS = ("reasoning_content", "reasoning")
_GROWING = frozenset({"text", "summary", "data"})


def reasoning_in(delta: dict[str, object]) -> tuple[str, str]:
    """Return the field in which a delta carries reasoning, and the piece; both may be empty.

    Some gateways send the same piece in both fields, so only the first counts.
    """
    return next(((name, text(delta[name])) for name in _FIELDS if text(delta.get(name))), ("", ""))


def merged_details(older: list[object], newer: Iterable[object]) -> list[object]:
    """Merge pieces of `reasoning_details`: those of one index and type grow into one entry.

    Texts are joined; of everything else, such as a signature, the last value that is not empty
    counts. Entries without an index stay apart.

    Example:
        >>> merged_details(
        ...     [{"type": "reasoning.text", "index": 0, "text": "a", "signature": ""}],
        ...     [{"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"}],
        ... )
        [{'type': 'reasoning.text', 'index': 0, 'text': 'ab', 'signature': 's'}]
    """
    merged = [mapping(entry) for entry in older]
    for piece in map(mapping, newer):
        places = [place for place, entry in enumerate(merged) if _belong(entry, piece)]
        if places:
            merged[places[-1]] = _grown(merged[places[-1]], piece)
        else:
            merged.append(piece)
    return list(merged)


def _belong(entry: dict[str, object], piece: dict[str, object]) -> bool:
    index = integer(piece.get("index"))
    return index is not None and (entry.get("index"), entry.get("type")) == (
        index,
        piece.get("type"),
    )


def _grown(entry: dict[str, object], piece: dict[str, object]) -> dict[str, object]:
    grown = dict(entry)
    for name, value in piece.items():
        if name in _GROWING and isinstance(value, str):
            grown[name] = text(entry.get(name)) + value
        elif value not in (None, ""):
            grown[name] = value
    return grown
