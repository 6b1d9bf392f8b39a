"""How what was said and done looks when it is told again."""

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.console.recap import RecapLine
from greenroom.cli.console.render_chunk import render_markdown, render_user
from greenroom.cli.drawing.theme import ColorScheme


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
