"""OpenAI's Responses API: `provider`, `encode` (requests), `decode` (replies).

OpenAI's newer models call tools while they think over this API only.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, _ = open_lazily(__name__)
