"""The rule that an "always" proposes for a command: its program and verbs, or its exact words."""

from greenroom.permissions.answers.verbs import Reach, reach
from greenroom.permissions.facts.fact import Command
from greenroom.permissions.rules.matcher import RuleMatcher, quoted_words

__all__ = ["command_matcher"]


def command_matcher(fact: Command, tool: str) -> RuleMatcher | None:
    """Propose a matcher for a command, or None if no narrow one exists.

    It is a prefix where the program is known to name what it does by its first words, as
    `git status` does; for other programs exactly these words, and for interpreters, wrappers and
    programs that remove or fetch things nothing at all.
    """
    if fact.cautions or not fact.argv:
        return None
    found = reach([word.text for word in fact.argv])
    if isinstance(found, int):
        named = fact.argv[:found]
        if all(word.static for word in named):
            prefix = quoted_words(tuple(word.text for word in named))
            return RuleMatcher(tool=(tool,), command_prefix=(prefix,))
    if found is Reach.NOTHING or not fact.known:
        return None
    return RuleMatcher(tool=(tool,), argv_exact=tuple(word.text for word in fact.argv))
