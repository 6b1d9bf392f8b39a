"""Streams in the two wire formats, written from their specifications."""

from greenroom.core._internal import serde
from greenroom.llm.sse import SSEDecoder
from greenroom.llm.stream import StreamEnd


def sse(*values, named=True, end="\n"):
    """Encode JSON values as server-sent events, each under its own `type` where it is named."""
    text = ""
    for value in values:
        if named and isinstance(value, dict):
            text += f"event: {value['type']}{end}"
        data = value if isinstance(value, str) else serde.dumps(value).decode()
        text += f"data: {data}{end}{end}"
    return text.encode()


def run(decoder, data, *, size=1 << 30):
    """Feed a stream in pieces of a size, and close it; return the events up to the end or error."""
    events, lines = [], SSEDecoder()
    arrived = [data[at : at + size] for at in range(0, len(data), size)]
    for batch in (*map(lines.feed, arrived), lines.close()):
        for event in batch:
            events.extend(decoder.feed(event))
            if isinstance(events[-1] if events else None, StreamEnd):
                return events
    events.extend(decoder.close())
    return events


# Anthropic's Messages API


def message_start(**fields):
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message | fields}


def block_start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | fields}


def block_stop(index):
    return {"type": "content_block_stop", "index": index}


def text_block(index, *pieces):
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [block_start(index, type="text", text=""), *deltas, block_stop(index)]


def thinking_block(index, thought, signature):
    start = block_start(index, type="thinking", thinking="", signature="")
    deltas = [delta(index, "thinking_delta", thinking=thought)] if thought else []
    return [start, *deltas, delta(index, "signature_delta", signature=signature), block_stop(index)]


def tool_block(index, call_id, name, *pieces):
    start = block_start(index, type="tool_use", id=call_id, name=name, input={})
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start, *deltas, block_stop(index)]


def message_delta(stop_reason="end_turn", output_tokens=7, **usage):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": None},
        "usage": {"output_tokens": output_tokens} | usage,
    }


STOP = {"type": "message_stop"}


def anthropic(*events):
    """A whole reply of these blocks' events, with its beginning and its end."""
    return sse(message_start(), *events, message_delta(), STOP)


# OpenAI's Chat Completions


def chunk(delta=None, finish=None, **fields):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-test",
    }
    return base | {"choices": choices} | fields


def call(index, call_id=None, name=None, arguments=None, **fields):
    """One fragment of a tool call."""
    function = {"name": name, "arguments": arguments}
    fragment = {
        "index": index,
        "id": call_id,
        "type": "function" if call_id else None,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    known = {key: value for key, value in fragment.items() if value is not None}
    return {"tool_calls": [known | fields]}


USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def chat(*deltas, finish="stop"):
    """A whole reply of these deltas: a finish, then the usage, then the mark of the end."""
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas)]
    return sse(*chunks, chunk({}, finish), chunk(usage=USAGE), "[DONE]", named=False)


# OpenAI's Responses API


def reasoning_item(item_id, summary, encrypted):
    summaries = [{"type": "summary_text", "text": summary}] if summary else []
    item = {"type": "reasoning", "id": item_id, "summary": summaries}
    return item | ({"encrypted_content": encrypted} if encrypted else {})


def message_item(item_id, *texts):
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {"type": "message", "id": item_id, "status": "completed", "role": "assistant"}
    return item | {"content": parts}


def call_item(item_id, call_id, name, arguments):
    item = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name}
    return item | {"arguments": arguments, "status": "completed"}


def item_events(place, item, pieces=None):
    """The events of one item, its texts in these pieces, or letter by letter."""
    begin = {"type": "response.output_item.added", "output_index": place}
    yield begin | {"item": item | {"content": []} if item["type"] == "message" else item}
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            at = {"output_index": place, "content_index": number, "item_id": item["id"]}
            kind = "refusal" if part["type"] == "refusal" else "output_text"
            for piece in pieces or part.get("text") or part["refusal"]:
                yield {"type": f"response.{kind}.delta", "delta": piece} | at
    if item["type"] == "function_call":
        at = {"output_index": place, "item_id": item["id"]}
        for letter in item["arguments"]:
            yield {"type": "response.function_call_arguments.delta", "delta": letter} | at
    if item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            at = {"output_index": place, "summary_index": number, "item_id": item["id"]}
            for letter in part["text"]:
                yield {"type": "response.reasoning_summary_text.delta", "delta": letter} | at
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def response(*items, **fields):
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }
    made = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-test-1"}
    made |= {"status": "completed", "output": list(items), "usage": usage}
    return made | fields


def responses_events(*items, pieces=None, **fields):
    begun = response(**(fields | {"status": "in_progress", "usage": None}))
    yield {"type": "response.created", "response": begun}
    for place, item in enumerate(items):
        yield from item_events(place, item, pieces)
    kind = "response.incomplete" if fields.get("status") == "incomplete" else "response.completed"
    yield {"type": kind, "response": response(*items, **fields)}


def responses_stream(*items, **fields):
    numbered = enumerate(responses_events(*items, **fields))
    return sse(*({"sequence_number": number} | event for number, event in numbered))


# The Gemini API


def text_part(text, signature="", **fields):
    return {"text": text} | ({"thoughtSignature": signature} if signature else {}) | fields


def function_part(name, arguments, call_id="", signature=""):
    call = {"name": name, "args": arguments} | ({"id": call_id} if call_id else {})
    return {"functionCall": call} | ({"thoughtSignature": signature} if signature else {})


def gemini_response(*parts, finish="", **fields):
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    usage = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 17,
    }
    head = {"modelVersion": "gemini-test-1", "responseId": "resp_1"}
    candidate |= {"finishReason": finish} if finish else {}
    return {"candidates": [candidate], "usageMetadata": usage} | head | fields


def gemini_responses(*parts, finish="STOP", **fields):
    """A reply of these parts, each in a response of its own; the reason comes in the last one."""
    last = len(parts) - 1
    return [
        gemini_response(part, finish=finish if at == last else "", **fields)
        for at, part in enumerate(parts)
    ]


def gemini(*parts, end="\r\n", **fields):
    return sse(*gemini_responses(*parts, **fields), named=False, end=end)
