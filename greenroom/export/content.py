"""A conversation as readers see it: who said what, each call with its result, facts in words."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    StopReason,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import clip, serde, visible
from greenroom.session import SessionMetadata
from greenroom.session._internal import FORKED_FROM, is_stand_in

IMPORTED_FROM = "imported_from"
"""The key of an import's origin among the values in `metadata`."""


class SessionContent(msgspec.Struct, frozen=True):
    """A conversation, apart from any store.

    Attributes:
        metadata: its description.
        messages: its messages, in order.
        subagents: the sessions that it started, as far as they were found.
    """

    metadata: SessionMetadata
    messages: tuple[Message, ...]
    subagents: tuple["SessionContent", ...] = ()

    @property
    def title(self) -> str:
        """What it is called in lists, else its id."""
        title = self.metadata.metadata.get("title")
        words = " ".join(title.split()) if isinstance(title, str) else ""
        return words or self.metadata.session_id

    @property
    def missing_subagents(self) -> tuple[str, ...]:
        """The ids of sessions that it started but that are not among its subagents."""
        found = {each.metadata.session_id for each in self.subagents}
        return tuple(id_ for id_ in self.metadata.child_session_ids if id_ not in found)

    @property
    def origin(self) -> tuple[str, str]:
        """The session that it was forked or imported from, and which of both; empty for neither."""
        for key, word in ((IMPORTED_FROM, "imported"), (FORKED_FROM, "forked")):
            origin = self.metadata.metadata.get(key)
            if isinstance(origin, dict) and isinstance(origin.get("session_id"), str):
                return origin["session_id"], word
        return "", ""


CallStatus: TypeAlias = Literal["done", "failed", "interrupted", "open"]
"""How a call went; an open one has no result."""

STATUS_WORDS: dict[CallStatus, str] = {
    "done": "",
    "failed": "failed",
    "interrupted": "interrupted",
    "open": "no result",
}


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call with its result, if it has one."""

    use: ToolUseBlock
    result: ToolResultBlock | None

    @property
    def status(self) -> CallStatus:
        """How it went."""
        if self.result is None:
            return "open"
        if is_stand_in(self.result):
            return "interrupted"
        return "failed" if self.result.is_error else "done"


class Utterance(msgspec.Struct, frozen=True):
    """A message as a page shows it.

    Attributes:
        number: the position of the message in the history, from 1.
        message: the message.
        blocks: its blocks. A call has its result with it, and the result's own block is left out.
        speaker: the name of its sender, the agent's type, or "User".
        is_new_speaker: whether the message before it was another speaker's.
    """

    number: int
    message: Message
    blocks: tuple[ContentBlock | ToolCall, ...]
    speaker: str
    is_new_speaker: bool


def list_utterances(content: SessionContent) -> Iterator[Utterance]:
    """Go through a conversation; a message with nothing but results of calls is skipped."""
    messages, last = content.messages, ("", "")
    paired: list[ToolResultBlock] = []
    for number, message in enumerate(messages, start=1):
        is_reply = message.role == "assistant"
        blocks: tuple[ContentBlock | ToolCall, ...]
        if is_reply:
            calls = dict(_pair_calls(message, messages, number))
            paired = [call.result for call in calls.values() if call.result is not None]
            blocks = tuple(calls.get(at, block) for at, block in enumerate(message.content))
        else:
            # By identity: two results may be equal, and one of them may belong to no call.
            blocks = tuple(b for b in message.content if not any(b is each for each in paired))
        if blocks or is_reply:
            name = message.sender or (content.metadata.agent_type if is_reply else "User")
            yield Utterance(number, message, blocks, name, (message.role, name) != last)
            last = message.role, name


def _pair_calls(
    message: Message, messages: Sequence[Message], number: int
) -> Iterator[tuple[int, ToolCall]]:
    """Pair each call of a reply, by its place, with the first unpaired result of its id."""
    results = _results_after(messages, number)
    for at, block in enumerate(message.content):
        if isinstance(block, ToolUseBlock):
            result = next((each for each in results if each.tool_use_id == block.id), None)
            if result is not None:
                results = [each for each in results if each is not result]
            yield at, ToolCall(block, result)


def _results_after(messages: Sequence[Message], number: int) -> list[ToolResultBlock]:
    """Return what answers the reply of this number: all results before the next one."""
    found: list[ToolResultBlock] = []
    for at in range(number, len(messages)):
        if messages[at].role == "assistant":
            break
        found += messages[at].tool_results
    return found


_HEAD = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)


def split_diff(text: str) -> tuple[str, str]:
    r"""Split a text into what precedes a unified diff, and the diff at its end.

    Example:
        >>> split_diff("edited a.py\n--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b")
        ('edited a.py', '--- a.py\n+++ a.py\n@@ -1 +1 @@\n-a\n+b')
    """
    found = _HEAD.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].removesuffix("\n"), text[found.start() :]


# Joiners and variation selectors make up words of many scripts, and most emoji; they hide nothing.
_JOINERS = re.compile("([\u200c\u200d\ufe0e\ufe0f])")
_USUAL_REASONS = {StopReason.END_TURN, StopReason.TOOL_USE, StopReason.STOP_SEQUENCE}


def make_printable(text: str) -> str:
    r"""Escape what no page should hold, such as control characters and bidirectional overrides.

    Lines end at `\n` alone. Joiners stay, as many scripts and emoji need them.

    Example:
        >>> print(make_printable("red \x1b[31m\r\nline"))
        red \u{1b}[31m
        line
    """
    parts = _JOINERS.split(text.replace("\r\n", "\n"))
    return "".join(part if at % 2 else visible(part) for at, part in enumerate(parts))


def describe_file(block: ImageBlock | DocumentBlock) -> str:
    """Name an image or a document: its title, kind, and where it is or how long.

    Example:
        >>> describe_file(DocumentBlock("application/pdf", data="JVBERi0=", title="Plan"))
        'Document “Plan”, application/pdf, 5 bytes'
    """
    kind = "Image" if isinstance(block, ImageBlock) else "Document"
    title = block.title if isinstance(block, DocumentBlock) else ""
    parts = [f"{kind} “{title}”" if title else kind, block.media_type, block.url]
    if block.data:
        parts.append(f"{len(block.data) * 3 // 4 - block.data[-2:].count('='):,} bytes")
    return " ".join(make_printable(", ".join(part for part in parts if part)).split())


def describe_stop(message: Message) -> str:
    """Say how a reply ended, where that was unusual.

    Example:
        >>> describe_stop(Message("assistant", stop_reason=StopReason.MAX_TOKENS))
        'stopped: max tokens'
    """
    reason = message.stop_reason
    if reason is None or reason in _USUAL_REASONS:
        return ""
    return f"stopped: {reason.replace('_', ' ')}"


def describe_usage(messages: Iterable[Message]) -> str:
    """Say how many tokens these replies used, and what they cost, as far as that is known.

    Example:
        >>> describe_usage([Message("assistant", usage=Usage(1200, 30, cost=0.0042))])
        '1,200 tokens in, 30 out, $0.0042'
    """
    usages = [message.usage for message in messages if message.usage is not None]
    if not usages:
        return ""
    usage = sum(usages, Usage())
    read = usage.cache_read_tokens or 0
    sent = (usage.input_tokens or 0) + read + (usage.cache_write_tokens or 0)
    cached = f" ({read:,} cached)" if read else ""
    cost = f", ${usage.cost:,.4f}" if usage.cost is not None else ""
    return f"{sent:,} tokens in{cached}, {usage.output_tokens or 0:,} out{cost}"


def format_time(moment: datetime) -> str:
    """Write a time for people, in UTC.

    Example:
        >>> format_time(datetime(2026, 1, 14, 10, 30, tzinfo=UTC))
        '2026-01-14 10:30 UTC'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


_KEYS = ("command", "file_path", "path", "pattern", "url", "description", "prompt")
_LONGEST = 100  # characters in a line


def describe_call(input: Mapping[str, object]) -> str:  # noqa: A002 - the word that models and tools use
    """Describe what a call works on, in one line.

    Example:
        >>> describe_call({"file_path": "a.py", "old_string": "x"}), describe_call({"n": 1})
        ('a.py', '{"n":1}')
    """
    values = (input.get(key) for key in _KEYS)
    words = next((value for value in values if value and isinstance(value, str)), "")
    text = words or (serde.encode(dict(input)).decode() if input else "")
    return make_printable(clip(" ".join(text.split()), _LONGEST).replace("\n", " "))


def list_fields(use: ToolUseBlock) -> dict[str, str]:
    """Return the fields of a call as text, or none where the call's one line says it all.

    Example:
        >>> list_fields(ToolUseBlock("t", "Bash", {"command": "ls", "timeout": 3}))
        {'command': 'ls', 'timeout': '3'}
        >>> list_fields(ToolUseBlock("t", "Bash", {"command": "ls"}))
        {}
    """
    fields = {name: format_value(value) for name, value in use.input.items()}
    return {} if list(fields.values()) == [describe_call(use.input)] else fields


def format_value(value: object) -> str:
    """Return a text as it is, and another JSON value indented."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(serde.encode(value), indent=2).decode()


def is_short(text: str) -> bool:
    """Return whether a value fits in a line and has no extra blanks."""
    return bool(text) and text == " ".join(text.split()) and len(text) <= _LONGEST


def list_facts(content: SessionContent) -> dict[str, str]:
    """Return the known facts about a session by their names, each in a few words."""
    about = content.metadata
    origin, word = content.origin
    workspace = about.metadata.get("workspace")
    found = {
        "Session": about.session_id,
        "Agent": about.agent_type,
        "Model": f"{about.provider}:{about.model}" if about.provider else about.model,
        "Begun": format_time(about.created_at),
        "Changed": format_time(about.updated_at),
        "Messages": f"{len(content.messages):,}",
        "Used": describe_usage(content.messages),
        "Workspace": workspace if isinstance(workspace, str) else "",
        "Subagent of": about.parent_session_id or "",
        f"{word} from".capitalize(): origin,
        "Subagents not in here": ", ".join(content.missing_subagents),
    }
    return {name: value for name, value in found.items() if value}
