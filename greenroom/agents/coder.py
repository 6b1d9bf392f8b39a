"""The ready-made coding agent. It uses public names only, so you can copy and change it."""

from functools import partial

from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.agents.plan_mode import PlanMode
from greenroom.agents.reply import stream_reply
from greenroom.agents.reply_end import ask_again, find_answer, warn_of_end
from greenroom.agents.task import Task
from greenroom.agents.tool_calls import run_tools
from greenroom.core import Resume, StopReason, UserInput
from greenroom.llm import LLMProvider
from greenroom.memory import COMPACT, Compactor
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
    system: str = CODER_PROMPT,
    max_steps: int = 100,
    delegates: bool = True,
    checkpoints: bool = False,
    notes: str = "",
    compactor: Compactor | None = None,
    max_cost: float | None = None,
) -> None:
    """Read, search, edit and run in a workspace until the model has nothing more to do.

    A turn ends after `max_steps` model calls, or once they have cost `max_cost`, those of subagents
    included. With `delegates` the model may give work to subagents (`Task`), which can't delegate
    and may do nothing more than it. `checkpoints` keeps files before tools change them, also those
    of subagents, for `plan_restore`. `notes` follow the prompt, such as `project_notes(…)`. The
    `compactor` keeps the conversation within the model's window; the default one takes the window
    that is known of the model. An input with the metadata `COMPACT` only shortens the conversation,
    with regard to its `about`, if any.
    """
    parts = system.replace("{root}", str(agent.context.workspace.root)), notes
    prompt = "\n\n".join(filter(None, parts))
    if delegates:
        below = permissions.child(context=agent.context)
        child = partial(coder, llm=llm, tools=tools, permissions=below)
        helper = partial(child, system=system, notes=notes, max_steps=max_steps, delegates=False)
        tools = tools.with_tools(Task(agent, helper))
    files = FileCheckpoints(agent) if checkpoints else None
    compactor = compactor or Compactor(llm)
    plan = PlanMode(agent, permissions)
    run = partial(run_tools, tools=plan.add_to(tools), permissions=permissions, checkpoints=files)
    async for message in agent.inputs():
        asked = message.metadata if isinstance(message, UserInput) else {}
        only_compacts = COMPACT.items() <= asked.items()
        async with agent.turn(message, append=not only_compacts):
            if only_compacts:
                about = str(asked.get("about", ""))
                definitions = tools.definitions()
                await compactor.compact(agent, system=prompt, tools=definitions, about=about)
                continue
            with agent.budget(model_calls=max_steps, cost=max_cost):
                if isinstance(message, Resume):
                    await run(agent, message.calls)
                is_answered = isinstance(message, Resume) and find_answer(agent.session.history)
                while not (is_answered or await plan.hand_over()):
                    told, known = plan.begin_step(prompt, tools)
                    reply = await stream_reply(agent, llm, known, system=told, compactor=compactor)
                    if reply.tool_uses:
                        await run(agent, reply.tool_uses)
                    elif reply.stop_reason is not StopReason.PAUSE and not ask_again(agent, reply):
                        warn_of_end(agent, reply)
                        break
