"""OpenAI's Chat Completions, and whoever else speaks it: `provider`, `encode`, `decode`."""

from greenroom.llm.openai.provider import OpenAIProvider as OpenAIProvider

__all__ = ["OpenAIProvider"]
