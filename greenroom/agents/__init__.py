"""The steps of the usual loop, and agents made of them.

This is the only place where runtime, models, tools and permissions meet. Modules: `reply` (one
model call), `tool_calls` and `verdict` (its tool calls), `task` (a tool that drives a subagent),
`coder` (the ready-made coding agent).
"""

from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT
from greenroom.agents.coder import coder as coder
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.task import Task as Task
from greenroom.agents.tool_calls import run_tools as run_tools

__all__ = ["CODER_PROMPT", "Task", "coder", "run_tools", "stream_reply"]
