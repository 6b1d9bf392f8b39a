r"""Secrets in texts of others: keys, tokens and passwords, known by their form or their name.

The message of an exception often quotes what a library was called with: a header, an address, a
configuration. It goes to models, to disk and into logs, where no secret belongs. These are found:

- keys of vendors, such as `sk-…`, `AIza…`, `ghp_…` and `AKIA…`
- what follows `Bearer` or `Basic`, and JSON Web Tokens
- private keys in PEM
- user and password in addresses: the user info of RFC 3986, section 3.2.1
- values named like `api_key=`, `"password": `, `X-Api-Key: `, `--api-key ` or `("api_key", "…")`,
  if they have a digit or are long
- the values of variables of this process whose names end like `OPENAI_API_KEY`, `SECRET_KEY` or
  `DB_PASSWORD`, from eight characters on; of the last two, only what is not a word

A secret of any other form can't be told from a word.

One regular expression has all forms, and to try it at each character of a megabyte takes most of a
second, which no event loop has. Each form also has an anchor: a word or a sign without which it is
not there, and which `str.find` finds a hundred times as quickly. Most anchors are no secrets, as
what follows them tells. The expression is tried only around the others.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec

from greenroom.core.late_pattern import compile_later
from greenroom.core.short_cache import cache_short

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


SECRET = "[secret]"  # noqa: S105 (what takes the place of a secret)
"""What takes the place of a secret."""

_SHORTEST = 8  # characters of a variable's value: a shorter one is part of many a word
_VARIABLE = compile_later(
    r"(?:API_?KEY|ACCESS_?KEY|SECRET(?:_?KEY)?|TOKEN|PASSWORD|PASSWD)$", re.IGNORECASE
)
_TELLING = compile_later(r"\d|[a-z][A-Z]|.{20}")

T = TypeVar("T")


def conceal_secrets(text: str, env: Mapping[str, str] | None = None) -> str:
    """Return a text of others with `[secret]` in place of each secret that it quotes.

    Args:
        text: the text; what can't be told from a word stays.
        env: the variables whose values are secrets if their names say so; by default those of this
            process.

    Example:
        >>> conceal_secrets("401 for https://ann:pa55word@example.org, Bearer abc123def456")
        '401 for https://[secret]@example.org, Bearer [secret]'
        >>> conceal_secrets("it said: swordfish-77", {"ACME_API_KEY": "swordfish-77"})
        'it said: [secret]'
    """
    return _conceal_values(_list_own_values() if env is None else _list_values(env), text)


def conceal_texts(value: T) -> T:
    """Return a value made of texts, lists, mappings and structs, with each text concealed.

    Example:
        >>> conceal_texts({"url": "https://ann:pa55word@example.org"})
        {'url': 'https://[secret]@example.org'}
    """
    return map_texts(value, partial(_conceal_values, _list_own_values()))


def _conceal_values(values: Iterable[str], text: str) -> str:
    found = set(filter(text.__contains__, values))
    for value in sorted(found, key=len, reverse=True):  # one may be a part of another
        if _TELLING.search(value):
            text = text.replace(value, SECRET)
        else:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", SECRET, text)
    return conceal_forms(text, SECRET)


def _list_values(env: Mapping[str, str]) -> Iterator[str]:
    """List the values of secret variables, also as JSON and addresses write them."""
    for name, value in env.items():
        secret = value.strip()
        is_key = name.upper().endswith(("API_KEY", "APIKEY"))  # which may be a word
        is_long = len(secret) >= _SHORTEST
        if is_long and (is_key or (_names_secret(name) and _TELLING.search(secret))):
            yield from {secret, msgspec.json.encode(secret)[1:-1].decode(), quote(secret, safe="")}


_own: list[tuple[object, tuple[str, ...]]] = [(None, ())]  # one: what they were, and their values


def _list_own_values() -> tuple[str, ...]:
    """List those of this process: again only if a variable has changed, as there are many texts.

    To list them reads every variable, in Python. CPython keeps them in a dict, which it compares in
    one step; where there is none, they are listed each time.
    """
    raw = getattr(os.environ, "_data", None)
    before, values = _own[0]
    if raw is None or raw != before:
        raw = dict(raw or {})  # first: what changes meanwhile is found the next time
        values = tuple(_list_values(os.environ))
        _own[0] = raw, values
    return values


@cache_short(1_024)
def _names_secret(variable: str) -> bool:
    return bool(_VARIABLE.search(variable))


def map_texts(value: T, change: Callable[[str], str], *, leave: frozenset[str] = frozenset()) -> T:
    """Return a value made of texts, lists, mappings and structs, with each text changed.

    Args:
        value: the value; anything else in it stays as it is.
        change: returns what takes the place of a text.
        leave: the fields of structs that stay as they are.

    Example:
        >>> map_texts({"a": ["x", 1]}, str.upper)
        {'A': ['X', 1]}
    """
    return cast("T", _map(value, change, leave))


def _map(value: object, change: Callable[[str], str], leave: frozenset[str]) -> object:
    if type(value) is str:  # not a member of an enumeration
        return change(value)
    if isinstance(value, dict):
        return {_map(k, change, leave): _map(v, change, leave) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_map(item, change, leave) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name not in leave)
        changed = {name: _map(getattr(value, name), change, leave) for name in names}
        return msgspec.structs.replace(value, **changed)
    return value
