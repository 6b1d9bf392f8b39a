from greenroom.sandbox.detection import examine_sandbox as examine_sandbox
from greenroom.sandbox.policy import ProcessLimits as ProcessLimits, Sandbox as Sandbox
from greenroom.tools.builtin import builtin_tools as builtin_tools
from greenroom.tools.builtin.bash import Bash as Bash, run_python as run_python
from greenroom.tools.builtin.calculator import calculator as calculator
from greenroom.tools.builtin.edit import Edit as Edit, Write as Write
from greenroom.tools.builtin.glob import Glob as Glob
from greenroom.tools.builtin.grep import Grep as Grep
from greenroom.tools.builtin.read import Read as Read
from greenroom.tools.builtin.todo import Todo as Todo
from greenroom.tools.builtin.web import WebFetch as WebFetch
from greenroom.tools.builtin.web_search import WebSearch as WebSearch
from greenroom.tools.file_system import FileSystem as FileSystem
from greenroom.tools.function_tool import as_tool as as_tool, tool as tool
from greenroom.tools.interface import Tool as Tool, ToolProvider as ToolProvider
from greenroom.tools.isolation.worker_pool import WorkerPool as WorkerPool
from greenroom.tools.registry import ToolRegistry as ToolRegistry
