"""The names of OpenTelemetry's GenAI semantic conventions that spans use, in one place.

The source is the version in `VERSION`, the last in OpenTelemetry's main repository:
https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai
"""

VERSION = "1.41.1"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
CONVERSATION = "gen_ai.conversation.id"
WORKFLOW_NAME = "gen_ai.workflow.name"
REQUEST_MODEL = "gen_ai.request.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
TOP_P = "gen_ai.request.top_p"
SEED = "gen_ai.request.seed"
STOP_SEQUENCES = "gen_ai.request.stop_sequences"
OUTPUT_TYPE = "gen_ai.output.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
ERROR_TYPE = "error.type"

SYSTEM = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
OPTIONS = "greenroom.request.options"
OUTPUT_SCHEMA = "greenroom.request.output_schema"
"""From `SYSTEM` on, what was said: these are there only where content may leave."""

TURN = "greenroom.turn"
STEP = "greenroom.step"
INPUT_ID = "greenroom.input.id"
SENDER = "greenroom.input.sender"
WAITED = "greenroom.input.waited"
COST = "greenroom.usage.cost"
VALIDATION_MS = "greenroom.tool.validation_ms"
EXECUTION_MS = "greenroom.tool.execution_ms"
TOOL_VERSION = "greenroom.tool.version"
TOOL_CHOICE = "greenroom.request.tool_choice"
EFFORT = "greenroom.request.effort"
THINKING = "greenroom.request.thinking"
PARALLEL_TOOLS = "greenroom.request.parallel_tools"
"""What the conventions have no name for has one of ours."""

PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers, where they differ from ours or are well known."""

FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "refusal": "content_filter",
}
"""The conventions' words for why a reply ended, by ours."""
