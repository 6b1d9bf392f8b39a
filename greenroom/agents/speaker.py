"""The speaker: what a run needs of one agent, such as of the one that has the conversation."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from greenroom.agents.answer import TextAnswer, TypedAnswer
from greenroom.agents.caller import calling
from greenroom.agents.guarded_stream import GuardedStream
from greenroom.agents.guards import Guards, note_unseen, rejected
from greenroom.agents.handoff import Handoff
from greenroom.agents.models import find_model
from greenroom.agents.reply import stream_reply
from greenroom.agents.run_context import RunContext
from greenroom.agents.toolbox import Toolbox, check_tools
from greenroom.core import (
    RUNTIME,
    ContentBlock,
    ConversationInput,
    GuardError,
    Message,
    TextBlock,
)
from greenroom.llm import ModelStream
from greenroom.memory import Compactor, remind
from greenroom.runtime import AgentInternals

if TYPE_CHECKING:
    from greenroom.agents.agent import Agent

T = TypeVar("T")
DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


class Speaker(Generic[DepsT, OutputT]):
    """An `Agent` in a run: its model, its guards, its tools with what they may do, and its answer."""

    def __init__(
        self,
        agent: "Agent[DepsT, OutputT]",
        handoffs: Sequence[Handoff],
        internals: AgentInternals,
        context: Callable[[], RunContext[DepsT]],
    ) -> None:
        """Bind a configuration, and what it may hand off to, to an agent that runs.

        Raises:
            ConfigurationError: its model can't be opened.
        """
        self.agent = agent
        self.name = agent.name
        self.handoffs = {handoff.name: handoff for handoff in handoffs}
        self._internals = internals
        self._context = context
        self._llm = find_model(agent.llm, internals.context.resources)
        self._compactor = Compactor(self._llm, memory=agent.memory)
        self._guards = Guards(agent.guards, context)
        self._given: tuple[object, ...] | None = None
        own = () if callable(agent.tools) else agent.tools
        self._use(Toolbox.of((*own, *handoffs)) if handoffs else agent.toolbox)
        self.begin()

    def begin(self) -> None:
        """Begin without an answer: at the start of a turn, or when it gets the conversation."""
        output = self.agent.output
        retries = self.agent.output_retries
        self.answer = TypedAnswer(output, self._llm, retries) if output else TextAnswer()

    @property
    def looks_at_input(self) -> bool:
        """Whether an input joins the conversation only here, once the guards have seen it."""
        return bool(self._guards.of("input"))

    @property
    def looks_at_output(self) -> bool:
        """Whether no answer counts that the guards have not seen."""
        return bool(self._guards.of("output"))

    async def take(self, message: ConversationInput) -> Sequence[ContentBlock]:
        """Let the guards look at an input, and add what they pass to the conversation; return that.

        Raises:
            GuardError: they have rejected it.
        """
        said, sender = tuple[ContentBlock, ...](message.content), message.sender
        session, is_seen = self._internals.session, False
        try:
            with self._calling():
                await self._guards.judge_unseen(session)
                said, is_seen = await self._guards.judge_input(message), True
        except GuardError as error:
            said, sender, is_seen = rejected(error), RUNTIME, True
            raise
        finally:  # an interrupt takes no message away
            session.add_message(Message.user(said, id=message.id, sender=sender))
            if not is_seen:
                note_unseen(session, message.id)
        return said

    async def remind(self, said: Sequence[ContentBlock]) -> None:
        """Add to the conversation what the memory has on an input, as the guards have passed it."""
        if self.agent.memory is not None:
            texts = (block.text for block in said if isinstance(block, TextBlock))
            await remind(self._internals, self.agent.memory, "\n".join(texts))

    async def refresh_tools(self) -> None:
        """Get the tools of this step, if a function returns them."""
        tools = self.agent.tools
        if not callable(tools):
            return
        given: tuple[object, ...] = tuple(await self._value(tools))
        if given != self._given:
            toolbox = Toolbox.of((*given, *self.handoffs.values()))
            check_tools(given, self.agent.deps_type)
            self._given = given
            self._use(toolbox)

    async def instructions(self) -> str:
        """Return the system prompt of this step.

        Raises:
            TypeError: the function that says it returned no text.
        """
        text: object = await self._value(self.agent.instructions)
        if not isinstance(text, str):
            raise TypeError(f"the instructions of {self.name} returned {text!r}, not a text")
        return text

    @property
    def has_tools(self) -> bool:
        """Whether the model may call anything."""
        return bool(self.toolbox.registry.list_tools())

    async def reply(self, system: str, *, is_last: bool) -> Message:
        """Ask the model for its next reply; at the last step it can call no more tools."""
        with self._calling():
            return await stream_reply(
                self._internals,
                self._llm,
                self.toolbox.registry if self.has_tools else None,
                system=system,
                tool_choice=self.answer.choice(has_tools=self.has_tools, is_last=is_last),
                output=self.answer.schema,
                answer_tool=self.answer.tool,
                watch=self._watch(is_last=is_last),
                compactor=self._compactor,
            )

    def _watch(self, *, is_last: bool) -> Callable[[ModelStream], ModelStream] | None:
        if not self.agent.guards:
            return None
        return partial(GuardedStream, guards=self._guards, is_last=is_last)

    def _use(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.permissions = toolbox.permissions(self.agent.permissions, self._internals.context)

    async def _value(self, given: "T | Callable[[RunContext[DepsT]], T | Awaitable[T]]") -> T:
        """Return a value of the configuration, or what its function says of it now."""
        if not callable(given):
            return given
        with self._calling():
            value = given(self._context())
            return await value if inspect.isawaitable(value) else value

    def _calling(self) -> AbstractContextManager[None]:
        """Hold agents that its functions run to its permissions."""
        return calling(self._internals, self.permissions)
