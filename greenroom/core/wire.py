"""The base of every value that crosses a border: frozen, tagged, JSON in both directions."""

import msgspec


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A frozen value that travels as JSON; with a tag, its `type` field says which of a union it is.

    JSON knows no cycles, so the garbage collector passes these values over: going through those of a
    long conversation would hold up every agent of the process.
    """
