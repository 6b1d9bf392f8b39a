"""The built-in tools: what a coding agent needs to work in a folder.

One module for each, or for two that have most in common: `bash` (`Bash`, `run_python`), `read`,
`edit` (`Edit`, `Write`), `glob`, `grep` (with `searcher`, where ripgrep is missing), `todo`, `web`
(`WebFetch`, `web_search`; `web_page` loads with the first page), `calculator`. What file tools
share: `file_access` (where they may go, what they have seen), and `file_tree` (which files there
are, by `.gitignore` and by pattern). No part of `builtin_tools()`, to be passed by name:
`run_python`, `web_search`, `calculator`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.sandbox import Sandbox
    from greenroom.tools.interface import Tool


def builtin_tools(*, sandbox: "Sandbox | None" = None) -> "tuple[Tool, ...]":
    """Make one of each built-in tool, for `ToolRegistry(builtin_tools())`.

    Args:
        sandbox: what commands are held to; see `Bash`.

    Example:
        >>> [tool.name for tool in builtin_tools()]
        ['Bash', 'Read', 'Write', 'Edit', 'Glob', 'Grep', 'Todo', 'WebFetch']
    """
    from greenroom.tools.builtin.bash import Bash
    from greenroom.tools.builtin.edit import Edit, Write
    from greenroom.tools.builtin.glob import Glob
    from greenroom.tools.builtin.grep import Grep
    from greenroom.tools.builtin.read import Read
    from greenroom.tools.builtin.todo import Todo
    from greenroom.tools.builtin.web import WebFetch

    return (Bash(sandbox=sandbox), Read(), Write(), Edit(), Glob(), Grep(), Todo(), WebFetch())
