"""The built-in tools: what a coding agent needs to work in a folder.

Each has a module, or shares one with its closest relative: `bash` (`Bash`, `run_python`; with
`terminal_text`, which makes text of what is meant for a terminal), `background` (`BashOutput`,
`BashKill`, and the commands that stay), `read` (with `notebook`), `edit` (`Edit`, `Write`), `glob`,
`grep` (with `grep_rows`, and `searcher` for machines without ripgrep), `todo`, `web` (`WebFetch`;
`web_page` loads with the first page), `web_search` (`WebSearch`, over an engine of
`search_engines` or of the program's own), `calculator`. File tools share `file_access`
(where they may go, what they have seen), `file_tree` (which files there are, by `.gitignore` and by
pattern), `plain_names` (names as a model types them) and `text_content` (how a file's bytes are
read and changed). `run_python`, `WebSearch` and `calculator` are not part of `builtin_tools()`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.sandbox._internal import Sandbox
    from greenroom.tools.interface import Tool


def builtin_tools(*, sandbox: "Sandbox | None" = None) -> "tuple[Tool, ...]":
    """Make one of each built-in tool, for `ToolRegistry(builtin_tools())`.

    Args:
        sandbox: the sandbox of commands; see `Bash`.

    Example:
        >>> print(*[tool.name for tool in builtin_tools()])
        Bash BashOutput BashKill Read Write Edit Glob Grep Todo WebFetch
    """
    from greenroom.tools.builtin.bash import Bash
    from greenroom.tools.builtin.edit import Edit, Write
    from greenroom.tools.builtin.glob import Glob
    from greenroom.tools.builtin.grep import Grep
    from greenroom.tools.builtin.read import Read
    from greenroom.tools.builtin.todo import Todo
    from greenroom.tools.builtin.web import WebFetch

    commands = Bash(sandbox=sandbox).with_background()
    return (*commands, Read(), Write(), Edit(), Glob(), Grep(), Todo(), WebFetch())
