"""A verdict in a line: what a part of a call is, what the rules say to it, why, and whose rule."""

from rich.text import Text

from greenroom.cli.theme import ColorScheme
from greenroom.core import PermissionPart, RuleDecision, visible

__all__ = ["MARKS", "render_part"]

MARKS = {RuleDecision.ALLOW: "allowed", RuleDecision.DENY: "denied", RuleDecision.ASK: "asks"}
"""What stands before a part."""


def render_part(part: PermissionPart, scheme: ColorScheme) -> Text:
    """Show one part of a call."""
    styles = {RuleDecision.ALLOW: scheme.added, RuleDecision.DENY: scheme.error}
    line = Text(f"  {MARKS[part.decision]:<8}", styles.get(part.decision, ""))
    line.append(visible(part.text))
    source = f"; {visible(part.source)}" if part.source else ""
    line.append(f"  ({visible(part.reason)}{source})", scheme.note)
    return line
