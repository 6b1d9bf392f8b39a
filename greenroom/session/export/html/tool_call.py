"""A tool call in a page: folded to one line, with its input, its result and its diff inside."""

from greenroom.core import DocumentBlock, ImageBlock, ToolResultBlock, ToolUseBlock, serde
from greenroom.session.export.call import Call, CallStatus
from greenroom.session.export.diff import split_diff
from greenroom.session.export.html.escape import escape
from greenroom.session.export.html.media import render_file
from greenroom.session.export.printed import call_words

__all__ = ["render_call", "render_result", "render_value"]

_STATUS: dict[CallStatus, str] = {
    "done": "",
    "failed": "failed",
    "interrupted": "interrupted",
    "open": "no result",
}
_LINES = {"+": "ins", "-": "del"}


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
        body += f'<p class="label">Result</p>{render_result(result)}'
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
        lines = diff.removesuffix("\n").split("\n")
        parts.append(f'<pre class="diff">{"".join(map(_diff_line, lines))}</pre>')
    files = (each for each in result.content if isinstance(each, ImageBlock | DocumentBlock))
    return "".join([*parts, *map(render_file, files)]) or '<p class="file">(nothing)</p>'


def render_value(value: object) -> str:
    """Render a JSON value, or a text as it is."""
    text = value if isinstance(value, str) else serde.dumps(value, pretty=True).decode()
    return f"<pre>{escape(text)}</pre>"


def _input(use: ToolUseBlock) -> str:
    parts = [
        f"<dt>{escape(name)}</dt><dd>{render_value(value)}</dd>"
        for name, value in use.input.items()
    ]
    if use.invalid:
        parts.append(
            f"<dt>not usable: {escape(use.invalid)}</dt><dd>{render_value(use.raw_input)}</dd>"
        )
    return f"<dl>{''.join(parts)}</dl>" if parts else ""


def _diff_line(line: str) -> str:
    tag = "span"
    if line.startswith(("--- ", "+++ ", "@@ ")):
        tag = 'span class="place"'
    elif line[:1] in _LINES:
        tag = _LINES[line[0]]
    return f"<{tag}>{escape(line)}\n</{tag.split()[0]}>"
