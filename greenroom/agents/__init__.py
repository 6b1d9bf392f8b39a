"""The steps of the usual loop, and agents made of them.

This is the only place where runtime, models, tools and permissions meet. The loop: `reply` (one model
call), `tool_calls` and `verdict` (its tool calls). Files that tools change: `file_checkpoints` (kept
before), `restore` and `restore_plan` (put back). Tools: `task` (drives a subagent), `ask_person` (a
question to the person), `resilient_tool` (any tool under retry, breaker and limits). The ready-made
coding agent: `coder`; `project_notes` with `project_text` and `surroundings` (what it is told of the
folder that it works in), `skills` with `front_matter` (instructions for one kind of work).

`agent` is the configuration that can be run, with its loop; `steps` is what that loop calls, whichever
agent has the conversation: `progress` (whether calls lead anywhere), `team` and `handoff` (who may get the
conversation, and how). `speaker` is what a run needs of one agent: `toolbox` (its tools, and which of them
run by consent), `answer` (when a reply is one), `guards` and `guarded_stream` (what looks at what is said),
`models` (by name). A run of it: `agent_run` (from the spawn to the end), `agent_result` (what it comes to), `approval` (by a function), `caller` and
`agent_tool` (an agent inside of another), `runnable` (what
is run for one input: an `Agent`, or several as one), `run_context` (what tools and instructions find), `sync` (for
code that is not async). `single_turn` is one turn as a function of its messages. For readers: `streams`
(of some kinds of chunks, of several agents), `stream_events` (five kinds of events, and no more).
"""

from greenroom.agents.agent import Agent as Agent
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
from greenroom.agents.answer import plain as plain
from greenroom.agents.approval import as_answer as as_answer
from greenroom.agents.ask_person import AskPerson as AskPerson
from greenroom.agents.caller import (
    caller_of as caller_of,
    calling as calling,
    check_depth as check_depth,
    find_circle as find_circle,
    noting as noting,
)
from greenroom.agents.coder import CODER_PROMPT as CODER_PROMPT, coder as coder
from greenroom.agents.file_checkpoints import FileCheckpoints as FileCheckpoints
from greenroom.agents.guards import Guard as Guard, Reject as Reject, Rewrite as Rewrite
from greenroom.agents.handoff import MAX_SWITCHES as MAX_SWITCHES
from greenroom.agents.models import find_model as find_model
from greenroom.agents.project_notes import (
    ProjectNotes as ProjectNotes,
    project_notes as project_notes,
    read_notes as read_notes,
)
from greenroom.agents.project_text import ProjectText as ProjectText
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.resilient_tool import resilient_tool as resilient_tool
from greenroom.agents.restore import (
    RestorePlan as RestorePlan,
    RestoreReport as RestoreReport,
    plan_restore as plan_restore,
)
from greenroom.agents.restore_plan import FileRestore as FileRestore
from greenroom.agents.run_context import RunContext as RunContext
from greenroom.agents.runnable import Runnable as Runnable
from greenroom.agents.single_turn import run_turn as run_turn
from greenroom.agents.skills import Skill as Skill, Skills as Skills
from greenroom.agents.stream_events import (
    StreamEvent as StreamEvent,
    StreamEventType as StreamEventType,
    stream_events as stream_events,
)
from greenroom.agents.streams import (
    mapped as mapped,
    merged as merged,
    only as only,
    texts as texts,
)
from greenroom.agents.task import Task as Task
from greenroom.agents.team import Team as Team
from greenroom.agents.tool_calls import run_tools as run_tools
from greenroom.agents.toolbox import Toolbox as Toolbox
