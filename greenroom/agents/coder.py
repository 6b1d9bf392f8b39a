"""The ready-made coding agent, short enough to copy and to change."""

from functools import partial

from greenroom.agents.call_gate import run_tools
from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.agents.plan_mode import PlanMode
from greenroom.agents.reply import stream_reply
from greenroom.agents.reply_end import find_answer, is_end
from greenroom.agents.task import Delegates, with_subagents
from greenroom.agents.turn_hooks import TurnEdges, TurnHooks
from greenroom.core import Resume
from greenroom.llm import LLMProvider
from greenroom.memory import Compactor
from greenroom.memory._internal import find_compaction
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

CODER_PROMPT = """You are a coding agent in the user's terminal, working in the folder {root}.
Use the tools to look before you answer: list and search, then read what matters. Change files with
Edit, make new ones with Write, and check your work by running the project's own tests with Bash.
Make the smallest change that does the job, in the style of the code around it. When a call is
denied, do not try another way around it: say what you would need. Answer briefly and plainly."""
"""The system prompt of `coder`; `{root}` is the folder in which it works."""


async def coder(
    agent: AgentInternals,
    llm: LLMProvider,
    tools: ToolRegistry,
    permissions: PermissionManager,
    instructions: str = CODER_PROMPT,
    max_steps: int = 100,
    delegates: Delegates = True,
    checkpoints: bool = False,
    notes: str = "",
    compactor: Compactor | None = None,
    max_cost: float | None = None,
    hooks: TurnHooks | None = None,
) -> None:
    """Read, search, edit and run in a workspace until the model has nothing more to do.

    A turn ends after `max_steps` model calls, or once they have cost `max_cost`. With `delegates`
    the model gives work to subagents (`Task`), also to these helpers, which may do no more than it.
    `checkpoints` keeps files before tools change them. `notes` follow the prompt. The `hooks` see
    each input and end. Metadata of `{"command": "compact"}` has the conversation shortened alone.
    """
    parts = instructions.replace("{root}", str(agent.context.workspace.root)), notes
    prompt = "\n\n".join(filter(None, parts))
    if delegates:
        same = partial(coder, instructions=instructions, notes=notes)
        child = partial(same, max_steps=max_steps, hooks=hooks)
        tools = with_subagents(agent, child, llm, tools, permissions, delegates)
    files, compactor = FileCheckpoints(agent) if checkpoints else None, compactor or Compactor(llm)
    shorten = partial(compactor.compact, instructions=prompt)
    ask = partial(stream_reply, agent, llm, compactor=compactor)
    plan, edges = PlanMode(agent, permissions), TurnEdges(agent, hooks)
    run = partial(run_tools, tools=plan.add_to(tools), permissions=permissions, checkpoints=files)
    async for message in agent.inputs():
        goal = find_compaction(message)
        async with agent.turn(message, append=goal is None):
            if goal is not None:
                await shorten(agent, tools=tools.definitions(), about=goal)
                continue
            if not await edges.take(message):
                continue
            with agent.budget(model_calls=max_steps, cost=max_cost):
                if isinstance(message, Resume):
                    await run(agent, message.calls)
                is_answered = isinstance(message, Resume) and find_answer(agent.session.history)
                while not (is_answered or await plan.hand_over()):
                    told, has = plan.begin_step(prompt, tools)
                    reply = await ask(has, instructions=told)
                    if reply.tool_uses:
                        await run(agent, reply.tool_uses)
                    elif is_end(agent, reply) and not await edges.goes_on(reply):
                        break
