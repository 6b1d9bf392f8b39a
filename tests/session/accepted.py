"""What a model API demands of a conversation."""

from itertools import pairwise

from greenroom.core import ToolResultBlock, ToolUseBlock
from greenroom.llm.merged_messages import merge_messages


def check_accepted(messages):
    """Sides take turns, the user begins; results follow their calls at once, all of them, once."""
    sent = merge_messages(messages, "acme")
    assert sent[0].role == "user"
    assert all(before.role != after.role for before, after in pairwise(sent))
    asked = []
    for message in sent:
        results = [each for each in message.blocks if isinstance(each, ToolResultBlock)]
        answered = [each.tool_use_id for each in results]
        assert sorted(answered) == sorted(asked)
        asked = [each.id for each in message.blocks if isinstance(each, ToolUseBlock)]
    assert not asked
