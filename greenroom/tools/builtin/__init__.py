"""The built-in tools: what a coding agent needs to work in a folder.

Modules, by tool: `bash` (`environment`, `output_buffer`); `read` (`numbered_lines`); `write` and
`edit` (`atomic_file`, `text_file`, `text_diff`, `replacement`, `path_locks`); `glob` and `grep`
(`file_tree`, `gitignore`, `glob_pattern`, `file_filter`, `ripgrep`, `searcher`, `grep_schema`,
`grep_rows`); `todo`; `web_fetch` (`fetch`, `page`, `html_text`). For all of them: `paths` (where
they may go), `file_stamps` (what they have seen) and `arguments`. No part of `builtin_tools()`, to be
passed by name: `calculation`, `search`, and `python_program`, which has `command` in common with `bash`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from greenroom.tools.builtin.bash import Bash as Bash
from greenroom.tools.builtin.edit import Edit as Edit
from greenroom.tools.builtin.file_stamps import FileStamps as FileStamps
from greenroom.tools.builtin.glob import Glob as Glob
from greenroom.tools.builtin.grep import Grep as Grep
from greenroom.tools.builtin.read import Read as Read
from greenroom.tools.builtin.todo import Todo as Todo, TodoList as TodoList
from greenroom.tools.builtin.web_fetch import WebFetch as WebFetch
from greenroom.tools.builtin.write import Write as Write
from greenroom.tools.protocol import Tool
from greenroom.tools.sandbox.policy import Sandbox

if TYPE_CHECKING:
    from greenroom.tools.builtin.calculation import calculator as calculator
    from greenroom.tools.builtin.python_program import (
        PYTHON_SANDBOX as PYTHON_SANDBOX,
        run_python as run_python,
    )
    from greenroom.tools.builtin.search import (
        SearchBackend as SearchBackend,
        SearchResult as SearchResult,
        web_search as web_search,
    )

__all__ = [
    "PYTHON_SANDBOX",
    "Bash",
    "Edit",
    "FileStamps",
    "Glob",
    "Grep",
    "Read",
    "SearchBackend",
    "SearchResult",
    "Todo",
    "TodoList",
    "WebFetch",
    "Write",
    "builtin_tools",
    "calculator",
    "run_python",
    "web_search",
]

_BY_NAME = {
    "calculator": "calculation",
    **dict.fromkeys(("PYTHON_SANDBOX", "run_python"), "python_program"),
    **dict.fromkeys(("SearchBackend", "SearchResult", "web_search"), "search"),
}
"""Tools that are passed by name, and their modules; reading a signature takes pydantic, so not before."""


def builtin_tools(*, sandbox: Sandbox | None = None) -> tuple[Tool, ...]:
    """Make one of each built-in tool, for `ToolRegistry(builtin_tools())`.

    Args:
        sandbox: what commands are held to; see `Bash`.

    Example:
        >>> [tool.name for tool in builtin_tools()]
        ['Bash', 'Read', 'Write', 'Edit', 'Glob', 'Grep', 'Todo', 'WebFetch']
    """
    return (Bash(sandbox=sandbox), Read(), Write(), Edit(), Glob(), Grep(), Todo(), WebFetch())


def __getattr__(name: str) -> object:
    """Load a tool that is passed by name at its first use."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_BY_NAME[name]}"), name)
    globals()[name] = value
    return value
