"""One route: which requests it answers, for whom, and how."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from greenroom.interop.serving.asgi import Reply
from greenroom.interop.serving.calls import Call
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.interop.serving.tokens import Role

Handler: TypeAlias = Callable[[ServedSessions, Call], Awaitable[Reply | None]]
"""Answers a request; one that has sent its reply itself, as a stream, returns None."""


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Attributes:
        method: the method of HTTP.
        path: the path; a part in braces is a name.
        role: the least role that may use it.
        handler: what answers it; the first line of its docstring says what it does.
        body: the type of its body, or None.
        query: the fields of its query, each with what it says.
        statuses: the statuses of its replies, where all is well.
    """

    method: str
    path: str
    role: Role
    handler: Handler
    body: type | None = None
    query: tuple[tuple[str, str], ...] = ()
    statuses: tuple[int, ...] = (200,)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return tuple(self.path.split("/")[1:])

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return what a path names, or None if it is another's."""
        if len(segments) != len(self.parts):
            return None
        names: dict[str, str] = {}
        for part, segment in zip(self.parts, segments, strict=True):
            if part.startswith("{"):
                names[part[1:-1]] = segment
            elif part != segment:
                return None
        return names
