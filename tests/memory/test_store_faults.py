"""Faults of the store: damaged derived data, locked, stale or moved files, forgotten entries."""

import math
import sqlite3
from contextlib import closing

import pytest

from greenroom.llm import ModelBadRequestError
from greenroom.memory import SQLiteMemory
from greenroom.memory._internal import MemoryStorageError
from greenroom.testing import HashEmbedder
from tests.warm_python import run_warm


def texts(found):
    return [each.entry.text for each in found]


def change(path, statement):
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement).rowcount


async def fill_memory(path, embedder=None):
    """A memory of twenty facts, and their ids."""
    memory = SQLiteMemory(path, embedder)
    return memory, [await memory.add(f"fact number{n} of the dog", topic="dogs") for n in range(20)]


DERIVED = {
    "index without structure": "DELETE FROM word_index_data WHERE id = 10",
    "index of bad structure": "UPDATE word_index_data SET block = x'ffffffffff' WHERE id = 10",
    "index without averages": "DELETE FROM word_index_data WHERE id = 1",
    "index without segments": "DELETE FROM word_index_data WHERE id > 10",
    "index of no version": "DELETE FROM word_index_config",
    "index of bad version": "UPDATE word_index_config SET v = 'x'",
    "no counts": "DELETE FROM counts",
    "negative counts": "UPDATE counts SET entries = -1",
    "counts of text": "UPDATE counts SET entries = 'x'",
    "no totals": "DELETE FROM totals",
    "totals by another name": "UPDATE totals SET name = 'entriez' WHERE name = 'entries'",
    "totals of text": "UPDATE totals SET value = 'x'",
    "totals too high": "UPDATE totals SET value = value | (1 << 40)",
}


@pytest.mark.parametrize("damage", DERIVED.values(), ids=DERIVED)
@pytest.mark.parametrize("first", ["write", "read"])
async def test_no_entry_is_lost_by_damage_to_what_is_derived_from_entries(tmp_path, damage, first):
    path = tmp_path / "memory.db"
    _, ids = await fill_memory(path)
    change(path, damage)
    memory = SQLiteMemory(path)
    if first == "read":
        await memory.recall("number5")
    assert await memory.add("a zebra")
    assert await memory.forget(ids[0])
    for question, text in (("number5", "fact number5 of the dog"), ("zebra", "a zebra")):
        assert texts(await memory.recall(question)) == [text]
    assert len(await memory.entries()) == 20
    assert memory.statistics().evicted == 0


async def test_an_index_out_of_step_with_its_table_is_made_anew(tmp_path):
    path = tmp_path / "memory.db"
    _, ids = await fill_memory(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        query = "SELECT * FROM sqlite_master WHERE name = 'entries_by_use'"
        described = database.execute(query).fetchone()
        database.execute("DELETE FROM sqlite_master WHERE name = 'entries_by_use'")
    change(path, "UPDATE entries SET used = used + 1")  # which the index is not told
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", described)
    memory = SQLiteMemory(path)
    assert await memory.forget(ids[0])
    assert memory.statistics().index_failures == 1
    assert len(await memory.entries()) == 19


@pytest.mark.parametrize(
    "damage",
    [
        "about = CAST(x'7bff' AS TEXT)",
        "about = x'00'",
        "words = x'00'",
        "text = x'00'",
        "created = 'x'",
    ],
)
async def test_a_row_that_cannot_be_read_hides_no_other(tmp_path, damage):
    path = tmp_path / "memory.db"
    await fill_memory(path)
    change(path, f"UPDATE entries SET {damage} WHERE key = 3")
    memory = SQLiteMemory(path, HashEmbedder(16))
    found = await memory.recall("number1 number2 dog", limit=50, where={"topic": "dogs"})
    assert len(found) == 19
    assert len(await memory.entries()) == 19
    assert await memory.clear(topic="dogs") == 19


async def test_vectors_that_cannot_be_kept_take_nothing_from_add_and_recall(tmp_path, monkeypatch):
    monkeypatch.setattr("greenroom.memory.database._PATIENCE", 0.0)
    path = tmp_path / "memory.db"
    await SQLiteMemory(path).add("the hound barks")

    class Locking(HashEmbedder):
        """While it works, another program begins to write."""

        async def embed(self, texts, /):
            if not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")
            return await super().embed(texts)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        memory = SQLiteMemory(path, Locking())
        assert await memory.add("the cat sleeps")
        assert "vectors could not be kept" in memory.statistics().last_failure
        assert len(await memory.entries()) == 2
        memory = SQLiteMemory(path, Locking())
        assert texts(await memory.recall("hound")) == ["the hound barks"]
        assert "vectors could not be kept" in memory.statistics().last_failure


async def test_vectors_that_cannot_be_searched_leave_words(monkeypatch):
    def fail(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("greenroom.memory.ranking.find_by_meaning", fail)
    memory = SQLiteMemory(embedder=HashEmbedder())
    await memory.add("the hound barks")
    assert texts(await memory.recall("hound")) == ["the hound barks"]
    assert await memory.recall("zebra") == ()
    assert memory.statistics().index_failures == 2


async def test_which_vectors_are_there_is_known_without_reading_them(tmp_path):
    path = tmp_path / "memory.db"
    await fill_memory(path)
    with closing(sqlite3.connect(path)) as database:
        query = "EXPLAIN QUERY PLAN SELECT 1 FROM vectors WHERE key = 1 AND name = 'x'"
        assert "COVERING INDEX" in str(database.execute(query).fetchall())


@pytest.mark.parametrize("how", ["forget", "clear some", "clear all"])
async def test_what_is_forgotten_is_in_no_file(tmp_path, how):
    memory, _ = await fill_memory(tmp_path / "memory.db", HashEmbedder(16))
    entry_id = await memory.add("the password is zyxhunter2", topic="secrets")
    await memory.recall("password")
    if how == "forget":
        assert await memory.forget(entry_id)
    else:
        assert await memory.clear(**{"topic": "secrets"} if how == "clear some" else {})
    held = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert {"memory.db", "memory.db-wal"} <= held.keys()
    assert [name for name, data in held.items() if b"hunter2" in data or b"password" in data] == []


async def test_the_log_of_a_memory_that_was_removed_is_not_read_into_a_new_one(tmp_path):
    path = tmp_path / "memory.db"
    log = tmp_path / "memory.db-wal"
    log.write_bytes(b"of another memory")
    with pytest.raises(MemoryStorageError, match="a memory that is missing"):
        await SQLiteMemory(path).add("text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["memory.db-wal"]


async def test_a_link_that_leads_nowhere_makes_no_file(tmp_path):
    (tmp_path / "memory.db").symlink_to(tmp_path / "target.db")
    with pytest.raises(MemoryStorageError):
        await SQLiteMemory(tmp_path / "memory.db").add("text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["memory.db"]


async def test_a_path_means_the_same_file_wherever_the_process_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = SQLiteMemory("memory.db")
    monkeypatch.chdir("/")
    await memory.add("text")
    assert (tmp_path / "memory.db").exists()


async def test_damage_to_the_tables_own_description_is_an_error_of_ours(tmp_path):
    path = tmp_path / "memory.db"
    await fill_memory(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    name = b"entries_by_age ON"
    assert name in path.read_bytes()
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes().replace(name, b"entries_by_ag\xcc ON"))
    with pytest.raises(MemoryStorageError):
        await SQLiteMemory(copy).add("text")


async def test_bounds_of_what_is_asked():
    class Noting(HashEmbedder):
        longest = 0

        async def embed(self, texts, /):
            self.longest = max(self.longest, *map(len, texts))
            return await super().embed(texts)

    embedder = Noting()
    memory = SQLiteMemory(embedder=embedder)
    await memory.add("a fact")
    assert texts(await memory.recall("fact " * 100_000)) == ["a fact"]
    assert embedder.longest <= 8_000
    with pytest.raises(ValueError, match="limit"):
        await memory.entries(limit=-1)


FORK = """
import os, sys, trio
from greenroom.memory import SQLiteMemory
memory, ready = SQLiteMemory(sys.argv[1]), os.pipe()
alone = SQLiteMemory()
trio.run(alone.add, "of this process alone")
trio.run(memory.add, "before the fork")
if os.fork() == 0:
    trio.run(memory.add, "in the child")
    os.read(ready[0], 1)
    trio.run(memory.add, "in the child, alone")
    os._exit(0)
trio.run(memory.add, "after it")
del memory  # closes its connection
os.write(ready[1], b"x")
os.wait()
for each in SQLiteMemory(sys.argv[1]), alone:
    print(len(trio.run(each.entries)))
"""


def test_what_a_fork_writes_is_kept_whoever_closes_first(tmp_path):
    code, told, errors = run_warm(["-c", FORK, tmp_path / "memory.db"], tmp_path, {})
    assert code == 0, errors
    assert told.split() == ["4", "1"]


class Refusing(HashEmbedder):
    """Refuses texts of more than a number of characters, as models do."""

    longest = 20
    asked = 0

    async def embed(self, texts, /):
        self.asked += 1
        if any(len(text) > self.longest for text in texts):
            raise ModelBadRequestError("the input is too long")
        return await super().embed(texts)


async def test_a_text_that_the_embedder_refuses_costs_the_others_nothing(monkeypatch):
    monkeypatch.setattr("greenroom.memory.sqlite_memory._PAUSE", 0.0)
    embedder = Refusing(synonyms=[("dog", "hound")])
    memory = SQLiteMemory(embedder=embedder)
    await memory.add("something about parrots that is too long for the model")
    for number in range(10):
        await memory.add(f"the hound barks {number}")
    assert len(await memory.recall("dog", limit=20)) == 10
    assert "no vector for 1 of" in memory.statistics().last_failure
    asked = embedder.asked
    assert "something about parrots" in str(texts(await memory.recall("parrots", limit=20)))
    assert embedder.asked == asked + 1  # for the question alone


WITHOUT_USE = {
    "zero": [0.0] * 8,
    "not a number": [math.nan] * 8,
    "infinite": [math.inf] * 8,
    "beyond all floats": [10**400] * 8,
    "empty": [],
    "missing": None,
    "words": ["a"] * 8,
}


@pytest.mark.parametrize("vector", WITHOUT_USE.values(), ids=WITHOUT_USE)
async def test_a_text_whose_vector_has_no_use_costs_the_others_nothing(monkeypatch, vector):
    class Odd(HashEmbedder):
        async def embed(self, texts, /):
            made = await super().embed(texts)
            return [vector if "!" in text else each for text, each in zip(texts, made, strict=True)]

    monkeypatch.setattr("greenroom.memory.sqlite_memory._PAUSE", 0.0)
    memory = SQLiteMemory(embedder=Odd(8, synonyms=[("dog", "hound")]))
    await memory.add("the hound barks")
    await memory.add("!!!")
    assert texts(await memory.recall("dog"))[0] == "the hound barks"
    failures = memory.statistics().embedder_failures
    await memory.recall("dogs")
    assert memory.statistics().embedder_failures == failures  # it is not asked about it again


@pytest.mark.parametrize("number", [1e-200, 1e200])
async def test_vectors_of_tiny_or_huge_numbers_have_a_direction(number):
    class Scaled(HashEmbedder):
        async def embed(self, texts, /):
            return [[each * number for each in vector] for vector in await super().embed(texts)]

    memory = SQLiteMemory(embedder=Scaled(synonyms=[("dog", "hound")]))
    await memory.add("the hound barks")
    assert texts(await memory.recall("dog")) == ["the hound barks"]


async def test_an_embedder_may_return_arrays_of_numpy():
    class Vector(list):
        """Compared with anything, an array is neither true nor false."""

        def __eq__(self, other):
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = None

    class Arrays(HashEmbedder):
        async def embed(self, texts, /):
            return list(map(Vector, await super().embed(texts)))

    memory = SQLiteMemory(embedder=Arrays(synonyms=[("dog", "hound")]))
    await memory.add("the hound barks")
    assert texts(await memory.recall("dog")) == ["the hound barks"]


async def test_an_embedder_that_refuses_everything_is_left_alone():
    embedder = Refusing()
    embedder.longest = 0
    memory = SQLiteMemory(embedder=embedder)
    for number in range(3):
        await memory.add(f"fact {number}")
    assert texts(await memory.recall("2")) == ["fact 2"]
    assert embedder.asked == memory.statistics().embedder_failures == 1
