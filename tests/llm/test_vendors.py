"""The vendors' own libraries as the judges of what a stream of bytes says.

GREENROOM_WIRE_CUTS is how many times a stream is cut at random (CONTRIBUTING.md has the long run),
and GREENROOM_WIRE_SEED the first seed, which is printed.
"""

import os
import random

import pytest

from greenroom.core import Message, RedactedThinkingBlock, ThinkingBlock, UnknownBlock
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.json_fields import without
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.responses.decode import ResponsesDecoder
from greenroom.llm.sse import SSEDecoder
from greenroom.llm.stream import StreamEnd
from tests.llm.generated import anthropic_stream, chat_stream, gemini_stream, responses_stream
from tests.llm.vendors import Reading, read_anthropic, read_chat, read_gemini, read_responses

CUTS = int(os.environ.get("GREENROOM_WIRE_CUTS", "150"))
SEED = int(os.environ.get("GREENROOM_WIRE_SEED", "0"))
CUTS_OF_A_STREAM = 10
LARGEST = 4096

DIALECTS = [
    pytest.param(anthropic_stream, read_anthropic, AnthropicDecoder, id="anthropic"),
    pytest.param(chat_stream, read_chat, OpenAIDecoder, id="chat"),
    pytest.param(responses_stream, read_responses, ResponsesDecoder, id="responses"),
    pytest.param(gemini_stream, read_gemini, GeminiDecoder, id="gemini"),
]


def cut(data, chance):
    """Cut bytes at random, into pieces of about one size: from single bytes to the largest."""
    most, start = chance.choice([1, 3, 17, 64, 700, LARGEST]), 0
    while start < len(data):
        size = chance.randint(1, most)
        yield data[start : start + size]
        start += size


def read(decoder, pieces):
    """Return the message that our decoder makes of these pieces of a stream."""
    lines = SSEDecoder()
    batches = [*map(lines.feed, pieces), lines.close()]
    for event in (event for batch in batches for event in batch):
        for made in decoder.feed(event):
            if isinstance(made, StreamEnd):
                return made.message
    [*_, end] = decoder.close()
    return end.message


def reading(message: Message) -> Reading:
    """Say of our message what the vendors' libraries say of theirs."""
    if message.provider == "google":
        return reading_gemini(message)
    raw = message.extra.get("usage", {})
    usage = message.usage
    return Reading(
        message.text,
        [(use.id, use.name, use.input) for use in message.tool_uses],
        [(b.thinking, b.signature) for b in message.content if isinstance(b, ThinkingBlock)],
        message.native_stop_reason or None,
        usage and (_count_sent(message, raw), usage.output_tokens,
                   usage.cache_read_tokens, usage.cache_write_tokens),
        message.model,
        message.response_id,
        [_raw(b) for b in message.content if isinstance(b, UnknownBlock | RedactedThinkingBlock)]
        + message.extra.get("logprobs", {}).get("content", []),
    )  # fmt: skip


def reading_gemini(message: Message) -> Reading:
    """Say what Google's library says, which joins no parts: thoughts and signatures apart."""
    raw, usage = message.extra.get("usage", {}), message.usage
    blocks = message.content
    thought = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    signatures = [each for each in map(_signature, blocks) if each]
    return Reading(
        message.text,
        [
            ("" if use.id.startswith("call-") else use.id, use.name, use.input)
            for use in message.tool_uses
        ],
        [(thought, ""), *(("", each) for each in signatures)],
        message.native_stop_reason or None,
        usage and (usage.sent, raw.get("candidatesTokenCount"),
                   usage.cache_read_tokens, usage.reasoning_tokens),
        message.model,
        message.response_id,
        [without(b.raw, "thoughtSignature") for b in blocks if isinstance(b, UnknownBlock)],
    )  # fmt: skip


def _signature(block):
    if isinstance(block, ThinkingBlock):
        return block.signature
    fields = block.raw if isinstance(block, UnknownBlock) else block.extra
    return fields.get("thoughtSignature", "")


def _count_sent(message, raw):
    """Count the tokens that were sent as the vendor does: OpenAI with the cached ones."""
    name = "input_tokens" if message.api == "responses" else "prompt_tokens"
    return raw.get(name, message.usage.input_tokens)


def _raw(block):
    if isinstance(block, RedactedThinkingBlock):
        return {"type": "redacted_thinking", "data": block.data}
    return block.raw


@pytest.mark.parametrize(("compose", "judge", "decoder"), DIALECTS)
@pytest.mark.every(2)
def test_a_reply_is_what_the_vendors_library_reads_however_its_bytes_are_cut(
    compose, judge, decoder
):
    print(f"GREENROOM_WIRE_SEED={SEED}")
    for seed in range(SEED, SEED + CUTS // (len(DIALECTS) * CUTS_OF_A_STREAM)):
        chance = random.Random(seed)
        data = compose(chance)
        expected = judge(cut(data, chance))
        for _ in range(CUTS_OF_A_STREAM):
            assert reading(read(decoder(), cut(data, chance))) == expected, f"seed {seed}"
