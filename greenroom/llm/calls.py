"""Tool calls as a model sends them: argument text that may be anything, ids that may be missing."""

from msgspec.structs import replace

from greenroom.core import InvalidJSONError, ToolUseBlock, new_id, serde, valid_unicode
from greenroom.llm.fields import DEPTH


class CallIds:
    """The ids of the calls of one reply: each is used once, and one is made where there is none.

    Example:
        >>> ids = CallIds()
        >>> ids.take("call_0"), ids.take("call_0") == "call_0"
        ('call_0', False)
    """

    def __init__(self) -> None:
        """Begin a reply without calls."""
        self._taken: set[str] = set()

    def take(self, offered: str) -> str:
        """Return the offered id if it is usable, else a new one."""
        taken = offered if offered and offered not in self._taken else new_id("call")
        self._taken.add(taken)
        return taken


def tool_use(
    call_id: str, name: str, arguments: str, extra: dict[str, object] | None = None
) -> ToolUseBlock:
    """Make a call of its argument text; text that can't be used makes it invalid, never an error.

    What could not be written back, such as a number of thirty digits, counts as invalid too: it
    would make every later request fail.

    Example:
        >>> tool_use("t1", "Read", '{"file_path": "a.py"}').input
        {'file_path': 'a.py'}
        >>> tool_use("t1", "Read", '{"file_pa').invalid[:18]
        'not usable as JSON'
    """
    try:
        parsed = serde.loads_object(arguments, DEPTH)
        serde.dumps(parsed)
    except InvalidJSONError as error:
        return ToolUseBlock(
            call_id,
            name,
            invalid=valid_unicode(error.message),
            raw_input=valid_unicode(arguments),
            extra=extra or {},
        )
    return ToolUseBlock(call_id, name, parsed, extra=extra or {})


def cut_off(call: ToolUseBlock) -> ToolUseBlock:
    """Mark the call in which the reply reached its limit; it must not run with half its arguments.

    Example:
        >>> cut_off(ToolUseBlock("t1", "Read")).invalid
        'the reply was cut off by max_tokens'
    """
    return replace(call, invalid="the reply was cut off by max_tokens")
