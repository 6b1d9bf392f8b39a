"""The steps of the usual loop, and agents made of them.

This is the only place where runtime, models, tools and permissions meet. Modules: `reply` (one
model call), `tool_calls` and `verdict` (its tool calls), `file_checkpoints` (what they may change is
kept before), `restore` and `restore_plan` (and put back), `task` (a tool that drives a subagent),
`coder` (the ready-made coding agent).
"""

from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT
from greenroom.agents.coder import coder as coder
from greenroom.agents.file_checkpoints import FileCheckpoints as FileCheckpoints
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.restore import RestorePlan as RestorePlan
from greenroom.agents.restore import RestoreReport as RestoreReport
from greenroom.agents.restore import plan_restore as plan_restore
from greenroom.agents.restore_plan import FileRestore as FileRestore
from greenroom.agents.task import Task as Task
from greenroom.agents.tool_calls import run_tools as run_tools

__all__ = [
    "CODER_PROMPT",
    "FileCheckpoints",
    "FileRestore",
    "RestorePlan",
    "RestoreReport",
    "Task",
    "coder",
    "plan_restore",
    "run_tools",
    "stream_reply",
]
