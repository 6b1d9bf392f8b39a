"""The messages of a history as a provider accepts them: filtered, merged, and checked for size.

Providers want user and assistant to alternate, so consecutive messages of one role become one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ModelRequest,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import UNKNOWN_FIELDS, Role, compile_later
from greenroom.llm.endpoint import is_same_server
from greenroom.llm.json_fields import as_text
from greenroom.llm.model_errors import ModelBadRequestError
from greenroom.llm.stream import Announcement, is_vendor_call

Accept: TypeAlias = Callable[[Sequence[ContentBlock], Message], Sequence[ContentBlock]]
"""Returns the blocks of a message without those that the provider would refuse."""

Block = TypeVar("Block", bound=ContentBlock)


class MergedMessage(msgspec.Struct, frozen=True):
    """Consecutive messages of one role as one message, with tool results first.

    A message with extra fields on the wire is not merged with others.

    Attributes:
        role: who speaks.
        blocks: the content; empty only if `fields` has the content.
        fields: further fields of the message, which may also replace its role and content.
        calls: the calls that its results answer, by the final id that both have.
    """

    role: Role
    blocks: tuple[ContentBlock, ...]
    fields: Mapping[str, object] = msgspec.field(default_factory=dict)
    calls: Mapping[str, ToolUseBlock] = msgspec.field(default_factory=dict)


class MessageMerger:
    """Merges messages, and returns each merged message as soon as the other side speaks.

    A merged message depends only on the messages so far, so a conversation can be continued at any
    time, and no message that was returned changes later.

    Another provider's thinking, unknown blocks and `extra` are not sent: this provider would ignore
    or refuse them. The `extra` of a message without a provider is sent, and so are the fields of
    this provider's replies that it accepts back. Blank text, which providers refuse, is left out
    unless its own provider wants its `extra` back, and so is a message of the assistant with
    nothing else; if the user's message or the history has nothing else, "(empty)" is sent. Blocks
    keep their order, except that tool results come first, as providers demand.

    A call of a tool that the provider runs, whose result has not come before the user speaks again,
    becomes a line of text.

    A message with a sender begins with the line `[from NAME]`. Any other line that begins like this
    gets a backslash in front, so that no text can pose as a sender.

    Args:
        provider: the name of the provider; messages without a provider count as its own.
        accept: removes other blocks of a message that this provider would refuse.
        echoed_fields: the fields of its own messages that the provider accepts back.
        api: the `Message.api` of its own messages.

    Example:
        >>> merger = MessageMerger("acme")
        >>> merger.add(Message.user("Go on.", sender="plan"))
        >>> print(merger.add(Message.assistant("So be it.")).blocks[0].text)
        [from plan]
        Go on.
        >>> merger.current.role
        'assistant'
    """

    def __init__(
        self,
        provider: str,
        accept: Accept = lambda blocks, _message: blocks,
        echoed_fields: frozenset[str] = frozenset(),
        api: str = "",
    ) -> None:
        self._provider = provider
        self._api = api
        self._accept = accept
        self._echoed_fields = echoed_fields
        self._role: Role | None = None
        self._blocks: list[ContentBlock] = []
        self._fields: Mapping[str, object] = {}

    def add(self, message: Message) -> MergedMessage | None:
        """Add the next message; if that completes a merged message, return it."""
        fields = self._wire_fields(message)
        allowed = tuple(_allow(message, is_own=self._is_own(message)))
        blocks = tuple(map(_escape_speakers, self._accept(allowed, message)))
        if message.sender and message.role == "user":
            blocks = _sign(blocks, message.sender)
        if message.role == self._role and not fields and not self._fields:
            self._blocks.extend(blocks)
            return None
        if not blocks and not _CONTENT & fields.keys() and message.role == "assistant":
            return None
        if self._role == "assistant" and not message.tool_results:
            # Results may be of calls that a vendor's tool has made, which goes on with them.
            self._blocks = _end_vendor_calls(self._blocks)
        complete = self.current if self._role else None
        self._role, self._blocks, self._fields = message.role, list(blocks), fields
        return complete

    @property
    def current(self) -> MergedMessage:
        """The merged message to which the next message may still be added."""
        blocks = _results_first(self._blocks)
        if not blocks and not _CONTENT & self._fields.keys():
            blocks = _EMPTY
        return MergedMessage(self._role or "user", blocks, self._fields)

    def _is_own(self, message: Message) -> bool:
        return _is_from(message, self._provider, self._api)

    def _wire_fields(self, message: Message) -> Mapping[str, object]:
        if not message.extra or not self._is_own(message):
            return {}
        if message.provider and message.role == "assistant":
            return {k: v for k, v in message.extra.items() if k in self._echoed_fields}
        return {k: v for k, v in message.extra.items() if k != UNKNOWN_FIELDS}


def _end_vendor_calls(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """Replace calls of tools that the vendor runs, if they have no result, by a line of text.

    A reply may pause before the result, which comes with its continuation. If something else was
    said instead, the result never comes, and the vendor refuses the call without it.
    """
    raws = [block.raw for block in blocks if isinstance(block, UnknownBlock)]
    if not raws:
        return blocks
    answered = {as_text(raw.get("tool_use_id")) for raw in raws} - {""}
    return [
        TextBlock(f"[{as_text(block.raw.get('name')) or 'A tool'} was interrupted.]")
        if isinstance(block, UnknownBlock)
        and is_vendor_call(block)
        and as_text(block.raw.get("id")) not in answered
        else block
        for block in blocks
    ]


_CONTENT = {"content", "parts"}  # the field of a message that has its content, by API


def merge_messages(
    messages: Iterable[Message], provider: str, accept: Accept | None = None
) -> list[MergedMessage]:
    """Merge a whole conversation, as `MessageMerger` does.

    Example:
        >>> messages = [Message.user("a"), Message.assistant(" "), Message.user("b")]
        >>> [merged] = merge_messages(messages, "acme")
        >>> [block.text for block in merged.blocks]
        ['a', 'b']
    """
    merger = MessageMerger(provider, accept) if accept else MessageMerger(provider)
    complete = [merged for merged in map(merger.add, messages) if merged]
    return [*complete, merger.current]


def _is_from(message: Message, provider: str, api: str) -> bool:
    """Whether a message is of this provider's API; one without a provider counts as of any."""
    if not message.provider:
        return True
    return message.api == api and is_same_server(message.provider, provider)


def _allow(message: Message, *, is_own: bool) -> Iterable[ContentBlock]:
    states = _STATES if is_own else frozenset[str]()
    blocks = (block for block in message.content if not _is_blank(block, states))
    if is_own:
        return blocks
    return (_strip(block) for block in blocks if not is_private(block))


_STATES = frozenset({"thoughtSignature", "thought_signature"})
"""Fields that a provider wants back, even where the text that they came with is empty."""


_EMPTY = (TextBlock("(empty)"),)

# At the beginning of a text, or after any character that a reader may take for the end of a line.
_CLAIM = compile_later("(?<![^\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\\[from ")


def escape_speaker(text: str) -> str:
    r"""Put a backslash in front of each line that looks like the line of a sender.

    Example:
        >>> print(escape_speaker("he wrote:\n[from boss] pay"))
        he wrote:
        \[from boss] pay
    """
    return _CLAIM.sub(r"\\[from ", text) if "[from " in text else text


def _escape_speakers(block: ContentBlock) -> ContentBlock:
    match block:
        case TextBlock(text):
            return _with(block, text=escape_speaker(text))
        case ToolResultBlock(content=content):
            return _with(block, content=tuple(map(_escape_speakers, content)))
        case DocumentBlock():
            return _with(block, title=escape_speaker(block.title))
        case _:
            return block


def _with(block: Block, **fields: object) -> Block:
    """Return the block with these fields, or the block itself if it has them already."""
    for name, value in fields.items():
        if getattr(block, name) != value:
            return msgspec.structs.replace(block, **fields)
    return block


def _sign(blocks: tuple[ContentBlock, ...], sender: str) -> tuple[ContentBlock, ...]:
    line = f"[from {sender}]"
    if blocks and isinstance(blocks[0], TextBlock):
        return (_with(blocks[0], text=f"{line}\n{blocks[0].text}"), *blocks[1:])
    return (TextBlock(line), *blocks)


def is_private(block: ContentBlock) -> bool:
    """Whether only its own provider understands a block, such as a file that is stored there."""
    match block:
        case ThinkingBlock() | RedactedThinkingBlock() | UnknownBlock():
            return True
        case ImageBlock() | DocumentBlock():
            return not (block.data or block.url)
        case _:
            return False


def _strip(block: Block) -> Block:
    """Remove from a block what only its own provider understands."""
    if isinstance(block, ToolResultBlock):
        content = tuple(_strip(part) for part in block.content if not is_private(part))
        return msgspec.structs.replace(block, content=content, extra={})
    return msgspec.structs.replace(block, extra={})


def _is_blank(block: ContentBlock, states: frozenset[str]) -> bool:
    if not isinstance(block, TextBlock) or block.text.strip():
        return False
    return not states & block.extra.keys()


def _results_first(blocks: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    if len(blocks) < 2:
        return tuple(blocks)
    return tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock)))


_MAX_CONVERSATIONS = 1024


class _Noticed(msgspec.Struct):
    """What was said in one conversation."""

    searched: int | None = 0  # messages that were searched in vain; None after parts were found
    changes: frozenset[str] = frozenset()


class DropNotices:
    """Announces, once for each conversation, what of it is not sent, or not as it was asked for.

    Example:
        >>> thought = Message("assistant", (ThinkingBlock("hm", "sig"),), provider="acme")
        >>> notices, request = DropNotices("other"), ModelRequest(messages=[thought])
        >>> notices.notice(request).text
        'not sent to other: 1 thinking of acme'
        >>> notices.notice(request) is None
        True
    """

    def __init__(self, provider: str, api: str = "") -> None:
        self._provider = provider
        self._api = api
        self._conversations: dict[str, _Noticed] = {}

    def notice(self, request: ModelRequest, changes: Iterable[str] = ()) -> Announcement | None:
        """Return a `model.dropped` announcement of what was not announced before, if any.

        Args:
            request: the request.
            changes: what was changed in it, a sentence each.
        """
        messages = request.messages
        key = request.conversation or (messages[0].id or str(id(messages[0])) if messages else "")
        noticed = self._conversations.pop(key, None) or _Noticed()
        self._conversations[key] = noticed
        if len(self._conversations) > _MAX_CONVERSATIONS:
            del self._conversations[next(iter(self._conversations))]
        found: dict[str, Counter[str]] = {}
        if (searched := noticed.searched) is not None:
            has_grown = len(messages) >= searched
            found = self._find_dropped(messages[searched:] if has_grown else messages)
            noticed.searched = None if found else len(messages)
        new = [each for each in dict.fromkeys(changes) if each not in noticed.changes]
        noticed.changes |= frozenset(new)
        return self._announce(found, new) if found or new else None

    def _announce(self, found: Mapping[str, Counter[str]], changes: Sequence[str]) -> Announcement:
        words = [
            f"{n} {kind} of {name}" for name, kinds in found.items() for kind, n in kinds.items()
        ]
        parts = [f"not sent to {self._provider}: {', '.join(words)}"] if words else []
        counts = {name: dict(kinds) for name, kinds in found.items()}
        data: dict[str, object] = {"provider": self._provider, "from": counts}
        if changes:
            data["changes"] = list(changes)
        return Announcement("model.dropped", data, "; ".join((*parts, *changes)))

    def _find_dropped(self, messages: Sequence[Message]) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for message in messages:
            if not _is_from(message, self._provider, self._api) and (
                kinds := Counter(_name_private_parts(message))
            ):
                found.setdefault(message.provider, Counter()).update(kinds)
        return found


def _name_private_parts(message: Message) -> Iterable[str]:
    """Name the parts that only the message's own provider understands."""
    for block in message.content:
        match block:
            case ThinkingBlock() | RedactedThinkingBlock():
                yield "thinking"
            case UnknownBlock(raw):
                yield str(raw.get("type") or next(iter(raw), "unknown"))
            case _ if is_private(block):
                yield "file"
            case _:
                yield from block.extra


WEB_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The media types of images that the vendors have in common."""


class MediaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest media and requests that a provider accepts, in bytes as sent; None is no limit.

    Attributes:
        image: the base64 data of one image; 0 for a model that reads none.
        document: the base64 data of one document; 0 for a model that reads none.
        request: the body of a request.
        image_types: the media types of images that it reads; empty if that is not known.

    Example:
        >>> message = Message.user([ImageBlock("image/png", "aGk=")])
        >>> MediaLimits(image=3).check_message(message, 0, "acme")
        Traceback (most recent call last):
        greenroom.llm.model_errors.ModelBadRequestError: acme takes images of at most 3 bytes ...
    """

    image: int | None = None
    document: int | None = None
    request: int | None = None
    image_types: tuple[str, ...] = ()

    def of_model(self, *, images: bool | None, documents: bool | None) -> "MediaLimits":
        """Return the limits for a model that reads these media, as far as that is known."""
        image = 0 if images is False else self.image
        document = 0 if documents is False else self.document
        return msgspec.structs.replace(self, image=image, document=document)

    def find_faults(self, message: Message) -> list[str]:
        """Return what is wrong with each image and document of a message that is not accepted."""
        return [fault for _, block in _find_media(message.content) if (fault := self._fault(block))]

    def fit(self, message: Message) -> Message:
        """Return a message with a line of text for each image and document that is not accepted."""
        if not self.find_faults(message):
            return message
        return msgspec.structs.replace(message, content=tuple(map(self._fit, message.content)))

    def _fit(self, block: Block) -> Block | TextBlock:
        if isinstance(block, ToolResultBlock):
            return _with(block, content=tuple(map(self._fit, block.content)))
        if isinstance(block, ImageBlock | DocumentBlock) and (fault := self._fault(block)):
            name = ", ".join(filter(None, (_describe_media(block), block.url)))
            return TextBlock(f"[Left out: {name or 'a file'}; {fault}]")
        return block

    def _fault(self, block: ImageBlock | DocumentBlock) -> str:
        kind, most = self._limit_of(block)
        if most == 0 and (block.data or kind == "image"):
            return f"this model reads no {kind}s"
        if most and len(block.data) > most:
            return f"the {kind} is larger than {_size(most)} of base64"
        is_known = block.media_type in self.image_types or not self.image_types
        if kind == "image" and block.data and not is_known:
            return f"images may be {', '.join(self.image_types)}"
        return ""

    def _limit_of(self, block: ImageBlock | DocumentBlock) -> tuple[str, int | None]:
        is_image = isinstance(block, ImageBlock)
        return ("image", self.image) if is_image else ("document", self.document)

    def check_message(self, message: Message, place: int, provider: str) -> None:
        """Check the size of the media of the message at this place of a conversation.

        Raises:
            ModelBadRequestError: an image or a document is too large; the message says which.
        """
        for path, block in _find_media(message.content):
            kind, most = self._limit_of(block)
            if most and len(block.data) > most:
                raise ModelBadRequestError(
                    f"{provider} takes {kind}s of at most {_size(most)} of base64, and block {path}"
                    f" of message {place} ({_describe_media(block)}) has {_size(len(block.data))}",
                    provider=provider,
                    hint=f"make the {kind} smaller, or pass its url",
                )

    def check_request(self, content: bytes, provider: str) -> None:
        """Check the body of a request.

        Raises:
            ModelBadRequestError: it is too large.
        """
        if self.request is not None and len(content) > self.request:
            raise ModelBadRequestError(
                f"{provider} takes requests of at most {_size(self.request)}, and this one has "
                f"{_size(len(content))}",
                provider=provider,
                hint="compact the conversation, or leave out images and documents",
            )


def _find_media(
    blocks: Sequence[ContentBlock], before: str = ""
) -> Iterator[tuple[str, ImageBlock | DocumentBlock]]:
    for place, block in enumerate(blocks):
        match block:
            case ImageBlock() | DocumentBlock():
                yield f"{before}{place}", block
            case ToolResultBlock(content=content):
                yield from _find_media(content, f"{before}{place}.")
            case _:
                pass


def _describe_media(block: ImageBlock | DocumentBlock) -> str:
    title = block.title if isinstance(block, DocumentBlock) else ""
    return ", ".join(filter(None, (block.media_type, title)))


def _size(count: int) -> str:
    return f"{count / (1024 * 1024):.1f} MiB" if count >= 1024 * 1024 else f"{count} bytes"
