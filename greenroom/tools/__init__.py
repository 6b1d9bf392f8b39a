"""Tools: what agents can do. They do not know who may call them.

Modules: `protocol` (what a tool is), `function_tool` (`@tool`), `registry` and `registered_tool` (the
tools of an agent), `execution` (how calls run), `validation`, `spill`, `schema` and `docstring`
(their parts), and `builtin`, whose tools are found here as well and load at their first use.
"""

from greenroom.tools.execution import run_batch as run_batch
from greenroom.tools.function_tool import FunctionTool as FunctionTool
from greenroom.tools.function_tool import tool as tool
from greenroom.tools.protocol import Tool as Tool
from greenroom.tools.registered_tool import RegisteredTool as RegisteredTool
from greenroom.tools.registry import ToolRegistry as ToolRegistry

__all__ = ["FunctionTool", "RegisteredTool", "Tool", "ToolRegistry", "run_batch", "tool"]
