"""The speaker: what a run needs of one agent, such as of the one that has the conversation.

That is its model (opened by name once for a runtime), its tools, and when a reply is its answer.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from typing import Generic, TypeVar

from msgspec import UNSET, to_builtins

from greenroom.agents.configuration import AgentConfiguration, Toolbox, check_tools
from greenroom.agents.guards import GuardedStream, Guards, describe_rejection, note_unseen
from greenroom.agents.handoff import Handoff
from greenroom.agents.reply import stream_reply
from greenroom.agents.run_context import RunContext
from greenroom.agents.tool_calls import pass_permissions
from greenroom.core import (
    RUNTIME,
    ContentBlock,
    ConversationInput,
    GuardError,
    Message,
    ModelOutputError,
    ResourceMap,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    serde,
)
from greenroom.llm import (
    ANSWER_TOOL,
    LLMProvider,
    ModelRequest,
    ModelStream,
    NamedTool,
    OutputSchema,
    OutputType,
    ToolChoice,
    make_correction,
    open_model,
    output_modes,
)
from greenroom.memory import Compactor, remind
from greenroom.runtime import AgentInternals

T = TypeVar("T")


# -- models by name, opened once for all agents of a runtime, and closed with it
# --------------------


class _Models:
    """The models that agents have opened by name; a resource of the runtime, which closes it."""

    def __init__(self) -> None:
        self._open: dict[str, LLMProvider] = {}

    def find(self, name: str) -> LLMProvider:
        if name not in self._open:
            self._open[name] = open_model(name)
        return self._open[name]

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:  # each is closed, whatever happens to others
            for llm in self._open.values():
                stack.push_async_callback(llm.aclose)


def find_model(llm: LLMProvider | str, resources: ResourceMap) -> LLMProvider:
    """Return the model that is meant; one that is only named is opened, unless it is open already.

    Raises:
        ConfigurationError: it can't be opened.
    """
    if not isinstance(llm, str):
        return llm
    models = resources.shared.get(_Models)
    if models is None:
        models = _Models()
        resources.shared.insert(models)
    return models.find(llm)


# -- the answer: when a reply is one, and the value that it gives
# -----------------------------------

_NOT_RUN = "This call was not run: the answer was given."


def to_json_value(value: object) -> object:
    """Return a value as what JSON can express, as pydantic or msgspec writes it, else as its text."""
    from pydantic_core import to_json

    if type(value) is str:
        return value
    return serde.loads(to_json(value, inf_nan_mode="strings", fallback=_builtins))


def _builtins(value: object) -> object:
    try:
        return to_builtins(value)
    except TypeError:
        return str(value)


class TextAnswer:
    """A text: the model answers by not calling anything more."""

    schema = tool = None

    def choice(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Let the model call no more tools at the last step."""
        return "none" if is_last and has_tools else "auto"

    def is_in(self, reply: Message) -> bool:
        """Whether the model calls nothing."""
        return not reply.tool_uses

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the text of the reply."""
        return reply.text, None


class TypedAnswer(Generic[T]):
    """A value of a type: how a request asks for it, and how a reply gives it.

    Where the provider can hold its replies to a schema, the last reply is such a text. Elsewhere
    the model is offered a tool that takes the value, and is made to call it where it has nothing
    else to call.
    """

    def __init__(self, output: OutputType[T], llm: LLMProvider, retries: int) -> None:
        """Choose the way that this provider can be asked in."""
        self._output = output
        self._by_schema = output_modes(llm, ModelRequest(messages=()), output)[0] == "schema"
        self._retries = retries
        self._is_asked_again = False

    @property
    def schema(self) -> OutputSchema | None:
        """What the provider holds its replies to."""
        return self._output.schema if self._by_schema else None

    @property
    def tool(self) -> ToolDefinition | None:
        """The tool that takes the value."""
        return None if self._by_schema else self._output.tool

    def choice(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Say which tools the model may, must or must not call at this step."""
        if self._by_schema:
            return "none" if is_last and has_tools else "auto"
        must = is_last or self._is_asked_again or not has_tools
        return NamedTool(ANSWER_TOOL) if must else "auto"

    def is_in(self, reply: Message) -> bool:
        """Whether a reply means to give the answer."""
        calls = [call.name for call in reply.tool_uses]
        return not calls or ANSWER_TOOL in calls

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the value of a reply, and the message that answers its calls or names its mistakes.

        Where it is `msgspec.UNSET`, the model is to answer again.

        Raises:
            ModelOutputError: the reply does not fit, and the model can't be asked again.
            ModelContentFilterError: the model, or a filter, refused to answer.
        """
        answer = [call for call in reply.tool_uses if call.name == ANSWER_TOOL]
        others = [call for call in reply.tool_uses if call.name != ANSWER_TOOL]
        try:
            value = self._output.read(reply)
        except ModelOutputError as error:
            if self._retries < 1 or is_last:
                raise
            self._retries -= 1
            self._is_asked_again = True
            return UNSET, make_correction(reply, error.errors)
        blocks = [ToolResultBlock(call.id, (TextBlock("Taken."),)) for call in answer]
        blocks += [
            ToolResultBlock(call.id, (TextBlock(_NOT_RUN),), is_error=True) for call in others
        ]
        return value, Message.user(blocks) if blocks else None


# -- the speaker
# ------------------------------------------------------------------------------------

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


class BoundAgent(Generic[DepsT, OutputT]):
    """An `Agent` in a run: its model, its guards, its tools with what they may do, and its answer."""

    def __init__(
        self,
        agent: AgentConfiguration[DepsT, OutputT],
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
        self._last_tools: tuple[object, ...] | None = None
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
            with self._pass_permissions():
                await self._guards.judge_unseen(session)
                said, is_seen = await self._guards.judge_input(message), True
        except GuardError as error:
            said, sender, is_seen = describe_rejection(error), RUNTIME, True
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
        if given != self._last_tools:
            toolbox = Toolbox.of((*given, *self.handoffs.values()))
            check_tools(given, self.agent.deps_type)
            self._last_tools = given
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
        with self._pass_permissions():
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
        with self._pass_permissions():
            value = given(self._context())
            return await value if inspect.isawaitable(value) else value

    def _pass_permissions(self) -> AbstractContextManager[None]:
        """Hold agents that its functions run to its permissions."""
        return pass_permissions(self._internals, self.permissions)
