"""A command prefix or an exact command, split into words as the shell would split it."""

import re
from collections.abc import Sequence

from greenroom.core import RuleFileError
from greenroom.permissions.shell.grammar.nodes import SimpleCommand
from greenroom.permissions.shell.grammar.parser import parse

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
    # A last word, since nothing may stand behind the words or around them: `ls &`, `(ls)`, `ls # x`.
    match parse(f"{text.strip()} {_LAST}").found:
        case (SimpleCommand((first, *_, last) as words, settings, ()),) if (
            last.text == _LAST
            and text.split(maxsplit=1)[0] not in ("!", "time")
            and all(word.static for word in words)
            and all(each.setting for each in settings)
            and not _SETTING.match(first.text)
        ):
            return (*(each.setting for each in settings), *(word.text for word in words[:-1]))
    raise RuleFileError(
        f"not a plain command: {text!r}",
        hint="write its words alone, without operators or variables, such as: git status",
    )


def split_settings(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take the settings before a command apart from its words.

    Example:
        >>> split_settings(["CI=1", "npm", "run", "A=b"])
        (('CI=1',), ('npm', 'run', 'A=b'))
    """
    start = next((at for at, word in enumerate(words) if not _SETTING.match(word)), len(words))
    return tuple(words[:start]), tuple(words[start:])
