"""Anthropic's Messages API: `provider` sends, `encode` and `decode` translate, both pure."""

from greenroom.llm.anthropic.provider import AnthropicProvider as AnthropicProvider

__all__ = ["AnthropicProvider"]
