"""Calls of a reply, which come whole or, on request, with their arguments in pieces.

Pieces are under `partialArgs`, each with the path of the value that it belongs to, such as
`$.to[0].name`. `willContinue` says that more follows: of the text at a path, or of the call.

Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from greenroom import core
from greenroom.core._internal import serde
from greenroom.llm.json_fields import DEPTH, as_dict, as_list, as_text, merge_reports, without
from greenroom.llm.portable_calls import CallIds, cut_off, is_cut, tool_use
from greenroom.llm.stream import GrowingText

SIGNATURE = "thoughtSignature"
"""The field of a part with the state of the model's thinking, which is sent back as it came."""

_MOST_MISSING = 16  # items of a list before the next one, so that a path makes no long list
_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED = re.compile(r"\\(.)")


class OpenCall:
    """A call whose pieces are coming.

    Example:
        >>> call = OpenCall(0, {"name": "mail", "willContinue": True})
        >>> for piece in ("Ann", "a"):
        ...     part = {"jsonPath": "$.to[0]", "stringValue": piece, "willContinue": True}
        ...     call.add({"functionCall": {"partialArgs": [part], "willContinue": True}})
        >>> call.finish(CallIds()).input
        {'to': ['Anna']}
    """

    def __init__(self, index: int, fields: dict[str, object]) -> None:
        """Begin a call with the first of its fields; `index` is its place in the reply."""
        self.index = index
        self.id = as_text(fields.get("id"))
        self.name = as_text(fields.get("name"))
        self._arguments: dict[str, object] = {}
        self._fields: dict[str, object] = {}  # of the call
        self._part: dict[str, object] = {}
        self._texts = defaultdict[str, GrowingText](GrowingText)  # by their paths
        self._open_paths: set[str] = set()
        self._problem = ""

    def continues_with(self, fields: dict[str, object]) -> bool:
        """Whether these fields may be the next ones of this call."""
        call_id, name = as_text(fields.get("id")), as_text(fields.get("name"))
        if call_id and self.id:
            return call_id == self.id
        is_piece = "partialArgs" in fields or "willContinue" in fields
        return not name or (name == self.name and is_piece)

    def add(self, part: dict[str, object]) -> None:
        """Add the next part."""
        fields = as_dict(part.get("functionCall"))
        self.id = self.id or as_text(fields.get("id"))
        self.name = self.name or as_text(fields.get("name"))
        self._arguments |= as_dict(fields.get("args"))
        for piece in map(as_dict, as_list(fields.get("partialArgs"))):
            self._add_piece(piece)
        typed = ("id", "name", "args", "partialArgs", "willContinue")
        self._fields = merge_reports(self._fields, without(fields, *typed))
        self._part = merge_reports(self._part, without(part, "functionCall"))

    def finish(
        self, ids: CallIds, reason: core.StopReason = core.StopReason.TOOL_USE
    ) -> core.ToolUseBlock:
        """Return the whole call; of one that is still open, `reason` is why the reply ended."""
        extra = {**self._part, **({"functionCall": self._fields} if self._fields else {})}
        for path, text in self._texts.items():
            self._put(path, text.getvalue())
        arguments = serde.dumps(self._arguments).decode()
        call = tool_use(ids.claim(self.id), self.name, arguments, extra)
        if self._problem:
            call = core.ToolUseBlock(
                call.id, call.name, invalid=self._problem, raw_input=arguments, extra=extra
            )
        if is_cut(reason):
            return cut_off(call, reason)
        return cut_off(call) if self._open_paths else call

    def _add_piece(self, piece: dict[str, object]) -> None:
        path = as_text(piece.get("jsonPath"))
        if piece.get("willContinue"):
            self._open_paths.add(path)
        else:
            self._open_paths.discard(path)
        if isinstance(text := piece.get("stringValue"), str):
            if path not in self._texts:
                self._put(path, "")
            self._texts[path].write(text)
        elif name := next((each for each in _VALUES if each in piece), ""):
            self._put(path, None if name == "nullValue" else piece[name])

    def _put(self, path: str, value: object) -> None:
        try:
            self._arguments = as_dict(_put(self._arguments, _read_path(path), value))
        except LookupError:
            self._problem = f"a piece of the arguments has no place: {path[:100]}"


_VALUES = ("numberValue", "boolValue", "nullValue")


def _read_path(path: str) -> list[str | int]:
    """Return the steps of a path.

    Raises:
        LookupError: it is not one.
    """
    steps, at = list[str | int](), 1
    while found := _STEP.match(path, at):
        name, number, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(int(number) if number else name or _ESCAPED.sub(r"\1", quoted or ""))
        at = found.end()
    is_path = path[:1] == "$" and at == len(path) and 0 < len(steps) <= DEPTH
    if not is_path or isinstance(steps[0], int):
        raise LookupError(path)
    return steps


def _put(place: object, steps: Sequence[str | int], value: object) -> object:
    """Return a value with another one at a place in it.

    Raises:
        LookupError: it has no such place.
    """
    if not steps:
        return value
    step, *rest = steps
    if isinstance(step, str) and (place is None or isinstance(place, dict)):
        fields = as_dict(place)
        fields[step] = _put(fields.get(step), rest, value)
        return fields
    if isinstance(step, int) and (place is None or isinstance(place, list)):
        items = as_list(place)
        missing = step + 1 - len(items)
        if missing > _MOST_MISSING:
            raise LookupError(step)
        items += [None] * missing
        items[step] = _put(items[step], rest, value)
        return items
    raise LookupError(step)
