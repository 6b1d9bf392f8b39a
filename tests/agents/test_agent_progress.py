"""A turn that leads nowhere is ended: the same call again and again, or calls that can't run."""

import itertools

import pytest
import trio

from greenroom import Agent, PermissionManager, ToolError, builtin_tools
from greenroom.agents._internal import NoProgressError
from greenroom.testing import ScriptedProvider, call

numbers = itertools.count()


def look(place: str = "") -> str:
    """Look."""
    return "rain"


def count() -> int:
    """Count."""
    return next(numbers)


def crash() -> str:
    """Crash."""
    raise ZeroDivisionError


def refuse(place: str = "") -> str:
    """Tell the model that this can't be."""
    raise ToolError("no such file")


async def run(*script, **options):
    tools = [look, count, crash, refuse, *builtin_tools()]
    return await Agent(ScriptedProvider(*script), tools=tools, **options).run("Go")


def texts(result):
    return [b.text for message in result.messages for b in message.tool_results]


async def test_calls_side_by_side_count_in_their_order_whichever_ends_first():
    ended = trio.Event()

    async def slow() -> str:
        """Take a while."""
        await ended.wait()
        return "late"

    async def fast() -> str:
        """Take no time."""
        ended.set()
        return "early"

    script = [[call("slow"), call("fast")], [call("fast"), call("slow")], call("slow"), "Done."]
    result = await Agent(ScriptedProvider(*script), tools=[slow, fast]).run("Go")
    assert ["the same as before" in text for text in texts(result)] == [
        *[False] * 2,
        *[True, False],
        True,
    ]
    assert result.warnings == ("slow was called 2 times in a row",)


async def test_the_same_call_with_the_same_result_is_warned_of_and_then_ends_the_turn():
    result = await run(*[call("look")] * 6)
    assert (result.status, result.steps) == ("failed", 5)
    assert isinstance(result.error, NoProgressError)
    assert "look was called 5 times in a row" in str(result.error)
    assert ["the same as before" in text for text in texts(result)] == [False, *[True] * 4]
    assert result.warnings == tuple(f"look was called {n} times in a row" for n in (2, 3, 4, 5))


@pytest.mark.parametrize(
    "script",
    [
        [call("count")] * 6,  # another result
        [call("look", place=str(number)) for number in range(6)],  # another input
        [call("look"), call("look", place="x")] * 3,  # another call between
        [[call("look") for _ in range(6)]],  # one reply: the model has not seen it yet
        [call("refuse"), call("look", place="x"), call("refuse"), call("look")] * 2,
        [call("crash"), call("look")] * 3,
        [[call("crash"), call("crash"), call("crash")]],
        [call("Bash", command="ls missing"), call("Bash", command="ls gone")] * 2,
    ],
)
async def test_what_leads_on_is_not_ended(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = await run(*script, "Done.", permissions=PermissionManager(mode="bypass"))
    assert (result.status, result.output) == ("completed", "Done.")


@pytest.mark.parametrize(
    "script",
    [
        [call("nothing", a=number) for number in range(5)],
        [call("look", nowhere=number) for number in range(5)],
        [call("Write", file_path=f"{number}", content="") for number in range(5)],
        [call("crash"), call("nothing"), call("Write", file_path="x", content="")],
        [call("refuse", place=str(number)) for number in range(9)],  # a ToolError each time
    ],
)
async def test_three_calls_in_a_row_that_could_not_run_end_the_turn(script):
    result = await run(*script, "Done.")
    assert (result.status, result.steps) == ("failed", 3)
    assert "3 calls in a row could not run" in str(result.error)
