"""The steps of the usual loop, and agents made of them: where runtime, models, tools and permissions meet.

- The loop: `reply` is one model call, `tool_calls` its tool calls and what they pass down to agents
  that they run, `verdict` the judgement on each, `questions` those that a person or a function
  answers.
- Files that tools change: `file_checkpoints` keeps them before, `restore` puts them back.
- `Agent`: `agent` is what is configured; `agent_run` a run of it, `agent_result` its result;
  `steps` what its loop calls, whichever agent has the conversation; `speaker` one agent with its
  model and answers; `configuration` what a run sees of an `Agent`, and its tools; `handoff` passes
  the conversation on; `guards` look at what is said; `run_context` is what tools and instructions
  are given; `runnable` is what agents and teams of them have in common.
- `coder` is a coding agent, with `task` for another one beside it: `project` tells it where it
  works, `skills` how to do one kind of work.
- `resilient_tool` puts a tool under retry, breaker and limits; `streams` are for readers of chunks.
"""

from greenroom.agents.agent import Agent as Agent, run_turn as run_turn
from greenroom.agents.agent_result import (
    AgentResult as AgentResult,
    Denial as Denial,
    RunReport as RunReport,
)
from greenroom.agents.agent_run import (
    AgentRun as AgentRun,
    Answers as Answers,
    Approve as Approve,
    RunOptions as RunOptions,
    open_run as open_run,
)
from greenroom.agents.bound_agent import find_model as find_model, to_json_value as to_json_value
from greenroom.agents.chunk_streams import (
    StreamEvent as StreamEvent,
    StreamEventType as StreamEventType,
    mapped as mapped,
    merged as merged,
    only as only,
    stream_events as stream_events,
    texts as texts,
)
from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT, coder as coder
from greenroom.agents.configuration import Toolbox as Toolbox
from greenroom.agents.file_checkpoints import FileCheckpoints as FileCheckpoints
from greenroom.agents.file_restore import (
    FileRestore as FileRestore,
    RestorePlan as RestorePlan,
    RestoreReport as RestoreReport,
    plan_restore as plan_restore,
)
from greenroom.agents.guards import Guard as Guard, Reject as Reject, Rewrite as Rewrite
from greenroom.agents.handoff import MAX_SWITCHES as MAX_SWITCHES, Team as Team
from greenroom.agents.project import (
    ProjectNotes as ProjectNotes,
    ProjectText as ProjectText,
    project_notes as project_notes,
    read_notes as read_notes,
)
from greenroom.agents.questions import AskPerson as AskPerson, as_answer as as_answer
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.resilient_tool import resilient_tool as resilient_tool
from greenroom.agents.run_context import RunContext as RunContext
from greenroom.agents.runnable import Runnable as Runnable
from greenroom.agents.skills import Skill as Skill, Skills as Skills
from greenroom.agents.task import Task as Task
from greenroom.agents.tool_calls import (
    check_depth as check_depth,
    find_caller as find_caller,
    find_cycle as find_cycle,
    pass_permissions as pass_permissions,
    run_tools as run_tools,
    track_turn as track_turn,
)
