"""Google's Gemini API: `provider`, `encode` (requests), `decode` and `calls` (replies)."""

from greenroom._lazy import open_lazily

__getattr__, __dir__, _ = open_lazily(__name__)
