"""The vocabulary of the house: values, states, errors. No I/O, no trio.

Modules: `content`, `message`, `usage`, `request`, `price` (conversations); `input`, `output`, `state` (what agents
receive and tell); `tooling`, `effects`, `permission` (tool calls); `checkpoint` (what they did to
files); `protection` (files that make programs run); `context`, `resources`, `credential`,
`workspace` (what tools are given); `sandbox` (what holds them); `instrument`, `instruments` (who may watch); `errors`, `model_errors`; and the
small tools of the trade: `serde`, `text`, `disguise`,
`json_place`, `ids`, `clock`.
"""

from greenroom.core import clock as clock, serde as serde
from greenroom.core.checkpoint import (
    Checkpoint as Checkpoint,
    FileChange as FileChange,
    FileState as FileState,
)
from greenroom.core.content import (
    ContentBlock as ContentBlock,
    DocumentBlock as DocumentBlock,
    ImageBlock as ImageBlock,
    RedactedThinkingBlock as RedactedThinkingBlock,
    ResultContent as ResultContent,
    TextBlock as TextBlock,
    ThinkingBlock as ThinkingBlock,
    ToolResultBlock as ToolResultBlock,
    ToolUseBlock as ToolUseBlock,
    UnknownBlock as UnknownBlock,
)
from greenroom.core.context import (
    AgentContext as AgentContext,
)
from greenroom.core.credential import (
    Credential as Credential,
    Credentials as Credentials,
    conceal as conceal,
)
from greenroom.core.disguise import (
    disguises as disguises,
    exact as exact,
    lookalikes as lookalikes,
    texts_in as texts_in,
)
from greenroom.core.effects import (
    Contact as Contact,
    Effect as Effect,
    Execute as Execute,
    Opaque as Opaque,
    ReadPath as ReadPath,
    ShellCommand as ShellCommand,
    WritePath as WritePath,
    usual_effects as usual_effects,
)
from greenroom.core.errors import (
    AddressRefusedError as AddressRefusedError,
    AgentNotRunningError as AgentNotRunningError,
    BlackboardFullError as BlackboardFullError,
    BudgetExceededError as BudgetExceededError,
    CassetteError as CassetteError,
    CircuitOpenError as CircuitOpenError,
    ConfigurationError as ConfigurationError,
    ConfigurationFileError as ConfigurationFileError,
    ConflictError as ConflictError,
    EventLoopError as EventLoopError,
    GreenroomError as GreenroomError,
    GuardError as GuardError,
    HandoffLimitError as HandoffLimitError,
    InvalidJSONError as InvalidJSONError,
    InvalidSessionIdError as InvalidSessionIdError,
    MailboxFullError as MailboxFullError,
    MemoryStorageError as MemoryStorageError,
    ModelCallForbiddenError as ModelCallForbiddenError,
    NetworkError as NetworkError,
    NetworkTimeoutError as NetworkTimeoutError,
    NoProgressError as NoProgressError,
    PlanError as PlanError,
    RuleFileError as RuleFileError,
    RuntimeClosedError as RuntimeClosedError,
    SandboxUnavailableError as SandboxUnavailableError,
    SelfWaitError as SelfWaitError,
    SessionCorruptError as SessionCorruptError,
    SessionError as SessionError,
    SessionExistsError as SessionExistsError,
    SessionFencedError as SessionFencedError,
    SessionInUseError as SessionInUseError,
    SessionLockedError as SessionLockedError,
    SessionNotFoundError as SessionNotFoundError,
    SessionStorageError as SessionStorageError,
    StaleWriteError as StaleWriteError,
    SupervisionError as SupervisionError,
    TeamError as TeamError,
    ToolError as ToolError,
    TurnError as TurnError,
    WorkflowError as WorkflowError,
    WorkflowLimitError as WorkflowLimitError,
)
from greenroom.core.failure import (
    MAX_ERROR_TEXT as MAX_ERROR_TEXT,
    describe_error as describe_error,
    is_a as is_a,
    leaves as leaves,
    log_error as log_error,
    message_of as message_of,
    read_text as read_text,
    type_name as type_name,
)
from greenroom.core.ids import (
    RECALLED as RECALLED,
    RUNTIME as RUNTIME,
    SUMMARY as SUMMARY,
    check_sender as check_sender,
    check_session_id as check_session_id,
    new_id as new_id,
    seed_ids as seed_ids,
)
from greenroom.core.input import (
    AgentExit as AgentExit,
    ConversationInput as ConversationInput,
    InputMessage as InputMessage,
    Interrupt as Interrupt,
    Resume as Resume,
    Shutdown as Shutdown,
    SubAgentResult as SubAgentResult,
    ToolResultInput as ToolResultInput,
    UserInput as UserInput,
)
from greenroom.core.instrument import Instrument as Instrument, ModelCall as ModelCall
from greenroom.core.instruments import (
    Hook as Hook,
    Instruments as Instruments,
    InstrumentStatistics as InstrumentStatistics,
)
from greenroom.core.json_place import (
    error_at as error_at,
    error_of_json as error_of_json,
    place_in_json as place_in_json,
)
from greenroom.core.message import (
    UNKNOWN_FIELDS as UNKNOWN_FIELDS,
    Message as Message,
    Role as Role,
    StopReason as StopReason,
    as_blocks as as_blocks,
)
from greenroom.core.model_errors import (
    ModelAuthenticationError as ModelAuthenticationError,
    ModelBadRequestError as ModelBadRequestError,
    ModelConnectionError as ModelConnectionError,
    ModelConnectTimeoutError as ModelConnectTimeoutError,
    ModelContentFilterError as ModelContentFilterError,
    ModelContextTooLongError as ModelContextTooLongError,
    ModelError as ModelError,
    ModelFirstEventTimeoutError as ModelFirstEventTimeoutError,
    ModelIdleTimeoutError as ModelIdleTimeoutError,
    ModelNotFoundError as ModelNotFoundError,
    ModelOutputError as ModelOutputError,
    ModelOverloadedError as ModelOverloadedError,
    ModelPermissionError as ModelPermissionError,
    ModelQuotaError as ModelQuotaError,
    ModelRateLimitError as ModelRateLimitError,
    ModelRequestTimeoutError as ModelRequestTimeoutError,
    ModelStreamError as ModelStreamError,
    ModelTimeoutError as ModelTimeoutError,
)
from greenroom.core.notice import (
    notice as notice,
)
from greenroom.core.output import (
    Custom as Custom,
    Done as Done,
    EndStatus as EndStatus,
    Error as Error,
    Exited as Exited,
    Lagged as Lagged,
    OutputChunk as OutputChunk,
    PermissionRequest as PermissionRequest,
    PermissionResponse as PermissionResponse,
    Restarted as Restarted,
    StateChange as StateChange,
    SubAgentComplete as SubAgentComplete,
    SubAgentOutput as SubAgentOutput,
    SubAgentSpawned as SubAgentSpawned,
    TextComplete as TextComplete,
    TextDelta as TextDelta,
    ThinkingComplete as ThinkingComplete,
    ThinkingDelta as ThinkingDelta,
    ToolEnd as ToolEnd,
    ToolProgress as ToolProgress,
    ToolStart as ToolStart,
    TurnStart as TurnStart,
    TurnStatus as TurnStatus,
    UsageReport as UsageReport,
)
from greenroom.core.permission import (
    DECIDED_BY_ITSELF as DECIDED_BY_ITSELF,
    Answer as Answer,
    PermissionEffects as PermissionEffects,
    PermissionPart as PermissionPart,
    PermissionRecord as PermissionRecord,
    Remember as Remember,
    RuleDecision as RuleDecision,
)
from greenroom.core.price import Price as Price
from greenroom.core.protection import (
    AGENT_FOLDERS as AGENT_FOLDERS,
    CONFIGURATION_FOLDERS as CONFIGURATION_FOLDERS,
    PROTECTED_FILES as PROTECTED_FILES,
    PROTECTED_FOLDERS as PROTECTED_FOLDERS,
    own_rules as own_rules,
    protected_names as protected_names,
)
from greenroom.core.request import (
    ModelRequest as ModelRequest,
    NamedTool as NamedTool,
    OutputSchema as OutputSchema,
    ToolChoice as ToolChoice,
)
from greenroom.core.resources import (
    ResourceMap as ResourceMap,
)
from greenroom.core.sandbox import (
    SandboxPart as SandboxPart,
    SandboxReport as SandboxReport,
    SandboxTier as SandboxTier,
)
from greenroom.core.serde import (
    JSON as JSON,
)
from greenroom.core.state import (
    AgentState as AgentState,
    StateKind as StateKind,
)
from greenroom.core.text import (
    clip as clip,
    mark_lines as mark_lines,
    valid_unicode as valid_unicode,
    visible as visible,
)
from greenroom.core.tooling import (
    ToolDefinition as ToolDefinition,
    ToolInfo as ToolInfo,
    ToolResult as ToolResult,
    ToolStatus as ToolStatus,
    portable_name as portable_name,
)
from greenroom.core.usage import (
    Usage as Usage,
    Used as Used,
)
from greenroom.core.wire import (
    Wire as Wire,
)
from greenroom.core.workspace import (
    Workspace as Workspace,
)
