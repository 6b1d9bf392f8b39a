"""What a tool says of its calls: whether they change anything, and whether they may be made again.

Retries and runs that go on after a kill are guided by it. Permission rules are not: it is the tool's own
word, and what a tool says of itself is no reason to let it run.
"""

from dataclasses import dataclass
from typing import Self

from greenroom.core import ToolError
from greenroom.tools.protocol import Tool


@dataclass(frozen=True, kw_only=True)
class ToolFlags:
    """What a tool says of its calls; None where it says nothing.

    Attributes:
        read_only: a call changes nothing.
        idempotent: a call that is made again with the same input changes nothing more.
        destructive: a call may delete or overwrite what can't be brought back.
    """

    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Read the flags of a tool; one of the category "read" is read-only unless it says otherwise.

        Raises:
            ToolError: a flag is something else than True, False and None, or they contradict each other.
        """
        read_only = _flag(tool, "read_only")
        idempotent, destructive = _flag(tool, "idempotent"), _flag(tool, "destructive")
        is_reader = tool.category == "read"
        for is_wrong, said, hint in (
            (destructive and read_only, "read_only and destructive", "leave one of them out"),
            (destructive and is_reader, "destructive, and of the category read", _CATEGORY),
            (read_only and tool.category == "write", "read_only, and writes", _CATEGORY),
            (read_only and idempotent is False, "read_only and not idempotent", _READ_ONLY),
        ):
            if is_wrong:
                raise ToolError(f"tool {tool.name} says that it is {said}", hint=hint)
        if read_only is None and is_reader and idempotent is not False:
            read_only = True
        return cls(read_only=read_only, idempotent=idempotent, destructive=destructive)


_CATEGORY = 'give it a category that fits, such as "network" or "execute"'
_READ_ONLY = "what changes nothing can be done again: leave idempotent out"


def may_repeat(tool: Tool, *, unknown: bool = False) -> bool:
    """Say whether a call that may have had its effect can simply be made again.

    Args:
        tool: the tool.
        unknown: the answer where the tool says nothing, neither by its flags nor by its category.

    Raises:
        ToolError: its flags contradict each other.

    Example:
        >>> from greenroom.tools import tool
        >>> @tool(category="network", idempotent=True)
        ... async def set_alarm(hour: int) -> None: ...
        >>> @tool
        ... async def book_flight(to: str) -> None: ...
        >>> may_repeat(set_alarm), may_repeat(book_flight)
        (True, False)
    """
    flags = ToolFlags.of(tool)
    if flags.read_only or flags.idempotent:
        return True
    return unknown and flags.idempotent is None and not flags.destructive


def _flag(tool: Tool, member: str) -> bool | None:
    value: object = getattr(tool, member, None)
    if value is None or isinstance(value, bool):
        return value
    raise ToolError(
        f"tool {tool.name}: its {member} is {value!r}", hint="give True or False, or leave it out"
    )
