"""A conversation that has something of everything, and any conversation at all."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from greenroom.core import (
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
    Usage,
)
from greenroom.export.content import SessionContent
from greenroom.session import SessionMetadata

WHEN = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)
DIFF = "edited a.py: 1 replaced\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x\n-old\n+new\n"
STARTED = "interrupted: the call had started, and its outcome is unknown"


def describe(session_id="mine", **fields):
    return SessionMetadata(
        session_id=session_id, agent_type="coder", created_at=WHEN, updated_at=WHEN, **fields
    )


def content(*messages, subagents=(), **fields):
    return SessionContent(describe(**fields), messages, subagents)


def reply(*blocks, **fields):
    return Message("assistant", blocks, **fields)


def result(id_, text, *, is_error=False):
    return ToolResultBlock(id_, (TextBlock(text),), is_error=is_error)


def user(*blocks):
    return Message("user", blocks)


EVERYTHING = (
    Message.user("# not a heading\n```\nnot a fence"),
    reply(
        ThinkingBlock("Hmm.", "sig"),
        RedactedThinkingBlock("xyz"),
        TextBlock("I *will* read.\n\n- one\n- two"),
        ToolUseBlock("t1", "Read", {"file_path": "a.py"}),
        ToolUseBlock("t2", "Bash", {"command": "ls `pwd`\nrm x", "timeout": 3}),
        model="m-1",
        provider="anthropic",
        usage=Usage(1200, 30, cache_read_tokens=200, cost=0.5),
    ),
    user(result("t1", "x = ```1```\n"), result("t2", "no such file", is_error=True)),
    reply(ToolUseBlock("t1", "Edit", {"file_path": "a.py", "old_string": "old"})),
    user(result("t1", DIFF)),
    reply(ToolUseBlock("t3", "Odd", invalid="a key occurs twice", raw_input='{"a":1,"a":2}')),
    user(result("t3", STARTED, is_error=True), TextBlock("go on")),
    reply(UnknownBlock({"type": "hologram", "size": 3}), stop_reason=StopReason.MAX_TOKENS),
    user(ImageBlock("image/png", "iVBORw0KGgo="), ImageBlock(url="https://example.com/i.png")),
    user(DocumentBlock("application/pdf", data="JVBERi0=", title="Plan *B*")),
    user(result("t9", "of no call")),
    reply(ToolUseBlock("t4", "Task", {})),
)

texts = st.text(
    st.one_of(
        st.sampled_from([*list("<>&\"'`#*_[]()!|~-+=\\\n\r\t \x00{}:/"), "\u2028", "\u202e", "é"]),
        st.characters(),
    ),
    max_size=60,
) | st.sampled_from(
    [
        "</pre></details><script>alert(1)</script>",
        "```\n# out\n```",
        "[a](javascript:alert(1))",
        "![a](https://example.com/a.png)",
        "<https://example.com>",
        "> " * 200 + "deep",
        "&lt;script&gt; &#60;b&#62; &#x202e;",
        "[x]: https://example.com 'title'",
        "\t<div>\n",
        "--- a\n+++ b\n@@ <b>\n+<i>\n",
    ]
)
values = st.dictionaries(
    texts, st.recursive(texts | st.integers(-9, 9) | st.none(), st.lists), max_size=3
)
files = st.builds(ImageBlock, texts, texts, texts) | st.builds(
    DocumentBlock, texts, texts, texts, texts
)
results = st.builds(
    ToolResultBlock,
    texts.filter(bool),
    st.lists(st.builds(TextBlock, texts) | files, max_size=2).map(tuple),
    st.booleans(),
)
blocks = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts),
    st.builds(ToolUseBlock, texts, texts, values, texts, texts),
    results,
    files,
    st.builds(UnknownBlock, values),
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, max_size=3).map(tuple),
    model=texts,
)
