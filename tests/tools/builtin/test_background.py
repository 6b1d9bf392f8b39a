"""Commands that stay: their output, their limit, and words of what else is killed."""

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.tools import Bash, ToolRegistry
from greenroom.tools.builtin.background import (
    KEPT,
    MOST,
    LastOutput,
    StayingCommand,
    StayingCommands,
)


async def test_without_an_agent_nothing_can_stay(context):
    tools = ToolRegistry(Bash().with_background())
    for _ in range(10):
        given = {"command": "sleep 9", "run_in_background": True}
        result = await tools.execute("Bash", given, context)
        assert "nothing can stay here after the call" in result.text
    unknown = await tools.execute("BashKill", {"bash_id": "bash-1"}, context)
    assert "there are: none" in unknown.text


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & echo hi",
        "(sleep 1000 &); echo hi",
        "sleep 1000 & disown; echo hi",
        "setsid -f sleep 1000 > /dev/null; echo hi",
        "nohup sh -c 'sleep 1000 & sleep 1000' > /dev/null & echo hi",
    ],
)
async def test_a_result_says_that_something_was_killed(context, command):
    with trio.fail_after(60):
        result = await ToolRegistry([Bash()]).execute("Bash", {"command": command}, context)
    assert result.text.splitlines() == [
        "hi",
        "[what it left running was killed; run_in_background lets a command stay]",
    ]


async def test_nothing_is_said_where_nothing_was_left(context):
    command = "true & wait; cd .; (true; sleep 0.01) | cat; echo hi"
    with trio.fail_after(60):
        result = await ToolRegistry([Bash()]).execute("Bash", {"command": command}, context)
    assert result.text == "hi"


def test_the_last_part_of_an_output_is_kept_with_its_places():
    output = LastOutput()
    for number in range(40):
        output.feed(bytes([65 + number % 26]) * 65_536)
    assert (output.end, output.begin) == (40 * 65_536, 40 * 65_536 - KEPT)
    text, end = output.read(0)
    assert (len(text), end) == (KEPT, output.end)
    assert output.read(output.end - 3) == ("NNN", output.end)


@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode), st.integers(1, 9), st.data())
def test_what_is_read_in_parts_is_the_whole_text(data, size, draw):
    output, text, position = LastOutput(), "", 0
    lines = draw.draw(st.booleans())
    rest = data
    while rest:
        count = draw.draw(st.integers(1, len(rest)))
        output.feed(rest[:count])
        rest = rest[count:]
        part, position = output.read(position, max(size, 4), lines=lines)
        text += part
    while position < output.end:
        part, position = output.read(position, max(size, 4), lines=lines, final=True)
        text += part
    assert text == data.decode("utf-8", "replace").replace("\0", "\ufffd")


def test_a_line_is_not_read_in_halves_where_lines_are_wanted():
    output = LastOutput()
    output.feed("one\nERR\xff".encode("latin-1"))
    assert output.read(0, lines=True) == ("one\n", 4)
    assert output.read(4, lines=True) == ("", 4)
    output.feed(b"OR")
    assert output.read(4, lines=True, final=True) == ("ERR\ufffdOR", 10)


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
