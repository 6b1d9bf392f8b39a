"""A command line that is still being typed, as words."""

import shlex

_CURSOR = "\x00"  # stands in no command line, so that it shows where the last word ends


def words_of(line: str) -> list[str]:
    r"""Take a line apart as a shell does; the last word is the one being typed, perhaps empty.

    Example:
        >>> words_of("greenroom sessions sh"), words_of("greenroom "), words_of("greenroom 'a b")
        (['greenroom', 'sessions', 'sh'], ['greenroom', ''], ['greenroom', 'a b'])
    """
    lexer = shlex.shlex(line.replace(_CURSOR, "") + _CURSOR, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is still open
        words.append(lexer.token)
    return [word.replace(_CURSOR, "") for word in words]
