"""In any pattern, no agent of a team can do what its caller may not."""

import pytest

from greenroom import (
    Agent,
    AgentRuntime,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    builtin_tools,
)
from greenroom.flow import Subtask, composite, handoff_team, loop, parallel, pipeline
from greenroom.testing import ScriptedProvider, call

CALLS = [
    ("look", {}),
    ("Write", {"file_path": "notes.txt", "content": "x"}),
    ("Write", {"file_path": "secret.txt", "content": "x"}),
    ("Bash", {"command": "touch made.txt"}),
    ("Bash", {"command": "touch a.txt && touch b.txt"}),
]
ALLOW, ASK, DENY = PermissionRule.allow_tool, PermissionRule.ask_for_tool, PermissionRule.deny_tool
TEAM = ALLOW("team")
CORPUS = {
    "nothing": [TEAM, DENY("look")],
    "all but writes": [TEAM, ALLOW("look", "Bash"), DENY("Write")],
    "asks for commands": [TEAM, ALLOW("look", "Write"), ASK("Bash")],
    "some commands": [
        TEAM,
        ALLOW("look", "Write"),
        PermissionRule.allow_bash_prefix("touch made"),
        PermissionRule.parse("Bash(touch b:*)", "deny"),
    ],
    "one path is denied": [
        TEAM,
        PermissionRule.allow_all(priority=-1),
        PermissionRule.parse("Write(secret.txt)", "deny"),
    ],
    "a function decides": [
        TEAM,
        PermissionRule.deny_if(lambda tool, input, context: "secret" in str(input)),
        ALLOW("look", "Write", "Bash"),
    ],
    "all is denied": [TEAM, PermissionRule.deny_all(priority=-1)],
    "all is allowed": [PermissionRule.allow_all()],
}


def doer(ran, name="doer", **options):
    """An agent that tries all of it, and may do all of it by its own rules."""

    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    script = [call(tool, **arguments) for tool, arguments in CALLS], "Done.", "Done."
    return Agent(
        ScriptedProvider(*script),
        tools=[look, *builtin_tools()],
        **{"permissions": PermissionManager([PermissionRule.allow_all()]), "name": name, **options},
    )


def as_composite(ran):
    async def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    steps = [Subtask(f"s{n}", "", tool=t, arguments=a) for n, (t, a) in enumerate(CALLS)]
    tools = [look, *builtin_tools()]
    return composite("team", steps, "done", tools=tools, description="Works.")


def as_team(pattern):
    return lambda ran: pattern(doer(ran)).as_tool("team", "Works.")


def handed(ran):
    first = Agent(ScriptedProvider(call("transfer_to_doer")), name="first", handoffs=["doer"])
    return handoff_team(
        first, doer(ran, permissions=PermissionManager([PermissionRule.allow_all()]))
    )


PATTERNS = {
    "pipeline, parallel, loop": as_team(
        lambda agent: pipeline(parallel(loop(agent, lambda _: True)))
    ),
    "handoffs": lambda ran: handed(ran).as_tool("team", "Works."),
    "composite": as_composite,
}


async def effects(agent, ran, folder):
    folder.mkdir()
    async with AgentRuntime(InMemoryStore(), workspace=folder) as runtime:
        await agent.run("Go.", runtime=runtime)
    return {*ran, *(path.name for path in folder.iterdir())}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CORPUS)
async def test_a_team_can_do_nothing_that_its_caller_may_not(name, tmp_path):
    ran = []
    rules = CORPUS[name]
    alone = await effects(doer(ran, permissions=PermissionManager(rules)), ran, tmp_path / "alone")
    for pattern, make in PATTERNS.items():
        ran = []
        prompt = {} if pattern == "composite" else {"prompt": "Go."}
        boss = Agent(
            ScriptedProvider(call("team", **prompt), "Done."),
            tools=[make(ran)],
            permissions=PermissionManager(rules),
            name="boss",
        )
        made = await effects(boss, ran, tmp_path / pattern)
        assert made <= alone, pattern
        if name == "all is allowed" and pattern != "composite":
            assert made == alone
