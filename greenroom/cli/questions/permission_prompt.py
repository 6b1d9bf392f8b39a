"""A permission prompt: what it shows, from facts alone; the model's own words come last.

Pure; nothing is asked here. `choices` are the answers, `prompt_pages` what is shown of long texts.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom.cli.drawing.prefixed import Prefixed, hanging
from greenroom.cli.drawing.render_tool import diff_text
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.questions.choices import Choice, choices_for
from greenroom.cli.questions.prompt_pages import PromptPages
from greenroom.cli.questions.render_part import render_part
from greenroom.cli.run.folders import below_home
from greenroom.core import PermissionRequest, SandboxReport, clip, disguises, exact, texts_in
from greenroom.permissions import user_rules_path

__all__ = ["render_further", "render_request"]

_CLAIM = 300  # characters


def render_request(
    request: PermissionRequest,
    scheme: ColorScheme,
    waiting: int = 0,
    warning: str = "",
    pages: PromptPages | None = None,
) -> RenderableType:
    """Show all that a person needs to decide; of what is very long the beginning.

    Args:
        request: the request.
        scheme: the colours.
        waiting: how many more requests wait behind it.
        warning: what should be known before a choice is made.
        pages: its pages, where they are at hand; a long text takes a while to divide.
    """
    pages = pages or PromptPages.of(request)
    lines: list[RenderableType] = [_head(request, scheme, waiting)]
    if pages.details:
        lines.append(_quoted(Text(pages.details, overflow="fold"), scheme))
    if pages.diff:
        lines.append(_quoted(diff_text(pages.diff, scheme), scheme))
    lines += [_line(line, "bold") for line in _warnings(request)]
    lines += [render_part(part, scheme) for part in pages.parts]
    lines += _left_out(pages, scheme)
    lines += [_line(line, scheme.effect) for line in _effects(request)]
    lines += [_line(line, scheme.note) for line in _remarks(request)]
    if request.sandbox is not None:
        lines.append(_sandbox(request.sandbox, scheme))
    if warning:
        lines.append(_line(warning, scheme.error))
    if request.claim:
        lines.append(_claim(request.claim, scheme))
    lines.append(_choices(choices_for(request, is_read=not pages.further), scheme))
    return Group(*lines)


def render_further(
    request: PermissionRequest, number: int, scheme: ColorScheme, pages: PromptPages | None = None
) -> RenderableType:
    """Show a further page of a request, counted from 0, and what may be answered then."""
    pages = pages or PromptPages.of(request)
    page, left = pages.further[number], len(pages.further) - number - 1
    if isinstance(page, str):
        shown: RenderableType = _quoted(_text(page, request, scheme), scheme)
    else:
        shown = Group(*(render_part(part, scheme) for part in page))
    more = [Text(f"  … {left} more: type more and Enter …", scheme.question)] if left else []
    return Group(shown, *more, _choices(choices_for(request, is_read=not left), scheme))


def _quoted(text: Text, scheme: ColorScheme) -> RenderableType:
    """Put a mark before each line of a text that is none of ours, so that none can pass for ours."""
    return Prefixed(Text("  │ ", scheme.note), text)


def _line(text: str, style: str) -> RenderableType:
    return hanging(Text("  "), Text(" ".join(exact(text).split("\n")), style))


def _warnings(request: PermissionRequest) -> tuple[str, ...]:
    """Return what may mislead; looked for here where it was not a runtime that made the request."""
    if request.warnings or request.session_id:
        return request.warnings
    return disguises(request.action, request.details, request.diff, *texts_in(request.input))


def _text(page: str, request: PermissionRequest, scheme: ColorScheme) -> Text:
    return diff_text(page, scheme) if request.diff else Text(page, overflow="fold")


def _head(request: PermissionRequest, scheme: ColorScheme, waiting: int) -> Text:
    who = " > ".join(exact(name) for name in request.lineage) or "the agent"
    head = Text("? ", scheme.question)
    head.append(f"{who} asks: {exact(request.action)} ({exact(request.tool_name)})")
    if waiting:
        head.append(f"  {waiting} more waiting", scheme.note)
    return head


def _sandbox(report: SandboxReport, scheme: ColorScheme) -> RenderableType:
    """Say what holds the call; what does not hold is the one thing to see."""
    warns = report.lacking or report.as_root
    return _line(f"sandbox: {exact(str(report))}", scheme.error if warns else scheme.note)


def _left_out(pages: PromptPages, scheme: ColorScheme) -> list[Text]:
    if not pages.left_out:
        return []
    missing = ", ".join(pages.left_out)
    return [Text(f"  … {missing}: type more and Enter to see all …", scheme.question)]


def _effects(request: PermissionRequest) -> Iterator[str]:
    """Say what it does beyond the workspace and beyond itself."""
    effects = request.effects
    for what, found in (
        ("runs with other rights", effects.privileges),
        ("writes outside the workspace", effects.writes),
        ("reads outside the workspace", effects.reads),
        ("names files outside the workspace", effects.names),
        ("contacts", effects.hosts),
        ("besides", effects.changes),
    ):
        if found:
            yield f"{what}: {', '.join(exact(each) for each in found)}"


def _remarks(request: PermissionRequest) -> Iterator[str]:
    if request.cwd:
        yield f"in {exact(request.cwd)}"
    if request.reason and not request.parts:
        yield f"asked because: {exact(request.reason)}"
    if request.remembers:
        yield f"remembered as: {', '.join(exact(rule) for rule in request.remembers)}"
    else:
        yield "no narrow rule fits, so a yes can't be remembered"
    if request.forbids:
        yield f"never stores: {', '.join(exact(rule) for rule in request.forbids)}"
    if request.remembers or request.forbids:
        yield f"always and never hold in every project: {exact(below_home(str(user_rules_path())))}"


def _claim(claim: str, scheme: ColorScheme) -> RenderableType:
    """Show what the model says of the call, in quotes, where it can't pass for a line of ours."""
    words = clip(exact(" ".join(claim.split())), _CLAIM)
    return _line(f"agent says: “{words}”", scheme.note)


def _choices(choices: tuple[Choice, ...], scheme: ColorScheme) -> Text:
    offered = (f"[{each.words[0]}] {each.label}" for each in choices if each.is_listed)
    return Text("  " + "  ".join(offered), scheme.question)
