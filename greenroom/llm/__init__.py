"""Models: one protocol, and the providers that implement it.

- The protocol: `provider`, and `stream` (the events of a reply, and the reply so far).
- Providers: `anthropic`, `openai`, `responses`, `gemini`, `offline` (rules, no network), `recorded`
  (replies of a session); `model_names` finds models by name, `catalog` lists facts about some,
  `windows` has what is known of a context window.
- Around any provider: `resilient` (retries, limits, fallbacks), `cached` (earlier replies again).
- Structured output: `output_type`, and `strict_schema` (schemas for the strict modes of vendors).
- Providers over HTTP: `http_provider` is their base, `endpoint` has the address and the key that
  `keys` has read, or asks for the headers of one request, `http_stream` sends a request and
  streams the reply, `sse` decodes its bytes, `failure` and `retry_after` read its errors.
- Requests: `merged_messages` (the messages that a provider accepts), `portable_calls` (tool calls
  with ids and names that a vendor accepts), `request_encoder` (requests as bytes, each message
  encoded once), `request_rules` (what each model accepts, and requests made to fit it),
  `bound_thinking` (thinking that fits only where it was thought), `tokens` (how many a request
  takes), `tokenizers` (how many a text takes exactly), `recorded_request` (recorded requests read
  back), `json_fields` (reading JSON of others).

The HTTP client is imported with the first provider that needs it.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
