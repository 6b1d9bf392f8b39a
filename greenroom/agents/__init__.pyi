from greenroom.agents.agent import Agent as Agent, run_turn as run_turn
from greenroom.agents.agent_result import AgentResult as AgentResult
from greenroom.agents.call_gate import run_tools as run_tools
from greenroom.agents.chunk_streams import (
    StreamEvent as StreamEvent,
    mapped as mapped,
    merged as merged,
    only as only,
    stream_events as stream_events,
    texts as texts,
    windowed as windowed,
)
from greenroom.agents.coder import coder as coder
from greenroom.agents.configuration import Tools as Tools
from greenroom.agents.errors import AlreadyAnsweredError as AlreadyAnsweredError
from greenroom.agents.file_checkpoints import FileCheckpoints as FileCheckpoints
from greenroom.agents.guards import Guard as Guard, Reject as Reject, Rewrite as Rewrite
from greenroom.agents.project import project_notes as project_notes
from greenroom.agents.questions import AskPerson as AskPerson
from greenroom.agents.reply import stream_reply as stream_reply
from greenroom.agents.resilient_tool import resilient_tool as resilient_tool
from greenroom.agents.result_cache import ResultCache as ResultCache
from greenroom.agents.run_context import RunContext as RunContext
from greenroom.agents.runnable import Runnable as Runnable
from greenroom.agents.skills import Skills as Skills
from greenroom.agents.task import Task as Task
