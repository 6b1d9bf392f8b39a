"""The tools that come along, all at once."""

from greenroom.tools.builtin.bash import Bash
from greenroom.tools.builtin.edit import Edit
from greenroom.tools.builtin.glob import Glob
from greenroom.tools.builtin.grep import Grep
from greenroom.tools.builtin.read import Read
from greenroom.tools.builtin.todo import Todo
from greenroom.tools.builtin.web_fetch import WebFetch
from greenroom.tools.builtin.write import Write
from greenroom.tools.protocol import Tool
from greenroom.tools.sandbox.policy import Sandbox


def builtin_tools(*, sandbox: Sandbox | None = None) -> tuple[Tool, ...]:
    """Make one of each built-in tool, for `ToolRegistry(builtin_tools())`.

    Args:
        sandbox: what commands are held to; see `Bash`.

    Example:
        >>> [tool.name for tool in builtin_tools()]
        ['Bash', 'Read', 'Write', 'Edit', 'Glob', 'Grep', 'Todo', 'WebFetch']
    """
    return (Bash(sandbox=sandbox), Read(), Write(), Edit(), Glob(), Grep(), Todo(), WebFetch())
