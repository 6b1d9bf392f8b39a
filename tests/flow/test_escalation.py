"""Questions that nobody answers go to the next person, and then have a default."""

import pytest
import trio

from greenroom import (
    Agent,
    Answer,
    ConfigurationError,
    PermissionManager,
    PermissionRule,
    RuleDecision,
)
from greenroom.flow import escalate
from greenroom.testing import ScriptedProvider, call


async def silent(request):
    await trio.sleep_forever()


async def agree(request):
    return True


async def ask(approve):
    made = []

    async def pay() -> str:
        """Pay."""
        made.append(1)
        return "paid"

    rules = PermissionManager([PermissionRule.ask_for_tool("pay")])
    agent = Agent(ScriptedProvider(call("pay"), "Done."), tools=[pay], permissions=rules)
    result = await agent.run("Pay.", approve=approve)
    return bool(made), result


@pytest.mark.checkpoint("6.2 a question that nobody answers has a default")
@pytest.mark.parametrize(
    ("people", "default", "paid", "seconds"),
    [
        ([agree], False, True, 0),
        ([silent, agree], False, True, 60),
        ([silent, silent], True, True, 120),
        ([silent], False, False, 60),
        ([silent], Answer(RuleDecision.DENY, message="ask again on Monday"), False, 60),
    ],
)
async def test_the_next_person_is_asked_and_then_there_is_a_default(
    people, default, paid, seconds, autojump_clock
):
    begun = trio.current_time()
    was_paid, result = await ask(escalate(*people, after=60, default=default))
    assert was_paid == paid
    assert trio.current_time() - begun == pytest.approx(seconds, abs=0.1)
    if isinstance(default, Answer):
        assert "ask again on Monday" in result.denials[0].reason


@pytest.mark.checkpoint("6.1 somebody is told of a question")
async def test_somebody_is_told_that_a_question_waits(autojump_clock):
    told = []

    async def tell(request):
        told.append(request.tool_name)

    was_paid, result = await ask(escalate(silent, after=5, on_wait=tell))
    assert (was_paid, told) == (False, ["pay"])
    assert "nobody answered in time" in result.denials[0].reason


def test_what_makes_no_sense_is_refused():
    for people, after in (((), 5), ((agree,), 0)):
        with pytest.raises(ConfigurationError):
            escalate(*people, after=after)
