"""Foreign texts and exceptions, made safe to store and log.

Texts are cut between characters.

An exception of a tool or an agent reaches chunks, histories, logs and the mailboxes of other
agents, and nothing about it can be trusted: `__str__` may raise or exit, a message may be megabytes
long or not a text at all, `__class__` may lie, groups may be nested deeper than the interpreter's
stack or hold each other many times over, and their `split` may be overridden. The functions for
exceptions never raise, never recurse, and return at most `MAX_ERROR_TEXT` characters of valid
Unicode.
"""

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable
from typing import TypeGuard, TypeVar

from greenroom.core.frozen import valid_unicode
from greenroom.core.secrets import conceal_secrets


def clip(text: str, limit: int) -> str:
    r"""Cut text to at most `limit` characters: its head, a note on what is left out, its tail.

    Example:
        >>> clip("abcdefghij" * 10, 49)
        'abcdefghij\n… 80 characters left out …\nabcdefghij'
    """
    if len(text) <= limit:
        return text
    room = max(limit - len(_describe_rest(len(text))), 2)
    tail = room // 2
    head = room - tail
    return f"{text[:head]}{_describe_rest(len(text) - room)}{text[-tail:]}"


def _describe_rest(count: int) -> str:
    return f"\n… {count} characters left out …\n"


def quantity(count: float, what: str) -> str:
    """Write a count with its noun.

    Example:
        >>> quantity(2, "file"), quantity(0.5, "second"), quantity(7_200_000.0, "second")
        ('2 files', '0.5 seconds', '7200000 seconds')
    """
    if isinstance(count, int):
        number = str(count)
    else:  # `g` keeps six digits: of a million and one it would write 1e+06
        number = f"{count:.0f}" if 1e5 <= abs(count) < 1e15 else f"{count:g}"
    return f"{number} {what}{'' if count == 1 else 's'}"


# A few warnings must be seen even in a program that never set up logging, such as one whose event
# loop is blocked. A library's logger has a `NullHandler`, which drops them, so without another
# handler they go to standard error.


def notice(logger: logging.Logger, text: str) -> None:
    """Log a warning without secrets; if no handler takes it, write it to standard error."""
    text = conceal_secrets(text)
    logger.warning("%s", text)
    if not is_handled(logger):
        write_to_stderr(text)


def write_to_stderr(text: str) -> None:
    """Write a line to standard error, if it exists and still accepts text."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # a broken pipe, a closed file
        sys.stderr.write(f"greenroom: {text}\n")
        sys.stderr.flush()


def is_handled(logger: logging.Logger) -> bool:
    """Whether a handler takes what is logged there."""
    each: logging.Logger | None = logger
    while each is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in each.handlers):
            return True
        each = each.parent if each.propagate else None
    return False


E = TypeVar("E", bound=BaseException)

MAX_ERROR_TEXT = 2_000
"""Characters of an error that are ever shown: enough for a message, not for a dump."""

_MAX_READ = 16_384  # characters in which secrets are looked for
_MAX_TRACEBACK = 64 * 1024  # bytes in the log; a chain of ordinary errors takes a few thousand
_MAX_DEPTH = 20  # of groups in groups; trio's nurseries nest a few
_MAX_ERRORS = 1_000  # in a group that is logged as a whole; a traceback takes a millisecond or so
_FRAMES = 30  # logged of a traceback that can't be printed as a whole, the innermost ones

# The attributes themselves, even where a subclass has overridden them.
_EXCEPTIONS = BaseExceptionGroup.__dict__["exceptions"]
_TRACEBACK = BaseException.__dict__["__traceback__"]
_NAME = type.__dict__["__name__"]


def is_a(error: BaseException, kind: type[E]) -> TypeGuard[E]:
    """Whether an exception is of this type; unlike `isinstance`, this runs none of its code.

    Example:
        >>> is_a(KeyError("a"), LookupError)
        True
    """
    return issubclass(type(error), kind)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single exceptions in a group, in order; of any other error, itself.

    A group that occurs several times is taken apart once.

    Example:
        >>> leaves(ExceptionGroup("two", [ValueError("a"), ExceptionGroup("", [KeyError("b")])]))
        [ValueError('a'), KeyError('b')]
    """
    found, waiting = [], [error]
    groups: set[int] = set()
    while waiting:
        each = waiting.pop()
        if not is_a(each, BaseExceptionGroup):
            found.append(each)
        elif id(each) not in groups:
            groups.add(id(each))
            waiting.extend(reversed(_EXCEPTIONS.__get__(each)))
    return found


def type_name(error: BaseException) -> str:
    """Return the name of an exception's type, clipped.

    Example:
        >>> type_name(ValueError("no such file"))
        'ValueError'
    """
    return read_text(lambda: _NAME.__get__(type(error)))


def message_of(error: BaseException) -> str:
    """Return the message of one exception, clipped and without secrets; empty without one.

    Example:
        >>> message_of(ValueError("no such file"))
        'no such file'
    """
    return read_text(lambda: str(error))


def read_text(read: Callable[[], object]) -> str:
    """Return a text that is read from an exception, clipped, without secrets; empty if it is None.

    Example:
        >>> read_text(lambda: ValueError("no such file").hint)
        "(its message can't be read)"
    """
    try:
        value = read()
        if value is None:
            return ""
        text = value if isinstance(value, str) else str(value)
        # A subclass of `str` may lie about its length; this is the text itself.
        head = valid_unicode(clip(str.__str__(text), _MAX_READ))
        return clip(conceal_secrets(head), MAX_ERROR_TEXT)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (whatever a broken `__str__` raises, such as SystemExit)
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
        parts.append(f"{type_name(leaf)}: {message_of(leaf)}")
        length += len(parts[-1])
        if length > MAX_ERROR_TEXT:
            break
    return clip("; ".join(parts), MAX_ERROR_TEXT)


def log_error(
    logger: logging.Logger,
    what: str,
    error: BaseException,
    level: int = logging.ERROR,
    *,
    conceal: Callable[[str], str] = conceal_secrets,
) -> None:
    """Log what happened, with the traceback of its error.

    If the traceback can't be formatted, is too long or has a secret, the error's description and
    its innermost frames take its place. If a handler of the log raises, standard error gets the
    message.

    Args:
        logger: the log.
        what: what happened, without secrets.
        error: what was raised.
        level: how important that is.
        conceal: takes secrets out of a text.
    """
    try:
        if _is_printable(error, conceal):
            logger.log(level, "%s", what, exc_info=error)
        else:
            frames = "".join(traceback.format_tb(_TRACEBACK.__get__(error), limit=-_FRAMES))
            logger.log(level, "%s: %s\n%s", what, conceal(describe_error(error)), conceal(frames))
    except Exception as broken:  # noqa: BLE001 (whatever a handler raises)
        write_to_stderr(
            f"{what}: {conceal(describe_error(error))}\nThe log failed: {describe_error(broken)}"
        )


def _is_printable(error: BaseException, conceal: Callable[[str], str]) -> bool:
    if len(describe_error(error)) >= MAX_ERROR_TEXT or _is_large(error):
        return False
    try:
        if _is_long(error):
            return False
        text = "".join(traceback.format_exception(error))
        # No lone surrogate, either, which no file takes.
        return len(text.encode()) <= _MAX_TRACEBACK and conceal(text) == text
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (whatever a broken `__str__` raises)
        return False


def _is_long(error: BaseException) -> bool:
    """Whether the messages of an error, and of those that led to it, are too long to format."""
    todo, seen, length = [error], {id(error)}, 0
    while todo and length <= _MAX_TRACEBACK and len(seen) <= _MAX_ERRORS:
        each = todo.pop()
        length += len(str(each)) + sum(map(len, getattr(each, "__notes__", ())))
        parts = _EXCEPTIONS.__get__(each) if is_a(each, BaseExceptionGroup) else ()
        for other in (each.__cause__, each.__context__, *parts):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                todo.append(other)
    return bool(todo) or length > _MAX_TRACEBACK


def _is_large(error: BaseException) -> bool:
    """Whether a group is too deep for recursive log handlers, or too wide to format in time."""
    level, count = [error], 1
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for group in level
            if is_a(group, BaseExceptionGroup)
            for part in _EXCEPTIONS.__get__(group)
        ]
        count += len(level)
        if not level or count > _MAX_ERRORS:
            break
    return bool(level)
