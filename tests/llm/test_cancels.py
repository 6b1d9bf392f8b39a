"""Requests that are cancelled at any moment leave the connection pool as it was.

Some hundred with every run; GREENROOM_CANCELS says how many, and GREENROOM_CANCELS_SEED from which
seed.
"""

import os
from random import Random

import pytest
import trio

from greenroom.llm import ModelError
from greenroom.net import HttpClient
from tests.llm.server import Answer, model_server
from tests.llm.test_providers import HELLO, VENDORS

CANCELS = int(os.environ.get("GREENROOM_CANCELS", "200"))
SEED = int(os.environ.get("GREENROOM_CANCELS_SEED", "0"))
TASKS = 8
PLACES = 4  # fewer than the tasks, so that waiting for a connection is cancelled as well


async def cancel_after(steps, scope):
    """Cancel after so many rounds of the event loop, whatever the other task does meanwhile."""
    for _ in range(steps):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def ask(provider, random, outcomes):
    """Make a request, and cancel it at a random moment, from the first step to after the end."""
    outcome = "cancelled"
    async with trio.open_nursery() as nursery:
        steps = int(random.expovariate(1 / 60))
        nursery.start_soon(cancel_after, steps, nursery.cancel_scope)
        try:
            async with provider.stream(HELLO) as stream:
                async for _ in stream:
                    if random.random() < 0.01:  # and some leave the block by themselves
                        break
            outcome = "left"
        except ModelError:
            outcome = "failed"
    outcomes[outcome] = outcomes.get(outcome, 0) + 1


@pytest.mark.parametrize("vendor", VENDORS, ids=["anthropic", "openai"])
async def test_requests_cancelled_at_any_moment_leave_the_pool_as_it_was(vendor):
    print(f"GREENROOM_CANCELS_SEED={SEED}")
    random, outcomes = Random(SEED), {}
    pieces = [vendor.reply[at : at + 40] for at in range(0, len(vendor.reply), 40)]
    answers = [
        Answer.stream(*pieces),
        Answer.stream(vendor.reply),
        Answer.stream(*pieces, end="closed"),
        Answer.stream(*pieces[:5], end="cut"),
        Answer.stream(*pieces[:5], end="hang"),
        Answer.stream(end="reset"),
        Answer.error(529, {"error": {"message": "no"}}),
    ]
    is_over = False
    async with (
        model_server(
            lambda _: answers[0] if is_over else random.choice(answers), limit=60 + CANCELS / 10
        ) as server,
        HttpClient(connections=PLACES) as client,
    ):
        provider = vendor.open(server, client=client)

        async def work(number):
            for _ in range(number):
                await ask(provider, random, outcomes)

        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(work, CANCELS // 2 // TASKS)
        is_over = True
        left = client.statistics()
        assert (left.busy, left.waiting) == (0, 0)
        assert left.idle <= PLACES
        while server.open > left.idle:  # what was closed here is soon closed there
            await trio.lowlevel.checkpoint()
        async with trio.open_nursery() as nursery:  # all places can be had at a time
            for _ in range(PLACES):
                nursery.start_soon(provider.generate, HELLO)
        assert client.statistics().busy == 0
        await client.aclose()
        while server.open:
            await trio.lowlevel.checkpoint()
    print(outcomes)
    assert outcomes.keys() == {"cancelled", "left", "failed"}
