"""A verdict: what a part of a call is, what the rules say to it, why, and whose rule that was."""

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.drawing.prefixed import hanging
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.run.folders import below_home
from greenroom.core import PermissionPart, RuleDecision, exact

_MARKS = {RuleDecision.ALLOW: "allowed", RuleDecision.DENY: "denied", RuleDecision.ASK: "asks"}


def render_part(part: PermissionPart, scheme: ColorScheme) -> RenderableType:
    """Show one part of a call; however long it is, none of its lines looks like another part."""
    styles = {RuleDecision.ALLOW: scheme.added, RuleDecision.DENY: scheme.error}
    head = Text(f"  {_MARKS[part.decision]:<8}", styles.get(part.decision, ""))
    body = Text(" ".join(exact(part.text).split("\n")), overflow="fold")
    reasons = [exact(part.reason)] if part.reason != part.text else []
    reasons += [exact(below_home(part.source))] if part.source else []
    if reasons:
        body.append(f"  ({'; '.join(reasons)})", scheme.note)
    return hanging(head, body)
