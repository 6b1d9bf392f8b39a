"""Anthropic's Messages API: `provider` sends requests; `encode` and `decode` translate.

`read_request` reads a request back, for tests on recorded traffic.
"""

from greenroom.llm.anthropic.provider import AnthropicProvider as AnthropicProvider
from greenroom.llm.anthropic.read_request import read_anthropic_request as read_anthropic_request
