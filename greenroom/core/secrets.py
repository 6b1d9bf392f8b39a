r"""Secrets in texts of others: keys, tokens and passwords, known by their form or their name.

The message of an exception often quotes what a library was called with: a header, an address, a
configuration. It goes to models, to disk and into logs, where no secret belongs. These are found:

- keys of vendors, such as `sk-…`, `AIza…`, `ghp_…` and `AKIA…`
- what follows `Bearer` or `Basic`, and JSON Web Tokens
- private keys in PEM
- user and password in addresses: the user info of RFC 3986, section 3.2.1
- values named like `api_key=`, `"password": `, `X-Api-Key: `, `--api-key ` or `("api_key", "…")`,
  if they have a digit or are long
- the values of variables of this process whose names end like `OPENAI_API_KEY` or `DB_PASSWORD`,
  from eight characters on; of the latter, only what is not a word

A secret of any other form can't be told from a word. `secret_forms` has all but the last.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec

from greenroom.core.late_pattern import compile_later
from greenroom.core.secret_forms import conceal_forms

SECRET = "[secret]"  # noqa: S105 (what takes the place of a secret)
"""What takes the place of a secret."""

_SHORTEST = 8  # characters of a variable's value: a shorter one is part of many a word
_VARIABLE = compile_later(r"(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD)$", re.IGNORECASE)
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


@lru_cache(maxsize=1024)
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
