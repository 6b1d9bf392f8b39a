"""Google's Gemini API: `decode` and `calls` (replies)."""
