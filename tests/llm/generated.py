"""Streams of the dialects, composed at random of what their specifications allow.

They hold what has misled readers: counts that change, arguments in pieces or missing, thinking of
which only the signature is sent, blocks that come whole, comments, pings, line ends of two bytes,
and characters that some take for the end of a line. Left out is what the vendors' libraries read
wrongly or
refuse: calls without an index, names on every fragment, arguments that were cut off, and, with
Google's, comments.
"""

import base64
import random
from collections.abc import Callable

from greenroom.core._internal import serde
from tests.llm.wire import (
    STOP,
    block_start,
    block_stop,
    call_item,
    chunk,
    delta,
    function_part,
    gemini_response,
    message_delta,
    message_item,
    message_start,
    reasoning_item,
    responses_events,
    text_part,
)

LETTERS = 'abc 12{}[]":,\\/\n\té漢😀\u2028\u2029\x85\u200b'
REASONS = {
    "anthropic": ["end_turn", "tool_use", "stop_sequence", "pause_turn", "refusal"],
    "chat": ["stop", "tool_calls", "length", "content_filter"],
    "gemini": ["STOP", "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "OTHER"],
}


def words(chance: random.Random, most: int = 12) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, most)))


def pieces(chance: random.Random, text: str) -> list[str]:
    """Cut a text anywhere, now and then into an empty piece."""
    cuts = sorted(chance.choices(range(len(text) + 1), k=chance.randint(0, 4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def arguments(chance: random.Random) -> dict[str, object]:
    made: dict[str, object] = {words(chance): words(chance) for _ in range(chance.randint(0, 2))}
    return made | chance.choice(
        [{}, {"n": chance.randint(-9, 10**9)}, {"deep": [{"a": None}, True]}]
    )


def written(chance: random.Random, values: list[object], *, comments: bool = True) -> bytes:
    """Write events with the line ends, names, comments and blanks that servers use."""
    end = chance.choice(["\n", "\r\n"])
    made = []
    for value in values:
        if comments and chance.random() < 0.1:
            made.append(f": keep-alive{end}{end}")
        if isinstance(value, dict) and "type" in value:
            made.append(f"event: {value['type']}{end}")
        data = value if isinstance(value, str) else serde.dumps(value).decode()
        made.append(f"data: {data}{chance.choice(['', '   '])}{end}{end}")
    return "".join(made).encode()


# Anthropic's Messages API


def anthropic_stream(chance: random.Random) -> bytes:
    blocks = chance.choices(ANTHROPIC_BLOCKS, k=chance.randint(0, 5))
    events: list[object] = [message_start(usage=_counts(chance) | {"output_tokens": 1})]
    for index, block in enumerate(blocks):
        events += block(chance, index)
        if chance.random() < 0.2:
            events.append({"type": "ping"})
    reason = chance.choice(REASONS["anthropic"])
    usage = _counts(chance) if chance.random() < 0.5 else {}
    events.append(message_delta(reason, chance.randint(0, 999), **usage))
    return written(chance, [*events, STOP])


def _counts(chance: random.Random) -> dict[str, object]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {name: chance.randint(0, 9_999) for name in names}


def _text(chance: random.Random, index: int) -> list[object]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces(chance, words(chance, 40))]
    cited = {"type": "char_location", "cited_text": words(chance), "document_index": 0,
             "document_title": None, "start_char_index": 0, "end_char_index": 3}  # fmt: skip
    if chance.random() < 0.3:
        deltas.insert(0, delta(index, "citations_delta", citation=cited))
    return [block_start(index, type="text", text=""), *deltas, block_stop(index)]


def _thinking(chance: random.Random, index: int) -> list[object]:
    thoughts = pieces(chance, words(chance, 40)) if chance.random() < 0.7 else []
    return [
        block_start(index, type="thinking", thinking="", signature=""),
        *(delta(index, "thinking_delta", thinking=thought) for thought in thoughts),
        delta(index, "signature_delta", signature=words(chance, 30)),
        block_stop(index),
    ]


def _redacted(chance: random.Random, index: int) -> list[object]:
    start = block_start(index, type="redacted_thinking", data=words(chance, 30))
    return [start, block_stop(index)]


def _call(chance: random.Random, index: int, kind: str = "tool_use") -> list[object]:
    given = serde.dumps(arguments(chance)).decode() if chance.random() < 0.8 else ""
    parts = pieces(chance, given) if given else chance.choice([[], [""]])
    return [
        block_start(index, type=kind, id=f"toolu_{index}", name="look_up", input={}),
        *(delta(index, "input_json_delta", partial_json=part) for part in parts),
        block_stop(index),
    ]


def _server_call(chance: random.Random, index: int) -> list[object]:
    return _call(chance, index, "server_tool_use")


def _server_result(chance: random.Random, index: int) -> list[object]:
    found = {"type": "web_search_result", "title": words(chance), "url": "https://example.com/a",
             "encrypted_content": words(chance), "page_age": None}  # fmt: skip
    start = block_start(
        index, type="web_search_tool_result", tool_use_id=f"toolu_{index - 1}", content=[found]
    )
    return [start, block_stop(index)]


def _fallback(chance: random.Random, index: int) -> list[object]:
    hop = {"from": {"model": "claude-test-1"}, "to": {"model": f"claude-{chance.randint(2, 4)}"}}
    trigger = {"type": "refusal", "category": None}
    return [block_start(index, type="fallback", trigger=trigger, **hop), block_stop(index)]


_Block = Callable[[random.Random, int], list[object]]
ANTHROPIC_BLOCKS: list[_Block] = [
    _text, _text, _thinking, _redacted, _call, _call, _server_call, _server_result, _fallback,
]  # fmt: skip


# OpenAI's Chat Completions


def chat_stream(chance: random.Random) -> bytes:
    """A reply: reasoning, text or a refusal, calls; then its reason, then its counts."""
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": chance.choice(["", None])}]
    if chance.random() < 0.4:
        field = chance.choice(["reasoning", "reasoning_content"])
        deltas += [{field: piece} for piece in pieces(chance, words(chance, 40)) if piece]
    if chance.random() < 0.8:
        field = "content" if chance.random() < 0.9 else "refusal"
        deltas += [{field: piece} for piece in pieces(chance, words(chance, 40))]
    deltas += _chat_calls(chance)
    chunks = [chunk(made) for made in deltas]
    if chance.random() < 0.2:
        for index, made in enumerate(chunks):
            token = {"token": str(index), "logprob": -0.5, "bytes": None, "top_logprobs": []}
            made["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    reason = chance.choice(REASONS["chat"])
    chunks.append(chunk({}, reason))
    if chance.random() < 0.2:
        chunks.append(chunk({"content": ""}, reason))
    if chance.random() < 0.8:
        chunks.append(chunk(usage=_chat_counts(chance)))
    if chance.random() < 0.2:
        for made in chunks:
            made["obfuscation"] = words(chance)
    return written(chance, [*chunks, *(["[DONE]"] if chance.random() < 0.8 else [])])


def _chat_calls(chance: random.Random) -> list[dict[str, object]]:
    """Make calls whose fragments may come in turns; the first of each brings its id and name."""
    firsts, rest = [], []
    for index in range(chance.choice([0, 0, 1, 2, 3])):
        name = {"id": f"call_{index}", "type": "function"}
        head, *tail = pieces(chance, serde.dumps(arguments(chance)).decode())
        firsts.append({"index": index, "function": {"name": "look_up", "arguments": head}} | name)
        rest.append([{"index": index, "function": {"arguments": part}} for part in tail])
    fragments: list[dict[str, object]] = [{"tool_calls": [first]} for first in firsts]
    while any(rest):
        part = chance.choice([parts for parts in rest if parts]).pop(0)
        fragments.append({"tool_calls": [part]})
    return fragments


def _chat_counts(chance: random.Random) -> dict[str, object]:
    prompt, reply = chance.randint(100, 9_999), chance.randint(0, 999)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
        "prompt_tokens_details": {"cached_tokens": chance.randint(0, 100)},
        "completion_tokens_details": {"reasoning_tokens": chance.randint(0, 100)},
    }


def responses_stream(chance: random.Random) -> bytes:
    """Compose a reply of the Responses API, of items in any order."""
    items = [_item(chance, place) for place in range(chance.randint(1, 4))]
    status = chance.choice(["completed", "completed", "incomplete"])
    why = chance.choice(["max_output_tokens", "content_filter"])
    details = {"incomplete_details": {"reason": why}} if status == "incomplete" else {}
    if status == "incomplete":  # arguments that were cut off are another test
        items = [each for each in items if each["type"] != "function_call"]
    values: list[object] = []
    for number, event in enumerate(responses_events(*items, status=status, **details)):
        values.append(event | {"sequence_number": number})
        if chance.random() < 0.05:
            values.append({"type": "keepalive", "sequence_number": number})
    return written(chance, values)


def _item(chance: random.Random, place: int) -> dict[str, object]:
    match chance.choice(["message", "message", "reasoning", "call", "search"]):
        case "message":
            texts = [words(chance) for _ in range(chance.randint(1, 2))]
            return message_item(f"msg_{place}", *texts)
        case "reasoning":
            shown = words(chance) if chance.random() < 0.5 else ""
            return reasoning_item(f"rs_{place}", shown, words(chance))
        case "call":
            given = serde.dumps(arguments(chance)).decode()
            return call_item(f"fc_{place}", f"call_{place}", "look_up", given)
        case _:
            action = {"type": "search", "query": words(chance), "queries": [words(chance)]}
            item = {"type": "web_search_call", "id": f"ws_{place}", "status": "completed"}
            return item | {"action": action}


# The Gemini API


def gemini_stream(chance: random.Random) -> bytes:
    """Compose a reply of parts, any of them signed, one or a few in each response."""
    kinds: list[_Part] = [_gemini_text, _gemini_text, _gemini_thought, _gemini_call, _gemini_code]
    parts = [part for _ in range(chance.randint(0, 5)) for part in chance.choice(kinds)(chance)]
    values: list[object] = []
    while parts or not values:
        count = chance.choice([1, 1, 1, 2, 3])
        usage = {"usageMetadata": _gemini_counts(chance)} if chance.random() < 0.9 else {}
        values.append(gemini_response(*parts[:count], **usage))
        parts = parts[count:]
    last = chance.choice(REASONS["gemini"])
    end = gemini_response(*([text_part("")] if chance.random() < 0.5 else []), finish=last)
    values.append(end | {"usageMetadata": _gemini_counts(chance)})
    return written(chance, values, comments=False)


def _sign(chance: random.Random, part: dict[str, object]) -> dict[str, object]:
    if chance.random() < 0.6:
        return part
    return part | {"thoughtSignature": base64.b64encode(chance.randbytes(12)).decode()}


def _gemini_text(chance: random.Random) -> list[dict[str, object]]:
    *before, last = pieces(chance, words(chance, 40))
    return [*map(text_part, before), _sign(chance, text_part(last))]


def _gemini_thought(chance: random.Random) -> list[dict[str, object]]:
    return [part | {"thought": True} for part in _gemini_text(chance)]


def _gemini_call(chance: random.Random) -> list[dict[str, object]]:
    call_id = chance.choice(["", f"fc_{chance.randint(0, 10**9)}"])
    return [_sign(chance, function_part("look_up", arguments(chance), call_id))]


def _gemini_code(chance: random.Random) -> list[dict[str, object]]:
    code = {"executableCode": {"language": "PYTHON", "code": words(chance)}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": words(chance)}}
    return [_sign(chance, code), result]


def _gemini_counts(chance: random.Random) -> dict[str, object]:
    return {
        "promptTokenCount": chance.randint(100, 9_999),
        "cachedContentTokenCount": chance.randint(0, 100),
        "candidatesTokenCount": chance.randint(0, 999),
        "thoughtsTokenCount": chance.randint(0, 999),
    }


_Part = Callable[[random.Random], list[dict[str, object]]]
