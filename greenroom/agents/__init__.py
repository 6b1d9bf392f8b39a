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

from greenroom.agents.agent import Agent as Agent, run_turn as run_turn
from greenroom.agents.agent_result import (
    AgentResult as AgentResult,
    Denial as Denial,
    RunReport as RunReport,
)
from greenroom.agents.agent_run import (
    GO_ON as GO_ON,
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
    windowed as windowed,
)
from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT, coder as coder
from greenroom.agents.configuration import Toolbox as Toolbox, Tools as Tools
from greenroom.agents.cut_off import (
    CHOICES as CHOICES,
    copy_session as copy_session,
    find_lives as find_lives,
    last_reply as last_reply,
    mend_calls as mend_calls,
)
from greenroom.agents.file_checkpoints import FileCheckpoints as FileCheckpoints
from greenroom.agents.file_restore import (
    FileRestore as FileRestore,
    RestorePlan as RestorePlan,
    RestoreReport as RestoreReport,
    plan_restore as plan_restore,
)
from greenroom.agents.guards import Guard as Guard, Reject as Reject, Rewrite as Rewrite
from greenroom.agents.handoff import MAX_SWITCHES as MAX_SWITCHES, Team as Team
from greenroom.agents.plan_mode import (
    PLAN_OPTIONS as PLAN_OPTIONS,
    PLAN_PROMPT as PLAN_PROMPT,
    PlanMode as PlanMode,
    SubmitPlan as SubmitPlan,
)
from greenroom.agents.project import (
    ProjectNotes as ProjectNotes,
    ProjectText as ProjectText,
    git_branch as git_branch,
    project_notes as project_notes,
    read_notes as read_notes,
)
from greenroom.agents.questions import (
    AskPerson as AskPerson,
    Decide as Decide,
    as_answer as as_answer,
)
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.reply_end import ask_again as ask_again, warn_of_end as warn_of_end
from greenroom.agents.resilient_tool import resilient_tool as resilient_tool
from greenroom.agents.result_cache import ResultCache as ResultCache
from greenroom.agents.run_context import RunContext as RunContext
from greenroom.agents.runnable import Runnable as Runnable, run_in_loop as run_in_loop
from greenroom.agents.skills import Skill as Skill, Skills as Skills
from greenroom.agents.task import Task as Task
from greenroom.agents.tool_calls import (
    check_depth as check_depth,
    continue_runs as continue_runs,
    find_caller as find_caller,
    find_cycle as find_cycle,
    pass_permissions as pass_permissions,
    run_tools as run_tools,
    track_turn as track_turn,
)
