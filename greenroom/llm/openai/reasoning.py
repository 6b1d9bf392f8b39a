"""Reasoning in Chat Completions, which has no standard field for it.

Servers send it as `reasoning_content` (DeepSeek, xAI, SGLang, llama.cpp), as `reasoning`
(OpenRouter, Groq, Ollama, vLLM since 2026), or as parts of a `content` that is a list (Mistral).
OpenRouter adds `reasoning_details`, which contain signatures and encrypted reasoning, and must be
sent back whole.

Other servers, mostly local ones, send everything as text. Many open models write `<think>…</think>`
before their answer, and `<tool_call>{…}</tool_call>` at its end; a server that knows the model's
template takes these apart, and for the others `TaggedText` does. Else the thoughts would be a part
of the answer, and a call would be the answer. Only a tag at the very beginning opens a thought, and
only calls at the very end are calls, each at the beginning of a line: a text may also be about
tags.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec.structs import replace

from greenroom.core import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from greenroom.core._internal import InvalidJSONError
from greenroom.llm.json_fields import as_dict, as_int, as_text
from greenroom.llm.portable_calls import read_arguments
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


Kind: TypeAlias = Literal["text", "thinking"]
_Step: TypeAlias = Callable[["TaggedText"], Iterator[tuple[Kind, str]]]

_THOUGHTS = {"<think>": "</think>", "<thinking>": "</thinking>"}
_CALL, _CALL_END = "<tool_call>", "</tool_call>"


class TaggedText:
    """Takes the text of one reply apart, piece by piece, and holds back what may be a tag.

    Example:
        >>> text = TaggedText()
        >>> [pair for piece in ("<thi", "nk>Hm.</think>", " Yes.") for pair in text.feed(piece)]
        [('thinking', 'Hm.'), ('text', 'Yes.')]
    """

    def __init__(self) -> None:
        self._held = ""
        self._close = ""  # the tag that ends the thought
        # A plain function: with one of its own methods, the text would be a circle of references.
        self._step: _Step = TaggedText._begin
        self._is_line_start = True

    def feed(self, piece: str) -> Iterator[tuple[Kind, str]]:
        """Add a piece, and yield the pieces that it completes, each with its kind."""
        self._held += piece
        step = None
        while self._held and step is not self._step:
            step = self._step
            yield from step(self)

    def passes(self, piece: str) -> bool:
        """Whether a piece is text as it stands, and nothing of it has to be held back."""
        is_within_line = not (self._held or self._is_line_start or "\n" in piece)
        return is_within_line and self._step is TaggedText._read

    def finish(self) -> tuple[list[tuple[Kind, str]], list[dict[str, object]]]:
        """Return what was held back: pieces of text, or calls as they would be on the wire."""
        held, self._held = self._held, ""
        if not held:
            return [], []
        if self._step is TaggedText._call:
            calls = _read_calls(held)
            return ([], calls) if calls else ([("text", held)], [])
        return [("thinking" if self._step is TaggedText._think else "text", held)], []

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def _begin(self) -> Iterator[tuple[Kind, str]]:
        start = self._held.lstrip()
        for tag, close in _THOUGHTS.items():
            if start.startswith(tag):
                self._held, self._close = start[len(tag) :], close
                self._step = TaggedText._skip_blank
                return
        if not any(tag.startswith(start) for tag in _THOUGHTS):
            self._step = TaggedText._read
        yield from ()

    def _skip_blank(self) -> Iterator[tuple[Kind, str]]:
        """Leave out the blank lines around a thought."""
        self._held = self._held.lstrip()
        if self._held:
            self._step = TaggedText._think if self._close else TaggedText._read
        yield from ()

    def _think(self) -> Iterator[tuple[Kind, str]]:
        at = self._held.find(self._close)
        if at < 0:
            at = len(self._held) - _length_of_beginning(self._held, self._close)
        else:
            self._step = TaggedText._skip_blank
        if thought := self._take(at):
            yield "thinking", thought
        if self._step is TaggedText._skip_blank:
            self._take(len(self._close))
            self._close = ""

    def _read(self) -> Iterator[tuple[Kind, str]]:
        at = self._find_call()
        if self._held[at:].startswith(_CALL):
            self._step = TaggedText._call
        if text := self._take(at):
            self._is_line_start = text.endswith("\n")
            yield "text", text

    def _find_call(self) -> int:
        """Return where the first call begins, or may begin, at the beginning of a line."""
        at = 0 if self._is_line_start else self._held.find("\n") + 1 or len(self._held)
        while at < len(self._held):
            line = self._held[at : at + len(_CALL)]
            if line == _CALL or (len(self._held) - at < len(_CALL) and _CALL.startswith(line)):
                return at
            at = self._held.find("\n", at) + 1 or len(self._held)
        return at

    def _call(self) -> Iterator[tuple[Kind, str]]:
        """Hold the calls back until the reply ends, unless other text follows them."""
        rest = self._held.rpartition(_CALL_END)[2].lstrip()
        if not rest.startswith(_CALL[: len(rest)]):
            self._step = TaggedText._say
        yield from ()

    def _say(self) -> Iterator[tuple[Kind, str]]:
        yield "text", self._take(len(self._held))


def _length_of_beginning(text: str, tag: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a tag."""
    most = min(len(text), len(tag) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(tag[:n])), 0)


def _read_calls(text: str) -> list[dict[str, object]]:
    """Return the calls in a text of nothing but calls; nothing if one can't be read."""
    calls: list[dict[str, object]] = []
    for part in text.split(_CALL)[1:]:
        try:
            call = read_arguments(part.strip().removesuffix(_CALL_END))
        except InvalidJSONError:
            return []
        if not as_text(call.get("name")):
            return []
        given = call.get("arguments", call.get("parameters", {}))
        calls.append({"function": {"name": call["name"], "arguments": given}})
    return calls
