"""`take` of a real provider's stream, and of one behind wrappers."""

import pytest

from greenroom.core import Message
from greenroom.llm import AnthropicProvider, ModelRequest, resilient
from tests.llm import wire
from tests.llm.server import Answer, model_server

WORDS = ("one ", "two ", "three ") * 20


WRAPPERS = [lambda model: model, resilient]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=["plain", "resilient"])
async def test_take_gives_what_came_in_one_piece_and_the_same_as_one_by_one(wrap):
    request = ModelRequest(messages=[Message.user("count")])
    answer = Answer.stream(wire.anthropic(*wire.text_block(0, *WORDS)))
    async with model_server(answer) as server:
        model = wrap(AnthropicProvider("m", base_url=server.url, env={}))
        async with model.stream(request) as stream:
            single = [event async for event in stream]
        batches = []
        async with model.stream(request) as stream:
            while batch := await stream.take():
                batches.append(batch)
        await model.aclose()
    assert len(batches) < len(single) / 4
    assert [event for batch in batches for event in batch][:-1] == single[:-1]
    assert stream.message.text == "".join(WORDS)
