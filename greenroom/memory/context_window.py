"""A model's window: how it is divided, and which messages fit into it.

Messages that belong together, a call and its result, are kept or left out together.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from greenroom.core import (
    ConfigurationError,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import (
    HOOK,
    RECALLED,
    RUNTIME,
    SUMMARY,
    ResultContent,
    clip,
    serde,
)
from greenroom.llm import TokenCounter
from greenroom.memory.importance import choose, rate_all

MIN_ROOM = 64
"""The fewest tokens that a conversation can be reduced to."""


USUAL_REPLY = 4_096
"""Tokens that are left for a reply."""


class ContextBudget(msgspec.Struct, frozen=True):
    """How many tokens a request may have, and how they are shared among kinds of messages.

    The `room` for messages is what the reply and the overhead leave of the window. An unused share
    goes to the other messages.

    Attributes:
        window: the tokens that the model takes, request and reply together.
        reply: the tokens that are left for the reply.
        overhead: the tokens of the system prompt and the tools; if it is 0, a `Compactor` counts
            them.
        recent: the share of the newest messages.
        summary: the share of the summary of earlier messages.
        recalled: the share of recalled memories; in a summary, that of the user's own words.

    Raises:
        ConfigurationError: fewer than 64 tokens are left for messages, or the shares are negative
            or add up to more than 1.

    Example:
        >>> ContextBudget(8_000, reply=1_024).room
        6976
    """

    window: int
    reply: int = USUAL_REPLY
    overhead: int = 0
    recent: float = 0.5
    summary: float = 0.3
    recalled: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.recent, self.summary, self.recalled)
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise ConfigurationError(
                f"the shares {shares} add up to more than 1, or one is negative",
                hint="give three numbers that add up to 1",
            )
        if self.reply < 0 or self.overhead < 0 or self.room < MIN_ROOM:
            raise ConfigurationError(
                f"a window of {self.window} tokens with {self.reply} for the reply and"
                f" {self.overhead} for prompt and tools leaves {self.room} for messages",
                hint=f"leave {MIN_ROOM} or more: use a smaller reply, fewer tools or another model",
            )

    @property
    def room(self) -> int:
        """The tokens that are left for messages."""
        return self.window - self.reply - self.overhead


def is_from_person(message: Message) -> bool:
    """Whether a person wrote it, and not a program, an agent or the runtime.

    Example:
        >>> is_from_person(Message.user("I'm vegetarian."))
        True
        >>> is_from_person(Message.user("Run the tests.", sender="plan"))
        False
    """
    return message.role == "user" and not message.sender and not message.tool_results


def is_repeated(message: Message) -> bool:
    """Whether it repeats earlier messages: a summary or recalled memories."""
    return message.sender in (SUMMARY, RECALLED)


def begins_turn(message: Message) -> bool:
    """Whether a turn begins with this message.

    Example:
        >>> begins_turn(Message.user("Go on.", sender="plan"))
        True
        >>> begins_turn(Message.user("It is Monday.", sender="hook"))
        False
    """
    is_told = is_repeated(message) or message.sender == HOOK
    return message.role == "user" and not message.tool_results and not is_told


Unit: TypeAlias = tuple[Message, ...]
"""Messages that belong together: an input, or a reply with the results of its calls."""

_LEFT_OUT = Message("user", (TextBlock("[Earlier messages are left out.]"),), sender=SUMMARY)
_MEDIA = 4_000  # characters that an image or a document counts as


def fit(
    messages: Sequence[Message], budget: ContextBudget, counter: TokenCounter
) -> tuple[Message, ...]:
    """Return the messages that fit into the room of a budget: all, or the most important ones.

    The summary, recalled memories and the newest messages get their shares of the room. The rest is
    for earlier messages: first what a person said, beginning with the task, then answers, and then
    calls with their results; of equal ones the newest. A call is never separated from its result.
    If the newest message or the summary is too long on its own, it is cut in the middle, with a
    note. The result never takes more than `budget.room` tokens.

    Args:
        messages: a conversation, oldest first.
        budget: what there is room for.
        counter: counts tokens.

    Returns:
        The chosen messages in their order; all of them if they fit.

    Example:
        >>> from greenroom.llm import EstimatedCounter
        >>> said = [Message.user(f"{number} " + "word " * 100) for number in range(9)]
        >>> kept = fit(said, ContextBudget(400, reply=100), EstimatedCounter())
        >>> [message.text[0] for message in kept]
        ['0', '8']
    """
    if not messages or counter.count(messages) <= budget.room:
        return tuple(messages)
    units = units_of(messages)
    chosen = _choose(units, budget, counter)
    while True:
        kept = _join(chosen, units)
        over = counter.count(kept) - budget.room
        if over <= 0:
            return kept
        if len(chosen) == 1:  # only the newest is left: cut it to what fits beside the note
            (index, last) = chosen[0]
            room = budget.room - counter.count((_LEFT_OUT,))
            return _join([(index, shorten(last, room, counter))], units)
        while over > 0 and len(chosen) > 1:  # each count is rounded down, so the sum may be too low
            over -= max(counter.count(chosen.pop(_find_least(chosen))[1]), 1)


def _find_least(chosen: Sequence[tuple[int, Unit]]) -> int:
    """Return the place of the least important unit, the oldest of several, but not the newest."""
    units = [unit for _, unit in chosen]
    newest = max((i for i, (first, *_) in enumerate(units) if not is_repeated(first)), default=-1)
    ratings = rate_all(units)
    places = (place for place in range(len(units)) if place != newest % len(units))
    return min(places, key=lambda place: ratings[place])


def fit_newest(
    messages: Sequence[Message], room: int, counter: TokenCounter
) -> tuple[Message, ...]:
    """Return the newest messages that fit as they are, and never part a call from its result.

    Unlike `fit`, it cuts no message, so that it works for however few tokens.
    """
    units = units_of(messages)
    for kept in range(count_newest(units, room, counter), 0, -1):
        first = len(units) - kept
        joined = _join(list(enumerate(units))[first:], units)
        if counter.count(joined) <= room:  # with the note; each count is rounded down
            return joined
    return ()


def units_of(messages: Iterable[Message]) -> list[Unit]:
    """Split a conversation into units that must stay together."""
    units: list[list[Message]] = []
    waiting: set[str] = set()
    for message in messages:
        if not units or not (waiting or message.tool_results or _goes_on(units[-1][-1], message)):
            units.append([])
        units[-1].append(message)
        waiting |= {call.id for call in message.tool_uses}
        waiting -= {result.tool_use_id for result in message.tool_results}
    return [tuple(unit) for unit in units]


def _goes_on(before: Message, message: Message) -> bool:
    """Whether a reply continues the one before, which has calls or has paused before a result."""
    if not before.role == "assistant" == message.role:
        return False
    return bool(before.tool_uses) or before.stop_reason is StopReason.PAUSE


def count_newest(units: Sequence[Unit], room: float, counter: TokenCounter) -> int:
    """Return how many of the last units fit into that many tokens."""
    return count_fitting((counter.count(unit) for unit in reversed(units)), room)


def count_fitting(costs: Iterable[int], room: float) -> int:
    """Return how many of the first costs add up to no more than the room."""
    return sum(1 for _ in takewhile(lambda total: total <= room, accumulate(costs)))


def _choose(
    units: Sequence[Unit], budget: ContextBudget, counter: TokenCounter
) -> list[tuple[int, Unit]]:
    """Choose units by their shares; cut the newest one or the summary if it is too long."""
    room = budget.room

    def cut(index: int, most: float) -> tuple[int, Unit]:
        is_short = counter.count(units[index]) <= most
        return index, units[index] if is_short else shorten(units[index], int(most), counter)

    last = max((i for i, (first, *_) in enumerate(units) if not is_repeated(first)), default=-1)
    last = last % len(units)
    senders = [unit[0].sender if i != last else "" for i, unit in enumerate(units)]
    summaries = [i for i, sender in enumerate(senders) if sender == SUMMARY][-1:]
    recalled = [i for i, sender in enumerate(senders) if sender == RECALLED]
    chosen = [cut(index, budget.summary * room) for index in summaries]
    kept = count_newest([units[i] for i in recalled], budget.recalled * room, counter)
    chosen += [(i, units[i]) for i in recalled[len(recalled) - kept :]]
    room -= sum(counter.count(unit) for _, unit in chosen)
    special = {*summaries, *recalled}
    others = [i for i in range(last + 1) if i not in special]  # only an old summary can come later
    costs = [counter.count(units[i]) for i in others]
    kept = count_fitting(reversed(costs), max(min(room, budget.recent * budget.room), costs[-1]))
    if costs[-1] > room:
        return sorted([*chosen, cut(others[-1], room)])
    first = len(others) - kept
    ratings = rate_all([units[i] for i in others])
    older = choose(ratings[:first], costs[:first], room - sum(costs[first:]))
    return sorted(chosen + [(i, units[i]) for i in [*(others[j] for j in older), *others[first:]]])


def _join(chosen: Sequence[tuple[int, Unit]], units: Sequence[Unit]) -> tuple[Message, ...]:
    """Join units; a conversation that would begin with a reply gets a note first."""
    kept = tuple(message for _, unit in chosen for message in unit)
    is_cut = len(chosen) < len(units) and kept[0].role == "assistant"
    return (_LEFT_OUT, *kept) if is_cut else kept


def shorten(unit: Unit, room: int, counter: TokenCounter) -> Unit:
    """Cut the texts of messages in their middle, each to the same length, until they fit.

    Calls keep their results. If even the shortest version is too long, a note replaces everything.
    """
    low, high, found = 0, max(map(_longest, unit)), None
    while low <= high:
        limit = (low + high) // 2
        tried = _shorten_unit(unit, limit)
        if counter.count(tried) <= room:
            found, low = tried, limit + 1
        else:
            high = limit - 1
    note = f"[{len(unit)} messages are left out: they are too long.]"
    return (Message.user(note, sender=RUNTIME),) if found is None else found


def _longest(message: Message) -> int:
    return max((len(serde.encode(block)) for block in message.content), default=0)


_PRIVATE = (ThinkingBlock, RedactedThinkingBlock, UnknownBlock)
"""Blocks that only their provider understands. They can't be cut, and may refer to each other."""


def _shorten_unit(unit: Unit, limit: int) -> Unit:
    """Cut the texts of messages to a length, and leave out all private blocks if one is longer.

    A provider refuses a part of them: a search without its result, or thinking without the rest.
    """
    private = (block for message in unit for block in message.content if _is_private(block))
    if any(len(serde.encode(block)) > limit for block in private):
        unit = tuple(map(_without_private, unit))
    return tuple(_shorten_message(message, limit) for message in unit)


def _is_private(block: ContentBlock) -> bool:
    return isinstance(block, _PRIVATE)


def _without_private(message: Message) -> Message:
    """Leave out the private blocks of a message, and what its texts say about them."""
    if not any(map(_is_private, message.content)):
        return message
    blocks = (
        TextBlock(block.text) if isinstance(block, TextBlock) else block
        for block in message.content
        if not _is_private(block)
    )
    return replace(message, content=tuple(blocks))


def _shorten_message(message: Message, limit: int) -> Message:
    blocks = tuple(_shorten_block(block, limit) for block in message.content)
    return replace(message, content=blocks or (TextBlock("[left out]"),))


def _shorten_block(block: ContentBlock, limit: int) -> ContentBlock:
    match block:
        case ThinkingBlock() | RedactedThinkingBlock() | UnknownBlock():
            return block
        case ToolResultBlock(content=content):
            return replace(block, content=tuple(_shorten_content(each, limit) for each in content))
        case ToolUseBlock(input=given, raw_input=raw):
            words = _map_texts(given, lambda text: _clip(text, limit))
            if len(serde.encode(words)) > 4 * limit + 100:
                words = {"left_out": f"{len(serde.encode(given))} characters"}
            return replace(block, input=words, raw_input=_clip(raw, limit))
        case _:
            return _shorten_content(block, limit)


def _shorten_content(block: ResultContent, limit: int) -> ResultContent:
    match block:
        case TextBlock(text):
            return block if len(text) <= limit else TextBlock(_clip(text, limit))
        case ImageBlock() | DocumentBlock() if limit < _MEDIA:
            kind = "image" if isinstance(block, ImageBlock) else "document"
            return TextBlock(f"[This {kind} is left out.]")
        case UnknownBlock() if len(serde.encode(block)) > limit:
            return TextBlock("[This is left out.]")
        case _:
            return block


def _clip(text: str, limit: int) -> str:
    """Cut a text in the middle, unless that makes it no shorter."""
    cut = clip(text, limit)
    return cut if len(cut) < len(text) else text


def _map_texts(given: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    """Change each text in a call's input, at whatever depth."""

    def walk(value: object) -> object:
        match value:
            case str():
                return change(value)
            case dict():
                return {key: walk(each) for key, each in value.items()}
            case list():
                return [walk(each) for each in value]
            case _:
                return value

    return {key: walk(value) for key, value in given.items()}
