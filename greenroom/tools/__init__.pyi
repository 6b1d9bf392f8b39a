from greenroom.sandbox.detection import examine_sandbox as examine_sandbox
from greenroom.sandbox.policy import Sandbox as Sandbox, SandboxLimits as SandboxLimits
from greenroom.tools.builtin import builtin_tools as builtin_tools
from greenroom.tools.builtin.background import BashKill as BashKill, BashOutput as BashOutput
from greenroom.tools.builtin.bash import (
    PYTHON_SANDBOX as PYTHON_SANDBOX,
    Bash as Bash,
    run_python as run_python,
)
from greenroom.tools.builtin.calculator import calculator as calculator
from greenroom.tools.builtin.edit import Edit as Edit, Write as Write
from greenroom.tools.builtin.file_access import FileStamps as FileStamps
from greenroom.tools.builtin.file_tree import walk_files as walk_files
from greenroom.tools.builtin.glob import Glob as Glob
from greenroom.tools.builtin.grep import Grep as Grep
from greenroom.tools.builtin.read import Read as Read
from greenroom.tools.builtin.todo import Todo as Todo, TodoList as TodoList
from greenroom.tools.builtin.web import (
    SearchBackend as SearchBackend,
    SearchResult as SearchResult,
    WebFetch as WebFetch,
    web_search as web_search,
)
from greenroom.tools.call_order import CallOrder as CallOrder, Reach as Reach
from greenroom.tools.execution import RegisteredTool as RegisteredTool
from greenroom.tools.file_contents import (
    Packs as Packs,
    PackWriter as PackWriter,
    look_at as look_at,
    put_back as put_back,
)
from greenroom.tools.function_tool import (
    FunctionTool as FunctionTool,
    as_tool as as_tool,
    tool as tool,
)
from greenroom.tools.interface import (
    OPTIONAL_MEMBERS as OPTIONAL_MEMBERS,
    Tool as Tool,
    may_repeat as may_repeat,
)
from greenroom.tools.isolation.frame import ProcessLimits as ProcessLimits, is_worker as is_worker
from greenroom.tools.isolation.worker_pool import (
    WorkerPool as WorkerPool,
    WorkerPoolStatistics as WorkerPoolStatistics,
)
from greenroom.tools.registry import (
    Call as Call,
    ToolRegistry as ToolRegistry,
    run_batch as run_batch,
)
from greenroom.tools.schema import portable as portable
from greenroom.tools.workspace_changes import (
    Window as Window,
    WorkspaceRecorder as WorkspaceRecorder,
)
