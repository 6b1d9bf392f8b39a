from greenroom.tools.builtin.background import (
    StayingCommand as StayingCommand,
    StayingCommands as StayingCommands,
)
from greenroom.tools.builtin.bash import PYTHON_SANDBOX as PYTHON_SANDBOX
from greenroom.tools.builtin.file_tree import walk_files as walk_files
from greenroom.tools.builtin.todo import TodoList as TodoList
from greenroom.tools.builtin.web_search import SearchResult as SearchResult
from greenroom.tools.call_order import CallOrder as CallOrder, Reach as Reach
from greenroom.tools.execution import RegisteredTool as RegisteredTool
from greenroom.tools.file_contents import (
    Packs as Packs,
    PackWriter as PackWriter,
    look_at as look_at,
    put_back as put_back,
)
from greenroom.tools.function_tool import FunctionTool as FunctionTool
from greenroom.tools.interface import (
    OPTIONAL_MEMBERS as OPTIONAL_MEMBERS,
    may_repeat as may_repeat,
    plain_info as plain_info,
)
from greenroom.tools.isolation.frame import is_worker as is_worker
from greenroom.tools.returned_values import check_media as check_media
from greenroom.tools.schema import portable as portable
from greenroom.tools.workspace_changes import (
    Window as Window,
    WorkspaceRecorder as WorkspaceRecorder,
)
