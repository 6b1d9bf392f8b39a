"""What the vendors' own libraries make of the bytes of a reply, in the words of `Reading`.

They have four thousand modules, which are imported where they are used: each process that runs
tests imports all test modules.
"""

import base64
import json
from collections.abc import Iterable
from typing import NamedTuple

import httpx2

ASKED = [{"role": "user", "content": "hi"}]


class Reading(NamedTuple):
    """What a reply says, as far as both libraries and we tell it."""

    text: str
    calls: list[tuple[str, str, object]]
    thinking: list[tuple[str, str]]
    stop_reason: str | None
    counts: tuple[int | None, ...] | None
    model: str
    response_id: str
    others: list[object]


class _Sent(httpx2.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self):
        return iter(self._pieces)


def _client(pieces: Iterable[bytes]) -> httpx2.Client:
    headers = {"content-type": "text/event-stream"}
    answer = httpx2.Response(200, headers=headers, stream=_Sent(pieces))
    return httpx2.Client(transport=httpx2.MockTransport(lambda _request: answer))


def read_anthropic(pieces: Iterable[bytes]) -> Reading:
    import anthropic

    with (
        _client(pieces) as http,
        anthropic.Anthropic(api_key="k", http_client=http, max_retries=0) as client,
        client.beta.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
    ):
        message = stream.get_final_message()
    blocks = [block.to_dict() for block in message.content]
    usage = message.usage
    return Reading(
        "".join(b["text"] for b in blocks if b["type"] == "text"),
        [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"],
        [(b["thinking"], b["signature"]) for b in blocks if b["type"] == "thinking"],
        message.stop_reason,
        (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens,
         usage.cache_creation_input_tokens),
        message.model,
        message.id,
        [b for b in blocks if b["type"] not in ("text", "tool_use", "thinking")],
    )  # fmt: skip


def read_chat(pieces: Iterable[bytes]) -> Reading:
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state, counts = ChatCompletionStreamState(), None
    with (
        _client(pieces) as http,
        openai.OpenAI(api_key="k", http_client=http, max_retries=0) as client,
        client.chat.completions.create(model="m", messages=ASKED, stream=True) as stream,
    ):
        for chunk in stream:
            state.handle_chunk(chunk)
            counts = chunk.usage or counts  # the state forgets them with the next chunk
    completion = state.current_completion_snapshot
    choice = completion.choices[0]
    message = choice.message.to_dict()
    calls = [(c["id"], c["function"]) for c in message.get("tool_calls") or ()]
    logprobs = choice.logprobs
    tokens = None
    if counts is not None:
        details = counts.prompt_tokens_details
        cached = details.cached_tokens if details else None
        tokens = (counts.prompt_tokens, counts.completion_tokens, cached, None)
    return Reading(
        (message.get("content") or "") + (message.get("refusal") or ""),
        [(i, function["name"], json.loads(function["arguments"])) for i, function in calls],
        [(text, "") for name in ("reasoning", "reasoning_content") if (text := message.get(name))],
        choice.finish_reason,
        tokens,
        completion.model,
        completion.id,
        [token.to_dict() for token in (logprobs.content if logprobs else None) or ()],
    )  # fmt: skip


def read_responses(pieces: Iterable[bytes]) -> Reading:
    import openai

    with (
        _client(pieces) as http,
        openai.OpenAI(api_key="k", http_client=http, max_retries=0) as client,
        client.responses.create(model="m", input="hi", stream=True) as stream,
    ):
        for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
    items = [item.to_dict() for item in response.output]
    messages = [part for i in items if i["type"] == "message" for part in i["content"]]
    calls = [i for i in items if i["type"] == "function_call"]
    thoughts = [i for i in items if i["type"] == "reasoning"]
    usage, details = response.usage, response.incomplete_details
    return Reading(
        "".join(part.get("text") or part.get("refusal") or "" for part in messages),
        [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in calls],
        [
            (
                "\n\n".join(each["text"] for each in i["summary"] or i.get("content") or ()),
                i.get("encrypted_content") or "",
            )
            for i in thoughts
        ],
        (details and details.reason) or response.status,
        usage and (usage.input_tokens, usage.output_tokens,
                   usage.input_tokens_details.cached_tokens, None),
        response.model,
        response.id,
        [i for i in items if i["type"] not in ("message", "function_call", "reasoning")],
    )  # fmt: skip


def read_gemini(pieces: Iterable[bytes]) -> Reading:
    from google import genai

    parts, counts, reason, head, blocked = [], None, None, None, None
    with _client(pieces) as http:
        options = genai.types.HttpOptions(httpx_client=http)
        with genai.Client(api_key="k", vertexai=False, http_options=options) as client:
            for chunk in client.models.generate_content_stream(model="m", contents="hi"):
                head = head or chunk
                first = next(iter(chunk.candidates or ()), None)
                parts += (first and first.content and first.content.parts) or ()
                reason = (first and first.finish_reason) or reason
                feedback = chunk.prompt_feedback
                blocked = (feedback and feedback.block_reason) or blocked
                counts = chunk.usage_metadata or counts
    signed = {"thought_signature"}
    raws = [
        part.model_dump(mode="json", exclude_none=True, by_alias=True, exclude=signed)
        for part in parts
    ]
    thought = "".join(part.text for part in parts if part.thought and part.text)
    signatures = [_to_base64(p.thought_signature) for p in parts if p.thought_signature]
    reason = reason or blocked
    return Reading(
        "".join(part.text for part in parts if part.text and not part.thought),
        [
            (part.function_call.id or "", part.function_call.name, part.function_call.args or {})
            for part in parts
            if part.function_call
        ],
        [(thought, ""), *(("", each) for each in signatures)],
        reason and reason.value,
        counts and (counts.prompt_token_count, counts.candidates_token_count,
                    counts.cached_content_token_count, counts.thoughts_token_count),
        head.model_version,
        head.response_id,
        [raw for raw in raws if not raw.keys() & {"text", "functionCall"}],
    )  # fmt: skip


def _to_base64(signature: bytes) -> str:
    return base64.b64encode(signature).decode()
