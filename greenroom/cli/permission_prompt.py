"""The long form of a permission prompt: all that is known about a call, in a fixed order.

Facts come first, and the model's own words last. `question_view` has the form that is shown first.
"""

from collections.abc import Iterator

from rich.text import Text

from greenroom.cli.choices import CREDENTIAL_HIDDEN, CREDENTIAL_VISIBLE, describe_choices
from greenroom.cli.formatting import shorten_home
from greenroom.cli.painter import ColorScheme, Quoted, diff_text, hang_indent
from greenroom.cli.renderables import Group, RenderableType
from greenroom.core import PermissionRequest, RuleDecision
from greenroom.core._internal import (
    PermissionPart,
    SandboxReport,
    clip,
    describe_effects,
    disguises,
    exact,
    serde,
    texts_in,
)

_MARKS = {RuleDecision.ALLOW: "allowed", RuleDecision.DENY: "denied", RuleDecision.ASK: "asks"}


def render_part(part: PermissionPart, scheme: ColorScheme) -> RenderableType:
    """Show a part of a call, and what the rules say about it; no line looks like another part."""
    styles = {RuleDecision.ALLOW: scheme.added, RuleDecision.DENY: scheme.error}
    head = Text(f"  {_MARKS[part.decision]:<8}", styles.get(part.decision, ""))
    body = Text(" ".join(exact(part.text).split("\n")), overflow="fold")
    reasons = [exact(part.reason)] if part.reason != part.text else []
    reasons += [exact(shorten_home(part.source))] if part.source else []
    if reasons:
        body.append(f"  ({'; '.join(reasons)})", scheme.note)
    return hang_indent(head, body)


_MAX_CLAIM = 300  # characters


def render_request(
    request: PermissionRequest,
    scheme: ColorScheme,
    warning: str = "",
    *,
    can_hide: bool = True,
    takes_prefix: bool = False,
) -> RenderableType:
    """Show all that is known about a call, whole: the long form of a prompt, with its choices.

    Args:
        request: the request.
        scheme: the colours.
        warning: what should be known before a choice is made.
        can_hide: whether the terminal can hide typed text.
        takes_prefix: whether a remembered yes would store the rules in `prefixes`.
    """
    lines = long_lines(request, scheme, warning, can_hide=can_hide, takes_prefix=takes_prefix)
    choices = Text(f"  {describe_choices(request, can_hide=can_hide)}", scheme.question)
    return Group(*lines, choices)


def long_lines(
    request: PermissionRequest,
    scheme: ColorScheme,
    warning: str,
    *,
    can_hide: bool,
    takes_prefix: bool,
) -> Iterator[RenderableType]:
    """Show all that is known about a call, without its choices."""
    yield _head(request, scheme)
    if request.details:
        yield _quote(Text(exact(request.details)), scheme)
    if request.diff:
        yield _quote(diff_text(exact(request.diff), scheme), scheme)
    if request.fields is not None:
        yield Text("  asks for:", scheme.note)
        yield _quote(Text(_show_fields(request)), scheme)
    if request.runs_as:
        yield Text("  read as:", scheme.note)
        yield _quote(Text(exact(request.runs_as)), scheme)
    yield from (render_line(line, "bold") for line in find_warnings(request))
    yield from (render_part(part, scheme) for part in request.parts)
    yield from (render_line(line, scheme.effect) for line in describe_effects(request.effects))
    for program in request.effects.unchecked:
        text = f"the files that {exact(program)} reads by default are not checked"
        yield render_line(text, scheme.effect)
    remarks = _remarks(request, can_hide=can_hide, takes_prefix=takes_prefix)
    yield from (render_line(line, scheme.note) for line in remarks)
    if request.sandbox is not None:
        yield render_sandbox(request.sandbox, scheme)
    if warning:
        yield render_line(warning, scheme.error)
    if request.claim:
        yield _claim(request.claim, scheme)


def _show_fields(request: PermissionRequest) -> str:
    return exact(serde.to_text(request.fields))


def _quote(text: Text, scheme: ColorScheme) -> RenderableType:
    """Mark each line of a foreign text, so that it can't be mistaken for ours."""
    return Quoted(Text("  │ ", scheme.note), text)


def render_line(text: str, style: str) -> RenderableType:
    """Show a fact about a call, indented and on one line of its own, wrapped where it is long."""
    return hang_indent(Text("  "), Text(" ".join(exact(text).split("\n")), style))


def find_warnings(request: PermissionRequest) -> tuple[str, ...]:
    """Return what may mislead; searched for here where the request does not come from a runtime."""
    if request.warnings or request.session_id:
        return request.warnings
    return disguises(request.action, request.details, request.diff, *texts_in(request.input))


def _head(request: PermissionRequest, scheme: ColorScheme) -> Text:
    head = Text("? ", scheme.question)
    return head.append(
        f"{name_asker(request)} asks: {exact(request.action)} ({exact(request.tool_name)})"
    )


def name_asker(request: PermissionRequest) -> str:
    """Name the agents from the root down to the one that asks."""
    return " > ".join(exact(name) for name in request.lineage) or "the agent"


def render_sandbox(report: SandboxReport, scheme: ColorScheme) -> RenderableType:
    """Describe the sandbox of the call; a gap is highlighted."""
    warns = report.lacking or report.as_root
    return render_line(f"sandbox: {exact(str(report))}", scheme.error if warns else scheme.note)


def _remarks(request: PermissionRequest, *, can_hide: bool, takes_prefix: bool) -> Iterator[str]:
    if request.options is not None:
        return
    if request.credential:
        yield f"asked because: {exact(request.reason)}"
        yield CREDENTIAL_HIDDEN if can_hide else CREDENTIAL_VISIBLE
        return
    if request.host or request.cwd:
        yield describe_place(request)
    if request.reason and not request.parts:
        yield f"asked because: {exact(request.reason)}"
    if request.remembers:
        yield _describe_rules(request, takes_prefix=takes_prefix)
    elif not request.may_have_run:
        why = exact(request.unremembered) or "no narrow rule fits"
        yield f"{why}, so a yes can't be remembered"
    if request.forbids:
        yield f"never stores: {', '.join(exact(rule) for rule in request.forbids)}"
    if request.remembers or request.forbids:
        from greenroom.agents._internal import user_rules_path  # its rules were loaded

        path = shorten_home(str(user_rules_path()))
        yield f"always and never count in every project: {exact(path)}"


def describe_place(request: PermissionRequest) -> str:
    """Say where it would run: the machine, if it is another one, before the directory."""
    machine = [f"on the machine {exact(request.host)}"] if request.host else []
    return ", ".join([*machine, *[f"in {exact(request.cwd)}"] * bool(request.cwd)])


def _describe_rules(request: PermissionRequest, *, takes_prefix: bool) -> str:
    """Describe what a remembered yes would store, and what it would after Tab."""
    rules, others = request.remembers, request.prefixes
    if takes_prefix and others:
        rules, others = others, rules
    text = f"remembered as: {', '.join(map(exact, rules))}"
    switched = ", ".join(exact(rule) for rule in others if rule not in rules)
    return f"{text} · Tab: {switched}" if switched else text


def _claim(claim: str, scheme: ColorScheme) -> RenderableType:
    """Show what the model says about the call, in quotes, so that it can't be mistaken for ours."""
    words = clip(exact(" ".join(claim.split())), _MAX_CLAIM)
    return render_line(f"agent says: “{words}”", scheme.note)
