"""The calls of one streamed reply of Chat Completions, put together from their fragments.

By the book a fragment names its call by `index`, and only the first one has an id and a name. In
practice the index may be missing, wrong, or the same for every call; the id may be missing, empty,
repeated on every fragment, or a new one on each; a name may come in pieces; and a whole call may
come in one fragment, and the next one under the same index and without an id.

A fragment in the wrong place would make a tool run with the wrong arguments, or with none, so with
its defaults. So an id that is known counts more than the index, a fragment with neither id nor name
continues a call that is open, and a reply with a fragment that belongs to no call is invalid.
"""

from collections.abc import Iterator

from greenroom import core
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm.failure import unassignable_piece
from greenroom.llm.json_fields import as_dict, as_int, as_text, without
from greenroom.llm.portable_calls import CallIds, cut_off, is_cut, read_arguments, tool_use
from greenroom.llm.stream import GrowingText

CUSTOM: dict[str, object] = {"type": "custom"}
"""The `extra` of a call with free text."""


class _Fragment:
    """What one fragment says about its call."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.fields = fields
        self.place = as_int(fields.get("index"))
        self.id = as_text(fields.get("id"))
        function, custom = as_dict(fields.get("function")), as_dict(fields.get("custom"))
        self.name = as_text(function.get("name")) or as_text(custom.get("name"))
        self.is_custom = fields.get("type") == "custom" or bool(custom.get("name"))
        is_text = self.is_custom or "arguments" not in function
        sent = custom.get("input") if is_text else function.get("arguments")
        self.text = serde.dumps(sent).decode() if isinstance(sent, dict) else as_text(sent)

    @property
    def is_whole(self) -> bool:
        """Whether it looks like the beginning of a call that comes with its arguments."""
        return bool(self.name) and not self.is_custom and self.text.startswith("{")


class StreamedCall:
    """One call so far.

    A custom tool is called with free text. Here the text is the one argument `input`, and the
    call's `extra` says that it is custom, so that the call goes back as it came.
    """

    def __init__(self, index: int, place: int | None) -> None:
        """Begin the call with the block of this index, at this place in the server's counting."""
        self.index = index
        self.place = place
        self.id = ""
        self.name = ""
        self.extra: dict[str, object] = {}
        self._is_custom = False
        self._arguments = GrowingText()
        self._has_arguments = False

    def add(self, fragment: _Fragment) -> None:
        """Add a fragment."""
        self._is_custom |= fragment.is_custom
        self.id = self.id or fragment.id
        self._add_name(fragment.name)
        self.extra |= without(fragment.fields, "index", "id", "type", "function", "custom")
        self._arguments.write(fragment.text)
        self._has_arguments |= bool(fragment.text.strip())

    def _add_name(self, piece: str) -> None:
        """Add a piece of the name; it may also be the name so far, or the whole name again."""
        if not self._has_arguments:
            self.name = piece if piece.startswith(self.name) else self.name + piece

    @property
    def is_complete(self) -> bool:
        """Whether its arguments are a whole object, so that more text can't belong to it."""
        if self._is_custom or not self.arguments.rstrip().endswith("}"):
            return False
        try:
            read_arguments(self.arguments)
        except InvalidJSONError:
            return False
        return True

    @property
    def can_grow(self) -> bool:
        """Whether more text can belong to it: some servers send `{}` before the arguments."""
        return self.arguments.strip() == "{}" or not self.is_complete

    def is_followed_by(self, fragment: _Fragment) -> bool:
        """Whether a fragment that names a function is another call, since this one is complete."""
        if not (self.name and fragment.name):
            return False
        is_other = fragment.is_whole or not fragment.name.startswith(self.name)
        return is_other and self.is_complete

    def block(self, call_id: str) -> core.ToolUseBlock:
        """Make the block of the call, under this id."""
        if self._is_custom:
            arguments: dict[str, object] = {"input": self.arguments}
            return core.ToolUseBlock(call_id, self.name, arguments, extra=self.extra | CUSTOM)
        return tool_use(call_id, self.name, self.arguments, self.extra)

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return self._arguments.getvalue()


class StreamedCalls:
    """The calls of one reply; true if there are any."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[StreamedCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, fields: dict[str, object], next_index: int) -> tuple[StreamedCall, bool, str]:
        """Add a fragment; return its call, whether it began it, and its piece of the arguments.

        A new call is the block of index `next_index`.

        Raises:
            ModelStreamError: the fragment belongs to no call.
        """
        fragment = _Fragment(fields)
        call = self._find(fragment)
        is_new = call is None
        if call is None:
            call = StreamedCall(next_index, fragment.place)
            self._calls.append(call)
        call.add(fragment)
        return call, is_new, fragment.text

    def finish(self, reason: core.StopReason) -> Iterator[tuple[int, core.ToolUseBlock]]:
        """Yield each call with the index of its block, in the order in which they began.

        If the reply was cut off, the last call is invalid unless it is complete.

        Raises:
            ModelStreamError: a call never got a name, so its arguments may be another's.
        """
        ids = CallIds()
        for call in self._calls:
            block = call.block(ids.claim(call.id))
            is_partial = bool(block.invalid) or not call.arguments
            is_cut_off = is_cut(reason) and call is self._calls[-1] and is_partial
            if not (call.name or is_cut_off):
                raise unassignable_piece(self._provider)
            yield call.index, cut_off(block, reason) if is_cut_off else block

    def _find(self, fragment: _Fragment) -> StreamedCall | None:
        """Find the call that a fragment continues, or None if it begins a new one."""
        if fragment.id:
            return self._find_by_id(fragment)
        if not fragment.name:
            return self._find_open(fragment)
        there = self._at(fragment.place)
        return None if there is None or there.is_followed_by(fragment) else there

    def _find_by_id(self, fragment: _Fragment) -> StreamedCall | None:
        for call in reversed(self._calls):
            if call.id == fragment.id:
                is_next = call.place != fragment.place and call.is_followed_by(fragment)
                return None if is_next else call
        there = self._at(fragment.place)
        if there is not None and not there.id:  # it comes after the name
            return None if there.is_followed_by(fragment) else there
        if fragment.name:
            return None
        if fragment.place is None:
            there = self._last
        # A few servers make up a new id for each fragment.
        return there if there is not None and there.can_grow else None

    def _find_open(self, fragment: _Fragment) -> StreamedCall | None:
        """Find the call of a fragment that has neither id nor name."""
        last = self._last
        there = last if fragment.place is None else self._at(fragment.place)
        if not fragment.text.strip():
            return there or last
        if there is not None and (there is last or there.can_grow):
            return there
        if last is not None and not last.is_complete:
            return last
        if there is None:
            raise unassignable_piece(self._provider)
        return there  # too much text for it makes the call invalid

    @property
    def _last(self) -> StreamedCall | None:
        return self._calls[-1] if self._calls else None

    def _at(self, place: int | None) -> StreamedCall | None:
        """Return the latest call at a place, if there is a place."""
        if place is None:
            return None
        return next((call for call in reversed(self._calls) if call.place == place), None)
