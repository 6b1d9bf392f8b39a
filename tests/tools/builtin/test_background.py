"""Commands that stay: their output, their limit, and words of what else is killed."""

import trio

from greenroom.tools import Bash, BashKill, BashOutput, ToolRegistry
from greenroom.tools.builtin.background import (
    KEPT,
    MOST,
    LastOutput,
    StayingCommand,
    StayingCommands,
)


async def test_without_an_agent_nothing_can_stay(context):
    tools = ToolRegistry([Bash(), BashOutput(), BashKill()])
    for _ in range(10):
        given = {"command": "sleep 9", "run_in_background": True}
        result = await tools.execute("Bash", given, context)
        assert "nothing can stay here after the call" in result.text
    unknown = await tools.execute("BashKill", {"bash_id": "bash-1"}, context)
    assert "there are: none" in unknown.text


async def test_a_result_says_that_a_job_was_killed(context):
    tools = ToolRegistry([Bash()])
    with trio.fail_after(60):
        left = await tools.execute("Bash", {"command": "sleep 1000 & echo hi"}, context)
        ended = await tools.execute("Bash", {"command": "true & wait; cd .; echo hi"}, context)
    assert left.text.splitlines() == [
        "hi",
        "[what it left running was killed; run_in_background lets a command stay]",
    ]
    assert ended.text == "hi"


def test_the_last_part_of_an_output_is_kept_with_its_places():
    output = LastOutput()
    for number in range(40):
        output.feed(bytes([65 + number % 26]) * 65_536)
    assert output.end == 40 * 65_536
    text, gone = output.read(0)
    assert (len(text), gone) == (KEPT, 40 * 65_536 - KEPT)
    text, gone = output.read(output.end - 3)
    assert (text, gone) == ("NNN", 0)


def test_the_last_commands_that_have_ended_are_kept():
    commands = StayingCommands()
    added = []
    for _ in range(2 * MOST):
        commands.make_room()
        command = StayingCommand("true")
        command.ended.set()
        commands.add(command)
        added.append(command)
        assert [*commands._commands.values()] == added[-MOST:]
