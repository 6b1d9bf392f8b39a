from greenroom.tools.adapted_tool import as_tool as as_tool
from greenroom.tools.builtin.bash import Bash as Bash
from greenroom.tools.builtin.builtin_tools import builtin_tools as builtin_tools
from greenroom.tools.builtin.calculation import calculator as calculator
from greenroom.tools.builtin.edit import Edit as Edit
from greenroom.tools.builtin.file_stamps import FileStamps as FileStamps
from greenroom.tools.builtin.glob import Glob as Glob
from greenroom.tools.builtin.grep import Grep as Grep
from greenroom.tools.builtin.python_program import (
    PYTHON_SANDBOX as PYTHON_SANDBOX,
    run_python as run_python,
)
from greenroom.tools.builtin.read import Read as Read
from greenroom.tools.builtin.search import (
    SearchBackend as SearchBackend,
    SearchResult as SearchResult,
    web_search as web_search,
)
from greenroom.tools.builtin.todo import Todo as Todo, TodoList as TodoList
from greenroom.tools.builtin.web_fetch import WebFetch as WebFetch
from greenroom.tools.builtin.write import Write as Write
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
from greenroom.tools.workspace.file_state import look_at as look_at
from greenroom.tools.workspace.packs import Packs as Packs, PackWriter as PackWriter
from greenroom.tools.workspace.put_back import put_back as put_back
from greenroom.tools.workspace.recorder import WorkspaceRecorder as WorkspaceRecorder
from greenroom.tools.workspace.window import Window as Window
