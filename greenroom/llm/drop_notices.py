"""Telling once of each conversation what of it is not sent, since another provider said it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from greenroom.core import Message, ModelRequest, RedactedThinkingBlock, ThinkingBlock, UnknownBlock
from greenroom.llm.conversation import is_private
from greenroom.llm.events import Announcement

_KEPT = 1024  # conversations of which it is remembered that they were told of


class DropNotices:
    """What one provider leaves out of other providers' messages, as `model.dropped`.

    Example:
        >>> thought = Message("assistant", (ThinkingBlock("hm", "sig"),), provider="acme")
        >>> notices, request = DropNotices("other"), ModelRequest(messages=[thought])
        >>> notices.notice(request).text
        'not sent to other: 1 thinking of acme'
        >>> notices.notice(request) is None
        True
    """

    def __init__(self, provider: str) -> None:
        """Begin with no conversation."""
        self._provider = provider
        # How many messages were searched in vain; None where there was something to tell.
        self._searched: dict[str, int | None] = {}

    def notice(self, request: ModelRequest) -> Announcement | None:
        """Return what there is to tell of a request's conversation, if it was not told before."""
        messages = request.messages
        key = request.conversation or (messages[0].id or str(id(messages[0])) if messages else "")
        searched = self._searched.pop(key, 0)
        found: dict[str, Counter[str]] = {}
        if searched is not None:
            has_grown = len(messages) >= searched
            found = self._find_dropped(messages[searched:] if has_grown else messages)
        self._searched[key] = None if found or searched is None else len(messages)
        if len(self._searched) > _KEPT:
            del self._searched[next(iter(self._searched))]
        if not found:
            return None
        words = [
            f"{n} {kind} of {name}" for name, kinds in found.items() for kind, n in kinds.items()
        ]
        counts = {name: dict(kinds) for name, kinds in found.items()}
        data: dict[str, object] = {"provider": self._provider, "from": counts}
        return Announcement(
            "model.dropped", data, f"not sent to {self._provider}: {', '.join(words)}"
        )

    def _find_dropped(self, messages: Sequence[Message]) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        own = {"", self._provider}
        for message in messages:
            if message.provider not in own and (kinds := Counter(_kinds(message))):
                found.setdefault(message.provider, Counter()).update(kinds)
        return found


def _kinds(message: Message) -> Iterable[str]:
    """Name what only the message's own provider understands: thinking, files, unknown kinds, fields."""
    for block in message.content:
        match block:
            case ThinkingBlock() | RedactedThinkingBlock():
                yield "thinking"
            case UnknownBlock(raw):
                yield str(raw.get("type") or "unknown")
            case _ if is_private(block):
                yield "file"
            case _:
                yield from block.extra
