"""The usual loop of an agent, its tool calls, and `Agent`, which is made of both.

- The loop: `reply` makes one model call, and `tool_calls` runs the calls of a reply. `verdict`
  judges each call, and `questions` asks a person or a function. `reply_end` looks at empty replies.
- Files: `file_checkpoints` keeps files before tools change them, and `file_restore` restores them.
- `Agent`: `agent` is the configuration that users write, and `configuration` its fields and tools.
  `runnable` has what agents and teams have in common; `agent_run` is a run, `agent_result` its
  result. In a run, `steps` has the parts of the loop, and `bound_agent` what each agent brings;
  `handoff` passes the conversation on, `guards` check what is said, and `run_context` is for tools
  and instructions.
- `coder` is a coding agent, `plan_mode` lets it plan first, and `task` gives work to a second one.
  `project` tells it where it works, `skills` how to do kinds of work.
- `cut_off` goes on after a kill: calls in doubt, and agents that tools were running.
- `resilient_tool` adds retry, breaker and limits to a tool; `chunk_streams` are for readers.
"""

from greenroom.agents.agent import Agent, run_turn
from greenroom.agents.agent_result import AgentResult
from greenroom.agents.agent_run import AgentRun
from greenroom.agents.chunk_streams import (
    StreamEvent,
    mapped,
    merged,
    only,
    stream_events,
    texts,
    windowed,
)
from greenroom.agents.coder import coder
from greenroom.agents.configuration import Tools
from greenroom.agents.errors import (
    AlreadyAnsweredError,
    GuardError,
    HandoffLimitError,
    NoProgressError,
)
from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.agents.file_restore import plan_restore
from greenroom.agents.guards import Guard, Reject, Rewrite
from greenroom.agents.project import project_notes
from greenroom.agents.questions import AskPerson
from greenroom.agents.reply import stream_reply
from greenroom.agents.reply_end import ask_again, warn_of_end
from greenroom.agents.resilient_tool import resilient_tool
from greenroom.agents.result_cache import ResultCache
from greenroom.agents.run_context import RunContext
from greenroom.agents.runnable import Runnable
from greenroom.agents.skills import Skills
from greenroom.agents.task import Task
from greenroom.agents.tool_calls import run_tools

__all__ = [
    "Agent",
    "AgentResult",
    "AgentRun",
    "AlreadyAnsweredError",
    "AskPerson",
    "FileCheckpoints",
    "Guard",
    "GuardError",
    "HandoffLimitError",
    "NoProgressError",
    "Reject",
    "ResultCache",
    "Rewrite",
    "RunContext",
    "Runnable",
    "Skills",
    "StreamEvent",
    "Task",
    "Tools",
    "ask_again",
    "coder",
    "mapped",
    "merged",
    "only",
    "plan_restore",
    "project_notes",
    "resilient_tool",
    "run_tools",
    "run_turn",
    "stream_events",
    "stream_reply",
    "texts",
    "warn_of_end",
    "windowed",
]
