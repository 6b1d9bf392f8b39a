"""Damaged rows and indices, embedders that fail, processes that are killed, and cancels."""

import logging
import signal
import sqlite3
from contextlib import closing

import pytest
import trio

from greenroom.memory import SQLiteMemory, vectors
from greenroom.memory._internal import MemoryStorageError
from greenroom.testing import HashEmbedder
from tests.warm_python import start_warm


def texts(found):
    return [each.entry.text for each in found]


def change(path, statement, *values):
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement, values).rowcount


@pytest.mark.parametrize("column", ["text", "about", "words", "id"])
async def test_a_row_with_a_flipped_bit_is_set_aside_and_reported(tmp_path, caplog, column):
    path = tmp_path / "memory.db"
    memory = SQLiteMemory(path)
    entry_id = await memory.add("the door code is 4711", origin="user")
    await memory.add("the door is green", origin="user")
    with closing(sqlite3.connect(path)) as database:
        query = f"SELECT {column} FROM entries WHERE id = ?"
        ((stored,),) = database.execute(query, (entry_id,))
    flipped = stored[:5] + chr(ord(stored[5]) ^ 1) + stored[6:]
    change(path, f"UPDATE entries SET {column} = ? WHERE id = ?", flipped, entry_id)
    assert texts(await memory.recall("door code 4711")) == ["the door is green"]
    assert memory.statistics().damaged == 1
    assert "1 damaged entries were set aside" in caplog.text
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM damaged").fetchone() == (1,)
    assert [entry.text for entry in await memory.entries()] == ["the door is green"]


async def test_a_bit_flipped_in_the_file_is_never_returned(tmp_path):
    """In each byte of the stored text: the entry is whole, set aside, or the file is refused."""
    path = tmp_path / "memory.db"
    text = "Remember the milk."
    await SQLiteMemory(path).add(text)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    for place in range(whole.index(text.encode()), whole.index(text.encode()) + len(text)):
        copy = tmp_path / f"{place}.db"
        copy.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        memory = SQLiteMemory(copy)
        assert await memory.recall("remember the milk") == ()
        assert memory.statistics().damaged == 1
        assert memory.statistics().entries == 1  # as it was before


async def test_a_damaged_index_gives_the_newest_entries_and_is_made_anew(tmp_path, caplog):
    path = tmp_path / "memory.db"
    memory = SQLiteMemory(path)
    for number in range(3):
        await memory.add(f"fact number{number}")
    change(path, "UPDATE word_index_data SET block = x'00ff00ff' WHERE id > 10")
    found = await memory.recall("number1", limit=2)
    assert texts(found) == ["fact number2", "fact number1"]
    assert [each.score for each in found] == [0.0, 0.0]
    assert memory.statistics().index_failures == 1
    assert "could not be searched" in caplog.text
    assert texts(await memory.recall("number1")) == ["fact number1"]


class Failing(HashEmbedder):
    """Fails on demand."""

    is_broken = True

    async def embed(self, texts, /):
        made = await super().embed(texts)
        if self.is_broken is True:
            raise ConnectionError("no embeddings today")
        if self.is_broken == "short":
            return made[1:]
        if self.is_broken == "zero":
            return [[0.0] * self.size for _ in made]
        return made


@pytest.mark.parametrize("how", [True, "short", "zero"])
async def test_an_embedder_that_fails_leaves_words(how, caplog):
    embedder = Failing(32)
    embedder.is_broken = how
    memory = SQLiteMemory(embedder=embedder)
    await memory.add("the door is green")
    await memory.add("the roof is red")
    assert texts(await memory.recall("which colour has the door?")) == ["the door is green"]
    assert memory.statistics().embedder_failures == embedder.calls == 1  # then it is left alone
    assert "the embedder hash-32 failed" in caplog.text


async def test_an_embedder_that_hangs_leaves_words_and_a_cancel_gets_through(monkeypatch):
    class Hanging(HashEmbedder):
        async def embed(self, texts, /):
            await trio.sleep_forever()

    memory = SQLiteMemory(embedder=Hanging())
    monkeypatch.setattr("greenroom.memory.sqlite_memory._PATIENCE", 0.01)
    await memory.add("the door is green")
    assert texts(await memory.recall("door")) == ["the door is green"]
    assert "TooSlowError" in memory.statistics().last_failure
    monkeypatch.setattr("greenroom.memory.sqlite_memory._PATIENCE", 60)
    memory = SQLiteMemory(embedder=Hanging())
    with trio.move_on_after(0.05) as scope:
        await memory.add("the door is green")
    assert scope.cancelled_caught
    assert len(await memory.entries()) == 1


async def test_entries_without_a_vector_get_theirs_once_the_embedder_works(monkeypatch):
    monkeypatch.setattr("greenroom.memory.sqlite_memory._PAUSE", 0.0)
    embedder = Failing(64, synonyms=[("dog", "hound")])
    memory = SQLiteMemory(embedder=embedder)
    for number in range(40):
        await memory.add(f"the hound barks {number}")
    embedder.is_broken = False
    assert texts(await memory.recall("dog", limit=40))  # 32 of them are embedded along
    assert len(await memory.recall("a dog", limit=40)) == 40
    calls = embedder.calls
    await memory.recall("dog")
    assert embedder.calls == calls  # nothing is left to embed, and the question is known


@pytest.mark.checkpoint("4.3 retrieval by meaning")
async def test_semantic_retrieval():
    """Search by meaning finds entries that search by words does not."""
    memory = SQLiteMemory(embedder=HashEmbedder(synonyms=[("dog", "hound"), ("buy", "bought")]))
    await memory.add("the hound was bought in May")
    await memory.add("the sky is grey")
    assert texts(await memory.recall("when did we buy a dog", limit=1)) == [
        "the hound was bought in May"
    ]


async def test_beyond_a_bound_the_best_by_words_are_ranked_by_meaning(monkeypatch):
    monkeypatch.setattr(vectors, "EXHAUSTIVE", 2)
    memory = SQLiteMemory(embedder=HashEmbedder(synonyms=[("dog", "hound")]))
    for text in ("the hound sleeps", "the cat sleeps", "a hound"):
        await memory.add(text)
    found = await memory.recall("where does a dog sleeps")
    assert texts(found) == ["the hound sleeps", "the cat sleeps"]


@pytest.mark.parametrize("finds", [True, False])
async def test_with_and_without_numpy_the_same_is_found(monkeypatch, finds):
    """Where numpy isn't installed, both runs go without it."""
    if not finds:
        monkeypatch.setattr(vectors, "find_numpy", lambda: None)
    memory = SQLiteMemory(embedder=HashEmbedder(synonyms=[("dog", "hound"), ("cat", "kitten")]))
    for text in ("the hound sleeps", "a kitten plays", "rain falls"):
        await memory.add(text)
    assert texts(await memory.recall("dog", limit=1)) == ["the hound sleeps"]
    assert texts(await memory.recall("cat", limit=1)) == ["a kitten plays"]
    [found] = await memory.recall("the hound sleeps", limit=1)
    assert found.score == pytest.approx(1.0, abs=1e-6)


async def test_a_damaged_vector_counts_as_missing_and_is_made_again(tmp_path):
    path = tmp_path / "memory.db"
    memory = SQLiteMemory(path, HashEmbedder(synonyms=[("dog", "hound")]))
    await memory.add("the hound sleeps")
    assert texts(await memory.recall("dog")) == ["the hound sleeps"]
    change(path, "UPDATE vectors SET vector = zeroblob(1024)")
    assert await memory.recall("dog") == ()
    assert texts(await memory.recall("sleeps")) == ["the hound sleeps"]
    assert texts(await memory.recall("dog")) == ["the hound sleeps"]
    assert memory.statistics().last_failure == "1 damaged vector will be made again"


async def test_vectors_of_another_length_are_told_once(tmp_path, caplog):
    class Embedder(HashEmbedder):
        def __init__(self, size):
            super().__init__(size, synonyms=[("dog", "hound")])
            self.name = "embedder"

    path = tmp_path / "memory.db"
    await SQLiteMemory(path, Embedder(256)).add("the hound sleeps")
    memory = SQLiteMemory(path, Embedder(128))
    await memory.add("a hound barks")
    for question in ("dog", "dogs and cats", "a dog"):
        await memory.recall(question)
    assert caplog.text.count("1 vector of another length than embedder returns now") == 1


ADD = """
import sys, trio
from greenroom.memory import SQLiteMemory
async def main():
    memory = SQLiteMemory(sys.argv[1])
    for number in range(int(sys.argv[3])):
        text = f"fact number{number} of {sys.argv[2]}"
        print(await memory.add(text), flush=True)
    await trio.sleep_forever()
trio.run(main)
"""


def start(path, name, count):
    return start_warm(["-c", ADD, path, name, count], path.parent, text=True)


async def test_what_was_acknowledged_survives_kill_9(tmp_path):
    path = tmp_path / "memory.db"
    acknowledged = {}
    for count in (1, 7, 20):
        with start(path, f"run{count}", 100_000) as process:
            for number in range(count):
                acknowledged[process.stdout.readline().strip()] = f"number{number} of run{count}"
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split("\n")[:-1]
        for number, entry_id in enumerate(rest, count):
            acknowledged[entry_id] = f"number{number} of run{count}"
    memory = SQLiteMemory(path)
    kept = {entry.id: entry.text for entry in await memory.entries(limit=200_000)}
    assert (
        acknowledged.items()
        <= {each: text.removeprefix("fact ") for each, text in kept.items()}.items()
    )
    assert len(kept) - len(acknowledged) <= 3  # written, and killed before it was told
    assert texts(await memory.recall("number6 of run7", limit=1)) == ["fact number6 of run7"]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_processes_share_one_file(tmp_path):
    path = tmp_path / "memory.db"
    names = [f"run{number}" for number in range(3)]
    processes = [start(path, name, 10) for name in names]  # they make the file at once
    memory = SQLiteMemory(path)
    try:
        for process in processes:
            for _ in range(10):
                assert process.stdout.readline()
        await memory.add("a fact of ours")
    finally:
        for process in processes:
            process.kill()
            process.stdout.close()
            process.wait()
    assert texts(await memory.recall("ours")) == ["a fact of ours"]
    for number in range(3):
        found = await memory.recall(f"number9 run{number}", limit=1)
        assert texts(found) == [f"fact number9 of run{number}"]


async def test_a_disk_that_refuses_is_an_error_of_ours(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("no folder")
    with pytest.raises(MemoryStorageError) as refused:
        await SQLiteMemory(folder / "memory.db").add("text")
    assert str(folder) in str(refused.value)


async def test_a_hundred_tasks_at_once(tmp_path, caplog):
    memory = SQLiteMemory(tmp_path / "memory.db", HashEmbedder(32))
    ids = set()

    async def work(number):
        entry_id = await memory.add(f"fact number{number}")
        ids.add(entry_id)
        [found] = await memory.recall(f"number{number}", limit=1)
        assert found.entry.text == f"fact number{number}"
        if number % 2:
            assert await memory.forget(entry_id)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(work, number)
    assert len(ids) == 100
    assert len(await memory.entries(limit=200)) == 50
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
