"""The vocabulary of the house: values, states, errors. No I/O, no trio.

Modules: `content`, `message`, `usage`, `request`, `price` (conversations); `input`, `output`, `state` (what agents
receive and tell); `tooling`, `effects`, `permission` (tool calls); `checkpoint` (what they did to
files); `protection` (files that make programs run); `context`, `resources`, `workspace` (what tools
are given); `sandbox` (what holds them); `instrument`, `instruments` (who may watch); `errors`; and the
small tools of the trade: `serde`, `text`, `disguise`,
`ids`, `clock`.
"""

from greenroom.core import clock as clock
from greenroom.core import serde as serde
from greenroom.core.checkpoint import (
    Checkpoint as Checkpoint,
)
from greenroom.core.checkpoint import (
    FileChange as FileChange,
)
from greenroom.core.checkpoint import (
    FileState as FileState,
)
from greenroom.core.content import (
    ContentBlock as ContentBlock,
)
from greenroom.core.content import (
    DocumentBlock as DocumentBlock,
)
from greenroom.core.content import (
    ImageBlock as ImageBlock,
)
from greenroom.core.content import (
    RedactedThinkingBlock as RedactedThinkingBlock,
)
from greenroom.core.content import (
    ResultContent as ResultContent,
)
from greenroom.core.content import (
    TextBlock as TextBlock,
)
from greenroom.core.content import (
    ThinkingBlock as ThinkingBlock,
)
from greenroom.core.content import (
    ToolResultBlock as ToolResultBlock,
)
from greenroom.core.content import (
    ToolUseBlock as ToolUseBlock,
)
from greenroom.core.content import (
    UnknownBlock as UnknownBlock,
)
from greenroom.core.context import (
    AgentContext as AgentContext,
)
from greenroom.core.disguise import disguises as disguises
from greenroom.core.disguise import exact as exact
from greenroom.core.disguise import lookalikes as lookalikes
from greenroom.core.disguise import texts_in as texts_in
from greenroom.core.effects import (
    Contact as Contact,
)
from greenroom.core.effects import (
    Effect as Effect,
)
from greenroom.core.effects import (
    Execute as Execute,
)
from greenroom.core.effects import (
    Opaque as Opaque,
)
from greenroom.core.effects import (
    ReadPath as ReadPath,
)
from greenroom.core.effects import (
    ShellCommand as ShellCommand,
)
from greenroom.core.effects import (
    WritePath as WritePath,
)
from greenroom.core.effects import (
    usual_effects as usual_effects,
)
from greenroom.core.errors import (
    AddressRefusedError as AddressRefusedError,
)
from greenroom.core.errors import (
    AgentNotRunningError as AgentNotRunningError,
)
from greenroom.core.errors import (
    BudgetExceededError as BudgetExceededError,
)
from greenroom.core.errors import (
    ConfigurationError as ConfigurationError,
)
from greenroom.core.errors import (
    EventLoopError as EventLoopError,
)
from greenroom.core.errors import (
    GreenroomError as GreenroomError,
)
from greenroom.core.errors import (
    InvalidJSONError as InvalidJSONError,
)
from greenroom.core.errors import (
    InvalidSessionIdError as InvalidSessionIdError,
)
from greenroom.core.errors import (
    MailboxFullError as MailboxFullError,
)
from greenroom.core.errors import (
    ModelAuthenticationError as ModelAuthenticationError,
)
from greenroom.core.errors import (
    ModelBadRequestError as ModelBadRequestError,
)
from greenroom.core.errors import (
    ModelConnectionError as ModelConnectionError,
)
from greenroom.core.errors import (
    ModelContextTooLongError as ModelContextTooLongError,
)
from greenroom.core.errors import (
    ModelError as ModelError,
)
from greenroom.core.errors import (
    ModelOverloadedError as ModelOverloadedError,
)
from greenroom.core.errors import (
    ModelRateLimitError as ModelRateLimitError,
)
from greenroom.core.errors import (
    ModelStreamError as ModelStreamError,
)
from greenroom.core.errors import (
    ModelTimeoutError as ModelTimeoutError,
)
from greenroom.core.errors import (
    NetworkError as NetworkError,
)
from greenroom.core.errors import (
    NetworkTimeoutError as NetworkTimeoutError,
)
from greenroom.core.errors import (
    RuleFileError as RuleFileError,
)
from greenroom.core.errors import (
    RuntimeClosedError as RuntimeClosedError,
)
from greenroom.core.errors import (
    SandboxUnavailableError as SandboxUnavailableError,
)
from greenroom.core.errors import (
    SelfWaitError as SelfWaitError,
)
from greenroom.core.errors import (
    SessionCorruptError as SessionCorruptError,
)
from greenroom.core.errors import (
    SessionError as SessionError,
)
from greenroom.core.errors import (
    SessionExistsError as SessionExistsError,
)
from greenroom.core.errors import (
    SessionFencedError as SessionFencedError,
)
from greenroom.core.errors import (
    SessionInUseError as SessionInUseError,
)
from greenroom.core.errors import (
    SessionLockedError as SessionLockedError,
)
from greenroom.core.errors import (
    SessionNotFoundError as SessionNotFoundError,
)
from greenroom.core.errors import (
    SessionStorageError as SessionStorageError,
)
from greenroom.core.errors import (
    SupervisionError as SupervisionError,
)
from greenroom.core.errors import (
    ToolError as ToolError,
)
from greenroom.core.errors import (
    TurnError as TurnError,
)
from greenroom.core.failure import (
    MAX_ERROR_TEXT as MAX_ERROR_TEXT,
)
from greenroom.core.failure import (
    describe_error as describe_error,
)
from greenroom.core.failure import (
    is_a as is_a,
)
from greenroom.core.failure import (
    leaves as leaves,
)
from greenroom.core.failure import (
    log_error as log_error,
)
from greenroom.core.failure import (
    message_of as message_of,
)
from greenroom.core.failure import (
    read_text as read_text,
)
from greenroom.core.failure import (
    type_name as type_name,
)
from greenroom.core.ids import (
    check_session_id as check_session_id,
)
from greenroom.core.ids import (
    new_id as new_id,
)
from greenroom.core.ids import (
    seed_ids as seed_ids,
)
from greenroom.core.input import (
    AgentExit as AgentExit,
)
from greenroom.core.input import (
    ConversationInput as ConversationInput,
)
from greenroom.core.input import (
    InputMessage as InputMessage,
)
from greenroom.core.input import (
    Interrupt as Interrupt,
)
from greenroom.core.input import (
    Resume as Resume,
)
from greenroom.core.input import (
    Shutdown as Shutdown,
)
from greenroom.core.input import (
    SubAgentResult as SubAgentResult,
)
from greenroom.core.input import (
    ToolResultInput as ToolResultInput,
)
from greenroom.core.input import (
    UserInput as UserInput,
)
from greenroom.core.instrument import Instrument as Instrument
from greenroom.core.instrument import ModelCall as ModelCall
from greenroom.core.instruments import Hook as Hook
from greenroom.core.instruments import Instruments as Instruments
from greenroom.core.instruments import InstrumentStatistics as InstrumentStatistics
from greenroom.core.message import (
    Message as Message,
)
from greenroom.core.message import (
    Role as Role,
)
from greenroom.core.message import (
    StopReason as StopReason,
)
from greenroom.core.message import (
    as_blocks as as_blocks,
)
from greenroom.core.notice import (
    notice as notice,
)
from greenroom.core.output import (
    Custom as Custom,
)
from greenroom.core.output import (
    Done as Done,
)
from greenroom.core.output import (
    EndStatus as EndStatus,
)
from greenroom.core.output import (
    Error as Error,
)
from greenroom.core.output import (
    Exited as Exited,
)
from greenroom.core.output import (
    Lagged as Lagged,
)
from greenroom.core.output import (
    OutputChunk as OutputChunk,
)
from greenroom.core.output import (
    PermissionRequest as PermissionRequest,
)
from greenroom.core.output import (
    PermissionResponse as PermissionResponse,
)
from greenroom.core.output import (
    Restarted as Restarted,
)
from greenroom.core.output import (
    StateChange as StateChange,
)
from greenroom.core.output import (
    SubAgentComplete as SubAgentComplete,
)
from greenroom.core.output import (
    SubAgentOutput as SubAgentOutput,
)
from greenroom.core.output import (
    SubAgentSpawned as SubAgentSpawned,
)
from greenroom.core.output import (
    TextComplete as TextComplete,
)
from greenroom.core.output import (
    TextDelta as TextDelta,
)
from greenroom.core.output import (
    ThinkingComplete as ThinkingComplete,
)
from greenroom.core.output import (
    ThinkingDelta as ThinkingDelta,
)
from greenroom.core.output import (
    ToolEnd as ToolEnd,
)
from greenroom.core.output import (
    ToolProgress as ToolProgress,
)
from greenroom.core.output import (
    ToolStart as ToolStart,
)
from greenroom.core.output import (
    TurnStart as TurnStart,
)
from greenroom.core.output import (
    TurnStatus as TurnStatus,
)
from greenroom.core.output import (
    UsageReport as UsageReport,
)
from greenroom.core.permission import (
    DECIDED_BY_ITSELF as DECIDED_BY_ITSELF,
)
from greenroom.core.permission import (
    Answer as Answer,
)
from greenroom.core.permission import (
    PermissionEffects as PermissionEffects,
)
from greenroom.core.permission import (
    PermissionPart as PermissionPart,
)
from greenroom.core.permission import (
    PermissionRecord as PermissionRecord,
)
from greenroom.core.permission import (
    Remember as Remember,
)
from greenroom.core.permission import (
    RuleDecision as RuleDecision,
)
from greenroom.core.price import Price as Price
from greenroom.core.protection import (
    AGENT_FOLDERS as AGENT_FOLDERS,
)
from greenroom.core.protection import (
    CONFIGURATION_FOLDERS as CONFIGURATION_FOLDERS,
)
from greenroom.core.protection import (
    PROTECTED_FILES as PROTECTED_FILES,
)
from greenroom.core.protection import (
    PROTECTED_FOLDERS as PROTECTED_FOLDERS,
)
from greenroom.core.protection import (
    own_rules as own_rules,
)
from greenroom.core.protection import (
    protected_names as protected_names,
)
from greenroom.core.request import ModelRequest as ModelRequest
from greenroom.core.request import NamedTool as NamedTool
from greenroom.core.request import ToolChoice as ToolChoice
from greenroom.core.resources import (
    ResourceMap as ResourceMap,
)
from greenroom.core.sandbox import (
    SandboxPart as SandboxPart,
)
from greenroom.core.sandbox import (
    SandboxReport as SandboxReport,
)
from greenroom.core.sandbox import (
    SandboxTier as SandboxTier,
)
from greenroom.core.serde import (
    JSON as JSON,
)
from greenroom.core.state import (
    TRANSITIONS as TRANSITIONS,
)
from greenroom.core.state import (
    AgentState as AgentState,
)
from greenroom.core.state import (
    StateKind as StateKind,
)
from greenroom.core.text import (
    clip as clip,
)
from greenroom.core.text import (
    valid_unicode as valid_unicode,
)
from greenroom.core.text import (
    visible as visible,
)
from greenroom.core.tooling import (
    ToolDefinition as ToolDefinition,
)
from greenroom.core.tooling import (
    ToolInfo as ToolInfo,
)
from greenroom.core.tooling import (
    ToolResult as ToolResult,
)
from greenroom.core.tooling import (
    ToolStatus as ToolStatus,
)
from greenroom.core.usage import (
    Usage as Usage,
)
from greenroom.core.usage import (
    Used as Used,
)
from greenroom.core.wire import (
    Wire as Wire,
)
from greenroom.core.workspace import (
    Workspace as Workspace,
)

__all__ = [
    "AGENT_FOLDERS",
    "CONFIGURATION_FOLDERS",
    "DECIDED_BY_ITSELF",
    "JSON",
    "MAX_ERROR_TEXT",
    "PROTECTED_FILES",
    "PROTECTED_FOLDERS",
    "TRANSITIONS",
    "AddressRefusedError",
    "AgentContext",
    "AgentExit",
    "AgentNotRunningError",
    "AgentState",
    "Answer",
    "BudgetExceededError",
    "Checkpoint",
    "ConfigurationError",
    "Contact",
    "ContentBlock",
    "ConversationInput",
    "Custom",
    "DocumentBlock",
    "Done",
    "Effect",
    "EndStatus",
    "Error",
    "EventLoopError",
    "Execute",
    "Exited",
    "FileChange",
    "FileState",
    "GreenroomError",
    "Hook",
    "ImageBlock",
    "InputMessage",
    "Instrument",
    "InstrumentStatistics",
    "Instruments",
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
    "ModelRequest",
    "ModelStreamError",
    "ModelTimeoutError",
    "NamedTool",
    "NetworkError",
    "NetworkTimeoutError",
    "Opaque",
    "OutputChunk",
    "PermissionEffects",
    "PermissionPart",
    "PermissionRecord",
    "PermissionRequest",
    "PermissionResponse",
    "Price",
    "ReadPath",
    "RedactedThinkingBlock",
    "Remember",
    "ResourceMap",
    "Restarted",
    "ResultContent",
    "Resume",
    "Role",
    "RuleDecision",
    "RuleFileError",
    "RuntimeClosedError",
    "SandboxPart",
    "SandboxReport",
    "SandboxTier",
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
    "ShellCommand",
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
    "ToolChoice",
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
    "Wire",
    "Workspace",
    "WritePath",
    "as_blocks",
    "check_session_id",
    "clip",
    "clock",
    "describe_error",
    "disguises",
    "exact",
    "leaves",
    "log_error",
    "lookalikes",
    "message_of",
    "new_id",
    "notice",
    "own_rules",
    "protected_names",
    "seed_ids",
    "serde",
    "texts_in",
    "usual_effects",
    "valid_unicode",
    "visible",
]
