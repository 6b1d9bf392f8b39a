"""A coder whose model makes the calls of a scene, shown in this terminal: `asking.py SCENE`.

In the scene `repair` the model mends a bug that was planted in a copy of a public package.
"""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore, ToolRegistry, coder
from greenroom.cli import ConsoleRenderer
from greenroom.cli.live_terminal import open_prompt_terminal
from greenroom.cli.renderer import terminal_opener
from greenroom.cli.run_rules import load_rules
from greenroom.cli.terminal import LineOptions
from greenroom.core import TextBlock
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import builtin_tools
from tests.e2e.repairer import BUGS, Repairer

ROWS = "".join(f"row {number:03}\n" for number in range(1, 401))
PLAN = call("SubmitPlan", plan="1. Make the file\n2. Look at it")
SCENES = {
    "command": ("default", [call("Bash", command="touch made"), "Done."] * 4),
    "file": ("default", [call("Write", file_path="table.txt", content=ROWS), "Done."]),
    "plan": (
        "plan",
        [PLAN, PLAN, call("Write", file_path="made.txt", content="made"), "Done."],
    ),
}


def mend():
    """The replies of a model that looks for the bug, and tries a wrong repair first."""
    repairer = Repairer(BUGS[0], sys.executable)

    def reply(request):
        results = request.messages[-1].tool_results
        text, made = repairer.step(results[0].text if results else None)
        return Reply([TextBlock(text), *([call(made[0], **made[1])] if made else [])])

    return [reply] * 12


async def show(scene):
    mode, script = ("default", mend()) if scene == "repair" else SCENES[scene]
    rules, llm = load_rules(Path.cwd(), mode=mode), ScriptedProvider(*script)
    editor = os.environ.get("ASKING_EDITOR")
    opener = terminal_opener()
    if editor:

        @asynccontextmanager
        async def opener():
            async with open_prompt_terminal() as terminal:
                terminal.adopt(LineOptions(editor=editor))
                yield terminal

    async with AgentRuntime(store=InMemoryStore(), workspace=Path.cwd()) as runtime:
        parts = (llm, ToolRegistry(builtin_tools()), rules.manager)
        handle = runtime.spawn(AgentSession.new("coder"), coder, *parts, name="coder")
        if scene != "repair":  # where a person says what to do
            await handle.send_input(f"the scene {scene}")
        await ConsoleRenderer(handle, modes=rules.modes, terminal=opener).run()


if __name__ == "__main__":
    trio.run(show, sys.argv[1])
