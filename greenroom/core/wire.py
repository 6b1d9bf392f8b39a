"""The base of every value that crosses a border: frozen, tagged, JSON in both directions."""

import msgspec

__all__ = ["Wire"]


class Wire(msgspec.Struct, frozen=True, omit_defaults=True):
    """A frozen value that travels as JSON; with a tag, its `type` field says which of a union it is."""
