"""Commands of the input line that any agent has: `/compact`, `/quit`."""

from greenroom.cli.command_context import CommandContext
from greenroom.memory import COMPACT


async def compact(context: CommandContext, words: str) -> None:
    """Shorten the conversation; the words say what the summary has to keep in view."""
    about = {"about": words} if words else {}
    context.send(f"/compact {words}".rstrip(), {**COMPACT, **about})


async def leave(context: CommandContext, words: str) -> None:
    """Leave; the session stays."""
    context.leave()
