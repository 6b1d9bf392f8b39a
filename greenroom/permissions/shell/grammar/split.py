"""A command prefix or an exact command, split into words as the shell would split it."""

import re
from collections.abc import Sequence

from greenroom.core import RuleFileError
from greenroom.permissions.shell.grammar.cursor import Findings, ShellSyntaxError, TooDeepError
from greenroom.permissions.shell.grammar.nodes import SimpleCommand
from greenroom.permissions.shell.grammar.parser import Parser

__all__ = ["split_settings", "split_words"]

_LAST = "."
_SETTING = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


def split_words(text: str) -> tuple[str, ...]:
    """Split text into words, quotes removed; settings such as `CI=1` before them are words, too.

    Raises:
        RuleFileError: no program at all, or something that is more than plain words: an operator, an
            expansion, a redirection, a pattern.

    Example:
        >>> split_words("CI=1 npm run 'my task'")
        ('CI=1', 'npm', 'run', 'my task')
    """
    findings = Findings()
    # A last word, since nothing may stand behind the words or around them: `ls &`, `(ls)`, `ls # x`.
    reader = Parser(f"{text.strip()} {_LAST}", findings=findings)
    try:
        is_read = reader.command() and reader.at == len(reader.text)
    except (ShellSyntaxError, TooDeepError):
        is_read = False
    command = findings.nodes[0] if is_read and len(findings.nodes) == 1 else None
    plain = (
        isinstance(command, SimpleCommand)
        and len(command.words) > 1
        and command.words[-1].text == _LAST
        and not command.redirections
        and all(word.static for word in command.words)
        and all(each.setting for each in command.assignments)
        and not _SETTING.match(command.words[0].text)
    )
    if not plain or not isinstance(command, SimpleCommand):
        raise RuleFileError(
            f"not a plain command: {text!r}",
            hint="write its words alone, without operators or variables, such as: git status",
        )
    settings = (each.setting for each in command.assignments)
    return (*settings, *(word.text for word in command.words[:-1]))


def split_settings(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take the settings before a command apart from its words.

    Example:
        >>> split_settings(["CI=1", "npm", "run", "A=b"])
        (('CI=1',), ('npm', 'run', 'A=b'))
    """
    start = next((at for at, word in enumerate(words) if not _SETTING.match(word)), len(words))
    return tuple(words[:start]), tuple(words[start:])
