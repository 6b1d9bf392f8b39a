"""Texts, questions and limits of another kind, and what the error says."""

import pytest

from greenroom.memory import SQLiteMemory


async def test_what_is_not_a_text_is_told():
    memory = SQLiteMemory()
    with pytest.raises(TypeError, match="an entry is a text, not 5"):
        await memory.add(5)
    with pytest.raises(TypeError, match="a query is a text, not 5"):
        await memory.recall(5)


@pytest.mark.parametrize("limit", ["5", 0, 201])
async def test_a_limit_is_a_number_of_entries(limit):
    with pytest.raises(ValueError, match=f"the limit is 1 to 200 entries, not {limit!r}"):
        await SQLiteMemory().recall("What?", limit=limit)
