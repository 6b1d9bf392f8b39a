"""The rule that an "always" proposes for a command: its program and verbs, or its exact words."""

from greenroom.permissions.facts import Command
from greenroom.permissions.matcher import RuleMatcher

__all__ = ["command_matcher"]


def command_matcher(fact: Command, tool: str) -> RuleMatcher | None:
    """Propose a matcher for a command, or None if no narrow one exists."""
    if not fact.known or fact.cautions or fact.outer is not None:
        return None
    return RuleMatcher(tool=(tool,), argv_exact=tuple(word.text for word in fact.argv))
