"""Recorded traffic, where GREENROOM_WIRE_SAMPLE names a file of it; without it there is no test.

Each line of the file is one exchange with what the vendor's own library made of it.
"""

import base64
import gzip
import os
import random
import re
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from greenroom.core import Message, ThinkingBlock
from greenroom.core._internal import serde
from greenroom.llm import ModelError, ModelRequest
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.failure import error_of_response
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.responses.decode import ResponsesDecoder
from greenroom.llm.sse import SSEDecoder
from greenroom.llm.stream import BlockEnd, StreamEnd
from greenroom.testing._internal import request_from_wire, same_request
from tests.llm.dialects import encode_anthropic, encode_gemini, encode_openai, encode_responses
from tests.llm.test_vendors import cut, reading
from tests.llm.vendors import read_anthropic, read_chat, read_gemini, read_responses

SAMPLE = os.environ.get("GREENROOM_WIRE_SAMPLE", "")
JUDGES = {
    "anthropic-messages": read_anthropic,
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "gemini": read_gemini,
}
DECODERS = {
    "anthropic-messages": AnthropicDecoder,
    "openai-chat": OpenAIDecoder,
    "openai-responses": ResponsesDecoder,
    "gemini": GeminiDecoder,
}
ENCODERS = {
    "anthropic-messages": encode_anthropic,
    "openai-chat": encode_openai,
    "openai-responses": encode_responses,
    "gemini": encode_gemini,
}


def items(streaming):
    lines = gzip.decompress(Path(SAMPLE).read_bytes()).split(b"\n")
    found = [serde.loads(line) for line in lines if line]
    return [
        pytest.param(item, id=item["id"])
        for item in found
        if item["api"] in DECODERS and item["streaming"] is streaming
    ]


def body_of(item):
    if "response_body_b64" in item:
        return base64.b64decode(item["response_body_b64"])
    return item["response_body"].encode()


def pieces(body, sizes):
    start = 0
    while start < len(body):
        size = sizes()
        yield body[start : start + size]
        start += size


def decode(item, sizes):
    """Return the events, the message where it is complete, and the error where there is one."""
    lines, decoder = SSEDecoder(), DECODERS[item["api"]]()
    events = []
    try:
        for piece in pieces(body_of(item), sizes):
            for event in lines.feed(piece):
                events.extend(decoder.feed(event))
                if events and isinstance(events[-1], StreamEnd):
                    return events, events[-1].message, None
        for event in lines.close():
            events.extend(decoder.feed(event))
        if not (events and isinstance(events[-1], StreamEnd)):
            events.extend(decoder.close())
    except ModelError as error:
        return events, None, error
    return events, events[-1].message, None


def thinking_text(message):
    return "".join(b.thinking for b in message.content if isinstance(b, ThinkingBlock))


def expected_thinking(item):
    """Some servers of the Responses API show the thinking itself, and no summary."""
    shown = item["expected"].get("reasoning_content") if "responses" in item["api"] else ""
    return item["expected"]["thinking_text"] or shown or ""


def without_signature(block):
    return replace(block, signature="") if isinstance(block, ThinkingBlock) else block


def same_calls(message, expected):
    """Compare the calls; where names are repeated, the library joins them and we do not."""
    ours = [(call.name, call.input) for call in message.tool_uses]
    theirs = [(name, arguments(given)) for name, given in expected["tool_calls"]]
    joined = {name for name, _ in theirs if any(name == 2 * own for own, _ in ours)}
    return bool(joined) or ours == theirs


def arguments(given):
    return serde.loads_object(given) if isinstance(given, str) else given or {}


def tokens(message: Message):
    usage = message.usage
    if usage is None:
        return None, None
    raw = message.extra["usage"]
    if message.provider == "google":  # which counts thoughts apart
        return usage.sent, raw.get("candidatesTokenCount")
    name = "input_tokens" if message.api == "responses" else "prompt_tokens"
    return raw.get(name, usage.input_tokens), usage.output_tokens


if SAMPLE:

    @pytest.mark.parametrize("item", items(streaming=True))
    def test_a_recorded_reply_is_what_the_vendors_library_makes_of_it(item):
        events, message, error = decode(item, lambda: 1 << 30)
        expected = item["expected"]
        if item.get("expected_error", {}).get("module") in ("openai", "anthropic"):
            assert error is not None
            return
        if not body_of(item) or expected is None:
            assert error is not None
            return
        assert error is None, error
        assert message.content
        if "expected_error" in item:
            return  # the library itself fell over, so there is nothing to compare with
        assert message.text == expected["text"]
        assert same_calls(message, expected)
        assert thinking_text(message) == expected_thinking(item)
        assert (message.native_stop_reason or None) == (expected["stop_reason"] or None)
        if expected["output_tokens"] is not None:  # the library forgets counts that a null follows
            assert tokens(message) == (expected["input_tokens"], expected["output_tokens"])
        assert message.response_id == expected["response_id"]
        assert message.model == expected["model"]
        ends = {e.index: e.block for e in events if isinstance(e, BlockEnd)}
        ended = [ends[index] for index in sorted(ends)]
        if message.api == "responses":  # which encrypts the reasoning anew at the end
            ended = list(map(without_signature, ended))
            message = replace(message, content=tuple(map(without_signature, message.content)))
        assert tuple(ended) == message.content

    @pytest.mark.parametrize("item", items(streaming=True))
    def test_a_recorded_stream_is_read_as_the_vendors_library_reads_it_now(item):
        _, message, _ = decode(item, lambda: 1 << 30)
        judge = JUDGES[item["api"]]
        try:
            expected = judge(cut(body_of(item), random.Random(7)))
        except Exception as error:  # what it falls over varies with its version
            pytest.skip(f"the library fails: {type(error).__name__}")
        assert message is not None
        ours = reading(message)
        for field in ("text", "stop_reason", "model", "response_id"):
            assert getattr(ours, field) == getattr(expected, field), field
        assert same_calls(message, {"tool_calls": [call[1:] for call in expected.calls]})
        assert thinking_text(message) == "".join(text for text, _ in expected.thinking)
        if expected.counts is not None:  # it has no place for some of them
            pairs = zip(ours.counts, expected.counts, strict=True)
            assert all(given == count for given, count in pairs if count is not None)

    @pytest.mark.parametrize(
        "item", [p for p in items(streaming=False) if p.values[0]["status"] == 200]
    )
    def test_a_recorded_answer_in_one_piece_is_what_the_vendors_library_makes_of_it(item):
        *_, end = DECODERS[item["api"]]().whole(serde.loads(body_of(item)))
        message, expected = end.message, item["expected"]
        assert message.text == (expected["text"] or expected.get("refusal") or "")
        assert same_calls(message, expected)
        assert thinking_text(message) == expected_thinking(item)
        assert message.native_stop_reason == expected["stop_reason"]
        assert tokens(message) == (expected["input_tokens"], expected["output_tokens"])
        assert message.response_id == (expected["response_id"] or "")
        assert message.model == (expected["model"] or "")

    @pytest.mark.parametrize("item", items(streaming=True))
    def test_every_split_of_a_recorded_stream_gives_the_same_events(item, monkeypatch):
        monkeypatch.setattr("greenroom.llm.portable_calls.new_id", lambda prefix: prefix)
        whole = decode(item, lambda: 1 << 30)
        chance = random.Random(7)
        for most in (64, 3):
            events, message, error = decode(item, lambda most=most: chance.randint(1, most))
            assert events == whole[0]
            assert message == whole[1]
            assert str(error) == str(whole[2])

    @pytest.mark.parametrize("item", items(streaming=True))
    def test_a_cut_recorded_stream_is_never_complete_without_its_terminal_mark(item):
        body = body_of(item)
        ends = (b'"message_stop"', b"[DONE]", b'"response.completed"', b'"response.incomplete"')
        marks = [body.find(mark) for mark in (*ends, b'"finishReason"')]
        finish = body.find(b'"finish_reason":"')
        earliest = min(at for at in [*marks, finish, len(body)] if at >= 0)
        chance = random.Random(7)
        for cut in sorted(chance.sample(range(earliest), min(earliest, 25))):
            _, message, error = decode(
                {**item, "response_body": body[:cut].decode(errors="ignore")}, lambda: 1 << 30
            )
            assert message is None
            assert error is not None

    @pytest.mark.parametrize("item", items(streaming=True))
    def test_what_is_opaque_in_a_recorded_reply_goes_back_unchanged(item):
        _, message, _ = decode(item, lambda: 1 << 30)
        request = ModelRequest(messages=[message] if message else [])
        is_anthropic = item["api"] == "anthropic-messages"
        encode = ENCODERS[item["api"]]
        encode = partial(encode, max_tokens=1) if is_anthropic else encode
        sent = serde.dumps(encode(request, model="m")).decode()
        expected = item["expected"] or {}
        for value in expected.get("signatures") or []:
            is_gemini = item["api"] == "gemini"  # whose library writes bytes with other letters
            own = value.translate(str.maketrans("-_", "+/")) if is_gemini else value
            assert serde.dumps(own).decode() in sent
        if message and len(message.tool_uses) == len(expected["tool_calls"]):
            ids = [call for call in expected["tool_call_ids"] if call]
            own = [use.id for use in message.tool_uses]
            assert [use for use in own if f'"{use}"' in sent] == own
            assert set(ids) <= set(own) or any(use + use in ids for use in own)

    @pytest.mark.parametrize(
        "item", [p for p in items(streaming=False) if p.values[0]["status"] != 200]
    )
    def test_a_recorded_error_is_typed_by_status_and_body(item):
        error = error_of_response("acme", item["status"], item["response_headers"], body_of(item))
        name = type(error).__name__
        if re.search(r"context[_ ]length|too long|token count .* exceeds", str(body_of(item))):
            assert name == "ModelContextTooLongError"
        elif re.search("Incorrect API key|API key not valid", str(body_of(item))):
            assert name == "ModelAuthenticationError"
        elif "model_not_found" in str(body_of(item)):
            assert name == "ModelNotFoundError"
        else:
            kinds = {401: "Authentication", 429: "RateLimit", 400: "BadRequest", 404: "NotFound"}
            assert name == f"Model{kinds[item['status']]}Error"
        assert "no reason given" not in error.message
        assert "\n" not in str(error)

    @pytest.mark.parametrize("item", items(streaming=True) + items(streaming=False))
    def test_a_recorded_request_is_written_again_as_it_was(item):
        body, api = item["request"], item["api"]
        if body is None:
            pytest.skip("the request was not recorded")
        assert same_request(ENCODERS[api](request_from_wire(body, api)), body)
