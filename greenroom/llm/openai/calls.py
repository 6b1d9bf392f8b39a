"""Tool calls of a Chat Completions stream, put together from their fragments.

By the book a fragment names its call by `index`, and only the first one brings `id` and name. In
practice the index may be missing, the id may be missing, empty, repeated on every fragment, or a new
one may come under the same index; and a whole call may come in one fragment.
"""

from collections.abc import Iterator

from greenroom.core import ToolUseBlock, serde
from greenroom.llm.calls import CallIds, cut_off, tool_use
from greenroom.llm.fields import integer, mapping, text, without

__all__ = ["Calls", "OpenCall"]


class OpenCall:
    """One call and the pieces of its arguments that have come."""

    def __init__(self, index: int, place: int | None) -> None:
        """Begin the block of this index, for the server's call at this place."""
        self.index = index
        self.place = place
        self.id = ""
        self.name = ""
        self.extra: dict[str, object] = {}
        self._arguments: list[str] = []

    def add(self, fragment: dict[str, object]) -> str:
        """Take a fragment and return its piece of the argument text."""
        function = mapping(fragment.get("function"))
        self.id = self.id or text(fragment.get("id"))
        self.name = self.name or text(function.get("name"))
        self.extra |= without(fragment, "index", "id", "type", "function")
        given = function.get("arguments")
        piece = serde.dumps(given).decode() if isinstance(given, dict) else text(given)
        self._arguments.append(piece)
        return piece

    def block(self, call_id: str) -> ToolUseBlock:
        """Make the block of the call, under this id."""
        return tool_use(call_id, self.name, self.arguments, self.extra)

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return "".join(self._arguments)


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
            name = mapping(fragment.get("function")).get("name")
            return None if name or not self._calls else self._calls[-1]
        for call in reversed(self._calls):
            if place is not None and call.place == place:
                return call if not call_id or not call.id or call.id == call_id else None
            if place is None and call.id == call_id:
                return call
        return None

    def begin(self, index: int, fragment: dict[str, object]) -> OpenCall:
        """Begin the call of this fragment as the block of this index."""
        call = OpenCall(index, integer(fragment.get("index")))
        self._calls.append(call)
        return call

    def finished(self, *, is_cut: bool) -> Iterator[tuple[int, ToolUseBlock]]:
        """Return each call with its block's index, in the order in which they began.

        Where the reply was cut by its limit, the last one is invalid unless it is complete.
        """
        ids = CallIds()
        for call in self._calls:
            block = call.block(ids.take(call.id))
            is_partial = bool(block.invalid) or not call.arguments
            last = call is self._calls[-1]
            yield call.index, cut_off(block) if is_cut and last and is_partial else block
