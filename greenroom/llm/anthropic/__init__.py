"""Anthropic's Messages API: `provider` sends requests; `encode` and `decode` translate.

`read_request` reads a request back, for tests on recorded traffic.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, _ = open_lazily(__name__)
