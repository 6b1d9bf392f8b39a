"""A terminal shows the speaker of a team, handoffs and rounds."""

import re

from rich.console import Console

from greenroom import Agent
from greenroom.cli.agent_view import AgentView
from greenroom.cli.painter import ColorScheme
from greenroom.flow import handoff_team, loop, pipeline
from greenroom.testing import ScriptedProvider, call


def agent(name, *script, **options):
    return Agent(ScriptedProvider(*script), name=name, **options)


async def test_who_speaks_is_shown(capsys):
    desk = agent("desk", call("transfer_to_expert"), handoffs=["expert"])
    helpdesk = handoff_team(desk, agent("expert", "They sleep."), name="helpdesk")
    rounds = loop(agent("writer", "One.", "Two."), lambda text: text == "Two.")
    view, console = AgentView(ColorScheme()), Console(width=100)
    async with pipeline(helpdesk, rounds).stream("How long?") as run:
        async for chunk in run:
            for part in view.feed(chunk):
                console.print(part)
    said = [re.sub(" +│", " │", line.strip()) for line in capsys.readouterr().out.splitlines()]
    order = [
        "helpdesk │ desk passes the conversation to expert",
        "helpdesk │ They sleep.",
        "loop │ writer │ One.",
        "loop │ round 1 of at most 10",
        "loop │ writer │ Two.",
        "loop │ round 2: it is good",
    ]
    assert [line for line in said if line in order] == order
