"""A memory in SQLite keeps, finds, bounds and removes entries."""

import math
import os
import random
from datetime import UTC, datetime, timedelta

import pytest
import trio
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from greenroom.core import utc_now
from greenroom.core._internal import set_clock
from greenroom.memory import Memory, SQLiteMemory, rows
from greenroom.memory._internal import EntryOrigin, MemoryStorageError
from greenroom.testing import HashEmbedder

STORES = ["in memory", "in a file"]


@pytest.fixture(params=STORES)
def path(request, tmp_path):
    return ":memory:" if request.param == "in memory" else str(tmp_path / "new" / "memory.db")


@pytest.fixture
def at():
    """Set the clock to so many seconds after the beginning."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def set_to(seconds):
        set_clock(lambda: start + timedelta(seconds=seconds))

    set_to(0)
    yield set_to
    set_clock(None)


def texts(found):
    return [each.entry.text for each in found]


def test_it_is_a_memory():
    assert isinstance(SQLiteMemory(), Memory)


async def test_an_entry_is_what_was_added(path, at):
    memory = SQLiteMemory(path)
    entry_id = await memory.add(
        "Ann has a dog.", origin="tool", session_id="s-1", turn=3, topic="pets", age=2, ok=True
    )
    [found] = await memory.recall("Ann's dog")
    assert found.score > 0.4
    entry = found.entry
    assert (entry.id, entry.text, entry.origin) == (entry_id, "Ann has a dog.", EntryOrigin.TOOL)
    assert (entry.session_id, entry.turn) == ("s-1", 3)
    assert entry.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert entry.metadata == {"topic": "pets", "age": 2, "ok": True}
    assert await memory.entries() == (entry,)


async def test_other_forms_of_a_word_are_found_behind_the_word_itself(path):
    memory = SQLiteMemory(path)
    for text in ("A dog barks.", "Ann's dogs bark.", "The doge lives in Venice.", "No cat."):
        await memory.add(text)
    assert texts(await memory.recall("dogs")) == ["Ann's dogs bark.", "A dog barks."]
    assert len(await memory.recall("barking")) == 2
    assert texts(await memory.recall("the dog barked twice", limit=1)) == ["A dog barks."]


async def test_nothing_fits_nothing(path):
    memory = SQLiteMemory(path)
    assert await memory.recall("anything") == ()
    await memory.add("The sky is blue.")
    for query in ("", "?!", "\0", "\ud800", "zebra", "NOT sky*:"):
        assert texts(await memory.recall(query)) == (["The sky is blue."] if "sky" in query else [])


async def test_what_is_forgotten_is_gone_for_good(tmp_path):
    path = tmp_path / "memory.db"
    memory = SQLiteMemory(path, HashEmbedder())
    entry_id = await memory.add("the secret is 4711")
    assert await memory.forget(entry_id)
    assert not await memory.forget(entry_id)
    assert await memory.recall("secret") == ()
    assert await SQLiteMemory(path).recall("secret 4711") == ()


async def test_clear_takes_what_fits_and_leaves_the_rest(path):
    memory = SQLiteMemory(path)
    for number in range(6):
        await memory.add(f"fact {number}", session_id=f"s-{number % 2}", odd=bool(number % 2))
    assert await memory.clear(session_id="s-0", odd=True) == 0
    assert await memory.clear(session_id="s-0") == 3
    assert sorted(texts(await memory.recall("fact"))) == ["fact 1", "fact 3", "fact 5"]
    assert await memory.clear() == 3
    assert await memory.recall("fact") == ()
    await memory.add("fact again")
    assert texts(await memory.recall("fact")) == ["fact again"]


async def test_where_is_exact(path):
    memory = SQLiteMemory(path)
    await memory.add("fact one", flag=True)
    await memory.add("fact two", flag=1)
    await memory.add("fact three", origin=EntryOrigin.USER)
    assert texts(await memory.recall("fact", where={"flag": True})) == ["fact one"]
    assert texts(await memory.recall("fact", where={"flag": 1})) == ["fact two"]
    assert texts(await memory.recall("fact", where={"origin": "user"})) == ["fact three"]
    assert texts(await memory.recall("fact", where={"flag": None})) == ["fact three"]
    assert await memory.recall("fact", where={'"; DROP': "x"}) == ()


async def test_a_threshold_leaves_out_what_fits_less(path):
    memory = SQLiteMemory(path)
    await memory.add("The parrot is called Otto.")
    await memory.add("The parrot eats nuts and the occasional apple.")
    found = await memory.recall("parrot called Otto")
    assert len(found) == 2
    assert found[0].score > found[1].score
    assert len(await memory.recall("parrot called Otto", threshold=found[0].score)) == 1


async def test_the_same_words_of_the_same_origin_are_recalled_once(path):
    memory = SQLiteMemory(path)
    for origin in ("user", "tool", "user"):
        await memory.add("Use tabs.", origin=origin)
    found = await memory.recall("tabs")
    assert sorted(each.entry.origin for each in found) == ["tool", "user"]


@pytest.mark.parametrize(
    "refused",
    [
        {"origin": "somebody"},
        {"turn": -1},
        {"turn": "one"},
        {"tags": ["a"]},
        {"x": float("nan")},
        {"x": 1 << 70},
        {"x": "y" * 5_000},
    ],
)
async def test_what_cannot_be_kept_is_refused(refused):
    memory = SQLiteMemory()
    with pytest.raises(ValueError, match=r"entry|metadata"):
        await memory.add("text", **refused)
    for text in ("", "  \n", "x" * 64_001):
        with pytest.raises(ValueError, match="characters"):
            await memory.add(text)
    assert await memory.entries() == ()


async def test_a_bound_that_is_too_small_is_refused():
    for bounds in ({"max_entries": 0}, {"max_bytes": 1}, {"max_age": 0}, {"half_life": -1}):
        with pytest.raises(ValueError, match=r"memory|seconds"):
            SQLiteMemory(**bounds)
    with pytest.raises(ValueError, match="limit"):
        await SQLiteMemory().recall("x", limit=0)


async def test_the_least_recently_used_goes_first(path, at, caplog):
    memory = SQLiteMemory(path, max_entries=3)
    for number in range(3):
        at(number)
        await memory.add(f"fact number{number}")
    at(10)
    await memory.recall("number0")
    at(11)
    await memory.add("fact number3")
    assert sorted(texts(await memory.recall("fact"))) == [
        "fact number0",
        "fact number2",
        "fact number3",
    ]
    assert memory.statistics().evicted == 1
    assert memory.statistics().entries == 3
    assert "full: 1 evicted" in caplog.text


async def test_a_clock_that_is_set_back_makes_no_entry_the_first_to_go(path, at):
    memory = SQLiteMemory(path, max_entries=2)
    at(86_400)
    await memory.add("fact one")
    await memory.add("fact two")
    at(0)
    await memory.recall("one")
    await memory.add("fact three")
    assert sorted(texts(await memory.recall("fact"))) == ["fact one", "fact three"]
    await memory.add("fact four")
    assert sorted(texts(await memory.recall("fact"))) == ["fact four", "fact three"]


@pytest.mark.parametrize("age", [math.inf, 1e300])
async def test_an_age_that_nothing_reaches_is_no_limit(path, age):
    memory = SQLiteMemory(path, max_age=age)
    await memory.add("a fact")
    assert texts(await memory.recall("fact")) == ["a fact"]


async def test_bytes_are_bounded(path):
    memory = SQLiteMemory(path, max_bytes=1 << 20)
    for number in range(40):
        await memory.add(f"number{number} " + "x" * 60_000)
    found = memory.statistics()
    assert found.bytes <= 1 << 20
    assert found.evicted == 40 - found.entries > 0
    assert len(await memory.recall("number39")) == 1
    assert await memory.recall("number0") == ()


async def test_what_is_too_old_is_not_recalled_and_then_removed(path, at):
    memory = SQLiteMemory(path, max_age=100)
    await memory.add("an old fact")
    at(100)
    assert texts(await memory.recall("fact")) == ["an old fact"]
    at(101)
    assert await memory.recall("fact") == ()
    assert await memory.entries() == ()
    await memory.add("a new fact")
    assert memory.statistics().expired == 1
    assert memory.statistics().entries == 1


async def test_of_two_that_fit_alike_the_newer_comes_first_and_the_old_one_stays(path, at):
    memory = SQLiteMemory(path, half_life=100)
    await memory.add("the office is in Rome")
    at(1_000)
    await memory.add("the office is in Oslo")
    new, old = await memory.recall("office")
    assert (new.entry.text, old.entry.text) == ("the office is in Oslo", "the office is in Rome")
    assert old.score > new.score / 3


async def test_another_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    path.write_text("a text of somebody else's")
    with pytest.raises(MemoryStorageError) as refused:
        await SQLiteMemory(path).add("text")
    assert str(path) in str(refused.value)
    assert path.read_text() == "a text of somebody else's"


async def test_a_file_that_was_removed_is_noticed(tmp_path):
    path = tmp_path / "memory.db"
    memory = SQLiteMemory(path)
    await memory.add("text")
    path.unlink()
    with pytest.raises(MemoryStorageError, match="moved or removed"):
        await memory.add("text")


async def test_only_the_owner_may_read_the_file(tmp_path):
    path = tmp_path / "memory.db"
    await SQLiteMemory(path).add("text")
    assert os.stat(path).st_mode & 0o777 == 0o600


async def test_one_object_serves_one_run_after_another():
    def run():
        memory = SQLiteMemory()
        trio.run(memory.add, "a fact")
        return trio.run(memory.recall, "fact")

    assert texts(await trio.to_thread.run_sync(run)) == ["a fact"]


NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal", "Ida", "Jan"]
THINGS = [
    "dog",
    "boat",
    "house",
    "bike",
    "garden",
    "office",
    "printer",
    "server",
    "camera",
    "guitar",
]
COLOURS = ["red", "blue", "green", "white", "black", "yellow", "purple", "brown", "grey", "orange"]


async def test_fifty_questions_over_a_thousand_memories():
    """The words of a question are those of its entry; the right one is among the first three."""
    rng = random.Random(7)
    facts = [
        f"{name}'s {thing} is {colour} and was bought in {1900 + number}"
        for number, (name, thing, colour) in enumerate(
            (n, t, c) for n in NAMES for t in THINGS for c in COLOURS
        )
    ]
    rng.shuffle(facts)
    memory = SQLiteMemory()
    async with trio.open_nursery() as nursery:
        for fact in facts:
            nursery.start_soon(memory.add, fact)
    for fact in rng.sample(facts, 50):
        owner, thing, _, colour, *_, year = fact.replace("'s", "").split()
        for question in (
            f"Which {thing} did {owner} buy in {year}?",
            f"What colour is the {colour} {thing} of {owner}?",
        ):
            found = texts(await memory.recall(question, limit=3))
            assert fact in found, (question, found)


async def test_among_common_words_the_entry_with_all_of_them_is_found():
    rng = random.Random(3)
    common = [f"common{number}" for number in range(20)]
    memory = SQLiteMemory()

    def fill(connection):
        for number in range(6_000):
            said = " ".join([*rng.sample(common, 8), f"entry{number}"])
            rows.add(connection, said, rows.About(), utc_now())

    await memory._database.run(fill, writes=True)
    entries = await memory.entries(limit=6_000)
    for entry in rng.sample(entries, 10):
        asked = [word for word in entry.text.split() if word in common]
        found = await memory.recall(" ".join(asked), limit=3)
        assert set(asked) <= set(found[0].entry.text.split())


words = st.sampled_from(
    ["ann", "ben", "dog", "cat", "port", "8080", "snake_case", "café", "北京", "the", "is"]
)
sentences = st.lists(words, min_size=1, max_size=8).map(" ".join)


@given(st.lists(sentences, max_size=12), st.text(max_size=40) | sentences, st.integers(1, 5))
@settings(deadline=None)
def test_any_question_gives_sorted_distinct_scores_from_0_to_1(entries, query, limit):
    async def ask():
        memory = SQLiteMemory(embedder=HashEmbedder(16) if len(entries) % 2 else None)
        for entry in entries:
            await memory.add(entry)
        return await memory.recall(query, limit=limit)

    found = trio.run(ask)
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(found) <= limit
    assert len({each.entry.text for each in found}) == len(found)
    assert set(texts(found)) <= set(entries)


class AgainstAModel(RuleBasedStateMachine):
    """After any additions and removals, each entry is found by its own words."""

    @initialize()
    def begin(self):
        self.memory = SQLiteMemory()
        self.entries = {}

    @rule(text=sentences, tag=st.integers(0, 2))
    def add(self, text, tag):
        self.entries[trio.run(lambda: self.memory.add(text, tag=tag))] = (text, tag)

    @rule(data=st.data())
    def forget(self, data):
        known = st.sampled_from([*self.entries, "e-unknown"])
        entry_id = data.draw(known)
        assert trio.run(self.memory.forget, entry_id) == (entry_id in self.entries)
        self.entries.pop(entry_id, None)

    @rule(tag=st.integers(0, 2))
    def clear(self, tag):
        kept = {key: each for key, each in self.entries.items() if each[1] != tag}
        assert trio.run(lambda: self.memory.clear(tag=tag)) == len(self.entries) - len(kept)
        self.entries = kept

    @invariant()
    def all_is_there(self):
        listed = trio.run(self.memory.entries)
        assert {e.id: (e.text, e.metadata["tag"]) for e in listed} == self.entries
        assert self.memory.statistics().entries == len(self.entries)
        for text, _ in list(self.entries.values())[:3]:
            found = trio.run(lambda: self.memory.recall(text, limit=50))  # noqa: B023
            assert text in texts(found)


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = settings(max_examples=10, stateful_step_count=10, deadline=None)
