"""Exceptions raised by other people's code, made safe to print, to store and to log.

What a tool or an agent raises reaches chunks, histories, logs and the mailboxes of other agents, and
nothing about it can be trusted: `__str__` may raise, a message may be megabytes long, groups may be
nested deeper than the interpreter's stack, and their `split` may be overridden. The functions here
never raise, never recurse, and return at most `MAX_ERROR_TEXT` characters of valid Unicode.
"""

import logging
import traceback

from greenroom.core.text import clip, valid_unicode

__all__ = ["MAX_ERROR_TEXT", "describe_error", "leaves", "log_error", "message_of"]

MAX_ERROR_TEXT = 2_000
"""Characters of an error that are shown anywhere: enough for a message, not for a dump."""

_MAX_TRACEBACK = 64 * 1024  # bytes in the log; a chain of ordinary errors takes a few thousand
_MAX_DEPTH = 20  # of groups in groups; trio's nurseries nest a few
_FRAMES = 30  # logged of a traceback that can't be printed as a whole, the innermost ones

# The attribute itself, also where a subclass has overridden it.
_EXCEPTIONS = BaseExceptionGroup.__dict__["exceptions"]


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single exceptions that a group is made of, in order; any other error is its own.

    Example:
        >>> leaves(ExceptionGroup("two", [ValueError("a"), ExceptionGroup("", [KeyError("b")])]))
        [ValueError('a'), KeyError('b')]
    """
    found, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        if issubclass(type(each), BaseExceptionGroup):
            waiting.extend(reversed(_EXCEPTIONS.__get__(each)))
        else:
            found.append(each)
    return found


def message_of(error: BaseException) -> str:
    """Return the message of one exception, clipped; empty where it has none.

    Example:
        >>> message_of(ValueError("no such file"))
        'no such file'
    """
    try:
        return valid_unicode(clip(str(error), MAX_ERROR_TEXT))
    except Exception:  # noqa: BLE001 (whatever a broken `__str__` raises)
        return "(its message can't be read)"


def describe_error(error: BaseException | None) -> str:
    """Describe an exception with the type and message of each leaf, clipped; empty for None.

    Example:
        >>> describe_error(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))
        "ValueError: a; KeyError: 'b'"
    """
    if error is None:
        return ""
    parts: list[str] = []
    length = 0
    for leaf in leaves(error):
        parts.append(f"{type(leaf).__name__}: {message_of(leaf)}")
        length += len(parts[-1])
        if length > MAX_ERROR_TEXT:
            break
    return clip("; ".join(parts), MAX_ERROR_TEXT)


def log_error(logger: logging.Logger, what: str, error: BaseException) -> None:
    """Log what happened with the traceback of its error.

    Where the traceback can't be formatted, or is too long for a log, the error's description and
    its innermost frames take its place.
    """
    if _is_printable(error):
        logger.error("%s", what, exc_info=error)
    else:
        frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
        logger.error("%s: %s\n%s", what, describe_error(error), frames)


def _is_printable(error: BaseException) -> bool:
    if len(describe_error(error)) >= MAX_ERROR_TEXT or _is_deep(error):
        return False
    try:
        for leaf in leaves(error):
            str(leaf)
        text = "".join(traceback.format_exception(error))
        return len(text.encode()) <= _MAX_TRACEBACK  # and no lone surrogate, which no file takes
    except Exception:  # noqa: BLE001 (whatever a broken `__str__` raises)
        return False


def _is_deep(error: BaseException) -> bool:
    """Whether groups are nested so deep that somebody's log handler, which recurses, may fail."""
    level = [error]
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for group in level
            if issubclass(type(group), BaseExceptionGroup)
            for part in _EXCEPTIONS.__get__(group)
        ]
    return bool(level)
