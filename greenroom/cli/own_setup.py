"""Opens what a user's and a project's own files bring to a run: hooks, commands, agents."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import trio

from greenroom.agents import Task
from greenroom.agents._internal import Helper
from greenroom.cli.commands import COMMANDS
from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.hook_files import find_hooks
from greenroom.cli.hooks import Hooks
from greenroom.cli.own_files import FileAgent, FileCommand, read_agents, read_commands
from greenroom.cli.own_turns import OwnTurns, find_family
from greenroom.cli.settings import Settings
from greenroom.core import ConfigurationError
from greenroom.llm import LLMProvider
from greenroom.llm._internal import MODELS
from greenroom.permissions import PermissionManager
from greenroom.tools import ToolRegistry

_FAMILIES = ("sonnet", "opus", "haiku")


class OwnSetup(msgspec.Struct, frozen=True):
    """What the files of the user and of a trusted project bring.

    Attributes:
        hooks: the hooks.
        commands: the commands, by name.
        agents: the agents, by name.
        helpers: the agents, as `Task` has them.
        turns: what the turns of the run begin and end with; None where there is nothing.
        notes: what the user should know, a line each.
    """

    hooks: Hooks
    commands: Mapping[str, FileCommand]
    agents: Mapping[str, FileAgent]
    helpers: tuple[Helper, ...]
    turns: OwnTurns | None
    notes: tuple[str, ...]


@asynccontextmanager
async def open_own_files(
    workspace: Path,
    settings: Settings,
    open_model: Callable[[str], LLMProvider],
    model: ExchangeableModel,
    tools: ToolRegistry,
    permissions: PermissionManager,
) -> AsyncIterator[OwnSetup]:
    """Read the files that count, and open the models that they name; these close with the block."""
    in_thread = trio.to_thread.run_sync
    found = await in_thread(find_hooks, settings, workspace)
    commands = await in_thread(read_commands, workspace)
    agents = await in_thread(read_agents, workspace)
    notes = [f"{each} does not run: {why}" for each in found if (why := each.find_foreign())]
    notes += [*commands.notes, *agents.notes, *_find_taken(commands.usable)]
    notes += _find_missing_tools(agents.usable, tools)
    hooks = Hooks(found, workspace, lambda: permissions.mode)
    wanted = [each.model for each in commands.usable.values()]
    wanted += [each.model for each in agents.usable.values()]
    async with AsyncExitStack() as stack:
        models = dict[str, LLMProvider]()
        for name in dict.fromkeys(filter(None, wanted)):
            try:
                models[name] = opened = open_model(_full_name(name))
            except ConfigurationError as error:
                notes.append(f"the model {name} of a file can't be used, so the run's is: {error}")
            else:
                stack.push_async_callback(opened.aclose)
        parts = (hooks, commands.usable, agents.usable, model, models, tools, permissions)
        has_any = bool(len(hooks) or wanted)
        yield OwnSetup(
            hooks,
            commands.usable,
            agents.usable,
            tuple(map(partial(_as_helper, models), agents.usable.values())),
            OwnTurns(*parts) if has_any else None,
            tuple(notes),
        )


def _find_taken(commands: dict[str, FileCommand]) -> Iterator[str]:
    """Take away commands that have the name of a built-in one, and tell of each."""
    for name in [each.name for each in COMMANDS if each.name in commands]:
        yield f"{commands.pop(name).source.path} is not used: /{name} is a command already"


def _find_missing_tools(agents: Mapping[str, FileAgent], tools: ToolRegistry) -> Iterator[str]:
    """Tell which tools agents name that this run does not have; those of servers come later."""
    for each in agents.values():
        names = dict.fromkeys(rule.partition("(")[0] for rule in each.tools)
        known = (*tools.list_tools(), Task.name)
        if missing := [each for each in names if each not in known and "__" not in each]:
            yield f"{each.source.path} names {', '.join(missing)}, which this run does not have"


def _full_name(name: str) -> str:
    return find_family(name, list(MODELS)) if name in _FAMILIES else name


def _as_helper(models: Mapping[str, LLMProvider], agent: FileAgent) -> Helper:
    llm = models.get(agent.model)
    return Helper(agent.name, agent.description, agent.body, agent.tools, llm)
