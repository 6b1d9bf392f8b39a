"""A conversation as Markdown: to read as it is, in a diff, or in whatever shows Markdown."""

from collections.abc import Iterator

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.session.export.call import Call, CallStatus
from greenroom.session.export.call_input import call_words, is_short, shown_input, value_text
from greenroom.session.export.content import SessionContent
from greenroom.session.export.diff import split_diff
from greenroom.session.export.facts import facts
from greenroom.session.export.fence import code, fenced, quoted, words
from greenroom.session.export.printed import file_words, stop_words, usage_words
from greenroom.session.export.said import Said, said

_STATUS: dict[CallStatus, str] = {
    "done": "",
    "failed": " (failed)",
    "interrupted": " (interrupted)",
    "open": " (no result)",
}
_LANGUAGES = {"command": "sh"}
_DEEPEST = 6  # Markdown has no heading below


def to_markdown(content: SessionContent) -> Iterator[str]:
    r"""Write a conversation as Markdown, piece by piece.

    What was said is quoted, and what tools were given and gave stands between fences; no text gets
    out of its place, whatever is in it. Subagents follow their session, one level deeper.

    Example:
        >>> from greenroom import AgentSession, Message
        >>> session = AgentSession.new("coder", session_id="mine")
        >>> session.add_message(Message.user("# hello"))
        >>> pieces = list(to_markdown(SessionContent(session.record, session.history)))
        >>> pieces[-1]
        '\n## User\n\n> # hello\n'
    """
    return _session(content, 1)


def _session(content: SessionContent, level: int) -> Iterator[str]:
    about = [f"- {name}: {code(value)}" for name, value in facts(content).items()]
    yield f"{_heading(level)} {words(content.title)}\n\n" + "\n".join(about) + "\n"
    speaker = ("", "")
    for each in said(content.messages):
        last, speaker = speaker, (each.message.role, each.speaker(content.metadata.agent_type))
        heading = f"\n{_heading(level + 1)} {words(speaker[1])}\n"
        yield _said(each, "" if speaker == last else heading)
    for subagent in content.subagents:
        yield "\n"
        yield from _session(subagent, level + 1)


def _heading(level: int) -> str:
    return "#" * min(level, _DEEPEST)


def _said(each: Said, heading: str) -> str:
    message = each.message
    notes = ", ".join(filter(None, (stop_words(message), usage_words([message]))))
    parts = [*map(_block, each.blocks), f"*{words(notes)}*" if notes else ""]
    return heading + "".join(f"\n{part}\n" for part in parts if part)


def _block(block: ContentBlock | Call) -> str:
    match block:
        case TextBlock(text=text):
            return quoted(text) if text.strip() else ""
        case Call():
            return _call(block)
        case ToolUseBlock():
            return _call(Call(block, None))
        case ToolResultBlock():
            return f"**A result without a call**\n\n{_result(block)}"
        case ThinkingBlock(thinking=text):
            return f"> *Thinking:*\n>\n{quoted(text, 2)}" if text.strip() else ""
        case RedactedThinkingBlock():
            return "*Thinking, which its provider keeps to itself*"
        case ImageBlock() | DocumentBlock():
            return f"*{words(file_words(block))}*"
        case UnknownBlock(raw=raw):
            return f"*Something of a kind unknown here:*\n\n{fenced(value_text(raw), 'json')}"


def _call(call: Call) -> str:
    use, result = call.use, call.result
    head = f"**{words(use.name)}** {code(call_words(use.input))}".rstrip()
    parts = [head + _STATUS[call.status], *_input(use)]
    if result is not None:
        parts += ["Result:", _result(result)]
    return "\n\n".join(parts)


def _input(use: ToolUseBlock) -> Iterator[str]:
    if use.invalid:
        yield f"Input that could not be used: {words(use.invalid)}"
        yield fenced(use.raw_input)
    fields = shown_input(use)
    short = [f"- {code(name)}: {code(text)}" for name, text in fields.items() if is_short(text)]
    if short:
        yield "\n".join(short)
    for name, text in fields.items():
        if not is_short(text):
            yield f"{code(name)}:"
            yield fenced(text, _LANGUAGES.get(name, ""))


def _result(result: ToolResultBlock) -> str:
    files = [_block(each) for each in result.content if not isinstance(each, TextBlock)]
    text, diff = split_diff(result.text)
    parts = [fenced(text)] if text else []
    parts += [fenced(diff, "diff")] if diff else []
    return "\n\n".join([*parts, *files]) or "*(nothing)*"
