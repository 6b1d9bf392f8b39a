"""A tool call with what became of it."""

from typing import Literal, TypeAlias

import msgspec

from greenroom.core import ToolResultBlock, ToolUseBlock
from greenroom.session.history.pairing import is_stand_in

CallStatus: TypeAlias = Literal["done", "failed", "interrupted", "open"]
"""How a call went; an open one has no result."""


class Call(msgspec.Struct, frozen=True):
    """A tool call and its result, if it has one."""

    use: ToolUseBlock
    result: ToolResultBlock | None

    @property
    def status(self) -> CallStatus:
        """How it went."""
        if self.result is None:
            return "open"
        if is_stand_in(self.result):
            return "interrupted"
        return "failed" if self.result.is_error else "done"
