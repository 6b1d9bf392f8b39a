"""Requests as the providers encode them from scratch."""

from greenroom.core._internal import serde
from greenroom.llm.anthropic.encode import MessagesDialect
from greenroom.llm.gemini.encode import GeminiDialect
from greenroom.llm.openai.encode import ChatDialect
from greenroom.llm.request_encoder import encode_request
from greenroom.llm.responses.encode import ResponsesDialect


def encode_anthropic(request, *, model="m", max_tokens=100):
    return serde.loads(encode_request(MessagesDialect(model, max_tokens), request))


def encode_openai(request, *, model="m", **fields):
    return serde.loads(encode_request(ChatDialect(model, **fields), request))


def encode_responses(request, *, model="m", **fields):
    return serde.loads(encode_request(ResponsesDialect(model, **fields), request))


def encode_gemini(request, *, model="m", **fields):
    return serde.loads(encode_request(GeminiDialect(model, **fields), request))
