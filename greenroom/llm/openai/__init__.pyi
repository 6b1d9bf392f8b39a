from greenroom.llm.openai.embedder import OpenAIEmbedder as OpenAIEmbedder
from greenroom.llm.openai.hosts import (
    HOSTS as HOSTS,
    HostProfile as HostProfile,
    host_profile as host_profile,
)
from greenroom.llm.openai.provider import OpenAIProvider as OpenAIProvider
from greenroom.llm.openai.read_request import read_chat_request as read_chat_request
