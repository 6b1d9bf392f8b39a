"""Turns that begin with a command or an agent in a file, and the hooks at their edges.

The agent gets the line as the person wrote it, `/git:tidy now` or `@reviewer look at this`, and
behind it what it means. What a command changes for its turn, such as its model and the rules that
it allows, is put back when the turn has ended, however it ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from greenroom.agents import run_tools
from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.hooks import Hooks
from greenroom.cli.mentions import MentionReader
from greenroom.cli.own_files import FileAgent, FileCommand, split_shell_lines
from greenroom.core import (
    AgentContext,
    ConfigurationError,
    Custom,
    Done,
    Instrument,
    Message,
    RuleDecision,
    TextBlock,
    ToolUseBlock,
    UserInput,
)
from greenroom.core._internal import new_id
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

_GIVE = """\
Give this work to the agent {name} with the tool Task, in the user's words, and then tell the user \
what it reports:

{words}"""


class _Change(msgspec.Struct, frozen=True):
    """What a command has changed for one turn."""

    session_id: str
    rules: tuple[PermissionRule, ...]
    model: LLMProvider | None


class OwnTurns:
    """What the turns of one run begin and end with, as the `TurnHooks` of its agent.

    Args:
        hooks: the hooks of the run.
        commands: the commands in files, by name.
        agents: the agents in files, by name.
        model: the model of the run.
        models: models that commands name, opened.
        tools: the tools of the run.
        permissions: the rules of the run.

    A session that is bound has a model and rules of its own.
    """

    def __init__(
        self,
        hooks: Hooks,
        commands: Mapping[str, FileCommand],
        agents: Mapping[str, FileAgent],
        model: ExchangeableModel,
        models: Mapping[str, LLMProvider],
        tools: ToolRegistry,
        permissions: PermissionManager,
    ) -> None:
        self.on_stop = hooks.on_stop
        self._hooks = hooks
        self._commands, self._agents = commands, agents
        self._models, self._tools = models, tools
        self._run = (model, permissions)
        self._bound = dict[str, tuple[ExchangeableModel, PermissionManager]]()
        self._changes = list[_Change]()

    @contextmanager
    def bind(
        self, session_id: str, model: ExchangeableModel, permissions: PermissionManager
    ) -> Iterator[None]:
        """Change this model and these rules in the turns of a session, as long as the block."""
        self._bound[session_id] = model, permissions
        try:
            yield
        finally:
            del self._bound[session_id]

    def _find_parts(self, session_id: str) -> tuple[ExchangeableModel, PermissionManager]:
        return self._bound.get(session_id, self._run)

    async def on_input(self, agent: AgentInternals, message: UserInput) -> Sequence[str] | None:
        """Ask the hooks; then add what a command or an agent's name means."""
        told = await self._hooks.on_input(agent, message)
        is_persons = not message.sender and agent.context.parent_session_id is None
        if told is None or not is_persons:
            return told
        first, _, words = message.text.strip().partition(" ")
        if (command := self._commands.get(first[1:].casefold())) and first.startswith("/"):
            return (*told, *await self._begin(agent, command, words.strip()))
        if (named := self._agents.get(first[1:].casefold())) and first.startswith("@"):
            return (*told, _GIVE.format(name=named.name, words=words.strip()))
        return told

    async def _begin(
        self, agent: AgentInternals, command: FileCommand, words: str
    ) -> Sequence[str]:
        """Change what the command changes, run its lines, and return its text and its files."""
        session_id = agent.context.session_id
        current, permissions = self._find_parts(session_id)
        parsed = (PermissionRule.parse(each, RuleDecision.ALLOW) for each in command.allowed)
        own = [each.within(session_id) for each in parsed]
        # What is there already stays when the turn ends.
        rules = tuple(each for each in own if each not in permissions.rules)
        model = self._models.get(command.model)
        self._changes.append(_Change(session_id, rules, current.llm if model else None))
        permissions.add_rules(rules)
        if model is not None:
            current.exchange(model)
        text = await self._run_lines(agent, command.fill(words))
        reader = MentionReader(permissions, self._tools, agent.context)
        blocks, notes = await reader.read(text)
        for note in notes:
            await agent.send(Custom("command.note", {}, note))
        return (text, *(each.text for each in blocks if isinstance(each, TextBlock)))

    async def _run_lines(self, agent: AgentInternals, text: str) -> str:
        """Run each !`command` of a text as a judged call, and put its output in its place."""
        parts = list(split_shell_lines(text))
        for at in range(1, len(parts), 2):
            call = ToolUseBlock(new_id("t"), "Bash", {"command": parts[at]})
            session = agent.session
            before = len(session.history)
            session.add_message(Message.assistant([call]))
            permissions = self._find_parts(session.session_id)[1]
            run = partial(run_tools, tools=self._tools, permissions=permissions)
            [result] = await run(agent, [call])
            await session.rewind(before)  # the model did not make this call
            parts[at] = result.text
        return "".join(parts)

    @property
    def ends(self) -> "TurnEnds":
        """The instrument that puts back what a turn has changed."""
        return TurnEnds(self)

    def put_back(self, session_id: str) -> None:
        """Put back what a command has changed for the turn of this session."""
        mine = [each for each in self._changes if each.session_id == session_id]
        model, permissions = self._find_parts(session_id)
        for change in mine:
            self._changes.remove(change)
            permissions.remove_rules(change.rules)
            if change.model is not None:
                model.exchange(change.model)


class TurnEnds(Instrument):
    """Tells `OwnTurns` of the end of each turn."""

    def __init__(self, turns: OwnTurns) -> None:
        """Tell these."""
        self._turns = turns

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """Put back what the turn has changed."""
        self._turns.put_back(agent.session_id)


def find_family(family: str, names: Sequence[str]) -> str:
    """Find the newest model of a family such as "sonnet" among names, the newest first.

    Raises:
        ConfigurationError: there is none.

    Example:
        >>> find_family("haiku", ["anthropic:claude-opus-5", "anthropic:claude-haiku-5-5"])
        'anthropic:claude-haiku-5-5'
    """
    for name in names:
        if name.startswith("anthropic:") and f"-{family}-" in name:
            return name
    raise ConfigurationError(f"no model of the family {family} is known")
