"""The base of every value that crosses a border: frozen, tagged, JSON in both directions."""

import msgspec

__all__ = ["Wire"]


class Wire(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True, kw_only=False):
    """A frozen value that travels as JSON; in a union its `type` field says which one it is."""
