"""A permission prompt: what it shows, and how its answer is read. Pure; nothing is asked here."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom.cli.prefixed import indented
from greenroom.cli.render_part import render_part
from greenroom.cli.render_tool import diff_text
from greenroom.cli.theme import ColorScheme
from greenroom.core import PermissionRequest, Remember, RuleDecision, SandboxReport, visible
from greenroom.permissions import user_rules_path

__all__ = ["CHOICES", "Choice", "choices_for", "find_choice", "render_choices", "render_request"]

_HEAD, _TAIL = 8, 6  # lines of a long diff that leave room for the rest in a small terminal


@dataclass(frozen=True)
class Choice:
    """One answer that can be chosen.

    Attributes:
        words: what may be typed for it; the first is its letter.
        label: what it means.
        decision: allow or deny.
        remember: how long it is remembered, or None for this call alone.
        asks_why: whether a reason for the model is asked next.
    """

    words: tuple[str, ...]
    label: str
    decision: RuleDecision
    remember: Remember | None = None
    asks_why: bool = False


_ALLOW, _DENY = RuleDecision.ALLOW, RuleDecision.DENY

CHOICES = (
    Choice(("y", "yes", "once"), "once", _ALLOW),
    Choice(("s", "session"), "this session", _ALLOW, "session"),
    Choice(("p", "project"), "this project", _ALLOW, "project"),
    Choice(("a", "always"), "always", _ALLOW, "always"),
    Choice(("n", "no"), "no", _DENY),
    Choice(("v", "never"), "never", _DENY, "always"),
    Choice(("w", "why"), "no, and say why", _DENY, asks_why=True),
)
"""Every choice; none of them is bound to Enter or a blank alone."""


def choices_for(request: PermissionRequest) -> tuple[Choice, ...]:
    """Return the choices of a request; without a narrow rule nothing can be remembered."""
    rules = {_ALLOW: request.remembers, _DENY: request.forbids}
    return tuple(each for each in CHOICES if each.remember is None or rules[each.decision])


def find_choice(line: str) -> Choice | None:
    """Return the choice that a line names; None where it is anything else, such as empty.

    Example:
        >>> find_choice("Yes").label, find_choice("yes, but look first")
        ('once', None)
    """
    word = line.strip().casefold()
    return next((each for each in CHOICES if word in each.words), None)


def render_request(
    request: PermissionRequest, scheme: ColorScheme, waiting: int = 0, warning: str = ""
) -> RenderableType:
    """Show all that a person needs to decide; of a long diff its two ends, and how to see it all.

    Args:
        request: the request.
        scheme: the colours.
        waiting: how many more requests wait behind it.
        warning: what should be known before a choice is made.
    """
    parts: list[RenderableType] = [_head(request, scheme, waiting)]
    if request.details:
        parts.append(indented(Text(visible(request.details), overflow="fold"), 4))
    if request.diff:
        parts.append(indented(diff_text(_ends(request.diff), scheme), 4))
    if _hides(request):
        parts.append(
            Text("  it holds characters that would hide; they are shown as \\u{…}", "bold")
        )
    parts += [render_part(part, scheme) for part in request.parts]
    parts += [Text(f"  {line}", scheme.note) for line in _remarks(request)]
    if request.sandbox is not None:
        parts.append(_sandbox(request.sandbox, scheme))
    if warning:
        parts.append(Text(f"  {visible(warning)}", scheme.error))
    parts.append(render_choices(request, scheme))
    return Group(*parts)


def _ends(diff: str) -> str:
    lines = diff.splitlines()
    left_out = len(lines) - _HEAD - _TAIL
    if left_out < 2:
        return diff
    middle = f"… {left_out} lines: type diff and Enter to see all …"
    return "\n".join([*lines[:_HEAD], middle, *lines[-_TAIL:]])


def _head(request: PermissionRequest, scheme: ColorScheme, waiting: int) -> Text:
    who = " > ".join(visible(name) for name in request.lineage) or "the agent"
    head = Text("? ", scheme.question)
    head.append(f"{who} asks: {visible(request.action)} ({visible(request.tool_name)})")
    if waiting:
        head.append(f"  {waiting} more waiting", scheme.note)
    return head


def _sandbox(report: SandboxReport, scheme: ColorScheme) -> Text:
    """Say what holds the call; what does not hold is the one thing to see."""
    return Text(f"  sandbox: {report}", scheme.error if report.lacking else scheme.note)


def _remarks(request: PermissionRequest) -> list[str]:
    lines = []
    if request.cwd:
        lines.append(f"in {visible(request.cwd)}")
    if request.reason and not request.parts:
        lines.append(f"asked because: {visible(request.reason)}")
    if request.remembers:
        rules = ", ".join(visible(rule) for rule in request.remembers)
        lines.append(f"remembered as: {rules}")
    else:
        lines.append("no narrow rule fits, so a yes can't be remembered")
    if request.forbids:
        lines.append(f"never stores: {', '.join(visible(rule) for rule in request.forbids)}")
    if request.remembers or request.forbids:
        lines.append(f"always and never hold in every project: {_under_home(user_rules_path())}")
    return lines


def _under_home(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else visible(str(path))


def render_choices(request: PermissionRequest, scheme: ColorScheme) -> Text:
    """Show what may be answered."""
    offered = (f"[{each.words[0]}] {each.label}" for each in choices_for(request))
    return Text("  " + "  ".join(offered), scheme.question)


def _hides(request: PermissionRequest) -> bool:
    shown = (request.details, request.diff)
    return any(visible(text) != text for text in shown)
