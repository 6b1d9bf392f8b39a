"""The reply of a Chat Completions stream while it arrives: text, reasoning and calls, in order."""

from collections.abc import Iterable, Mapping

from greenroom.core import ContentBlock, TextBlock, ThinkingBlock, UnknownBlock
from greenroom.llm.events import BlockDelta, BlockEnd, BlockStart, StreamEvent
from greenroom.llm.fields import items, mapping, text, without
from greenroom.llm.growing_text import GrowingText
from greenroom.llm.openai.calls import Calls
from greenroom.llm.openai.reasoning import CONTENT_FIELD, merged_details, reasoning_in


class _Passage:
    """A run of text or of reasoning, until something else comes."""

    def __init__(self, index: int, kind: str, extra: dict[str, object]) -> None:
        self.index = index
        self.kind = kind
        self.extra = extra
        self.details: list[object] = []
        self.text = GrowingText()  # holds a million pieces in little more than their text

    def block(self) -> ContentBlock:
        whole = self.text.getvalue()
        if self.kind == "text":
            return TextBlock(whole, self.extra)
        details = merged_details(self.details)
        extra = self.extra | ({"reasoning_details": details} if details else {})
        return ThinkingBlock(whole, extra=extra)


class Reply:
    """Add each delta; a change from text to reasoning or back begins a new block.

    Calls stay open until the reply ends, since their pieces may come in turns.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.is_refused = False
        self.extra: dict[str, object] = {}  # fields of the message that have no typed place
        self._passage: _Passage | None = None
        self._calls = Calls()
        self._blocks: dict[int, ContentBlock] = {}
        self._next = 0

    def add(self, delta: dict[str, object]) -> list[StreamEvent]:
        """Take one delta and return the events that it makes."""
        events: list[StreamEvent] = []
        field, piece = reasoning_in(delta)
        details = items(delta.get("reasoning_details"))
        if piece or details:
            events += self._think(piece, {"field": field} if field else {}, details)
        events += self._content(delta.get("content"))
        if text(delta.get("refusal")):
            self.is_refused = True
            events += self._say(text(delta["refusal"]), {"refusal": True})
        for fragment in map(mapping, items(delta.get("tool_calls"))):
            events += self._call(fragment)
        self._keep(delta)
        return events

    def finish(self, *, is_cut: bool) -> list[StreamEvent]:
        """End every open block, of a reply that was cut by its limit or not."""
        events = self._close()
        for index, call in self._calls.finished(is_cut=is_cut):
            self._blocks[index] = call
            events.append(BlockEnd(index, call))
        return events

    def blocks(self) -> tuple[ContentBlock, ...]:
        """Return the finished blocks, in the order in which they began."""
        return tuple(block for _, block in sorted(self._blocks.items()))

    @property
    def has_calls(self) -> bool:
        """Whether the reply asks for tools."""
        return bool(self._calls)

    def _content(self, content: object) -> list[StreamEvent]:
        if not isinstance(content, list):
            return self._say(text(content), {}) if text(content) else []
        return [event for part in map(mapping, content) for event in self._part(part)]

    def _part(self, part: dict[str, object]) -> Iterable[StreamEvent]:
        """Take a part of a content that is a list, as Mistral sends it."""
        match part.get("type"):
            case "text":
                return self._say(text(part.get("text")), {})
            case "thinking":
                thoughts = (text(mapping(item).get("text")) for item in items(part.get("thinking")))
                return self._think("".join(thoughts), {"field": CONTENT_FIELD}, [])
            case _:
                return self._whole(UnknownBlock(part))

    def _say(self, piece: str, extra: dict[str, object]) -> list[StreamEvent]:
        passage, events = self._open("text", extra)
        passage.text.write(piece)
        return [*events, BlockDelta(passage.index, "text", piece)]

    def _think(
        self, piece: str, extra: dict[str, object], details: list[object]
    ) -> list[StreamEvent]:
        passage, events = self._open("thinking", extra)
        passage.text.write(piece)
        passage.details += details
        return [*events, BlockDelta(passage.index, "thinking", piece)] if piece else events

    def _open(self, kind: str, extra: dict[str, object]) -> tuple[_Passage, list[StreamEvent]]:
        """Return the passage of this kind, with the events of ending another and beginning it."""
        passage = self._passage
        if passage and passage.kind == kind and (kind == "thinking" or passage.extra == extra):
            passage.extra |= extra
            return passage, []
        ended = self._close()
        self._passage = passage = _Passage(self._new_index(), kind, extra)
        return passage, [*ended, BlockStart(passage.index, kind)]

    def _close(self) -> list[StreamEvent]:
        passage, self._passage = self._passage, None
        if passage is None:
            return []
        self._blocks[passage.index] = passage.block()
        return [BlockEnd(passage.index, self._blocks[passage.index])]

    def _whole(self, block: ContentBlock) -> list[StreamEvent]:
        ended, index = self._close(), self._new_index()
        self._blocks[index] = block
        return [*ended, BlockStart(index, "unknown"), BlockEnd(index, block)]

    def _call(self, fragment: dict[str, object]) -> list[StreamEvent]:
        call = self._calls.open_call(fragment)
        events: list[StreamEvent] = []
        if call is None:
            index = self._new_index()
            events = [*self._close(), BlockStart(index, "tool_use")]
            call = self._calls.begin(index, fragment)
        piece = call.add(fragment)
        return [*events, BlockDelta(call.index, "tool_input", piece)] if piece else events

    def _new_index(self) -> int:
        self._next += 1
        return self._next - 1

    def _keep(self, delta: dict[str, object]) -> None:
        known = ("role", "content", "refusal", "tool_calls", "reasoning_details")
        grow(self.extra, without(delta, *known, "reasoning_content", "reasoning"))


def grow(older: dict[str, object], newer: Mapping[str, object]) -> None:
    """Add the fields of one more piece: a list goes on, anything else is replaced."""
    for name, value in newer.items():
        known = older.get(name)
        if isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        else:
            older[name] = list(value) if isinstance(value, list) else value
