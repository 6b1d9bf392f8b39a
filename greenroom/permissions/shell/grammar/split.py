"""A command prefix or an exact command, split into words as the shell would split it."""

from greenroom.core import RuleFileError
from greenroom.permissions.shell.grammar.nodes import SimpleCommand
from greenroom.permissions.shell.grammar.parser import parse

__all__ = ["split_words"]


def split_words(text: str) -> tuple[str, ...]:
    """Split text into words, quotes removed.

    Raises:
        RuleFileError: no word at all, or something that is more than plain words: an operator, an
            expansion, a redirection, an assignment, a pattern.

    Example:
        >>> split_words("npm run 'my task'")
        ('npm', 'run', 'my task')
    """
    found = parse(text).found
    command = found[0] if len(found) == 1 else None
    plain = (
        isinstance(command, SimpleCommand)
        and command.words
        and not (command.assignments or command.redirections)
        and all(word.static for word in command.words)
    )
    if not plain or not isinstance(command, SimpleCommand):
        raise RuleFileError(
            f"not a plain command: {text!r}",
            hint="write its words alone, without operators or variables, such as: git status",
        )
    return tuple(word.text for word in command.words)
