"""Ids: how they are made, and which of them may name a session."""

import random
import re
import secrets

from greenroom.core.errors import InvalidSessionIdError

__all__ = ["check_session_id", "new_id", "seed_ids"]

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
            f"{session_id[:140]!r} is no session id",
            session_id=session_id,
            hint="use letters, digits, '-' and '_', at most 128 of them",
        )
    return session_id
