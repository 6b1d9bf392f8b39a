"""A question that was asked before is searched again only once something has changed."""

from datetime import UTC, datetime, timedelta

import pytest

from greenroom.core._internal import set_clock
from greenroom.llm import ModelConnectionError
from greenroom.memory import SQLiteMemory, ranking, recall_cache
from greenroom.testing import HashEmbedder


@pytest.fixture
def searched(monkeypatch):
    """The questions that are searched for, in order."""
    questions = []

    def recall(connection, request):
        questions.append(request.text)
        return ranking.recall(connection, request)

    monkeypatch.setattr(recall_cache, "recall", recall)
    return questions


@pytest.fixture
def at():
    """Set the clock to so many seconds after the beginning."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    set_clock(lambda: start)
    yield lambda seconds: set_clock(lambda: start + timedelta(seconds=seconds))
    set_clock(None)


async def texts(memory, question="dog", **options):
    return sorted(each.entry.text for each in await memory.recall(question, **options))


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
async def test_a_question_is_searched_once_until_something_is_written(searched, embedder):
    memory = SQLiteMemory(embedder=embedder)
    first = await memory.add("A dog.", topic="pets")
    for _ in range(3):
        assert await texts(memory) == ["A dog."]
    assert searched == ["dog"]
    for options in ({"limit": 1}, {"threshold": 0.1}, {"where": {"topic": "pets"}}):
        assert await texts(memory, **options) == ["A dog."]
        assert await texts(memory, **options) == ["A dog."]
    assert len(searched) == 4
    await memory.add("Two dog.")
    assert await texts(memory) == ["A dog.", "Two dog."]
    await memory.forget(first)
    assert await texts(memory) == ["Two dog."]
    await memory.clear()
    assert await texts(memory) == []
    assert len(searched) == 7


async def test_what_another_process_writes_is_found(searched, tmp_path):
    memory, other = (SQLiteMemory(tmp_path / "memory.db") for _ in range(2))
    await memory.add("A dog.")
    assert await texts(memory) == await texts(memory) == ["A dog."]
    await other.add("Two dog.")
    assert await texts(memory) == await texts(memory) == ["A dog.", "Two dog."]
    await other.clear()
    assert await texts(memory) == []
    assert len(searched) == 3


async def test_age_counts(searched, at):
    memory = SQLiteMemory(max_age=100)
    await memory.add("A dog.")
    for seconds, count in ((50, 1), (70, 1), (111, 2), (112, 2)):
        at(seconds)
        assert await texts(memory) == (["A dog."] if seconds < 100 else [])
        assert len(searched) == count
    at(0)
    await memory.add("Two dog.")
    at(95)
    assert await texts(memory) == ["A dog.", "Two dog."]
    at(101)
    assert await texts(memory) == []


async def test_nobody_can_change_what_others_get():
    memory = SQLiteMemory()
    await memory.add("A dog.", topic="pets")
    for _ in range(2):
        [found] = await memory.recall("dog")
        with pytest.raises(TypeError):
            found.entry.metadata["topic"] = "changed"


async def test_an_answer_without_vectors_is_not_kept(searched, monkeypatch):
    class Failing(HashEmbedder):
        fails = True

        async def embed(self, texts, /):
            if self.fails:
                raise ModelConnectionError("no net")
            return await super().embed(texts)

    embedder = Failing(synonyms=[("dog", "hound")])
    memory = SQLiteMemory(embedder=embedder)
    await memory.add("A hound.")
    assert await texts(memory) == []
    embedder.fails = False
    monkeypatch.setattr(memory, "_next_embedding", 0.0)
    assert await texts(memory) == ["A hound."]


async def test_it_is_bounded(searched):
    memory = SQLiteMemory()
    await memory.add("A dog.")
    await memory.add("cat " * 15_000, origin="user")
    await memory.add("cat " * 15_000, origin="agent")
    for _ in range(2):
        await texts(memory, "cat")  # too long to be kept
        await texts(memory, "dog")
    assert searched == ["cat", "dog", "cat"]
    for number in range(128):
        await texts(memory, f"word{number}")
    await texts(memory, "word1")
    await texts(memory, "dog")
    assert searched[-2:] == ["word127", "dog"]
