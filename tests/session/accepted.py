"""What a model API demands of a conversation."""

from itertools import pairwise

from greenroom.core import ToolResultBlock, ToolUseBlock
from greenroom.llm.conversation import turns


def check_accepted(messages):
    """Sides take turns, the user begins; results follow their calls at once, all of them, once."""
    sent = turns(messages, "acme")
    assert sent[0].role == "user"
    assert all(before.role != after.role for before, after in pairwise(sent))
    asked = []
    for turn in sent:
        answered = [each.tool_use_id for each in turn.blocks if isinstance(each, ToolResultBlock)]
        assert sorted(answered) == sorted(asked)
        asked = [each.id for each in turn.blocks if isinstance(each, ToolUseBlock)]
    assert not asked
