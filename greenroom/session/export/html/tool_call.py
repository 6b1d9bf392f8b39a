"""A tool call in a page: folded to one line, with its input, its result and its diff inside."""

from collections.abc import Iterator

from greenroom.core import DocumentBlock, ImageBlock, ToolResultBlock, ToolUseBlock
from greenroom.session.export.call import Call, CallStatus
from greenroom.session.export.call_input import call_words, is_short, shown_input, value_text
from greenroom.session.export.diff import split_diff
from greenroom.session.export.html.escape import escape
from greenroom.session.export.html.media import render_file

_STATUS: dict[CallStatus, str] = {
    "done": "",
    "failed": "failed",
    "interrupted": "interrupted",
    "open": "no result",
}
_TAGS = {"+": ("ins", "ins"), "-": ("del", "del"), "@": ('span class="place"', "span")}


def render_call(call: Call) -> str:
    """Render a call; one that changed a file is open, so that its diff is seen."""
    use, result = call.use, call.result
    _, diff = split_diff(result.text) if result is not None else ("", "")
    status = f'<span class="status">{_STATUS[call.status]}</span>' if _STATUS[call.status] else ""
    body = _input(use)
    if diff and result is not None:
        folded = f'<details class="input"><summary>Input</summary>{body}</details>' if body else ""
        body = render_result(result) + folded
    elif result is not None:
        body += (
            f'<p class="label">Result</p>{render_result(result)}' if body else render_result(result)
        )
    return (
        f'<details class="call {call.status}"{" open" if diff else ""}>'
        f"<summary><b>{escape(use.name)}</b> <code>{escape(call_words(use.input))}</code>{status}"
        f'</summary><div class="inside">{body}</div></details>'
    )


def render_result(result: ToolResultBlock) -> str:
    """Render what a tool gave: its text, a diff in colour, its images and files."""
    text, diff = split_diff(result.text)
    parts = [f"<pre>{escape(text)}</pre>"] if text else []
    if diff:
        parts.append(f'<pre class="diff">{"".join(_diff_lines(diff))}</pre>')
    files = (each for each in result.content if isinstance(each, ImageBlock | DocumentBlock))
    return "".join([*parts, *map(render_file, files)]) or '<p class="file">(nothing)</p>'


def render_value(value: object) -> str:
    """Render a JSON value, or a text as it is."""
    return f"<pre>{escape(value_text(value))}</pre>"


def _input(use: ToolUseBlock) -> str:
    fields = shown_input(use)
    rows = "".join(f"<dt>{escape(name)}</dt>{_field(text)}" for name, text in fields.items())
    if use.invalid:
        rows += f"<dt>not usable: {escape(use.invalid)}</dt>{_field(use.raw_input)}"
    return f"<dl>{rows}</dl>" if rows else ""


def _field(text: str) -> str:
    if is_short(text):
        return f'<dd class="short"><code>{escape(text)}</code></dd>'
    return f"<dd><pre>{escape(text)}</pre></dd>"


def _diff_lines(diff: str) -> Iterator[str]:
    for at, line in enumerate(diff.removesuffix("\n").split("\n")):
        # The first two name the file; from then on such a beginning is that of a changed line.
        kind = "@" if at < 2 else line[:1]
        tag, close = _TAGS.get(kind, ("span", "span"))
        yield f"<{tag}>{escape(line)}\n</{close}>"
