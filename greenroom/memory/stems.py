"""Porter's stemmer: forms of an English word, such as "prefers" and "preference", share a stem.

The rules are those of M. F. Porter, "An algorithm for suffix stripping", 1980, with two that he
added later, as in SQLite's tokenizer "porter". A word of another language loses at most an ending
that looks English.
"""

from greenroom.core._internal import cache_short

_STEP_2 = """
ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous
ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive
biliti:ble logi:log
"""
_STEP_3 = "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:"
_STEP_4 = """
al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ion: ou: ism: ate: iti: ous: ive: ize:
"""
_SUFFIXES = [
    dict(rule.split(":") for rule in rules.split()) for rules in (_STEP_2, _STEP_3, _STEP_4)
]
_MEASURES = 1, 1, 2
_LONGEST = 64  # characters; a longer word is not one


@cache_short(8_192)
def stem(word: str) -> str:
    """Return the stem of a word in small letters; other words are returned as they are.

    Example:
        >>> [stem(word) for word in ("preferences", "prefers", "running", "memories", "x86")]
        ['prefer', 'prefer', 'run', 'memori', 'x86']
    """
    if not (2 < len(word) < _LONGEST and word.isascii() and word.isalpha()):
        return word
    word = _strip_inflection(_strip_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for suffixes, measure in zip(_SUFFIXES, _MEASURES, strict=True):
        word = _replace_suffix(word, suffixes, measure)
    if word.endswith("e"):
        bare = word[:-1]
        word = bare if _measure(bare) > (1 if _ends_short(bare) else 0) else word
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_inflection(word: str) -> str:
    """Strip "ed" and "ing", and restore how the word ended without them."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    bare = next((word.removesuffix(end) for end in ("ed", "ing") if word.endswith(end)), word)
    if bare == word or not _has_vowel(bare):
        return word
    if bare.endswith(("at", "bl", "iz")):
        return bare + "e"
    if bare[-1:] == bare[-2:-1] and bare[-1] not in "aeioulsz":
        return bare[:-1]
    return bare + "e" if _measure(bare) == 1 and _ends_short(bare) else bare


def _replace_suffix(word: str, table: dict[str, str], measure: int) -> str:
    """Replace the longest suffix of a table, if what is before it has this measure or more."""
    found = [suffix for suffix in table if word.endswith(suffix)]
    if not found:
        return word
    suffix = max(found, key=len)
    bare = word.removesuffix(suffix)
    if _measure(bare) < measure or (suffix == "ion" and not bare.endswith(("s", "t"))):
        return word
    return bare + table[suffix]


def _form(word: str) -> str:
    """Write "c" for each consonant and "v" for each vowel; y is one after a consonant."""
    form = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and form.endswith("c"))
        form += "v" if is_vowel else "c"
    return form


def _measure(word: str) -> int:
    """Count how often consonants follow vowels: about the syllables."""
    return _form(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _form(word)


def _ends_short(word: str) -> bool:
    """Whether it ends like "hop", so that it may have lost an "e"."""
    return _form(word)[-3:] == "cvc" and word[-1] not in "wxy"
