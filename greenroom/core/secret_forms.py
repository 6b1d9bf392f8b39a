r"""The forms of secrets in texts, and a search for them that is quick in long texts.

One regular expression has all forms, and to try it at each character of a megabyte takes most of a
second, which no event loop has. Each form also has an anchor: a word or a sign without which it is
not there, and which `str.find` finds a hundred times as quickly. Most anchors are no secrets, as
what follows them tells. The expression is tried only around the others.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

# So that no form begins within another, and time grows with the text. What `repr`, JSON or an
# address writes in front, such as `\n` or `%3D`, is not part of a word.
_ALONE = r"(?:(?<![\w-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_PREFIXES = (
    r"sk|rk|gsk|xai|hf|r8|nvapi|pplx|csk|glpat|gh[opsur]|github_pat|xox[a-z]|xapp|npm|pypi|whsec"
    r"|shp[a-z]{2}|do[opr]_v1|tvly|GOCSPX|lin_api|ntn|figd|dckr_pat|glsa|lsv2|jina|tgp_v1|sbp|sntrys"
)
KEY_FORM = (
    rf"{_ALONE}(?!sk_[A-Z])(?:(?:{_PREFIXES})[-_](?=[\w-]*(?:\d|[a-z][A-Z]))[\w-]{{16,}}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|AIza[\w-]{30,}|(?:AQ|ya29|hvs)\.[\w-]{20,}|ATATT3x[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}\b|dapi[0-9a-f]{32}\b|\d{8,10}:AA[\w-]{33}\b)"
)
"""The forms of the keys of vendors, as a regular expression."""

_IN_VALUE = r"[^\s\"'&,;<>\\]"
_LIKE_A_KEY = rf"(?={_IN_VALUE}{{0,19}}(?:\d|[a-z][A-Z])|{_IN_VALUE}{{20}})"
_OWNERS = "api|access|secret|private|auth"
_KINDS = rf"(?:{_OWNERS})[-_]?(?:key|token)|client[-_]?secret|passw(?:or)?d|secret"
# `pwd` is also the name of a folder.
_NAMES = rf"{_KINDS}|token(?=[=\"'])|pwd(?=[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?[^\s\"'/~.$])"
_EQUALS = r"\b[\"']?\s{0,4}[:=]\s{0,4}(?:b?[\"'])?"
_COMMA = r"[\"'],\s{0,4}b?[\"']"
_OPTION = rf"(?<![\w-])--?[a-z0-9-]{{0,40}}(?:{_KINDS}|token)\s{{1,4}}[\"']?(?!-)"
_PARAMETER = r"(?<=[?&])(?:key|sig|signature)="
_SLASHES = r":(?://|\\/\\/)"
_USER_INFO = (
    r"(?:[^\s/@:\"'<>\\]*:[^\s/?#\"'<>\\]+"
    r"|(?i:(?<=https://)|(?<=http://))[^\s/@\"'<>\\]{8,})(?=@)"
)


@lru_cache(1)
def compile_forms() -> re.Pattern[str]:
    """Return what finds the first form from a place on, if it is in reach of its anchor."""
    # At its first use: it takes as long to compile as a third of this package to load.
    forms = (
        rf"(?P<key>{KEY_FORM})"
        rf"|(?P<jwt>{_ALONE}eyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*)?)"
        r"|(?P<pem>-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
        r".*?(?:-----END (?P=kind)-----|\Z))"
        rf"|(?P<scheme>\b(?i:[a-z][a-z0-9+.-]{{0,20}}){_SLASHES}){_USER_INFO}"
        rf"|(?P<header>(?i:\b(?:authorization|cookie){_EQUALS}))"
        r"(?=[^\"'\r\n]{0,200}?(?:\d|[a-z][A-Z]|\S{20}))[^\"'\r\n]{8,}"
        rf"|(?P<before>(?i:\b(?:bearer|basic|token)\s{{1,4}}))(?!-){_LIKE_A_KEY}[\w.~+/=%-]{{8,}}"
        rf"|(?P<name>(?i:(?<![a-z0-9])(?:{_NAMES}){_EQUALS}|{_OPTION}|{_PARAMETER}))"
        rf"{_LIKE_A_KEY}{_IN_VALUE}{{8,}}"
        rf"|(?P<pair>(?i:(?<![a-z0-9])(?:{_KINDS}|token|authorization|cookie){_COMMA}))"
        r"(?=[^\"'\r\n]{0,200}\d)[^\"'\r\n]{8,}"
    )
    return re.compile(rf".{{0,{_BEFORE}}}?(?P<form>{forms})", re.DOTALL)


_BEFORE = 64  # characters: an option's name has at most two, 40, and eight before its last word
_SIGNS = (
    *("SG.", "AIza", "AQ.", "ya29.", "hvs.", "ATATT3x", "AKIA", "ASIA", "dapi", ":AA", "eyJ"),
    *("-----BEGIN ", "://", ":\\/\\/"),
)
_WORDS = (
    *(b"key", b"token", b"secret", b"passw", b"pwd", b"sig=", b"signature="),
    *(b"authorization", b"cookie", b"bearer", b"basic"),
)
# What `re` takes for a letter of ASCII if case does not matter, and `lower` does not.
_LOOKALIKES = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"), ("\u212a", "k"))


@lru_cache(1)
def _compile_anchored() -> re.Pattern[str]:
    """Return what may be a form, from its anchor on. A key with a prefix has none.

    All that it reads is of bounded length, or ends before the next anchor: else time would grow
    with the square of the text.
    """
    owners = "|".join(f"(?<={each})|(?<={each}[-_])" for each in _OWNERS.split("|"))
    value = rf"{_LIKE_A_KEY}{_IN_VALUE}{{8}}"
    return re.compile(
        r"(?:SG\.|AIza|AQ\.|ya29\.|hvs\.|ATATT3x|AKIA|ASIA|dapi)[\w-]{16}|:AA[\w-]{33}"
        rf"|eyJ[\w-]{{8}}|-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY|{_SLASHES}{_USER_INFO}"
        rf"|(?i:(?:(?:{owners}|(?<=[?&]))key|token|secret|passw(?:or)?d|pwd)"
        rf"(?:{_COMMA}(?=[^\"'\r\n]{{0,200}}\d)|(?:{_EQUALS}|\s{{1,4}}[\"']?){value}))"
        rf"|(?i:sig(?:nature)?=|(?:bearer|basic)\s{{1,4}}){value}"
        rf"|(?i:(?:authorization|cookie)(?:{_EQUALS}|{_COMMA}))[^\"'\r\n]{{8}}"
    )


def _may_be(text: str, at: int) -> bool:
    """Whether a form may begin here; only a text with a sign of one has what finds it compiled."""
    return _compile_anchored().match(text, at) is not None


@lru_cache(1)
def _compile_prefixed() -> re.Pattern[str]:
    """Return what finds the end of a prefix: to find `-` or `_` and look behind is quickest."""
    prefixes = "|".join(f"(?<={each}[-_])" for each in _PREFIXES.split("|"))
    return re.compile(rf"[-_](?<=[^\W_][-_])(?=[\w-]{{16}})(?:{prefixes})")


def conceal_forms(text: str, instead: str) -> str:
    """Return a text with other words in place of what has the form of a secret.

    What tells what it is, such as the name of a field, stays.

    Example:
        >>> conceal_forms("password=hunter2hunter2", "[secret]")
        'password=[secret]'
    """
    # Most texts are short, and many are cleaned in a step of an agent: no call more than it takes.
    anchors = list[int]()
    for sign in _SIGNS:
        at = text.find(sign)
        while at >= 0:
            if _may_be(text, at):
                anchors.append(at)
            at = text.find(sign, at + 1)
    plain = text if text.isascii() else _replace_lookalikes(text)
    lower = plain.encode("latin-1", "replace").lower()  # a byte for each character
    for word in _WORDS:
        at = lower.find(word)
        while at >= 0:
            if _may_be(text, at):
                anchors.append(at)
            at = lower.find(word, at + 1)
    if "-" in text or "_" in text:
        for found in _compile_prefixed().finditer(text):
            anchors.append(found.start())
    return _conceal_at(sorted(anchors), text, instead) if anchors else text


def _conceal_at(anchors: Iterable[int], text: str, instead: str) -> str:
    """Replace the forms that are at these places, or begin up to `_BEFORE` characters before."""
    parts: list[str] = []
    end = tried = 0  # where the last form ends, and where none has been looked for yet
    for anchor in anchors:
        if anchor < tried:
            continue
        start = max(tried, anchor - _BEFORE)
        found = compile_forms().match(text, start)
        if found is None:
            tried = start + _BEFORE + 1
            continue
        kept = found.group("scheme", "header", "before", "name", "pair")
        parts += [text[end : found.start("form")], next(filter(None, kept), ""), instead]
        end = tried = found.end()
    return "".join([*parts, text[end:]])


def _replace_lookalikes(text: str) -> str:
    for each, letter in _LOOKALIKES:
        text = text.replace(each, letter)
    return text
