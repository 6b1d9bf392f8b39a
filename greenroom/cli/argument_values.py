"""Reads the values of arguments, and says what is wrong with one. It loads only argparse."""

import argparse
import re
from typing import TYPE_CHECKING

from greenroom.core._internal import compile_later

if TYPE_CHECKING:
    from datetime import date


def some_text(text: str) -> str:
    """Return a text that is not blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the text to search for is empty")
    return text


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    number = natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def natural(text: str) -> int:
    """Read a whole number from 0 on."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def day(text: str) -> "date":
    """Read a day, such as 2027-01-31."""
    from datetime import date

    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a day: write 2027-01-31") from None


def amount(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


_SCHEMES = ("postgresql://", "postgres://")
_PAIR = compile_later(r"(service|hostaddr|host|port|dbname|user|password|passfile|ssl\w+)\s*=")
_PASSWORD = compile_later(r"//[^?]*:[^?]*@|[?&\s](ssl)?password\s*=", re.IGNORECASE)

PASSFILE = "keep it in ~/.pgpass, or all of the address in GREENROOM_DSN, and write postgresql here"
"""Where the password of a server belongs."""


def is_server(place: str) -> bool:
    """Whether a place of sessions is a PostgreSQL server, not a path.

    Example:
        >>> is_server("postgresql"), is_server("service=agents"), is_server("./postgresql")
        (True, True, False)
    """
    return place == "postgresql" or place.startswith(_SCHEMES) or bool(_PAIR.match(place))


def holds_password(place: str) -> bool:
    """Whether a place of sessions is a PostgreSQL server with a password.

    Example:
        >>> holds_password("postgresql://ann:pw@host/db"), holds_password("postgresql://ann@host")
        (True, False)
    """
    if not is_server(place):
        return False
    from urllib.parse import unquote

    return bool(_PASSWORD.search(f" {unquote(place)}"))
