# ruff: noqa: RUF001  (characters that look alike are what this module is about)
"""Texts that pose: what looks like ASCII in most fonts, and is not.

`disguises` warns of what may mislead a reader of any text, so ordinary text of every language must
pass. `lookalikes` is for single words whose meaning matters, such as a program, an option or a
path, and is stricter.

Unicode's own data says which characters are variants of one in ASCII (by NFKC, the compatibility
form) and which are dashes or quotation marks (by category). It does not say what else looks alike:
such letters and marks are listed here.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from greenroom.core.late_pattern import compile_later
from greenroom.core.visibility import hides_something, is_padded, name_characters

_NAMED = 3  # words in a warning
_SHOWN = 40  # letters of each

_HIDES = "it holds characters that would hide; they are shown as \\u{…}"
_PADS = "it holds long runs of blanks or empty lines; their lengths are shown instead"
_POSES = "letters of several alphabets look alike, as in: "
_MARKS_POSE = "marks look like those of ASCII, as in: "


def disguises(*texts: str) -> tuple[str, ...]:
    r"""Return warnings about what may mislead a reader of these texts, a sentence each.

    Example:
        >>> disguises("ls -l"), disguises("ls \u202e")
        ((), ('it holds characters that would hide; they are shown as \\u{…}',))
    """
    found = []
    if any(map(hides_something, texts)):
        found.append(_HIDES)
    if any(map(is_padded, texts)):
        found.append(_PADS)
    for says, find in ((_POSES, _find_words), (_MARKS_POSE, _find_marks)):
        posing = dict[str, None]()
        for text in texts:
            posing |= dict.fromkeys(islice(find(text), _NAMED + 1))
        if posing:
            more = " and others" if len(posing) > _NAMED else ""
            found.append(says + ", ".join(islice(posing, _NAMED)) + more)
    return tuple(found)


def lookalikes(text: str, *, sure: bool = False) -> str:
    r"""Return the letters and marks that make a word or path look like ASCII but are not.

    A letter counts in a word that mixes letters of ASCII with lookalikes, or has only lookalikes; a
    mark where its language does not have it. With `sure`, an ordinary word of a language whose
    letters look only a little like ASCII does not count, nor do the dashes and quotation marks of
    typography, unless the text begins with one.

    Example:
        >>> ascii(lookalikes("\u0455ud\u043e")), lookalikes("größe"), ascii(lookalikes("a\u2024b"))
        ("'\\u0455\\u043e'", '', "'\\u2024'")
    """
    if text.isascii():
        return ""
    return "".join(dict.fromkeys((*_list_letters(text, sure=sure), *_list_marks(text, sure=sure))))


def describe_lookalikes(text: str, *, sure: bool = False) -> str:
    r"""Say which letters and marks of a word look like ASCII, at most five; see `lookalikes`.

    Example:
        >>> describe_lookalikes("c\u0430t"), describe_lookalikes("größe")
        ('letters that look like those of ASCII: U+0430 (CYRILLIC SMALL LETTER A)', '')
    """
    letters = lookalikes(text, sure=sure)
    return letters and f"letters that look like those of ASCII: {name_characters(letters)}"


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


# Letters: each is judged with its word.

_WORD = compile_later(r"[^\W\d_]++")
# Letters of Cyrillic, Greek, Armenian, Cherokee and Lisu, and of phonetic alphabets, that look like
# ASCII. NFKC finds others, such as fullwidth and mathematical ones.
_LIKE_LATIN = frozenset(
    "АВЕЅІЈКМНОРСТУХԌԚԜҮѴаеіјорсухѕһԁԛԝүѵӏ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονϲϳ"
    "ԼՍՏՕհոսօզց"
    "ᎠᎡᎢᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏒᏔᏙᏚᏞᏟᏢᏦᏧᏩᏴ"
    "ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓨꓪꓫꓬꓮꓰꓲꓳꓴ"
    "ɡᴄᴏꜱᴠᴡᴢ"
)
# Small letters that look like ASCII only at a glance, or in italics.
_RATHER_LIKE_LATIN = frozenset("кмтαγικρτυχω")
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU")
# Alphabets with many such letters, of which no ordinary word mixes one with letters of ASCII.
_UNMIXED = (
    *("CANADIAN SYLLABICS", "CARIAN", "CHEROKEE", "COPTIC", "DESERET", "ELBASAN", "GOTHIC"),
    *("LISU", "LYCIAN", "LYDIAN", "MIAO", "OLD ITALIC", "OSAGE", "RUNIC", "TIFINAGH", "WARANG"),
)


def _list_letters(text: str, *, sure: bool = False) -> Iterator[str]:
    foreign = {ch for ch in set(text) if not ch.isascii()}
    like = {ch for ch in foreign if _looks_latin(ch) or ch in _RATHER_LIKE_LATIN}
    mixed = like | {ch for ch in foreign if unicodedata.name(ch, "").startswith(_UNMIXED)}
    for word in _WORD.findall(text) if mixed else ():
        letters = set(word)
        is_whole = letters <= like and not (sure and _RATHER_LIKE_LATIN & letters)
        if is_whole or not foreign.issuperset(letters):
            yield from (ch for ch in word if ch in mixed)


def _find_words(text: str) -> Iterator[str]:
    """Find words that look like ASCII; in a text of another language only mixed ones."""
    if text.isascii():
        return
    is_foreign = any(map(_is_foreign, set(text)))
    for word in re.findall(r"\w++", text):
        if not word.isascii() and (odd := next(_list_letters(word), "")):
            is_mixed = re.search("[A-Za-z]", word) is not None
            if is_mixed or not is_foreign:
                yield f"{word[:_SHOWN]} (U+{ord(odd):04X})"


def _is_foreign(character: str) -> bool:
    if character.isascii() or character in _LIKE_LATIN or character in _RATHER_LIKE_LATIN:
        return False
    return unicodedata.name(character, "").startswith(_SCRIPTS)


@lru_cache(4_096)
def _looks_latin(character: str) -> bool:
    if character in _LIKE_LATIN:
        return True
    like = unicodedata.normalize("NFKC", character) if character >= "\u2100" else ""
    return like in _LIKE_LATIN or (like.isascii() and like.isalpha())


# Marks: each is judged by what is around it, since typography and other languages have many.

_LIKE_MARKS = frozenset(
    "⁄∕⟋⧸⫽⫻〳᜵⁁∖⟍⧵⧹⑊ǀ∣❘⏐׀ǁ∥"  # slashes and bars
    "ː˸։᛬⁚∶꞉᠃᠉܃܄ः⁏؛‥꘎۔ꓸꓹꓺꓻꓽ꓿꓾"  # colons, semicolons, full stops
    "∗⁎٭∼⁓˜῀˄ˆǃⵑ꞊᛭٪ꝸߺ"  # asterisks, tildes and others
    "˂˃ᐸᐳ❮❯≪≫⋘⋙❨❩❲❳〔〕﴾﴿⸨⸩❴❵"  # brackets
)
_BARS = frozenset("│┃╱╲￨")
"""Marks only where nothing else is drawn; diagrams and tables of files are full of them."""
_DRAWN = compile_later("[\u2500-\u257f]")
_DASHES = (
    "\u058a\u05be\u1400\u1806\u2010-\u2015\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0"
    "\ufe31\ufe32\ufe58\ufe63\uff0d\U00010ead"  # of the category Pd
    "\u02d7\u2043\u2212"
)
_DASH, _HYPHEN = compile_later(f"[{_DASHES}]"), compile_later("[\u02d7\u2010-\u2012\u2043\u2212]")
_OPTION = compile_later(f"(?<!\\S)[-{_DASHES}]++(?=[A-Za-z])")
_SPEECH = ("—", "―")
"""With one of these, a line of speech may begin in some languages."""
_QUOTES = frozenset("‚„′″‴‵‶‷⁗´ʹʺʻʼʽʾˈˊˋˮ˴˶՚՝ꞌ᾽᾿΄῾〃")
# Fullwidth and other forms, as against superscripts, circled numbers and the like.
_VARIANT = compile_later(r"(?:<(?:wide|narrow|small|vertical|font|compat)> )?[0-9A-F]++$")
_EAST_ASIAN_MARK = compile_later("[\u3000-\u303f\ufe10-\ufe6f\uff01-\uffef]")


@lru_cache(1)
def _east_asian() -> re.Pattern[str]:
    # At its first use: it takes long to compile.
    return re.compile(
        "[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3105-\u9fff\ua960-\ua97f"
        "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003fffd]"
    )


@lru_cache(4_096)
def _is_mark(character: str) -> bool:
    """Return whether a mark or digit looks like one of ASCII, and is rare in typography."""
    if character in _LIKE_MARKS or character in _BARS:
        return True
    if character.isascii() or not _VARIANT.match(unicodedata.decomposition(character)):
        return False
    like = unicodedata.normalize("NFKC", character)
    return len(like) == 1 and "!" <= like <= "~" and not like.isalpha()


def _is_quote(character: str) -> bool:
    return unicodedata.category(character) in ("Pi", "Pf") or character in _QUOTES


def _list_marks(text: str, *, sure: bool) -> Iterator[str]:
    """List the marks that pose in a word or path; a text that begins with a dash is an option."""
    if _DASH.match(text) or _is_quote(text[0]):
        yield text[0]
    yield from (text[at] for at in _find_posing(text))
    if not sure:
        yield from (ch for ch in text if _DASH.match(ch) or _is_quote(ch))
    for found in _HYPHEN.finditer(text):
        around = text[found.start() - 1 : found.start()] + text[found.end() : found.end() + 1]
        if len(around) == 2 and around.isascii() and around.isalnum():
            yield found[0]


def _find_marks(text: str) -> Iterator[str]:
    """Find marks and options that pose in a text, each with what is around it."""
    if text.isascii():
        return
    options = (
        found.start() + len(found[0]) - len(found[0].lstrip("-"))
        for found in _OPTION.finditer(text)
        if not found[0].isascii() and found[0] not in _SPEECH
    )
    for at in (*islice(options, _NAMED + 1), *islice(_find_posing(text), _NAMED + 1)):
        before, after = text[max(0, at - _SHOWN // 2) : at], text[at : at + _SHOWN // 2]
        start = "" if before[-1:].isspace() else "".join(before.split()[-1:])
        yield f"{start}{after.split()[0]} (U+{ord(text[at]):04X})"


def _find_posing(text: str) -> Iterator[int]:
    """Find the marks that pose, except where the language of the line or a notation has them."""
    marks = set(filter(_is_mark, set(text)))
    if _DRAWN.search("".join(set(text) - _BARS)):
        marks -= _BARS
    start = 0
    for line in text.split("\n") if marks else ():
        if not marks.isdisjoint(line):
            yield from (start + at for at in _find_in_line(line, marks))
        start += len(line) + 1


def _find_in_line(line: str, marks: set[str]) -> Iterator[int]:
    if _east_asian().search(line):
        marks = {ch for ch in marks if not _EAST_ASIAN_MARK.match(ch)}
    before, waiting = "", list[int]()
    for at, ch in enumerate(line):
        if ch in marks:
            waiting.append(at)
        elif ch.isalnum():
            yield from (each for each in waiting if not _is_natural(line[each], before, ch))
            before, waiting = ch, []
    yield from (each for each in waiting if not _is_natural(line[each], before, ""))


def _is_natural(mark: str, before: str, after: str) -> bool:
    """Return whether a mark belongs to the letters around it, or to numbers."""
    if mark in "⁄∶" and before.isdigit() and after.isdigit():
        return True
    return any(
        each and not each.isascii() and not unicodedata.name(each, "").startswith("LATIN")
        for each in (before, after)
    )
