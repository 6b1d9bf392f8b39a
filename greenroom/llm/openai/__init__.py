"""OpenAI's Chat Completions, and all servers that speak it.

`provider` sends requests, `encode` and `decode` translate, `reasoning` is what servers do not agree
on, and `hosts` lists the servers. `embedder` makes vectors with the same servers. `read_request`
reads a request back, for tests on recorded traffic.
"""

from greenroom.llm.openai.embedder import OpenAIEmbedder as OpenAIEmbedder
from greenroom.llm.openai.hosts import (
    HOSTS as HOSTS,
    HostProfile as HostProfile,
    host_profile as host_profile,
)
from greenroom.llm.openai.provider import OpenAIProvider as OpenAIProvider
from greenroom.llm.openai.read_request import read_chat_request as read_chat_request
