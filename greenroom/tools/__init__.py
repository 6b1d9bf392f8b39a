"""Tools: what agents can do. They do not know who may call them.

`protocol` says what a tool is; `function_tool` (`@tool`) makes one of a function, with `schema`,
`typed_dict` and `docstring`, and `adapted_tool` (`as_tool`) of what is nearly one; `registry` and
`registered_tool` are the tools of an agent; `execution` is how calls run, with `validation`, `spill` and,
for threads, `blocking`. The rooms:

- `builtin`: the tools that come along; they are found here as well, and load at their first use.
- `isolation`: plain functions in processes that can be killed: the pool, one worker as we hold it, the
  program in it, and what crosses.
- `process`: commands and workers behind a launcher, so that nothing of them outlives us.
- `sandbox`: what commands and workers can be held by: a policy, what of it holds on this machine, how.
- `workspace`: what calls do to files: seen, kept, and undone; it loads at its first use, too.
"""

from typing import TYPE_CHECKING

from greenroom.tools.adapted_tool import as_tool as as_tool
from greenroom.tools.execution import Call as Call
from greenroom.tools.execution import Gate as Gate
from greenroom.tools.execution import run_batch as run_batch
from greenroom.tools.function_tool import FunctionTool as FunctionTool
from greenroom.tools.function_tool import tool as tool
from greenroom.tools.isolation.process_limits import ProcessLimits as ProcessLimits
from greenroom.tools.isolation.worker_pool import WorkerPool as WorkerPool
from greenroom.tools.isolation.worker_pool import WorkerPoolStatistics as WorkerPoolStatistics
from greenroom.tools.protocol import Tool as Tool
from greenroom.tools.registered_tool import RegisteredTool as RegisteredTool
from greenroom.tools.registry import ToolRegistry as ToolRegistry
from greenroom.tools.registry import ToolRegistryStatistics as ToolRegistryStatistics
from greenroom.tools.sandbox.examination import examine_sandbox as examine_sandbox
from greenroom.tools.sandbox.policy import Sandbox as Sandbox
from greenroom.tools.sandbox.policy import SandboxLimits as SandboxLimits

if TYPE_CHECKING:
    from greenroom.tools.builtin import Bash as Bash
    from greenroom.tools.builtin import Edit as Edit
    from greenroom.tools.builtin import FileStamps as FileStamps
    from greenroom.tools.builtin import Glob as Glob
    from greenroom.tools.builtin import Grep as Grep
    from greenroom.tools.builtin import Read as Read
    from greenroom.tools.builtin import Todo as Todo
    from greenroom.tools.builtin import TodoList as TodoList
    from greenroom.tools.builtin import WebFetch as WebFetch
    from greenroom.tools.builtin import Write as Write
    from greenroom.tools.builtin import builtin_tools as builtin_tools
    from greenroom.tools.workspace import Packs as Packs
    from greenroom.tools.workspace import PackWriter as PackWriter
    from greenroom.tools.workspace import Window as Window
    from greenroom.tools.workspace import WorkspaceRecorder as WorkspaceRecorder
    from greenroom.tools.workspace import look_at as look_at
    from greenroom.tools.workspace import put_back as put_back

__all__ = [
    "Bash",
    "Call",
    "Edit",
    "FileStamps",
    "FunctionTool",
    "Gate",
    "Glob",
    "Grep",
    "PackWriter",
    "Packs",
    "ProcessLimits",
    "Read",
    "RegisteredTool",
    "Sandbox",
    "SandboxLimits",
    "Todo",
    "TodoList",
    "Tool",
    "ToolRegistry",
    "ToolRegistryStatistics",
    "WebFetch",
    "Window",
    "WorkerPool",
    "WorkerPoolStatistics",
    "WorkspaceRecorder",
    "Write",
    "as_tool",
    "builtin_tools",
    "examine_sandbox",
    "look_at",
    "put_back",
    "run_batch",
    "tool",
]

_LATE = frozenset(__all__) - frozenset(globals())


def __getattr__(name: str) -> object:
    """Load the built-in tools and the workspace at their first use; they need what others do not."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from greenroom.tools import builtin, workspace

    value: object = getattr(builtin, name, None) or getattr(workspace, name)
    globals()[name] = value
    return value
