from greenroom.llm.anthropic import read_anthropic_request as read_anthropic_request
from greenroom.llm.catalog import (
    MODELS as MODELS,
    ModelProfile as ModelProfile,
    similar_models as similar_models,
    without_date as without_date,
)
from greenroom.llm.endpoint import (
    FORBID_VARIABLE as FORBID_VARIABLE,
    check_call as check_call,
    forbids_calls as forbids_calls,
)
from greenroom.llm.failure import (
    error_in_band as error_in_band,
    error_of_response as error_of_response,
)
from greenroom.llm.gemini import read_gemini_request as read_gemini_request
from greenroom.llm.json_fields import decode_event as decode_event
from greenroom.llm.keys import FILE_SUFFIX as FILE_SUFFIX, read_key as read_key
from greenroom.llm.merged_messages import merge_messages as merge_messages
from greenroom.llm.model_errors import (
    ModelCallForbiddenError as ModelCallForbiddenError,
    ModelConnectTimeoutError as ModelConnectTimeoutError,
    ModelContentFilterError as ModelContentFilterError,
    ModelFirstEventTimeoutError as ModelFirstEventTimeoutError,
    ModelIdleTimeoutError as ModelIdleTimeoutError,
    ModelNotFoundError as ModelNotFoundError,
    ModelPermissionError as ModelPermissionError,
    ModelQuotaError as ModelQuotaError,
    ModelRequestTimeoutError as ModelRequestTimeoutError,
)
from greenroom.llm.model_names import (
    DEFAULT_MODELS as DEFAULT_MODELS,
    MODEL_VARIABLE as MODEL_VARIABLE,
    VENDORS as VENDORS,
    ModelChoice as ModelChoice,
    Vendor as Vendor,
    choose_model as choose_model,
    default_model as default_model,
    full_name as full_name,
    open_inner as open_inner,
)
from greenroom.llm.named_models import (
    OpenModels as OpenModels,
    find_model as find_model,
    use_model as use_model,
)
from greenroom.llm.openai import (
    HOSTS as HOSTS,
    OpenAIEmbedder as OpenAIEmbedder,
    host_profile as host_profile,
    read_chat_request as read_chat_request,
)
from greenroom.llm.output_type import ANSWER_TOOL as ANSWER_TOOL, OutputType as OutputType
from greenroom.llm.portable_calls import tool_use as tool_use
from greenroom.llm.provider import price_of as price_of, window_of as window_of
from greenroom.llm.recorded import (
    ReplayStream as ReplayStream,
    events_of as events_of,
    replay as replay,
)
from greenroom.llm.recorded_request import same_request as same_request
from greenroom.llm.resilient import AfterOutput as AfterOutput
from greenroom.llm.responses import read_responses_request as read_responses_request
from greenroom.llm.sse import SSEDecoder as SSEDecoder
from greenroom.llm.stream import (
    Announcement as Announcement,
    BlockStart as BlockStart,
    Draft as Draft,
    Notice as Notice,
    StreamRestart as StreamRestart,
    StreamStart as StreamStart,
    UsageUpdate as UsageUpdate,
    collect as collect,
)
from greenroom.llm.structured import (
    OutputModes as OutputModes,
    is_correction as is_correction,
    make_correction as make_correction,
    with_output as with_output,
)
from greenroom.llm.substitutes import (
    substitute_model as substitute_model,
    substitute_result as substitute_result,
)
from greenroom.llm.tokens import shows_media as shows_media
from greenroom.llm.windows import (
    SMALLEST_WINDOW as SMALLEST_WINDOW,
    ContextWindow as ContextWindow,
    check_window as check_window,
)
