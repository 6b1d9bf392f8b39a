"""Tools: what agents can do. They do not know who may call them.

`protocol` says what a tool is; `function_tool` (`@tool`) makes one of a function, with `schema`,
`typed_dict` and `docstring`, and `adapted_tool` (`as_tool`) of what is nearly one; `registry` and
`registered_tool` are the tools of an agent, `flags` what tools say of their calls; `execution` is how calls run, with `validation`, `spill` and,
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
from greenroom.tools.execution import Call as Call, Gate as Gate, run_batch as run_batch
from greenroom.tools.flags import may_repeat as may_repeat
from greenroom.tools.function_tool import FunctionTool as FunctionTool, tool as tool
from greenroom.tools.isolation.function_reference import is_worker as is_worker
from greenroom.tools.isolation.process_limits import ProcessLimits as ProcessLimits
from greenroom.tools.isolation.worker_pool import (
    WorkerPool as WorkerPool,
    WorkerPoolStatistics as WorkerPoolStatistics,
)
from greenroom.tools.protocol import OPTIONAL_MEMBERS as OPTIONAL_MEMBERS, Tool as Tool
from greenroom.tools.registered_tool import RegisteredTool as RegisteredTool
from greenroom.tools.registry import (
    ToolRegistry as ToolRegistry,
    ToolRegistryStatistics as ToolRegistryStatistics,
)
from greenroom.tools.sandbox.examination import examine_sandbox as examine_sandbox
from greenroom.tools.sandbox.policy import Sandbox as Sandbox, SandboxLimits as SandboxLimits
from greenroom.tools.typed_dict import portable as portable
from greenroom.tools.validation import InputValidator as InputValidator

if TYPE_CHECKING:
    from greenroom.tools.builtin import (
        PYTHON_SANDBOX as PYTHON_SANDBOX,
        Bash as Bash,
        Edit as Edit,
        FileStamps as FileStamps,
        Glob as Glob,
        Grep as Grep,
        Read as Read,
        SearchBackend as SearchBackend,
        SearchResult as SearchResult,
        Todo as Todo,
        TodoList as TodoList,
        WebFetch as WebFetch,
        Write as Write,
        builtin_tools as builtin_tools,
        calculator as calculator,
        run_python as run_python,
        web_search as web_search,
    )
    from greenroom.tools.workspace import (
        Packs as Packs,
        PackWriter as PackWriter,
        Window as Window,
        WorkspaceRecorder as WorkspaceRecorder,
        look_at as look_at,
        put_back as put_back,
    )

__all__ = [
    "OPTIONAL_MEMBERS",
    "PYTHON_SANDBOX",
    "Bash",
    "Call",
    "Edit",
    "FileStamps",
    "FunctionTool",
    "Gate",
    "Glob",
    "Grep",
    "InputValidator",
    "PackWriter",
    "Packs",
    "ProcessLimits",
    "Read",
    "RegisteredTool",
    "Sandbox",
    "SandboxLimits",
    "SearchBackend",
    "SearchResult",
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
    "calculator",
    "examine_sandbox",
    "is_worker",
    "look_at",
    "may_repeat",
    "portable",
    "put_back",
    "run_batch",
    "run_python",
    "tool",
    "web_search",
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
