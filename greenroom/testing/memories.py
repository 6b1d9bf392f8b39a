"""Checks for memories: this project's own pass them, and so should yours."""

import inspect
import sys
from collections.abc import Callable, Sequence

import trio

from greenroom.core._internal import new_id
from greenroom.memory import Memory, Recalled
from greenroom.memory._internal import EntryOrigin

_PATIENCE = 60.0  # seconds for one check, which takes milliseconds on any memory that doesn't hang


async def an_entry_is_what_was_added(open_memory: Callable[[], Memory]) -> None:
    """Text, fields and metadata come back as they were, through a memory that is opened anew."""
    topic = new_id("t")
    text = "Ann\u2028has a d\u00f6g called \U0001f3ad Rex.\n  \\ ' \" %s"
    entry_id = await open_memory().add(
        text, origin="tool", session_id="s-1", turn=3, topic=topic, age=2, ok=True, none=None
    )
    (found,) = await open_memory().recall("a dog called Rex", where={"topic": topic})
    entry = found.entry
    assert (entry.id, entry.text, entry.origin) == (entry_id, text, EntryOrigin.TOOL), f"{entry}"
    assert (entry.session_id, entry.turn) == ("s-1", 3), f"{entry}"
    expected = {"topic": topic, "age": 2, "ok": True, "none": None}
    assert dict(entry.metadata) == expected, f"{entry}"
    assert entry.created_at.utcoffset() is not None, "it is aware"


async def the_best_comes_first(open_memory: Callable[[], Memory]) -> None:
    """Scores are from 0 to 1 and fall; limit and threshold leave out the rest."""
    memory, topic = open_memory(), new_id("t")
    for text in ("the roof leaks", "the roof of the house is red", "a red boat", "fish"):
        await memory.add(text, topic=topic)
    found = await memory.recall("is the roof of our house red?", where={"topic": topic})
    scores = [each.score for each in found]
    assert _texts(found)[0] == "the roof of the house is red", f"{found}"
    assert scores == sorted(scores, reverse=True), f"{scores}"
    assert all(0 <= score <= 1 for score in scores), f"{scores}"
    assert "fish" not in _texts(found), "it has nothing in common with the question"
    few = await memory.recall("is the roof of our house red?", limit=1, where={"topic": topic})
    assert _texts(few) == ["the roof of the house is red"], f"{few}"
    strict = await memory.recall("roof of the house", threshold=1.01, where={"topic": topic})
    assert not strict, f"{strict}"


async def other_forms_of_a_word_are_found(open_memory: Callable[[], Memory]) -> None:
    """A question in other words finds what it means: upper case, plural, an accent."""
    memory, topic = open_memory(), new_id("t")
    await memory.add("She drinks tea in the caf\u00e9.", topic=topic)
    for question in ("TEA", "cafe", "teas?"):
        found = await memory.recall(question, where={"topic": topic})
        assert _texts(found) == ["She drinks tea in the caf\u00e9."], f"{question}: {found}"


async def a_filter_is_exact(open_memory: Callable[[], Memory]) -> None:
    """A number is not a boolean, a text is not a number, and fields count like metadata."""
    memory, topic = open_memory(), new_id("t")
    await memory.add("tea one", topic=topic, n=1, origin="user")
    await memory.add("tea true", topic=topic, n=True, origin="tool")
    await memory.add("tea text", topic=topic, n="1", origin="tool")
    for value, text in ((1, "tea one"), (True, "tea true"), ("1", "tea text")):
        found = await memory.recall("tea", where={"topic": topic, "n": value})
        assert _texts(found) == [text], f"{value!r}: {found}"
    found = await memory.recall("tea", where={"topic": topic, "origin": "user"})
    assert _texts(found) == ["tea one"], f"{found}"


async def what_is_forgotten_is_gone(open_memory: Callable[[], Memory]) -> None:
    """`forget` takes one entry, and `clear` those that fit; what they return is true."""
    memory, topic = open_memory(), new_id("t")
    first = await memory.add("tea", topic=topic, kind="a")
    await memory.add("more tea", topic=topic, kind="a")
    await memory.add("other tea", topic=topic, kind="b")
    assert await memory.forget(first) is True
    assert await memory.forget(first) is False, "it is gone already"
    for other in ("", "no such id", "\0", "\ud800"):
        assert await memory.forget(other) is False, repr(other)
    assert await memory.clear(topic=topic, kind="a") == 1
    assert _texts(await open_memory().recall("tea", where={"topic": topic})) == ["other tea"]
    assert await memory.clear(topic=topic) == 1
    assert not await memory.recall("tea", where={"topic": topic})


async def what_cannot_be_kept_is_refused(open_memory: Callable[[], Memory]) -> None:
    """Blank texts and values that are no metadata are a `ValueError`; any question is answered."""
    memory, topic = open_memory(), new_id("t")
    for text, about in (("", {}), (" \n", {}), ("tea", {"x": float("nan")}), ("tea", {"turn": -1})):
        try:
            await memory.add(text, topic=topic, **about)
        except ValueError:
            continue
        raise AssertionError(f"{text!r} with {about!r} was not refused")
    for question in ("", "  ", "!?\0", '" OR *:& (', "tea \ud800", "x" * 20_000):
        assert not await memory.recall(question, where={"topic": topic}), question


async def many_tasks_may_use_it(open_memory: Callable[[], Memory]) -> None:
    """Each of many tasks finds what it added, and a cancel leaves an entry or none."""
    memory, topic = open_memory(), new_id("t")

    async def use(number: int) -> None:
        with trio.move_on_after(0 if number % 3 == 0 else _PATIENCE):
            await memory.add(f"tea{number}x is number {number}", topic=topic)
            found = await memory.recall(f"tea{number}x", where={"topic": topic})
            assert _texts(found) == [f"tea{number}x is number {number}"], f"{found}"

    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(use, number)
    kept = await memory.recall("number", limit=100, where={"topic": topic})
    assert 8 <= len(set(_texts(kept))) == len(kept) <= 12, f"{kept}"


def _texts(found: Sequence[Recalled]) -> list[str]:
    return [each.entry.text for each in found]


MEMORY_CHECKS = tuple(
    each
    for each in vars(sys.modules[__name__]).values()
    # Python 3.12 takes the module `inspect` itself for a coroutine function.
    if inspect.isfunction(each) and inspect.iscoroutinefunction(each)
    if each.__module__ == __name__
)
"""All checks, to be run one by one."""


async def check_memory(open_memory: Callable[[], Memory]) -> None:
    """Run every check on a memory, in turn; what passes behaves as this project's memories do.

    It does not show that a memory survives a crash: that takes a process that is killed.

    Args:
        open_memory: opens the memory as another process would; one in memory returns the same
            object. It may hold other entries than the checks make, which they leave alone.

    Raises:
        AssertionError: the memory did something wrong.
        trio.TooSlowError: a check hung.
        Exception: whatever the memory raised; each has a note that names the check.

    Example:
        >>> from greenroom.memory import SQLiteMemory
        >>> memory = SQLiteMemory()
        >>> trio.run(check_memory, lambda: memory)
    """
    for check in MEMORY_CHECKS:
        try:
            with trio.fail_after(_PATIENCE):
                await check(open_memory)
        except Exception as error:
            error.add_note(f"in the check {check.__name__}")
            raise
