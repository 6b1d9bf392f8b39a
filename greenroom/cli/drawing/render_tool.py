"""How a tool call looks: what it does, what it printed, what it changed."""

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom.cli.drawing.call_words import call_words
from greenroom.cli.drawing.prefixed import indented
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.core import ToolEnd, ToolInfo, ToolStart, ToolStatus, visible

_DETAIL_LINES = 6
_OUTPUT_LINES = 12
_PROGRESS_LINES = 6
_TODO_MARKS = {"completed": "☑", "in_progress": "▶", "pending": "☐"}


def render_call(start: ToolStart, scheme: ColorScheme) -> RenderableType:
    """Show which tool runs, and on what; long details are cut, since a prompt has shown them."""
    info = start.info or ToolInfo("", call_words(start.input))
    head = Text("● ")
    head.append(visible(start.name), scheme.tool)
    details = visible(info.details).splitlines()
    if len(details) == 1:
        head.append(f"  {details[0]}")
    elif info.action:
        head.append(f"  {visible(info.action)}")
    if len(details) < 2 or start.name == "Todo":
        return head
    return Group(head, indented(_cut(details, _DETAIL_LINES, scheme, scheme.output)))


def render_result(start: ToolStart | None, end: ToolEnd, scheme: ColorScheme) -> RenderableType:
    """Show what a call gave: its list of things to do, its diff, or the head of its output."""
    todos = start.input.get("todos") if start is not None and start.name == "Todo" else None
    if isinstance(todos, list) and not end.is_error:
        return indented(_todo_list(todos, scheme))
    lines = visible(end.result.text).splitlines()
    diff = end.result.metadata.get("diff")
    if isinstance(diff, str) and diff and not end.is_error:
        return indented(Group(Text(lines[0] if lines else ""), diff_text(diff, scheme)))
    if end.result.status is ToolStatus.DENIED:
        return indented(Text("denied: " + "\n".join(lines), scheme.error))
    if not lines:
        return indented(Text("(no output)", scheme.note))
    style = scheme.error if end.is_error else scheme.output
    return indented(_cut(lines, _OUTPUT_LINES, scheme, style))


def render_progress(output: str, scheme: ColorScheme) -> RenderableType:
    """Show the last lines that a running tool has printed."""
    lines = visible(output).splitlines()[-_PROGRESS_LINES:]
    return indented(Text("\n".join(lines), scheme.output))


def diff_text(diff: str, scheme: ColorScheme) -> Text:
    """Colour a unified diff; blanks at the end of a changed line are shown as dots."""
    text = Text()
    for line in visible(diff).splitlines():
        text.append(_with_dots(line) + "\n", _diff_style(line, scheme))
    text.right_crop(1)
    return text


def _with_dots(line: str) -> str:
    bare = line.rstrip(" ")
    return bare + "·" * (len(line) - len(bare)) if line[:1] in "+-" else line


def _diff_style(line: str, scheme: ColorScheme) -> str:
    if line.startswith(("+++", "---")):
        return scheme.note
    styles = {"+": scheme.added, "-": scheme.removed, "@": scheme.hunk}
    return styles.get(line[:1], "")


def _cut(lines: list[str], limit: int, scheme: ColorScheme, style: str) -> Text:
    text = Text("\n".join(lines[:limit]), style)
    if len(lines) > limit:
        text.append(f"\n… {len(lines) - limit} lines more", scheme.note)
    return text


def _todo_list(todos: list[object], scheme: ColorScheme) -> Text:
    text = Text()
    for item in todos:
        if isinstance(item, dict):
            status = str(item.get("status"))
            mark = _TODO_MARKS.get(status, "☐")
            style = scheme.todo if status == "in_progress" else ""
            text.append(f"{mark} {visible(str(item.get('content')))}\n", style)
    text.right_crop(1)
    return text
