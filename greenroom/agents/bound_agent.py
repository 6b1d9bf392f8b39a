"""An `Agent` bound to the internals of a run: its model, tools, permissions, guards and answer.

`Steps` binds each agent that may get the conversation, and calls the one that has it.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Generic, TypeVar

from msgspec import UNSET, to_builtins

from greenroom.agents.callers import pass_permissions
from greenroom.agents.configuration import AgentConfiguration, Toolbox, check_tools, list_tools
from greenroom.agents.errors import GuardError
from greenroom.agents.guards import GuardedStream, Guards, describe_rejection, note_unseen
from greenroom.agents.handoff import Handoff
from greenroom.agents.reply import stream_reply
from greenroom.agents.run_context import RunContext
from greenroom.core import ContentBlock, Message, TextBlock, ToolDefinition, ToolResultBlock
from greenroom.core._internal import (
    RUNTIME,
    ConversationInput,
    NamedTool,
    OutputSchema,
    ToolChoice,
    serde,
)
from greenroom.llm import ModelBadRequestError, ModelOutputError, ModelRequest, ModelStream
from greenroom.llm._internal import (
    ANSWER_TOOL,
    OutputModes,
    OutputType,
    find_model,
    make_correction,
)
from greenroom.memory import Compactor
from greenroom.memory._internal import remind
from greenroom.runtime import AgentInternals

T = TypeVar("T")


def to_json_value(value: object) -> object:
    """Convert a value to JSON's types, as pydantic or msgspec do; anything else becomes text."""
    from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

    if type(value) is str:
        return value
    try:
        return serde.loads(to_json(value, inf_nan_mode="strings", fallback=_builtins))
    except PydanticSerializationError:  # a text holds half of a surrogate pair
        return serde.loads(serde.encode(to_jsonable_python(value, fallback=_builtins)))


def _builtins(value: object) -> object:
    try:
        return to_builtins(value)
    except TypeError:
        return str(value)


class TextAnswer:
    """A text: a reply without calls is the answer."""

    schema = tool = None

    def give_up(self, error: ModelBadRequestError) -> bool:
        """Return False: there is no other way to ask for a text."""
        return False

    def choose_tools(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Return which tools the model may call: none at the last step."""
        return "none" if is_last and has_tools else "auto"

    def is_in(self, reply: Message) -> bool:
        """Whether a reply is the answer: it calls nothing."""
        return not reply.tool_uses

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the text of the reply."""
        return reply.text, None


_NOT_RUN = "This call was not run: the answer was given."


class TypedAnswer(Generic[T]):
    """A value of a type: how a request asks for it, and how a reply gives it.

    A provider that can hold its replies to a schema gives the value as the text of the last reply.
    Any other is offered a tool that takes the value, and is made to call it when there is nothing
    else to call.
    """

    def __init__(self, output: OutputType[T], modes: OutputModes, retries: int) -> None:
        """Ask in the first mode that the model supports."""
        self._output = output
        self._modes = modes
        self._retries = retries
        self._is_asked_again = False

    @property
    def _is_by_schema(self) -> bool:
        return self._modes.current == "schema"

    @property
    def schema(self) -> OutputSchema | None:
        """The schema for the provider's replies, if it supports one."""
        return self._output.schema if self._is_by_schema else None

    @property
    def tool(self) -> ToolDefinition | None:
        """The tool that takes the value, for other providers."""
        return None if self._is_by_schema else self._output.tool

    def choose_tools(self, *, has_tools: bool, is_last: bool) -> ToolChoice:
        """Return which tools the model may, must or must not call at this step."""
        if self._is_by_schema:
            return "none" if is_last and has_tools else "auto"
        must = is_last or self._is_asked_again or not has_tools
        is_forced = must and self._modes.current == "forced tool"
        return NamedTool(ANSWER_TOOL) if is_forced else "auto"

    def give_up(self, error: ModelBadRequestError) -> bool:
        """Ask in another mode, if the server refused this one and there is another."""
        return self._modes.give_up(error)

    def is_in(self, reply: Message) -> bool:
        """Whether a reply is meant as the answer."""
        calls = [call.name for call in reply.tool_uses]
        return not calls or ANSWER_TOOL in calls

    def read(self, reply: Message, *, is_last: bool) -> tuple[object, Message | None]:
        """Return the value in a reply, and the message that answers its calls or names mistakes.

        The value is `msgspec.UNSET` if the model has to answer again.

        Raises:
            ModelOutputError: the reply is invalid, and the model can't be asked again.
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


DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


class BoundAgent(Generic[DepsT, OutputT]):
    """An `Agent` in a run: its model, guards, tools and permissions, and its answer."""

    def __init__(
        self,
        agent: AgentConfiguration[DepsT, OutputT],
        handoffs: Sequence[Handoff],
        internals: AgentInternals,
        context: Callable[[], RunContext[DepsT]],
    ) -> None:
        """Bind a configuration and its handoffs to the internals of a run.

        Raises:
            ConfigurationError: its model can't be opened.
        """
        self.agent = agent
        self.name = agent.name
        self.handoffs = {handoff.name: handoff for handoff in handoffs}
        self._internals = internals
        self._context = context
        self._llm = find_model(agent.llm, internals.context.resources)
        self._compactor = Compactor(self._llm, window=agent.window, memory=agent.memory)
        self._guards = Guards(agent.guards, context)
        self._modes = self._find_modes()
        self._last_tools: tuple[object, ...] | None = None
        own = () if callable(agent.tools) else list_tools(agent.tools)
        self._use(Toolbox.of((*own, *handoffs)) if handoffs else agent.toolbox)
        self.begin()

    def begin(self) -> None:
        """Forget the last answer: at the start of a turn, or when it gets the conversation."""
        output, retries = self.agent.output, self.agent.output_retries
        if output is None or self._modes is None:
            self.answer: TextAnswer | TypedAnswer[OutputT] = TextAnswer()
        else:
            self.answer = TypedAnswer(output, self._modes, retries)

    def _find_modes(self) -> OutputModes | None:
        output = self.agent.output
        request = self.agent.settings.complete(ModelRequest(messages=()))
        return None if output is None else OutputModes(self._llm, request, output)

    @property
    def checks_inputs(self) -> bool:
        """Whether guards check inputs, which then join the conversation only in `take`."""
        return bool(self._guards.of("input"))

    @property
    def checks_outputs(self) -> bool:
        """Whether guards check outputs, so that no other text may become one."""
        return bool(self._guards.of("output"))

    async def take(self, message: ConversationInput) -> Sequence[ContentBlock]:
        """Add an input, as its guards pass it, to the conversation, and return that.

        Raises:
            GuardError: a guard rejected it; a note joins the conversation in its place.
        """
        content, sender = tuple[ContentBlock, ...](message.content), message.sender
        session, is_checked = self._internals.session, False
        try:
            with self._pass_permissions():
                await self._guards.judge_unseen(session)
                content, is_checked = await self._guards.judge_input(message), True
        except GuardError as error:
            content, sender, is_checked = describe_rejection(error), RUNTIME, True
            raise
        finally:  # an interrupt must not lose the message
            session.add_message(Message.user(content, id=message.id, sender=sender))
            if not is_checked:
                note_unseen(session, message.id)
        return content

    @property
    def has_memory(self) -> bool:
        """Whether it keeps anything across conversations."""
        return self.agent.memory is not None

    async def remind(self, content: Sequence[ContentBlock]) -> None:
        """Add to the conversation what the memory has on an input."""
        agent = self.agent
        if agent.memory is not None:
            query = "\n".join(block.text for block in content if isinstance(block, TextBlock))
            await remind(self._internals, agent.memory, query, agent.recall_threshold)

    async def refresh_tools(self) -> None:
        """Get the tools of this step, if a function returns them."""
        tools = self.agent.tools
        if not callable(tools):
            return
        current = list_tools(await self._resolve(tools))
        if current != self._last_tools:
            toolbox = Toolbox.of((*current, *self.handoffs.values()))
            check_tools(current, self.agent.deps_type)
            self._last_tools = current
            self._use(toolbox)

    async def instructions(self) -> str:
        """Return the system prompt of this step.

        Raises:
            TypeError: the function that makes it did not return a text.
        """
        text: object = await self._resolve(self.agent.instructions)
        if not isinstance(text, str):
            raise TypeError(f"the instructions of {self.name} returned {text!r}, not a text")
        return text

    async def prepare(self) -> str:
        """Get the tools of this step, and return its system prompt."""
        await self.refresh_tools()
        return await self.instructions()

    @property
    def has_tools(self) -> bool:
        """Whether the model may call anything."""
        return bool(self.toolbox.registry.list_tools())

    async def reply(
        self, system: str, *, is_last: bool, on_warning: Callable[[str], None]
    ) -> Message:
        """Ask the model for its next reply; at the last step it can call no more tools."""
        with self._pass_permissions():
            while True:
                try:
                    return await self._ask(system, is_last=is_last, on_warning=on_warning)
                except ModelBadRequestError as error:
                    if not self.answer.give_up(error):
                        raise

    async def _ask(
        self, system: str, *, is_last: bool, on_warning: Callable[[str], None]
    ) -> Message:
        return await stream_reply(
            self._internals,
            self._llm,
            self.toolbox.registry if self.has_tools else None,
            instructions=system,
            tool_choice=self.answer.choose_tools(has_tools=self.has_tools, is_last=is_last),
            output=self.answer.schema,
            answer_tool=self.answer.tool,
            watch=self._watch(is_last=is_last),
            compactor=self._compactor,
            settings=self.agent.settings,
            on_warning=on_warning,
        )

    def take_warnings(self) -> list[str]:
        """Return what a person should be told about the model's window, since the last call."""
        return self._compactor.take_warnings()

    def _watch(self, *, is_last: bool) -> Callable[[ModelStream], ModelStream] | None:
        if not self.agent.guards:
            return None
        return partial(GuardedStream, guards=self._guards, is_last=is_last)

    def _use(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.permissions = toolbox.permissions(self.agent.permissions, self._internals.context)

    async def _resolve(self, given: "T | Callable[[RunContext[DepsT]], T | Awaitable[T]]") -> T:
        """Return a value of the configuration, or what its function returns now."""
        if not callable(given):
            return given
        with self._pass_permissions():
            value = given(self._context())
            return await value if inspect.isawaitable(value) else value

    def _pass_permissions(self) -> AbstractContextManager[None]:
        """Apply its permissions to agents that its functions run."""
        return pass_permissions(self._internals, self.permissions)
