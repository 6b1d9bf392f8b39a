"""The vocabulary that all packages share: values, states, errors. No I/O, no trio.

- Conversations: `message` (with blocks, senders, ids and times), `usage` (tokens and prices).
- Agents: `input` (what they receive), `output` (the chunks they emit), `context` (their state, and
  the context of their tools, with credentials), `resources`.
- Tool calls: `tooling` (definitions, requests to models, results, changes of files), `permission`
  (effects, decisions, protected names).
- `instrument`: hooks that watch what agents do; `gate`: what may refuse a call.
- `errors` and `model_errors`: one tree of exceptions. `untrusted` makes foreign texts and
  exceptions safe to store, and `secrets` takes keys out of them; `visibility` shows such texts, and
  `lookalikes` finds what poses.
- `serde`: JSON in and out. `frozen`: the dicts and lists of frozen values, which nobody changes.
"""

from greenroom.core import serde as serde
from greenroom.core.agent_state import (
    AgentState as AgentState,
    StateKind as StateKind,
)
from greenroom.core.bounded_pattern import BoundedPattern as BoundedPattern
from greenroom.core.context import (
    AgentContext as AgentContext,
    Credential as Credential,
    Credentials as Credentials,
    Workspace as Workspace,
    conceal as conceal,
)
from greenroom.core.errors import (
    AddressRefusedError as AddressRefusedError,
    AgentCrashError as AgentCrashError,
    AgentNotRunningError as AgentNotRunningError,
    AlreadyAnsweredError as AlreadyAnsweredError,
    AuditError as AuditError,
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
    InvalidAnswerError as InvalidAnswerError,
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
from greenroom.core.frozen import (
    EMPTY as EMPTY,
    freeze as freeze,
    freeze_fields as freeze_fields,
    thaw as thaw,
)
from greenroom.core.gate import (
    GATE_METHODS as GATE_METHODS,
    Ask as Ask,
    Deny as Deny,
    Gate as Gate,
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
from greenroom.core.instrument import (
    Hook as Hook,
    Instrument as Instrument,
    Instruments as Instruments,
    InstrumentStatistics as InstrumentStatistics,
    ModelCall as ModelCall,
)
from greenroom.core.kept_files import (
    SESSION_PREFIX as SESSION_PREFIX,
    KeptFiles as KeptFiles,
)
from greenroom.core.lookalikes import (
    describe_hidden as describe_hidden,
    describe_lookalikes as describe_lookalikes,
    disguises as disguises,
    lookalikes as lookalikes,
    texts_in as texts_in,
)
from greenroom.core.message import (
    RECALLED as RECALLED,
    RUNTIME as RUNTIME,
    SUMMARY as SUMMARY,
    UNKNOWN_FIELDS as UNKNOWN_FIELDS,
    ContentBlock as ContentBlock,
    DocumentBlock as DocumentBlock,
    ImageBlock as ImageBlock,
    Message as Message,
    RedactedThinkingBlock as RedactedThinkingBlock,
    ResultContent as ResultContent,
    Role as Role,
    StopReason as StopReason,
    TextBlock as TextBlock,
    ThinkingBlock as ThinkingBlock,
    ToolResultBlock as ToolResultBlock,
    ToolUseBlock as ToolUseBlock,
    UnknownBlock as UnknownBlock,
    as_blocks as as_blocks,
    check_sender as check_sender,
    check_session_id as check_session_id,
    new_id as new_id,
    seed_ids as seed_ids,
    set_clock as set_clock,
    timestamp as timestamp,
    unix_milliseconds as unix_milliseconds,
    utc_now as utc_now,
    utc_now_ms as utc_now_ms,
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
    AGENT_FOLDERS as AGENT_FOLDERS,
    AUTOMATIC_DECIDERS as AUTOMATIC_DECIDERS,
    CONFIGURATION_FOLDERS as CONFIGURATION_FOLDERS,
    PROTECTED_FILES as PROTECTED_FILES,
    PROTECTED_FOLDERS as PROTECTED_FOLDERS,
    Answer as Answer,
    Contact as Contact,
    Effect as Effect,
    Execute as Execute,
    Opaque as Opaque,
    PermissionEffects as PermissionEffects,
    PermissionPart as PermissionPart,
    PermissionRecord as PermissionRecord,
    ReadPath as ReadPath,
    Remember as Remember,
    RuleDecision as RuleDecision,
    ShellCommand as ShellCommand,
    WritePath as WritePath,
    is_own_file as is_own_file,
    protected_names as protected_names,
    usual_effects as usual_effects,
)
from greenroom.core.resources import ResourceMap as ResourceMap
from greenroom.core.secrets import (
    KEY_FORM as KEY_FORM,
    SECRET as SECRET,
    conceal_secrets as conceal_secrets,
    conceal_texts as conceal_texts,
    map_texts as map_texts,
)
from greenroom.core.serde import (
    JSON as JSON,
    Wire as Wire,
    error_at as error_at,
    error_of_json as error_of_json,
)
from greenroom.core.tooling import (
    Approval as Approval,
    Checkpoint as Checkpoint,
    Effort as Effort,
    FileChange as FileChange,
    FileState as FileState,
    ModelRequest as ModelRequest,
    NamedTool as NamedTool,
    OutputSchema as OutputSchema,
    SandboxPart as SandboxPart,
    SandboxReport as SandboxReport,
    SandboxTier as SandboxTier,
    Thinking as Thinking,
    ToolChoice as ToolChoice,
    ToolDefinition as ToolDefinition,
    ToolInfo as ToolInfo,
    ToolResult as ToolResult,
    ToolRun as ToolRun,
    ToolStatus as ToolStatus,
    portable_name as portable_name,
)
from greenroom.core.untrusted import (
    MAX_ERROR_TEXT as MAX_ERROR_TEXT,
    clip as clip,
    describe_error as describe_error,
    is_a as is_a,
    leaves as leaves,
    log_error as log_error,
    message_of as message_of,
    notice as notice,
    read_text as read_text,
    type_name as type_name,
    valid_unicode as valid_unicode,
)
from greenroom.core.usage import (
    Price as Price,
    Usage as Usage,
    Used as Used,
)
from greenroom.core.visibility import (
    exact as exact,
    legible as legible,
    mark_lines as mark_lines,
    visible as visible,
)
