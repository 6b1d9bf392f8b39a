"""Tool calls of a Chat Completions stream, put together from their fragments.

By the book a fragment names its call by `index`, and only the first one brings `id` and name. In
practice the index may be missing, the id may be missing, empty, repeated on every fragment, or a
new one may come under the same index; a whole call may come in one fragment, and the next one under
the same index and without an id.

A custom tool is called with free text. Here that is the one argument `input`, and the call's
`extra` says that it is custom, so that it goes back as it came.
"""

from collections.abc import Iterator

from greenroom.core import InvalidJSONError, ToolUseBlock, serde
from greenroom.llm.calls import CallIds, cut_off, tool_use
from greenroom.llm.json_fields import integer, mapping, text, without
from greenroom.llm.stream import GrowingText

CUSTOM: dict[str, object] = {"type": "custom"}
"""The `extra` of a call with free text."""


class OpenCall:
    """One call and the pieces of its arguments that have come."""

    def __init__(self, index: int, place: int | None) -> None:
        """Begin the block of this index, for the server's call at this place."""
        self.index = index
        self.place = place
        self.id = ""
        self.name = ""
        self.extra: dict[str, object] = {}
        self._is_custom = False
        self._arguments = GrowingText()

    def add(self, fragment: dict[str, object]) -> str:
        """Take a fragment and return its piece of the argument text."""
        function, custom = mapping(fragment.get("function")), mapping(fragment.get("custom"))
        self._is_custom |= fragment.get("type") == "custom" or bool(custom.get("name"))
        self.id = self.id or text(fragment.get("id"))
        self.name = self.name or _name_in(fragment)
        self.extra |= without(fragment, "index", "id", "type", "function", "custom")
        given = custom.get("input") if self._is_custom else function.get("arguments")
        piece = serde.dumps(given).decode() if isinstance(given, dict) else text(given)
        self._arguments.write(piece)
        return piece

    def is_followed_by(self, fragment: dict[str, object]) -> bool:
        """Whether a fragment is another call: it names a function when the arguments here are whole."""
        given = mapping(fragment.get("function")).get("arguments")
        if not _name_in(fragment) or not (isinstance(given, dict) or text(given).startswith("{")):
            return False
        if not (self.name and self.arguments.endswith("}")):
            return False
        try:
            serde.loads_object(self.arguments)
        except InvalidJSONError:
            return False
        return True

    def block(self, call_id: str) -> ToolUseBlock:
        """Make the block of the call, under this id."""
        if self._is_custom:
            given: dict[str, object] = {"input": self.arguments}
            return ToolUseBlock(call_id, self.name, given, extra=self.extra | CUSTOM)
        return tool_use(call_id, self.name, self.arguments, self.extra)

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return self._arguments.getvalue()


class Calls:
    """The calls of one reply; true if there are any."""

    def __init__(self) -> None:
        """Begin with none."""
        self._calls: list[OpenCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def open_call(self, fragment: dict[str, object]) -> OpenCall | None:
        """Find the call that a fragment goes on with, or None if it begins a new one."""
        place, call_id = integer(fragment.get("index")), text(fragment.get("id"))
        if place is None and not call_id:
            return None if _name_in(fragment) or not self._calls else self._calls[-1]
        for call in reversed(self._calls):
            if place is not None and call.place == place:
                is_same = call.id in ("", call_id) if call_id else not call.is_followed_by(fragment)
                return call if is_same else None
            if place is None and call.id == call_id:
                return call
        return None

    def begin(self, index: int, fragment: dict[str, object]) -> OpenCall:
        """Begin the call of this fragment as the block of this index."""
        call = OpenCall(index, integer(fragment.get("index")))
        self._calls.append(call)
        return call

    def finish(self, *, is_cut: bool) -> Iterator[tuple[int, ToolUseBlock]]:
        """Return each call with its block's index, in the order in which they began.

        Where the reply was cut by its limit, the last one is invalid unless it is complete.
        """
        ids = CallIds()
        for call in self._calls:
            block = call.block(ids.claim(call.id))
            is_partial = bool(block.invalid) or not call.arguments
            last = call is self._calls[-1]
            yield call.index, cut_off(block) if is_cut and last and is_partial else block


def _name_in(fragment: dict[str, object]) -> str:
    function, custom = mapping(fragment.get("function")), mapping(fragment.get("custom"))
    return text(function.get("name")) or text(custom.get("name"))
