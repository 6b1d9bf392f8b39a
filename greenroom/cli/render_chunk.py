"""How each kind of chunk looks; nothing a model or a tool says reaches the terminal as code."""

from rich.text import Text

from greenroom import core
from greenroom.cli.choices import SUBMIT_PLAN
from greenroom.cli.folded import Folded
from greenroom.cli.formatting import RecapLine, describe_call, describe_seconds
from greenroom.cli.markdown_view import render_markdown
from greenroom.cli.painter import (
    ColorScheme,
    LastRows,
    diff_style,
    hang_indent,
    indent,
    mark_blanks,
)
from greenroom.cli.permission_prompt import render_request
from greenroom.cli.renderables import Group, RenderableType
from greenroom.core import OutputChunk
from greenroom.core._internal import EndStatus, exact, legible, visible

_DETAIL_LINES = 6
_MOST_OF_DIFF = 40  # rows that are shown whole
_PROGRESS_LINES = 3
_ASKED = frozenset({"AskPerson", SUBMIT_PLAN})  # tools whose input has been shown as a question
_TODO_MARKS = {"completed": "☑", "in_progress": "▶", "pending": "☐"}


def render_call(
    start: core.ToolStart, scheme: ColorScheme, *, is_waiting: bool = False, seconds: float = 0.0
) -> RenderableType:
    """Show which tool runs, on what and for how long, or that it waits for an answer.

    Long details are cut, since a prompt has shown them.
    """
    words = "" if start.name in _ASKED else describe_call(start.input)
    info = start.info or core.ToolInfo("", words)
    head = Text("○ " if is_waiting else "● ")
    head.append(exact(start.name), scheme.tool)
    details = exact(info.details).splitlines()
    if len(details) == 1:
        head.append(f"  {details[0]}")
    elif info.action:
        head.append(f"  {exact(info.action)}")
    if is_waiting:
        head.append("  waits for an answer", scheme.note)
    elif seconds >= 1:
        head.append(f"  {describe_seconds(seconds)}", scheme.note)
    if len(details) < 2 or is_waiting or start.name == "Todo":
        return head
    return Group(head, indent(_truncate(details, _DETAIL_LINES, scheme, scheme.output)))


def render_result(
    start: core.ToolStart | None, end: core.ToolEnd, scheme: ColorScheme
) -> RenderableType:
    """Show the result of a call: its to-do list, its diff, or head and tail of its output."""
    todos = start.input.get("todos") if start is not None and start.name == "Todo" else None
    if isinstance(todos, list) and not end.is_error:
        return indent(render_todos(todos, scheme))
    text = legible(end.result.text).rstrip("\n")
    lines = text.split("\n") if text.strip() else []
    diff = end.result.metadata.get("diff")
    if isinstance(diff, str) and diff and not end.is_error:
        return indent(Group(Text(lines[0] if lines else ""), _fold_diff(diff, scheme)))
    if end.result.status is core.ToolStatus.DENIED:
        return indent(Text("denied: " + "\n".join(lines), scheme.error))
    if not lines:
        return indent(Text("(no output)", scheme.note))
    style = scheme.error if end.is_error else scheme.output
    return indent(Folded(text, style, scheme))


def _fold_diff(diff: str, scheme: ColorScheme) -> Folded:
    """Show a diff; of a long one, such as that of a new file, its first and last rows."""
    text = "\n".join(mark_blanks(line) for line in visible(diff).splitlines())
    return Folded(text, lambda line: diff_style(line, scheme), scheme, most=_MOST_OF_DIFF)


def render_progress(output: str, scheme: ColorScheme) -> RenderableType:
    """Show the last rows that a running tool has printed."""
    return indent(LastRows(Text(legible(output).strip("\n"), scheme.output), _PROGRESS_LINES))


def _truncate(lines: list[str], limit: int, scheme: ColorScheme, style: str) -> Text:
    text = Text("\n".join(lines[:limit]), style)
    if len(lines) > limit:
        text.append(f"\n… {len(lines) - limit} lines more", scheme.note)
    return text


_DONE_IN_SIGHT = 2  # finished steps above the open ones, where there is little room


def render_todos(todos: list[object], scheme: ColorScheme, rows: int = 1_000) -> RenderableType:
    """Show a to-do list, a step in a line; where it is longer than its room, the open steps."""
    steps = [item for item in todos if isinstance(item, dict)]
    lines = [_todo(item, scheme) for item in steps]
    if len(lines) <= rows:
        return Group(*lines)
    done = next((at for at, item in enumerate(steps) if item.get("status") != "completed"), 0)
    first = max(min(done - _DONE_IN_SIGHT, len(lines) - rows + 1), 0)
    shown = lines[first : first + rows - 1]
    return Group(*shown, Text(f"… and {len(lines) - len(shown)} more", scheme.note))


def _todo(item: dict[object, object], scheme: ColorScheme) -> Text:
    status = str(item.get("status"))
    style = scheme.todo if status == "in_progress" else ""
    words = visible(" ".join(str(item.get("content")).split()))
    return Text(f"{_TODO_MARKS.get(status, '☐')} {words}", style, overflow="ellipsis", no_wrap=True)


_ODD_ENDS = {
    core.StopReason.MAX_TOKENS: "the reply was cut off: it reached the limit of tokens",
    core.StopReason.REFUSAL: "the model refused to answer",
    core.StopReason.CONTENT_FILTER: "the provider's filter stopped the reply",
    core.StopReason.MALFORMED_CALL: "the model's call could not be read",
}


def render_chunk(chunk: OutputChunk, scheme: ColorScheme) -> RenderableType | None:
    """Show one chunk on its own; return None if it shows nothing.

    A live display joins deltas and tool calls instead of showing their chunks one by one.
    """
    match chunk:
        case core.TextDelta() | core.ThinkingDelta():
            return Text(legible(chunk.text), scheme.thinking if _is_thinking(chunk) else "")
        case core.TextComplete():
            return render_markdown(chunk.text, scheme)
        case core.ThinkingComplete():
            return render_thinking(chunk.text, scheme)
        case core.ToolStart():
            return render_call(chunk, scheme)
        case core.ToolProgress():
            return render_progress(chunk.output, scheme)
        case core.ToolEnd():
            return render_result(None, chunk, scheme)
        case core.PermissionRequest():
            return render_request(chunk, scheme)
        case core.PermissionResponse():
            return _render_response(chunk, scheme)
        case core.SubAgentOutput():
            return render_chunk(chunk.chunk, scheme)
        case core.SubAgentSpawned():
            return _render_spawned(chunk, scheme)
        case core.SubAgentComplete():
            return _render_complete(chunk, scheme)
        case _:
            return _render_event(chunk, scheme)


def _render_event(chunk: OutputChunk, scheme: ColorScheme) -> RenderableType | None:
    """Show events of the agent itself."""
    match chunk:
        case core.Lagged(missed=None):
            return Text("… the agent was started again; what it showed before is gone", scheme.note)
        case core.Lagged():
            return Text(f"… {chunk.missed} updates came too fast to be shown", scheme.note)
        case core.Error():
            return _render_error(chunk, scheme)
        case core.Done():
            return _render_done(chunk, scheme)
        case core.Restarted():
            return _render_restarted(chunk, scheme)
        case core.Exited():
            return _render_exited(chunk, scheme)
        case core.UsageReport():
            parts = filter(None, [f"{chunk.total.total:,} tokens", chunk.usage.cache_note])
            return Text(" · ".join(parts), scheme.note)
        case core.StateChange():
            return Text(visible(str(chunk.state)), scheme.note)
        case core.Custom() if line := " ".join(visible(chunk.text).split()):
            return Text(line, scheme.note)
        case core.TurnStart() if chunk.sender:
            return Text(f"a message from {visible(chunk.sender)}", scheme.note)
        case core.TurnStart() | _:
            return None


def render_thinking(text: str, scheme: ColorScheme) -> RenderableType:
    """Show a model's reasoning."""
    return Text(legible(text).strip("\n"), scheme.thinking)


def render_user(text: str, scheme: ColorScheme, sender: str = "") -> RenderableType:
    """Show what the user said, or a program or agent of this name."""
    mark = Text(f"{visible(sender)}> ", scheme.user)
    return hang_indent(mark, Text(legible(text), scheme.user))


def _is_thinking(chunk: core.TextDelta | core.ThinkingDelta) -> bool:
    return isinstance(chunk, core.ThinkingDelta)


def _render_response(chunk: core.PermissionResponse, scheme: ColorScheme) -> RenderableType:
    tool = visible(chunk.tool_name)
    if chunk.cancelled:
        return Text(f"  the question about {tool} was withdrawn", scheme.note)
    allowed = chunk.decision is core.RuleDecision.ALLOW
    words = f"  {tool} {'allowed' if allowed else 'denied'} by {visible(chunk.by)}"
    if chunk.remember:
        words += f", remembered for {_LIFETIMES[chunk.remember]}"
    if chunk.message:
        words += f": {visible(chunk.message)}"
    return Text(words, scheme.note if allowed else scheme.error)


_LIFETIMES = {"session": "this session", "project": "this project", "always": "always"}


def _render_spawned(chunk: core.SubAgentSpawned, scheme: ColorScheme) -> RenderableType:
    text = Text("◆ ")
    text.append(visible(chunk.name or chunk.agent_type), scheme.subagent)
    text.append(" starts on its own" if chunk.detached else " starts", scheme.note)
    return text


def _render_complete(chunk: core.SubAgentComplete, scheme: ColorScheme) -> RenderableType:
    if chunk.status in (EndStatus.COMPLETED, EndStatus.CANCELLED):
        return Text(f"◆ the subagent has ended: {chunk.status}", scheme.note)
    reason = f": {visible(chunk.result)}" if chunk.result else ""
    return Text(f"◆ the subagent has ended: {chunk.status}{reason}", scheme.error)


def _render_error(chunk: core.Error, scheme: ColorScheme) -> RenderableType:
    text = Text("error: ", scheme.error)
    text.append(visible(chunk.message))
    if chunk.hint:
        text.append(f"\n  → {visible(chunk.hint)}", scheme.note)
    return text


def _render_done(chunk: core.Done, scheme: ColorScheme) -> RenderableType | None:
    if chunk.status is core.TurnStatus.INTERRUPTED:
        return Text("interrupted", scheme.note)
    if chunk.status is core.TurnStatus.WAITING:
        return Text("the turn waits for an answer", scheme.note)
    if chunk.stop_reason in _ODD_ENDS:
        return Text(_ODD_ENDS[chunk.stop_reason], scheme.error)
    return None


def _render_restarted(chunk: core.Restarted, scheme: ColorScheme) -> RenderableType:
    when = f"in {chunk.delay:.2g} s" if chunk.delay >= 0.1 else "now"
    reason = f": {visible(chunk.error)}" if chunk.error else ""
    return Text(f"the agent starts again {when}{reason}", scheme.note)


def _render_exited(chunk: core.Exited, scheme: ColorScheme) -> RenderableType:
    reason = f": {visible(chunk.error)}" if chunk.error else ""
    style = scheme.note if chunk.status is EndStatus.COMPLETED else scheme.error
    return Text(f"the agent has ended: {chunk.status}{reason}", style)


def render_recap(line: RecapLine, scheme: ColorScheme) -> RenderableType:
    """Show one thing that was said or done."""
    match line.kind:
        case "user":
            return render_user(line.text, scheme, line.sender)
        case "reply":
            return render_markdown(line.text, scheme)
        case "failed":
            return Text(str(line), scheme.error)
        case "call":
            return Text(str(line), scheme.output)
