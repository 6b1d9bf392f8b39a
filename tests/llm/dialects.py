"""Requests as both providers encode them from scratch."""

from greenroom.core import serde
from greenroom.llm.anthropic.encode import MessagesDialect
from greenroom.llm.openai.encode import ChatDialect
from greenroom.llm.request_encoder import encode_request


def encode_anthropic(request, *, model="m", max_tokens=100):
    return serde.loads(encode_request(MessagesDialect(model, max_tokens), request))


def encode_openai(request, *, model="m", **fields):
    return serde.loads(encode_request(ChatDialect(model, **fields), request))
