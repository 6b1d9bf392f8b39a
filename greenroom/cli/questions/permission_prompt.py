"""A permission prompt: what it shows, from facts alone; the model's own words come last.

Pure; nothing is asked here. `choices` are the answers.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom.cli.drawing.prefixed import Quoted, hanging
from greenroom.cli.drawing.render_tool import diff_text
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.questions.choices import (
    CREDENTIAL_HIDDEN,
    CREDENTIAL_SEEN,
    describe_choices,
)
from greenroom.cli.questions.render_part import render_part
from greenroom.cli.run.folders import below_home
from greenroom.core import PermissionRequest, SandboxReport, clip, disguises, exact, texts_in
from greenroom.permissions import user_rules_path

_CLAIM = 300  # characters
_RECORDED = (40, 4_000)  # lines and characters of each text in the record of a question


def render_request(
    request: PermissionRequest, scheme: ColorScheme, warning: str = "", *, can_hide: bool = True
) -> RenderableType:
    """Show all that a person needs to decide, whole.

    Args:
        request: the request.
        scheme: the colours.
        warning: what should be known before a choice is made.
        can_hide: whether the terminal can hide what is typed.
    """
    lines: list[RenderableType] = [_head(request, "asks", scheme)]
    if request.details:
        lines.append(_quoted(Text(exact(request.details)), scheme))
    if request.diff:
        lines.append(_quoted(diff_text(exact(request.diff), scheme), scheme))
    lines += [_line(line, "bold") for line in _warnings(request)]
    lines += [render_part(part, scheme) for part in request.parts]
    lines += [_line(line, scheme.effect) for line in _effects(request)]
    lines += [_line(line, scheme.note) for line in _remarks(request, can_hide=can_hide)]
    if request.sandbox is not None:
        lines.append(_sandbox(request.sandbox, scheme))
    if warning:
        lines.append(_line(warning, scheme.error))
    if request.claim:
        lines.append(_claim(request.claim, scheme))
    lines.append(Text(f"  {describe_choices(request, can_hide=can_hide)}", scheme.question))
    return Group(*lines)


def render_record(request: PermissionRequest, scheme: ColorScheme) -> RenderableType:
    """Show what was asked, once it is decided; of what is very long the beginning."""
    lines: list[RenderableType] = [_head(request, "asked", scheme)]
    if request.details:
        lines.append(_quoted(Text(_beginning(exact(request.details))), scheme))
    if request.diff:
        lines.append(_quoted(diff_text(_beginning(exact(request.diff)), scheme), scheme))
    return Group(*lines)


def _beginning(text: str) -> str:
    lines, letters = _RECORDED
    kept = "\n".join(text[:letters].split("\n")[:lines])
    left = len(text) - len(kept)
    return f"{kept}\n… {left:,} more characters …" if left else kept


def _quoted(text: Text, scheme: ColorScheme) -> RenderableType:
    """Put a mark before each line of a text that is none of ours, so that none can pass for ours."""
    return Quoted(Text("  │ ", scheme.note), text)


def _line(text: str, style: str) -> RenderableType:
    return hanging(Text("  "), Text(" ".join(exact(text).split("\n")), style))


def _warnings(request: PermissionRequest) -> tuple[str, ...]:
    """Return what may mislead; looked for here where it was not a runtime that made the request."""
    if request.warnings or request.session_id:
        return request.warnings
    return disguises(request.action, request.details, request.diff, *texts_in(request.input))


def _head(request: PermissionRequest, verb: str, scheme: ColorScheme) -> Text:
    who = " > ".join(exact(name) for name in request.lineage) or "the agent"
    head = Text("? ", scheme.question)
    return head.append(f"{who} {verb}: {exact(request.action)} ({exact(request.tool_name)})")


def _sandbox(report: SandboxReport, scheme: ColorScheme) -> RenderableType:
    """Say what holds the call; what does not hold is the one thing to see."""
    warns = report.lacking or report.as_root
    return _line(f"sandbox: {exact(str(report))}", scheme.error if warns else scheme.note)


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


def _remarks(request: PermissionRequest, *, can_hide: bool) -> Iterator[str]:
    if request.options is not None:
        return
    if request.credential:
        yield f"asked because: {exact(request.reason)}"
        yield CREDENTIAL_HIDDEN if can_hide else CREDENTIAL_SEEN
        return
    if request.cwd:
        yield f"in {exact(request.cwd)}"
    if request.reason and not request.parts:
        yield f"asked because: {exact(request.reason)}"
    if request.remembers:
        yield f"remembered as: {', '.join(exact(rule) for rule in request.remembers)}"
    else:
        why = exact(request.unremembered) or "no narrow rule fits"
        yield f"{why}, so a yes can't be remembered"
    if request.forbids:
        yield f"never stores: {', '.join(exact(rule) for rule in request.forbids)}"
    if request.remembers or request.forbids:
        yield f"always and never hold in every project: {exact(below_home(str(user_rules_path())))}"


def _claim(claim: str, scheme: ColorScheme) -> RenderableType:
    """Show what the model says of the call, in quotes, where it can't pass for a line of ours."""
    words = clip(exact(" ".join(claim.split())), _CLAIM)
    return _line(f"agent says: “{words}”", scheme.note)
