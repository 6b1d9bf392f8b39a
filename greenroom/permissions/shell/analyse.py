"""A shell command, taken apart into facts."""

from collections.abc import Sequence

from greenroom.permissions.facts import Fact, Unknown
from greenroom.permissions.place import Place

__all__ = ["analyse"]


def analyse(command: str, place: Place) -> Sequence[Fact]:
    """Say what a command would do; what can't be told is an unknown fact."""
    return (Unknown(reason="shell commands are always asked about"),)
