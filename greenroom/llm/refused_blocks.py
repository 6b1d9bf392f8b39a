"""Images and documents that a provider has refused, as they are in the body of a request.

Each request repeats the whole conversation, so one image that a provider refuses, such as a broken
one, would make every later request fail. So a line of text takes its place: at once, in a second
attempt, and in later requests from the start.
"""

import base64
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from greenroom.core._internal import clip, compile_later, serde
from greenroom.llm.json_fields import as_dict, as_list, as_text
from greenroom.llm.model_errors import ModelBadRequestError
from greenroom.llm.stream import Announcement

_BETWEEN = r"(?:[.\[\]'\"()/]|,\s?)+"
_PATH = compile_later(rf"\b(messages|contents|input)({_BETWEEN}\d+(?:{_BETWEEN}\w+)*)")
"""The path of a part of a request, such as `messages.3.content.1` or `messages[3].content[1]`."""

_THE_BLOCK = "the block"

_CONTENTS = ("content", "parts", "output", "functionResponse")
"""The fields of messages and blocks that have blocks."""

_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "document": "document",
    "file": "document",
    "input_file": "document",
}
"""Kinds of blocks by their types; those of Gemini have none, but these fields:"""

_MEDIA = ("inlineData", "fileData")

_MENTION = compile_later(r"\b(image|picture|document|pdf|file)s?\b", re.IGNORECASE)
_IMAGES = {"image", "picture"}
_SIGHTLESS = compile_later(
    r"support.{0,30}\bimage inputs?|\bmulti-?modal|\bvision\b|\btext[- ]only", re.IGNORECASE
)

_OTHER_NAMES = {"function_response": "functionResponse"}
_MOST = 32
_MOST_BYTES = 32 * 1024 * 1024
_REASON = 200  # characters


class Refusal(msgspec.Struct, frozen=True):
    """A request without the blocks that its provider has refused.

    Attributes:
        content: the body, with a line of text for each of the blocks.
        lines: the beginnings of the blocks as bytes, and of what replaces them.
        announcement: the warning for readers.
    """

    content: bytes
    lines: dict[bytes, bytes]
    announcement: Announcement


class RefusedBlocks:
    """The blocks that one provider has refused; the oldest are forgotten.

    Example:
        >>> image = {"type": "image", "source": {"data": "aGk="}}
        >>> body = serde.dumps({"messages": [{"role": "user", "content": [image]}]})
        >>> refused = RefusedBlocks("acme")
        >>> error = ModelBadRequestError("messages.0.content.0.image: broken", status=400)
        >>> refused.remember(refused.find(body, error))
        >>> refused.replace(body)[-57:]
        b'"[This image was left out: acme refused it: broken]"}]}]}'
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._lines: OrderedDict[bytes, bytes] = OrderedDict()

    def replace(self, content: bytes) -> bytes:
        """Return the body of a request without the blocks that were refused before."""
        return _replace(content, self._lines.items())

    def find(self, content: bytes, error: ModelBadRequestError) -> Refusal | None:
        """Return the request without the blocks that an error is about, or None if it names none.

        They are the image or document that the error names by its path; those in the message that
        it names; without a path, those of the last message that has any, if the error mentions them
        at all; or all of them, if the model reads none.
        """
        if error.status not in {400, 422}:
            return None
        blocks = _find_blocks(as_dict(serde.loads(content)), error)
        said = error.message.removeprefix(f"{self._provider} answered {error.status}: ")
        reason = f"{self._provider} refused it: {clip(_describe(said), _REASON)}"
        lines = dict(_write_line(block, reason) for block in blocks)
        left = _replace(content, lines.items())
        if left == content:
            return None
        counts = Counter(map(_find_kind, blocks))
        what = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        data: dict[str, object] = {"provider": self._provider, "left_out": dict(counts)}
        return Refusal(left, lines, Announcement("model.left_out", data, f"{what}: {reason}"))

    def remember(self, refusal: Refusal) -> None:
        """Leave these blocks out of later requests too."""
        self._lines |= refusal.lines
        while len(self._lines) > _MOST or sum(map(len, self._lines)) > _MOST_BYTES:
            self._lines.popitem(last=False)


def _describe(said: str) -> str:
    """Return what an error says without the path, which is only true of this request."""
    text = _PATH.sub(_THE_BLOCK, said).replace("image_url", "image")
    return text.removeprefix(f"{_THE_BLOCK}: ")


def _write_line(block: dict[str, object], reason: str) -> tuple[bytes, bytes]:
    """Return the beginning of a block, and of the line of text in its place, as bytes.

    Without the brace at its end, the block is found with and without a mark for the cache.
    """
    line = f"[This {_find_kind(block)} was left out: {reason}]"
    kind = as_text(block.get("type"))
    text: dict[str, object] = {
        "type": "input_text" if kind.startswith("input_") else "text",
        "text": line,
    }
    if not kind:  # Gemini takes no text among the media of a result, but a document
        data = base64.b64encode(line.encode()).decode()
        text = {"inlineData": {"mimeType": "text/plain", "data": data}}
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return serde.dumps(bare)[:-1], serde.dumps(text)[:-1]


def _replace(content: bytes, lines: Iterable[tuple[bytes, bytes]]) -> bytes:
    for block, line in lines:
        content = content.replace(block, line)
    return content


def _find_blocks(body: dict[str, object], error: ModelBadRequestError) -> list[dict[str, object]]:
    mentioned = {name.lower() for name in _MENTION.findall(error.message)}
    paths = _PATH.findall(f"{error.param} {error.message}")
    lists = (as_list(body.get(root)) for root in ("messages", "contents", "input"))
    each = [list(_media_in(message)) for message in next(filter(None, lists), [])]
    if paths:
        named = (list(_media_at(body.get(root), re.findall(r"\w+", path))) for root, path in paths)
        found = next(filter(None, named), [])
    elif _SIGHTLESS.search(error.message):
        found = [block for blocks in each for block in blocks]
    elif mentioned:
        found = next(filter(None, reversed(each)), [])
    else:
        return []
    images = [block for block in found if _find_kind(block) == "image"]
    return images if images and mentioned and mentioned <= _IMAGES else found


def _media_at(node: object, path: list[str]) -> Iterator[dict[str, object]]:
    """Yield the block that a path leads to or into, or all below its end.

    A path may also have kinds of blocks in it, as in `content.1.tool_result.content.0`.
    """
    for step in (_OTHER_NAMES.get(each, each) for each in path):
        if isinstance(node, list) and step.isdecimal():
            node = node[int(step)] if int(step) < len(node) else None
        elif step in _CONTENTS and not _find_kind(node):
            node = as_dict(node).get(step)
    yield from _media_in(node)


def _media_in(node: object) -> Iterator[dict[str, object]]:
    """Yield the media in a message or a block; the input of a call may only look like one."""
    if _find_kind(node):
        yield as_dict(node)
    elif isinstance(node, list):
        for each in node:
            yield from _media_in(each)
    else:
        for name in _CONTENTS:
            yield from _media_in(as_dict(node).get(name) or [])


def _find_kind(node: object) -> str:
    """Return the kind of an image or a document; empty for anything else."""
    fields = as_dict(node)
    media = next((as_dict(fields[name]) for name in _MEDIA if name in fields), None)
    if media is not None:
        return "image" if as_text(media.get("mimeType")).startswith("image/") else "document"
    return _KINDS.get(as_text(fields.get("type")), "")
