"""Greenroom: an actor-model runtime for AI agents, on trio.

The house, from the ground up; a package imports only those below it:

    cli, testing       the terminal program; what you import in your own tests
    agents             stream_reply, run_tools, coder: where all of the below meet
    llm, runtime       talking to models; the actor kernel, which knows no model
    resilience         budgets, usable on any code
    session            conversations that outlive the process
    permissions        rules on what a tool call may do
    tools              what agents can do
    net                the one place that speaks HTTP
    core               the vocabulary: messages, chunks, states, errors; no I/O

The names that a first program needs can be imported from here; they load when they are used.
"""

from importlib import import_module
from logging import NullHandler, getLogger
from typing import TYPE_CHECKING

from greenroom._version import __version__

if TYPE_CHECKING:
    from greenroom.agents import FileCheckpoints as FileCheckpoints
    from greenroom.agents import FileRestore as FileRestore
    from greenroom.agents import RestorePlan as RestorePlan
    from greenroom.agents import RestoreReport as RestoreReport
    from greenroom.agents import Task as Task
    from greenroom.agents import coder as coder
    from greenroom.agents import plan_restore as plan_restore
    from greenroom.agents import run_tools as run_tools
    from greenroom.agents import stream_reply as stream_reply
    from greenroom.cli import ConsoleRenderer as ConsoleRenderer
    from greenroom.core import AddressRefusedError as AddressRefusedError
    from greenroom.core import AgentContext as AgentContext
    from greenroom.core import AgentExit as AgentExit
    from greenroom.core import AgentNotRunningError as AgentNotRunningError
    from greenroom.core import AgentState as AgentState
    from greenroom.core import Answer as Answer
    from greenroom.core import BudgetExceededError as BudgetExceededError
    from greenroom.core import ConfigurationError as ConfigurationError
    from greenroom.core import ContentBlock as ContentBlock
    from greenroom.core import ConversationInput as ConversationInput
    from greenroom.core import Custom as Custom
    from greenroom.core import DocumentBlock as DocumentBlock
    from greenroom.core import Done as Done
    from greenroom.core import EndStatus as EndStatus
    from greenroom.core import Error as Error
    from greenroom.core import EventLoopError as EventLoopError
    from greenroom.core import Exited as Exited
    from greenroom.core import GreenroomError as GreenroomError
    from greenroom.core import ImageBlock as ImageBlock
    from greenroom.core import InputMessage as InputMessage
    from greenroom.core import Instrument as Instrument
    from greenroom.core import Interrupt as Interrupt
    from greenroom.core import InvalidJSONError as InvalidJSONError
    from greenroom.core import InvalidSessionIdError as InvalidSessionIdError
    from greenroom.core import Lagged as Lagged
    from greenroom.core import MailboxFullError as MailboxFullError
    from greenroom.core import Message as Message
    from greenroom.core import ModelAuthenticationError as ModelAuthenticationError
    from greenroom.core import ModelBadRequestError as ModelBadRequestError
    from greenroom.core import ModelCall as ModelCall
    from greenroom.core import ModelConnectionError as ModelConnectionError
    from greenroom.core import ModelContextTooLongError as ModelContextTooLongError
    from greenroom.core import ModelError as ModelError
    from greenroom.core import ModelOverloadedError as ModelOverloadedError
    from greenroom.core import ModelRateLimitError as ModelRateLimitError
    from greenroom.core import ModelStreamError as ModelStreamError
    from greenroom.core import ModelTimeoutError as ModelTimeoutError
    from greenroom.core import NetworkError as NetworkError
    from greenroom.core import NetworkTimeoutError as NetworkTimeoutError
    from greenroom.core import OutputChunk as OutputChunk
    from greenroom.core import PermissionEffects as PermissionEffects
    from greenroom.core import PermissionPart as PermissionPart
    from greenroom.core import PermissionRecord as PermissionRecord
    from greenroom.core import PermissionRequest as PermissionRequest
    from greenroom.core import PermissionResponse as PermissionResponse
    from greenroom.core import Price as Price
    from greenroom.core import RedactedThinkingBlock as RedactedThinkingBlock
    from greenroom.core import ResourceMap as ResourceMap
    from greenroom.core import Restarted as Restarted
    from greenroom.core import Resume as Resume
    from greenroom.core import Role as Role
    from greenroom.core import RuleDecision as RuleDecision
    from greenroom.core import RuleFileError as RuleFileError
    from greenroom.core import RuntimeClosedError as RuntimeClosedError
    from greenroom.core import SandboxReport as SandboxReport
    from greenroom.core import SandboxUnavailableError as SandboxUnavailableError
    from greenroom.core import SelfWaitError as SelfWaitError
    from greenroom.core import SessionCorruptError as SessionCorruptError
    from greenroom.core import SessionError as SessionError
    from greenroom.core import SessionExistsError as SessionExistsError
    from greenroom.core import SessionFencedError as SessionFencedError
    from greenroom.core import SessionInUseError as SessionInUseError
    from greenroom.core import SessionLockedError as SessionLockedError
    from greenroom.core import SessionNotFoundError as SessionNotFoundError
    from greenroom.core import SessionStorageError as SessionStorageError
    from greenroom.core import Shutdown as Shutdown
    from greenroom.core import StateChange as StateChange
    from greenroom.core import StateKind as StateKind
    from greenroom.core import StopReason as StopReason
    from greenroom.core import SubAgentComplete as SubAgentComplete
    from greenroom.core import SubAgentOutput as SubAgentOutput
    from greenroom.core import SubAgentResult as SubAgentResult
    from greenroom.core import SubAgentSpawned as SubAgentSpawned
    from greenroom.core import SupervisionError as SupervisionError
    from greenroom.core import TextBlock as TextBlock
    from greenroom.core import TextComplete as TextComplete
    from greenroom.core import TextDelta as TextDelta
    from greenroom.core import ThinkingBlock as ThinkingBlock
    from greenroom.core import ThinkingComplete as ThinkingComplete
    from greenroom.core import ThinkingDelta as ThinkingDelta
    from greenroom.core import ToolDefinition as ToolDefinition
    from greenroom.core import ToolEnd as ToolEnd
    from greenroom.core import ToolError as ToolError
    from greenroom.core import ToolInfo as ToolInfo
    from greenroom.core import ToolProgress as ToolProgress
    from greenroom.core import ToolResult as ToolResult
    from greenroom.core import ToolResultBlock as ToolResultBlock
    from greenroom.core import ToolResultInput as ToolResultInput
    from greenroom.core import ToolStart as ToolStart
    from greenroom.core import ToolStatus as ToolStatus
    from greenroom.core import ToolUseBlock as ToolUseBlock
    from greenroom.core import TurnError as TurnError
    from greenroom.core import TurnStart as TurnStart
    from greenroom.core import TurnStatus as TurnStatus
    from greenroom.core import UnknownBlock as UnknownBlock
    from greenroom.core import Usage as Usage
    from greenroom.core import UsageReport as UsageReport
    from greenroom.core import Used as Used
    from greenroom.core import UserInput as UserInput
    from greenroom.core import Workspace as Workspace
    from greenroom.llm import AnthropicProvider as AnthropicProvider
    from greenroom.llm import LLMProvider as LLMProvider
    from greenroom.llm import ModelRequest as ModelRequest
    from greenroom.llm import OfflineProvider as OfflineProvider
    from greenroom.llm import OpenAIProvider as OpenAIProvider
    from greenroom.llm import open_model as open_model
    from greenroom.permissions import Explanation as Explanation
    from greenroom.permissions import PermissionManager as PermissionManager
    from greenroom.permissions import PermissionRule as PermissionRule
    from greenroom.permissions import RuleMatcher as RuleMatcher
    from greenroom.permissions import RuleScope as RuleScope
    from greenroom.resilience import Backoff as Backoff
    from greenroom.resilience import Budget as Budget
    from greenroom.runtime import AgentHandle as AgentHandle
    from greenroom.runtime import AgentInternals as AgentInternals
    from greenroom.runtime import AgentNode as AgentNode
    from greenroom.runtime import AgentRuntime as AgentRuntime
    from greenroom.runtime import AgentStatistics as AgentStatistics
    from greenroom.runtime import InterruptReport as InterruptReport
    from greenroom.runtime import Outcome as Outcome
    from greenroom.runtime import ParentInfo as ParentInfo
    from greenroom.runtime import Receipt as Receipt
    from greenroom.runtime import RuntimeLimits as RuntimeLimits
    from greenroom.runtime import RuntimeStatistics as RuntimeStatistics
    from greenroom.runtime import RuntimeTree as RuntimeTree
    from greenroom.runtime import Subscription as Subscription
    from greenroom.runtime import Supervisor as Supervisor
    from greenroom.runtime import SupervisorOutcome as SupervisorOutcome
    from greenroom.runtime import ToolCallScope as ToolCallScope
    from greenroom.runtime import TurnResult as TurnResult
    from greenroom.runtime import TurnStream as TurnStream
    from greenroom.runtime import fan_out as fan_out
    from greenroom.runtime import spawn_subagent as spawn_subagent
    from greenroom.session import AgentSession as AgentSession
    from greenroom.session import Branch as Branch
    from greenroom.session import FileStore as FileStore
    from greenroom.session import MemoryStore as MemoryStore
    from greenroom.session import Page as Page
    from greenroom.session import RepairReport as RepairReport
    from greenroom.session import SearchHit as SearchHit
    from greenroom.session import SearchReport as SearchReport
    from greenroom.session import SessionMetadata as SessionMetadata
    from greenroom.session import SessionSearch as SessionSearch
    from greenroom.session import SessionStore as SessionStore
    from greenroom.session import SQLiteStore as SQLiteStore
    from greenroom.session import export_session as export_session
    from greenroom.session import import_session as import_session
    from greenroom.tools import ProcessLimits as ProcessLimits
    from greenroom.tools import Sandbox as Sandbox
    from greenroom.tools import SandboxLimits as SandboxLimits
    from greenroom.tools import Tool as Tool
    from greenroom.tools import ToolRegistry as ToolRegistry
    from greenroom.tools import WorkerPool as WorkerPool
    from greenroom.tools import as_tool as as_tool
    from greenroom.tools import builtin_tools as builtin_tools
    from greenroom.tools import tool as tool

_HOMES = {
    "greenroom.core": (
        "AddressRefusedError",
        "AgentContext",
        "AgentExit",
        "AgentNotRunningError",
        "AgentState",
        "Answer",
        "BudgetExceededError",
        "ConfigurationError",
        "ContentBlock",
        "ConversationInput",
        "Custom",
        "DocumentBlock",
        "Done",
        "EndStatus",
        "Error",
        "Exited",
        "EventLoopError",
        "GreenroomError",
        "ImageBlock",
        "InputMessage",
        "Instrument",
        "Interrupt",
        "InvalidJSONError",
        "InvalidSessionIdError",
        "Lagged",
        "MailboxFullError",
        "Message",
        "ModelAuthenticationError",
        "ModelBadRequestError",
        "ModelCall",
        "ModelConnectionError",
        "ModelContextTooLongError",
        "ModelError",
        "ModelOverloadedError",
        "ModelRateLimitError",
        "ModelStreamError",
        "ModelTimeoutError",
        "NetworkError",
        "NetworkTimeoutError",
        "OutputChunk",
        "PermissionEffects",
        "PermissionPart",
        "PermissionRecord",
        "PermissionRequest",
        "PermissionResponse",
        "Price",
        "RedactedThinkingBlock",
        "ResourceMap",
        "Restarted",
        "Resume",
        "Role",
        "RuleDecision",
        "RuleFileError",
        "RuntimeClosedError",
        "SandboxReport",
        "SandboxUnavailableError",
        "SelfWaitError",
        "SessionCorruptError",
        "SessionError",
        "SessionExistsError",
        "SessionFencedError",
        "SessionInUseError",
        "SessionLockedError",
        "SessionNotFoundError",
        "SessionStorageError",
        "Shutdown",
        "StateChange",
        "StateKind",
        "StopReason",
        "SubAgentComplete",
        "SubAgentOutput",
        "SubAgentResult",
        "SubAgentSpawned",
        "SupervisionError",
        "TextBlock",
        "TextComplete",
        "TextDelta",
        "ThinkingBlock",
        "ThinkingComplete",
        "ThinkingDelta",
        "ToolDefinition",
        "ToolEnd",
        "ToolError",
        "ToolInfo",
        "ToolProgress",
        "ToolResult",
        "ToolResultBlock",
        "ToolResultInput",
        "ToolStart",
        "ToolStatus",
        "ToolUseBlock",
        "TurnError",
        "TurnStart",
        "TurnStatus",
        "UnknownBlock",
        "Usage",
        "UsageReport",
        "Used",
        "UserInput",
        "Workspace",
    ),
    "greenroom.resilience": ("Backoff", "Budget"),
    "greenroom.runtime": (
        "AgentHandle",
        "AgentInternals",
        "AgentNode",
        "AgentRuntime",
        "AgentStatistics",
        "InterruptReport",
        "Outcome",
        "ParentInfo",
        "Receipt",
        "RuntimeLimits",
        "RuntimeStatistics",
        "RuntimeTree",
        "Subscription",
        "Supervisor",
        "SupervisorOutcome",
        "ToolCallScope",
        "TurnResult",
        "TurnStream",
        "fan_out",
        "spawn_subagent",
    ),
    "greenroom.session": (
        "AgentSession",
        "Branch",
        "FileStore",
        "MemoryStore",
        "Page",
        "RepairReport",
        "SQLiteStore",
        "SearchHit",
        "SearchReport",
        "SessionMetadata",
        "SessionSearch",
        "SessionStore",
        "export_session",
        "import_session",
    ),
    "greenroom.permissions": (
        "Explanation",
        "PermissionManager",
        "PermissionRule",
        "RuleMatcher",
        "RuleScope",
    ),
    "greenroom.tools": (
        "ProcessLimits",
        "Sandbox",
        "SandboxLimits",
        "Tool",
        "ToolRegistry",
        "WorkerPool",
        "as_tool",
        "builtin_tools",
        "tool",
    ),
    "greenroom.llm": (
        "AnthropicProvider",
        "LLMProvider",
        "ModelRequest",
        "OfflineProvider",
        "OpenAIProvider",
        "open_model",
    ),
    "greenroom.agents": (
        "FileCheckpoints",
        "FileRestore",
        "RestorePlan",
        "RestoreReport",
        "Task",
        "coder",
        "plan_restore",
        "run_tools",
        "stream_reply",
    ),
    "greenroom.cli": ("ConsoleRenderer",),
}
_HOME = {name: package for package, names in _HOMES.items() for name in names}

__all__ = [
    "AddressRefusedError",
    "AgentContext",
    "AgentExit",
    "AgentHandle",
    "AgentInternals",
    "AgentNode",
    "AgentNotRunningError",
    "AgentRuntime",
    "AgentSession",
    "AgentState",
    "AgentStatistics",
    "Answer",
    "AnthropicProvider",
    "Backoff",
    "Branch",
    "Budget",
    "BudgetExceededError",
    "ConfigurationError",
    "ConsoleRenderer",
    "ContentBlock",
    "ConversationInput",
    "Custom",
    "DocumentBlock",
    "Done",
    "EndStatus",
    "Error",
    "EventLoopError",
    "Exited",
    "Explanation",
    "FileCheckpoints",
    "FileRestore",
    "FileStore",
    "GreenroomError",
    "ImageBlock",
    "InputMessage",
    "Instrument",
    "Interrupt",
    "InterruptReport",
    "InvalidJSONError",
    "InvalidSessionIdError",
    "LLMProvider",
    "Lagged",
    "MailboxFullError",
    "MemoryStore",
    "Message",
    "ModelAuthenticationError",
    "ModelBadRequestError",
    "ModelCall",
    "ModelConnectionError",
    "ModelContextTooLongError",
    "ModelError",
    "ModelOverloadedError",
    "ModelRateLimitError",
    "ModelRequest",
    "ModelStreamError",
    "ModelTimeoutError",
    "NetworkError",
    "NetworkTimeoutError",
    "OfflineProvider",
    "OpenAIProvider",
    "Outcome",
    "OutputChunk",
    "Page",
    "ParentInfo",
    "PermissionEffects",
    "PermissionManager",
    "PermissionPart",
    "PermissionRecord",
    "PermissionRequest",
    "PermissionResponse",
    "PermissionRule",
    "Price",
    "ProcessLimits",
    "Receipt",
    "RedactedThinkingBlock",
    "RepairReport",
    "ResourceMap",
    "Restarted",
    "RestorePlan",
    "RestoreReport",
    "Resume",
    "Role",
    "RuleDecision",
    "RuleFileError",
    "RuleMatcher",
    "RuleScope",
    "RuntimeClosedError",
    "RuntimeLimits",
    "RuntimeStatistics",
    "RuntimeTree",
    "SQLiteStore",
    "Sandbox",
    "SandboxLimits",
    "SandboxReport",
    "SandboxUnavailableError",
    "SearchHit",
    "SearchReport",
    "SelfWaitError",
    "SessionCorruptError",
    "SessionError",
    "SessionExistsError",
    "SessionFencedError",
    "SessionInUseError",
    "SessionLockedError",
    "SessionMetadata",
    "SessionNotFoundError",
    "SessionSearch",
    "SessionStorageError",
    "SessionStore",
    "Shutdown",
    "StateChange",
    "StateKind",
    "StopReason",
    "SubAgentComplete",
    "SubAgentOutput",
    "SubAgentResult",
    "SubAgentSpawned",
    "Subscription",
    "SupervisionError",
    "Supervisor",
    "SupervisorOutcome",
    "Task",
    "TextBlock",
    "TextComplete",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingComplete",
    "ThinkingDelta",
    "Tool",
    "ToolCallScope",
    "ToolDefinition",
    "ToolEnd",
    "ToolError",
    "ToolInfo",
    "ToolProgress",
    "ToolRegistry",
    "ToolResult",
    "ToolResultBlock",
    "ToolResultInput",
    "ToolStart",
    "ToolStatus",
    "ToolUseBlock",
    "TurnError",
    "TurnResult",
    "TurnStart",
    "TurnStatus",
    "TurnStream",
    "UnknownBlock",
    "Usage",
    "UsageReport",
    "Used",
    "UserInput",
    "WorkerPool",
    "Workspace",
    "__version__",
    "as_tool",
    "builtin_tools",
    "coder",
    "export_session",
    "fan_out",
    "import_session",
    "open_model",
    "plan_restore",
    "run_tools",
    "spawn_subagent",
    "stream_reply",
    "tool",
]

# Silent unless the application asks for our log.
getLogger("greenroom").addHandler(NullHandler())


def __getattr__(name: str) -> object:
    """Load a public name at its first use, so that importing the package costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
