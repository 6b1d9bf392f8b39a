"""A small real model works out 15 % of 200, at any server that speaks Chat Completions.

    GREENROOM_ENDPOINT=http://localhost:11434/v1 GREENROOM_ENDPOINT_MODEL=qwen3:4b \
        pytest -n 0 tests/e2e/test_endpoint.py

GREENROOM_ENDPOINT_KEY is its key, if it wants one. A server on this machine shows that the test
can fail: it plays a model that is right, or wrong, or asks for tools without an end.
"""

import math
import os
import re
from contextlib import aclosing

import pytest

from greenroom.flow import react
from greenroom.llm import OpenAIProvider
from greenroom.tools import calculator
from tests.e2e.wire import OpenAI
from tests.llm.server import model_server

ENDPOINT = os.environ.get("GREENROOM_ENDPOINT", "")
CALL = "Thought: I calculate.\nAction: {'tool': 'calculator', 'args': {'expression': '200 * 0.15'}}"


async def ask(llm):
    """Ask once, and again twice if need be: a small model is not right every time."""
    for _ in range(3):
        result = await react(llm, [calculator], max_steps=3).run(
            "What is 15 % of 200? Use the calculator, then answer with the number."
        )
        if has_thirty(result.text):
            break
    return result


def has_thirty(text):
    """Whether a number in the text is 30, in whatever words."""
    numbers = map(float, re.findall(r"-?\d+(?:\.\d+)?", text))
    return any(math.isclose(number, 30, abs_tol=0.01) for number in numbers)


@pytest.mark.skipif(not ENDPOINT, reason="GREENROOM_ENDPOINT names no server")
async def test_a_real_model_is_right_within_three_steps():
    model, key = os.environ["GREENROOM_ENDPOINT_MODEL"], os.environ.get("GREENROOM_ENDPOINT_KEY")
    async with aclosing(OpenAIProvider(model, base_url=ENDPOINT, api_key=key, env={})) as llm:
        result = await ask(llm)
    assert has_thirty(result.text), result.text
    assert result.steps <= 3


@pytest.mark.parametrize(
    ("replies", "right", "requests"),
    [
        ([CALL, "Thought: It is 30.\nFinal Answer: 15 % of 200 is 30."], True, 2),
        (["Final Answer: 45", CALL, "Final Answer: 30.0"], True, 3),
        (["Final Answer: 3"], False, 3),
        ([CALL.replace("0.15", f"0.{number}") for number in range(15, 18)], False, 9),
    ],
    ids=["right", "right the second time", "wrong", "without an end"],
)
async def test_a_played_model(replies, right, requests):
    def answer(_request):
        number = len(server.requests) - 1
        return OpenAI.answer(replies[number % len(replies)], None, number)

    async with model_server(answer) as server:
        url = f"{server.url}/v1"
        async with aclosing(OpenAIProvider("played", base_url=url, env={})) as llm:
            result = await ask(llm)
    assert has_thirty(result.text) is right
    assert result.steps <= 3
    assert len(server.requests) == requests
