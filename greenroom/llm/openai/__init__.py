"""OpenAI's Chat Completions, and all servers that speak it.

`provider` sends requests, `encode` and `decode` translate, `reasoning` is what servers do not agree
on, and `hosts` lists the servers. `embedder` makes vectors with the same servers. `read_request`
reads a request back, for tests on recorded traffic.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, _ = open_lazily(__name__)
