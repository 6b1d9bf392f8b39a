"""`/agents` in a real terminal: subagents and background commands, followed, told and stopped."""

import re

import pytest

from tests.cli.claude import KEY, MODEL, claude

READY = "/help"
COUNT = "for i in 1 2 3; do echo tick $i; done; while [ ! -e over ]; do sleep 0.1; done; echo tock"
CALLS = {
    "delegate": [("Task", {"description": "look around", "prompt": "look"})],
    "serve": [("Bash", {"command": COUNT, "run_in_background": True})],
}


@pytest.fixture
def server():
    with claude(CALLS, held=("look",)) as server:
        yield server


@pytest.fixture
def program(terminal, server):
    words = ("--model", MODEL, "--permission-mode", "bypass")
    program = terminal(*words, ANTHROPIC_BASE_URL=server.url, **KEY)
    program.wait_for("idle · anthropic", READY)
    return program


def ask(program, text):
    program.type(text + "\r")


def test_a_subagent_is_one_line_is_followed_told_and_ends(program, server):
    ask(program, "delegate")
    program.wait_for("◆ look around  working · ", "Task · ")
    ask(program, "/agents")
    program.wait_for("look around  processing  s-")
    ask(program, "/agents look around follow")
    program.wait_for("> look\n")
    ask(program, "/agents look around say and think")
    program.wait_for("sent to look around")
    ask(program, "/agents look dance")
    program.wait_for("no agent 'look' is running", "these are: look around")
    ask(program, "/agents follow look around")
    program.wait_for("no agent 'follow' is running", "write /agents NAME follow")
    ask(program, "/agents look around dance")
    program.wait_for("can't 'dance' an agent (follow, say TEXT or stop)")
    server.released.set()
    screen = program.wait_for("look around │ Heard look.", "idle")
    assert re.search(r"◆ look around  \d+ s · [\d,]+ tokens", screen)
    program.type("\x0f")
    program.wait_for("Heard look.")


def test_a_subagent_is_stopped_and_the_turn_goes_on(program):
    ask(program, "delegate")
    program.wait_for("◆ look around  working · ")
    ask(program, "/agents look around follow")
    ask(program, "/agents look around follow")
    program.wait_for("look around is not followed any more")
    ask(program, "/agents look around stop")
    screen = program.wait_for("look around is being stopped", "Heard delegate.", "idle")
    assert re.search(r"◆ look around  \d+ s .* cancelled", screen)
    ask(program, "/agents")
    program.wait_for("no subagents are running")


def start_command(program):
    ask(program, "serve")
    screen = program.wait_for("as bash-", "idle", "1 command in the background: /agents")
    return re.search(r"as (bash-\w+)\.", screen)[1]


def test_a_background_command_is_listed_and_followed_until_it_ends(program, project):
    id_ = start_command(program)
    ask(program, "/agents")
    program.wait_for(f"{id_}  running ", "tick $i")
    ask(program, f"/agents {id_} follow")
    program.wait_for("\n  tick 1\n  tick 2\n  tick 3\n")
    (project / "over").touch()
    program.wait_for("\n  tock\n", "has ended: exit code 0", "idle", without=["1 command in"])
    ask(program, "/agents")
    program.wait_for("no subagents are running")


def test_a_background_command_is_stopped_and_the_model_is_told(program):
    id_ = start_command(program)
    ask(program, f"/agents {id_} say hello")
    program.wait_for("can't 'say' a command in the background (follow or stop)")
    ask(program, f"/agents {id_} stop")
    program.wait_for(
        f"{id_} is being ended", "has ended: killed", "a message from Bash", "Heard ", "idle"
    )


def test_the_menu_offers_agents_and_commands(program):
    id_ = start_command(program)
    program.type("/agents ")
    program.wait_for(f"  {id_}")
