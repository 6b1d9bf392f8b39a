"""The redactor: takes secrets out of what leaves the process for traces, logs and records."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

import msgspec

from greenroom.core import ConfigurationError
from greenroom.core._internal import SECRET, compile_later, conceal_secrets, map_texts

T = TypeVar("T")

_NAMED = compile_later(
    r"(?:\A|[_\-.])(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\Z", re.IGNORECASE
)
_PART = compile_later(r"(?<=[a-z0-9])(?=[A-Z])")


class Redactor:
    """Replaces secrets by `[secret]` in texts, and in values made of texts.

    Always hidden are keys of vendors, what follows `Bearer` or `Basic`, JSON Web Tokens, private
    keys in PEM, user and password in addresses, the values of environment variables whose names say
    that they are secret, and the values of fields whose names end in KEY, TOKEN, SECRET or
    PASSWORD.

    Args:
        patterns: more that is hidden: regular expressions of Python's `re`, whose matches go.
        fields: the names of more fields, in any case, whose whole values go.

    Raises:
        ConfigurationError: a pattern is not a regular expression.

    Example:
        >>> redact = Redactor(patterns=[r"ACME-[0-9]+"], fields=["patient"])
        >>> redact({"patient": "Ann", "note": "ACME-77 called", "api_key": "x"})
        {'patient': '[secret]', 'note': '[secret] called', 'api_key': '[secret]'}
    """

    def __init__(self, patterns: Iterable[str] = (), fields: Iterable[str] = ()) -> None:
        self._patterns = [_compile(each) for each in patterns]
        self._fields = frozenset(each.casefold() for each in fields)

    def __call__(self, value: T) -> T:
        """Return the text, or the value made of texts, without secrets."""
        return self._redact(value)  # type: ignore[return-value]

    def _redact(self, value: object) -> object:
        if type(value) is str:
            text = conceal_secrets(value)
            for pattern in self._patterns:
                text = pattern.sub(SECRET, text)
            return text
        if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 (the first is quick)
            found = {}
            for key, each in value.items():
                is_secret = isinstance(key, str) and (
                    (_names_secret if len(key) <= _LONGEST else _matches)(key)
                    or key.casefold() in self._fields
                )
                found[key] = SECRET if is_secret and each not in ("", None) else self._redact(each)
            return found
        if isinstance(value, list | tuple):
            return list(map(self._redact, value))
        if isinstance(value, msgspec.Struct):
            return map_texts(value, cast("Callable[[str], str]", self._redact))
        return value


_LONGEST = 200  # characters of a name that is cached


def _matches(key: str) -> bool:
    return _NAMED.search(_PART.sub("_", key)) is not None


_names_secret = lru_cache(1_024)(_matches)  # without the frame of `cache_short`, for each name


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(
            f"{pattern!r} is not a regular expression: {error}", hint="see the re module of Python"
        ) from error
