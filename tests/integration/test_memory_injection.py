"""An agent with a memory: what fits is in the request, within its bound, with whose words it is."""

import json

from greenroom import Agent
from greenroom.llm import EstimatedCounter
from greenroom.memory import SQLiteMemory
from greenroom.testing import HashEmbedder, ScriptedProvider

BUDGET = 2_000  # tokens of all that is recalled: some 6,000 characters


async def test_the_most_relevant_memories_are_in_the_request_and_within_the_budget():
    memory = SQLiteMemory(embedder=HashEmbedder(synonyms=[("dog", "hound")]))
    await memory.add("The hound is called Argos.", origin="user", session_id="s-1", turn=4)
    for number in range(50):
        await memory.add(f"Note {number} about something else. " + "word " * 900, origin="agent")
    llm = ScriptedProvider("Argos.")
    result = await Agent(llm, memory=memory).run("What is my dog called?")
    asked, recalled = llm.requests[0].messages
    assert asked.text == "What is my dog called?"
    assert EstimatedCounter().count([recalled]) <= BUDGET
    first, *others = (json.loads(line) for line in recalled.text.splitlines() if line[0] == "{")
    assert (first["text"], first["origin"], first["from"]) == (
        "The hound is called Argos.",
        "the user said",
        "session s-1, turn 4",
    )
    assert len(others) < 5
    assert result.output == "Argos."


async def test_where_nothing_fits_the_request_is_the_question_alone():
    llm = ScriptedProvider("I don't know.")
    await Agent(llm, memory=SQLiteMemory()).run("What is my dog called?")
    assert [message.text for message in llm.requests[0].messages] == ["What is my dog called?"]
