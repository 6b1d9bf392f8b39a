"""What surrounds the messages of a request: settings, system prompt and tools.

From one request of a conversation to the next it rarely changes, and with many tools it is longer
than what is new. So it is kept as bytes, and written again once a part of it is another object.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields as fields_of
from operator import attrgetter, is_
from typing import NamedTuple

from msgspec import UNSET

from greenroom.core import ModelRequest
from greenroom.core._internal import serde

MESSAGES = object()
"""The value of the field in which the messages of a request belong."""

_list_settings = attrgetter(
    *({each.name for each in fields_of(ModelRequest)} - {"messages", "system", "tools"})
)


class Frame(NamedTuple):
    """The fields of a request as JSON, around its messages.

    Attributes:
        start: what comes before the messages.
        end: what comes after them; None if they are not sent.
    """

    start: bytes
    end: bytes | None

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> "Frame":
        """Write the fields that are set; the messages belong where the value is `MESSAGES`.

        Raises:
            InvalidJSONError: a field contains something that JSON can't express.
        """
        values = {name: value for name, value in fields.items() if value is not UNSET}
        place = next((name for name, value in values.items() if value is MESSAGES), None)
        if place is None:
            return cls(serde.dumps(values), None)
        del values[place]
        others = serde.dumps(values)[:-1] + (b"," if values else b"")
        return cls(b"%b%b:[" % (others, serde.dumps(place)), b"]}")

    def fill(self, messages: Iterable[bytes | bytearray]) -> bytes:
        """Return the request with its messages, which are pieces to be joined by commas."""
        if self.end is None:
            return self.start
        pieces: list[bytes | bytearray] = [self.start]
        for message in messages:
            pieces += [message, b","] if message else []
        pieces[-1] = self.end if pieces[-1] == b"," else pieces[-1] + self.end
        return b"".join(pieces)


def assemble(fields: Mapping[str, object], messages: Iterable[bytes | bytearray] = ()) -> bytes:
    """Return the fields that are set as JSON, with the messages in place of `MESSAGES`.

    Raises:
        InvalidJSONError: a field contains something that JSON can't express.

    Example:
        >>> assemble({"model": "m", "messages": MESSAGES, "seed": UNSET}, [b'{"a":1}', b'{"b":2}'])
        b'{"model":"m","messages":[{"a":1},{"b":2}]}'
    """
    return Frame.of(fields).fill(messages)


class Surroundings(NamedTuple):
    """The parts of a request besides its messages, to tell whether they are the same again.

    All but the system prompt are the same only as the same objects: `1 == True`, but JSON tells
    them apart.
    """

    system: object
    others: tuple[object, ...]

    @classmethod
    def of(cls, request: ModelRequest) -> "Surroundings":
        """Take them from a request."""
        return cls(request.system, (*_list_settings(request), *request.tools))

    def is_like(self, other: "Surroundings") -> bool:
        """Whether the same would be written for both."""
        one, two = self.system, other.system
        is_same_system = one is two or (isinstance(one, str) and one == two)
        others = len(self.others) == len(other.others) and all(map(is_, self.others, other.others))
        return is_same_system and others
