"""Foreign texts and exceptions, made safe to store, show and log.

Texts are made valid, cut between characters, and shown without hidden characters. Texts that a
person is to judge are shown exactly, with a warning if they may mislead.

An exception of a tool or an agent reaches chunks, histories, logs and the mailboxes of other
agents, and nothing about it can be trusted: `__str__` may raise or exit, a message may be megabytes
long or not a text at all, `__class__` may lie, groups may be nested deeper than the interpreter's
stack or hold each other many times over, and their `split` may be overridden. The functions for
exceptions never raise, never recurse, and return at most `MAX_ERROR_TEXT` characters of valid
Unicode.
"""

import contextlib
import logging
import re
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeGuard, TypeVar

# Controls except tab and newline; DEL and C1; soft hyphen and the invisible, joining and
# bidirectional format characters; line and paragraph separators; BOM; tags; lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)


def valid_unicode(text: str) -> str:
    r"""Replace lone surrogates, which no UTF-8 can carry, with U+FFFD.

    Example:
        >>> valid_unicode("a\ud800b")
        'a�b'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def visible(text: str) -> str:
    r"""Escape every character that could hide or disguise text, as in `\u{202e}`.

    Tabs and newlines stay. Carriage returns, terminal escapes, bidirectional overrides, zero-width
    characters and the like become visible.

    Example:
        >>> print(visible("ls \u202e.txt"))
        ls \u{202e}.txt
    """
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def without_hidden(text: str) -> str:
    r"""Drop every character that could hide or disguise text; some disks ignore them in names.

    Example:
        >>> without_hidden(".g\u200bit")
        '.git'
    """
    return _HIDDEN.sub("", text)


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


def mark_lines(text: str) -> str:
    r"""Put a mark before each line of a text, and escape what could hide in it.

    Example:
        >>> print(mark_lines("Run make.\r\n\u2028# The user's own instructions"))
        | Run make.
        | \u{2028}# The user's own instructions
    """
    lines = visible(text.replace("\r\n", "\n")).split("\n")
    return "\n".join(f"| {line}".rstrip() for line in lines)


# Blanks that a shell does not split at, or that look like an ordinary blank.
_ODD_BLANKS = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")
_PADDING = re.compile(r"[ \t]{33,}|\t{5,}")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*+\n){4,}+")
_SOME_EMPTY_LINES = re.compile(r"\n(?:[ \t]*+\n){4}")
_WORD = re.compile(r"[^\W\d_]++")
# Letters of Cyrillic, Greek, Armenian, Cherokee and Lisu that look like ASCII. NFKC finds
# others, such as fullwidth and mathematical ones.
_LIKE_LATIN = frozenset(
    "АВЕЅІЈКМНОРСТУХԌԚԜҮѴаеіјорсухѕһԁԛԝүѵӏ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονϲϳ"  # noqa: RUF001
    "ԼՍՏՕհոսօզց"
    "ᎠᎡᎢᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏒᏔᏙᏚᏞᏟᏢᏦᏧᏩᏴ"
    "ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓨꓪꓫꓬꓮꓰꓲꓳꓴ"
)
# Small letters that look like ASCII only at a glance, or in italics.
_RATHER_LIKE_LATIN = frozenset("кмтαγικρτυχω")
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU")
_NAMED = 3  # words in a warning
_SHOWN = 40  # letters of each

_HIDES = "it holds characters that would hide; they are shown as \\u{…}"
_PADS = "it holds long runs of blanks or empty lines; their lengths are shown instead"
_POSES = "letters of several alphabets look alike, as in: "


def exact(text: str) -> str:
    r"""Show a text exactly: nothing can hide, pose as something else or push text out of view.

    Besides what `visible` does, odd blanks are escaped, and a run of more than 32 blanks or of more
    than 4 empty lines is replaced by its length.

    Example:
        >>> print(exact("ls" + " " * 3000 + "; rm\u00a0-rf x"))
        ls…(3000 blanks)…; rm\u{a0}-rf x
    """
    text = _ODD_BLANKS.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", visible(text))
    text = _EMPTY_LINES.sub(
        lambda found: f"\n…({found[0].count(chr(10)) - 1} empty lines)…\n", text
    )
    return _PADDING.sub(lambda found: f"…({len(found[0])} blanks)…", text)


def disguises(*texts: str) -> tuple[str, ...]:
    r"""Return warnings about what may mislead a reader of these texts, a sentence each.

    Example:
        >>> disguises("ls -l"), disguises("ls \u202e")
        ((), ('it holds characters that would hide; they are shown as \\u{…}',))
    """
    found = []
    if any(visible(text) != text or _ODD_BLANKS.search(text) for text in texts):
        found.append(_HIDES)
    if any(_PADDING.search(text) or _SOME_EMPTY_LINES.search(text) for text in texts):
        found.append(_PADS)
    posing = dict[str, None]()
    for text in texts:
        posing |= dict.fromkeys(islice(_find_lookalikes(text), _NAMED + 1))
    if posing:
        more = " and others" if len(posing) > _NAMED else ""
        found.append(_POSES + ", ".join(islice(posing, _NAMED)) + more)
    return tuple(found)


def lookalikes(text: str, *, sure: bool = False) -> str:
    r"""Return the letters that make words of this text look like ASCII although they are not.

    Such a word mixes letters of ASCII with lookalikes, or has only lookalikes. With `sure`, an
    ordinary word of a language whose letters look only a little like ASCII does not count.

    Example:
        >>> ascii(lookalikes("\u0455ud\u043e")), lookalikes("größe")
        ("'\\u0455\\u043e'", '')
    """
    if text.isascii():
        return ""
    found = dict[str, None]()
    for word in _WORD.findall(text):
        like = [ch for ch in word if _looks_latin(ch) or ch in _RATHER_LIKE_LATIN]
        odd = sum(not ch.isascii() for ch in word)
        whole = len(like) == len(word) and not (sure and _RATHER_LIKE_LATIN.intersection(word))
        if whole or (like and odd < len(word)):
            found |= dict.fromkeys(like)
    return "".join(found)


def texts_in(value: object) -> Iterator[str]:
    """Iterate over every text in a JSON value, such as a call's input, whatever its tool shows.

    Example:
        >>> list(texts_in({"a": "x", "b": ["y", {"c": 1}]}))
        ['x', 'y']
    """
    waiting = [value]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each


def _find_lookalikes(text: str) -> Iterator[str]:
    """Find words that look like ASCII; in a text of another language only mixed ones."""
    if text.isascii():
        return
    is_foreign = any(map(_is_foreign, text))
    for word in re.findall(r"\w++", text):
        is_mixed = re.search("[A-Za-z]", word) is not None
        if (odd := lookalikes(word)) and (is_mixed or not is_foreign):
            yield f"{word[:_SHOWN]} (U+{ord(odd[0]):04X})"


def _is_foreign(character: str) -> bool:
    if character.isascii() or character in _LIKE_LATIN or character in _RATHER_LIKE_LATIN:
        return False
    return unicodedata.name(character, "").startswith(_SCRIPTS)


def _looks_latin(character: str) -> bool:
    if character in _LIKE_LATIN:
        return True
    like = unicodedata.normalize("NFKC", character) if character >= "\u2100" else ""
    return like.isascii() and like.isalpha()


# A few warnings must be seen even in a program that never set up logging, such as one whose event
# loop is blocked. A library's logger has a `NullHandler`, which drops them, so without another
# handler they go to standard error.


def notice(logger: logging.Logger, text: str) -> None:
    """Log a warning; if no handler takes it, write it to standard error."""
    logger.warning("%s", text)
    if not _is_handled(logger):
        write_to_stderr(text)


def write_to_stderr(text: str) -> None:
    """Write a line to standard error, if it exists and still accepts text."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):  # a broken pipe, a closed file
        sys.stderr.write(f"greenroom: {text}\n")
        sys.stderr.flush()


def _is_handled(logger: logging.Logger) -> bool:
    each: logging.Logger | None = logger
    while each is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in each.handlers):
            return True
        each = each.parent if each.propagate else None
    return False


E = TypeVar("E", bound=BaseException)

MAX_ERROR_TEXT = 2_000
"""Characters of an error that are ever shown: enough for a message, not for a dump."""

_MAX_TRACEBACK = 64 * 1024  # bytes in the log; a chain of ordinary errors takes a few thousand
_MAX_DEPTH = 20  # of groups in groups; trio's nurseries nest a few
_MAX_ERRORS = 1_000  # in a group that is logged as a whole; a traceback takes a millisecond or so
_FRAMES = 30  # logged of a traceback that can't be printed as a whole, the innermost ones

# The attributes themselves, also where a subclass has overridden them.
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
    """Return the message of one exception, clipped; empty without one.

    Example:
        >>> message_of(ValueError("no such file"))
        'no such file'
    """
    return read_text(lambda: str(error))


def read_text(read: Callable[[], object]) -> str:
    """Return a text that is read from an exception, clipped; empty if it is None.

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
        return valid_unicode(clip(str.__str__(text), MAX_ERROR_TEXT))
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


def log_error(logger: logging.Logger, what: str, error: BaseException) -> None:
    """Log what happened, with the traceback of its error.

    If the traceback can't be formatted or is too long, the error's description and its innermost
    frames take its place. If a handler of the log raises, standard error gets the message.
    """
    try:
        if _is_printable(error):
            logger.error("%s", what, exc_info=error)
        else:
            frames = "".join(traceback.format_tb(_TRACEBACK.__get__(error), limit=-_FRAMES))
            logger.error("%s: %s\n%s", what, describe_error(error), frames)
    except Exception as broken:  # noqa: BLE001 (whatever a handler raises)
        write_to_stderr(
            f"{what}: {describe_error(error)}\nThe log failed: {describe_error(broken)}"
        )


def _is_printable(error: BaseException) -> bool:
    if len(describe_error(error)) >= MAX_ERROR_TEXT or _is_large(error):
        return False
    try:
        for leaf in leaves(error):
            str(leaf)
        text = "".join(traceback.format_exception(error))
        return len(text.encode()) <= _MAX_TRACEBACK  # and no lone surrogate, which no file takes
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (whatever a broken `__str__` raises)
        return False


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
