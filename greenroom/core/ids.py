"""Ids and names: how ids are made, which of them may name a session, and what a sender may be called."""

import random
import re
import secrets
from functools import lru_cache

from greenroom.core.errors import InvalidSessionIdError
from greenroom.core.text import without_hidden

RUNTIME = "runtime"
"""The sender of messages that the runtime writes itself, such as how a subagent ended."""

SUMMARY = "summary"
"""The sender of the summary that a compacted conversation begins with."""

RECALLED = "memory"
"""The sender of what a memory has recalled."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

_random: random.Random = secrets.SystemRandom()


def new_id(prefix: str) -> str:
    """Make an id such as `s-7k2m9q4x1zt0`: 60 random bits behind a prefix that says what it names."""
    bits = _random.getrandbits(60)
    return f"{prefix}-{''.join(_ALPHABET[bits >> at & 31] for at in range(0, 60, 5))}"


def seed_ids(seed: int | None) -> None:
    """Make the ids of this process repeatable, for tests; None makes them random again."""
    global _random  # noqa: PLW0603
    _random = secrets.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311


def check_session_id(session_id: str) -> str:
    """Return the id if it can safely name a folder: letters, digits, `_`, `-`; 128 at the most.

    Raises:
        InvalidSessionIdError: anything else, such as an empty id, a separator or a dot.
    """
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidSessionIdError(
            f"{session_id[:140]!r} is not a session id",
            session_id=session_id,
            hint="use letters, digits, '-' and '_', at most 128 of them",
        )
    return session_id


@lru_cache(maxsize=256)  # a message is checked whenever it is copied
def check_sender(name: str) -> str:
    """Return the name if it can stand in the line that tells a model who speaks; empty is a person.

    Raises:
        ValueError: it is longer than 64 characters, or holds brackets or what can't be seen.

    Example:
        >>> check_sender("reviewer 2")
        'reviewer 2'
    """
    is_plain = name.isprintable() and without_hidden(name) == name.strip() == name
    if len(name) > 64 or not is_plain or "[" in name or "]" in name:
        raise ValueError(
            f"{name[:80]!r} can't name a sender: use at most 64 printable characters, no brackets"
        )
    return name
