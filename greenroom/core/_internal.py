"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.core import serde as serde
from greenroom.core.agent_state import StateKind as StateKind
from greenroom.core.bounded_pattern import BoundedPattern as BoundedPattern
from greenroom.core.context import Credentials as Credentials, conceal as conceal
from greenroom.core.errors import (
    AddressRefusedError as AddressRefusedError,
    ConfigurationFileError as ConfigurationFileError,
    EventLoopError as EventLoopError,
    InvalidJSONError as InvalidJSONError,
    InvalidSessionIdError as InvalidSessionIdError,
    NetworkTimeoutError as NetworkTimeoutError,
    find_error as find_error,
)
from greenroom.core.frozen import (
    EMPTY as EMPTY,
    freeze as freeze,
    freeze_fields as freeze_fields,
    thaw as thaw,
    valid_unicode as valid_unicode,
)
from greenroom.core.gate import GATE_METHODS as GATE_METHODS
from greenroom.core.input import ConversationInput as ConversationInput
from greenroom.core.instrument import Hook as Hook, Instruments as Instruments
from greenroom.core.kept_files import SESSION_PREFIX as SESSION_PREFIX, KeptFiles as KeptFiles
from greenroom.core.late_pattern import compile_later as compile_later
from greenroom.core.lookalikes import (
    describe_lookalikes as describe_lookalikes,
    disguises as disguises,
    lookalikes as lookalikes,
    texts_in as texts_in,
)
from greenroom.core.message import (
    HOOK as HOOK,
    RECALLED as RECALLED,
    REFUSALS as REFUSALS,
    RUNTIME as RUNTIME,
    SUMMARY as SUMMARY,
    UNKNOWN_FIELDS as UNKNOWN_FIELDS,
    ResultContent as ResultContent,
    Role as Role,
    as_blocks as as_blocks,
    check_sender as check_sender,
    check_session_id as check_session_id,
    is_system_clock as is_system_clock,
    new_id as new_id,
    seed_ids as seed_ids,
    set_clock as set_clock,
    timestamp as timestamp,
    unix_milliseconds as unix_milliseconds,
)
from greenroom.core.output import EndStatus as EndStatus
from greenroom.core.partials import is_async as is_async, strip_partials as strip_partials
from greenroom.core.permission import (
    AGENT_FOLDERS as AGENT_FOLDERS,
    AUTOMATIC_DECIDERS as AUTOMATIC_DECIDERS,
    CONFIGURATION_FOLDERS as CONFIGURATION_FOLDERS,
    PROTECTED_FILES as PROTECTED_FILES,
    PROTECTED_FOLDERS as PROTECTED_FOLDERS,
    Effect as Effect,
    PermissionEffects as PermissionEffects,
    PermissionPart as PermissionPart,
    PermissionRecord as PermissionRecord,
    Remember as Remember,
    describe_effects as describe_effects,
    is_own_file as is_own_file,
    protected_names as protected_names,
    usual_effects as usual_effects,
)
from greenroom.core.secrets import (
    KEY_FORM as KEY_FORM,
    SECRET as SECRET,
    conceal_secrets as conceal_secrets,
    conceal_texts as conceal_texts,
    map_texts as map_texts,
)
from greenroom.core.serde import (
    JSON as JSON,
    Reticent as Reticent,
    Wire as Wire,
    error_at as error_at,
    error_of_json as error_of_json,
)
from greenroom.core.short_cache import cache_short as cache_short
from greenroom.core.tooling import (
    Approval as Approval,
    Checkpoint as Checkpoint,
    Effort as Effort,
    FileChange as FileChange,
    FileState as FileState,
    NamedTool as NamedTool,
    OutputSchema as OutputSchema,
    SandboxPart as SandboxPart,
    SandboxReport as SandboxReport,
    SandboxTier as SandboxTier,
    Thinking as Thinking,
    ToolChoice as ToolChoice,
    portable_name as portable_name,
)
from greenroom.core.trace_context import (
    current_span as current_span,
    current_traceparent as current_traceparent,
)
from greenroom.core.untrusted import (
    MAX_ERROR_TEXT as MAX_ERROR_TEXT,
    clip as clip,
    describe_error as describe_error,
    is_a as is_a,
    is_handled as is_handled,
    leaves as leaves,
    log_error as log_error,
    message_of as message_of,
    notice as notice,
    quantity as quantity,
    read_text as read_text,
    type_name as type_name,
    write_to_stderr as write_to_stderr,
)
from greenroom.core.usage import Used as Used
from greenroom.core.visibility import (
    describe_hidden as describe_hidden,
    exact as exact,
    legible as legible,
    mark_lines as mark_lines,
    visible as visible,
)
