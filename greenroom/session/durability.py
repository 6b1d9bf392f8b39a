"""How much of a session a power cut may take back: a choice between safety and speed."""

from typing import Literal, TypeAlias, get_args

Durability: TypeAlias = Literal["step", "turn", "none"]
"""When saves are synced: each one, those at the end of a turn, or none."""


def check_durability(value: Durability) -> Durability:
    """Return it if it is one.

    Raises:
        ValueError: it is none.
    """
    if value not in get_args(Durability):
        raise ValueError(f"{value!r} is no durability; use one of {get_args(Durability)}")
    return value
