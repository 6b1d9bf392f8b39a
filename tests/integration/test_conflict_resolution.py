"""Agents that contradict each other: the strategy decides, and the result says which one did."""

import pytest

from greenroom.flow import ConflictError, by_authority, majority, most_confident, resolve, within
from greenroom.flow._internal import AgentAnswer

ANSWERS = [
    AgentAnswer("ada", 940, 0.6),
    AgentAnswer("bob", 950, 0.9),
    AgentAnswer("cyd", 940, 0.7),
]
MERGED = {
    majority: (940, "majority", ("ada", "cyd"), ("bob",)),
    most_confident: (950, "most_confident", ("bob",), ("ada", "cyd")),
    by_authority: (940, "by_authority", ("ada", "cyd"), ("bob",)),
    within(0.05): (940, "within", ("ada", "bob", "cyd"), ()),
}


@pytest.mark.checkpoint("5.4 results that contradict each other are merged")
async def test_result_merging():
    for strategy, (value, by, agents, overruled) in MERGED.items():
        found = await resolve(ANSWERS, strategy)
        assert (found.value, found.decided_by) == (value, by)
        assert (found.agents, found.overruled) == (agents, overruled)
    assert (await resolve(ANSWERS[::2], majority)).decided_by == "agreement"
    # Where the first strategy can't tell, the next one decides; where none can, nobody makes it up.
    assert (await resolve(ANSWERS[:2], majority, most_confident)).value == 950
    with pytest.raises(ConflictError, match="ada: 940"):
        await resolve(ANSWERS[:2], majority)
