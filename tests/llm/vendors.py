"""What the vendors' own libraries make of the bytes of a reply, in the words of `Reading`.

They have four thousand modules, which are imported where they are used: each process that runs
tests imports all test modules.
"""

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
