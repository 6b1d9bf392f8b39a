"""What an agent asks in a sample: Inspect's model, or its own one under Inspect's limits."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from greenroom.core import AgentContext, Message, ModelRequest, ToolDefinition
from greenroom.core._internal import NamedTool, serde
from greenroom.interop.inspect.escape import Escape
from greenroom.interop.inspect.messages import PROVIDER, read_output, write_chat
from greenroom.llm import LLMProvider, ModelStream, ProviderWrapper, Substitutes
from greenroom.llm._internal import collect, replay

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessageAssistant, GenerateConfig, Model
    from inspect_ai.solver import TaskState
    from inspect_ai.tool import ToolChoice, ToolInfo

_DEEPEST = 16  # references within references that are written out


class TaskModels(Substitutes):
    """Answers in place of every model in the agents of a sample.

    Args:
        state: the sample.
        system: a system prompt that comes before the root agent's own.
        escape: carries out what Inspect raises.
        own: whether the agents' own models are asked.
    """

    def __init__(self, state: "TaskState", system: str, escape: Escape, *, own: bool) -> None:
        self._state = state
        self._system = system
        self._escape = escape
        self._own = own
        self.asked = AskedModel(escape)

    def model(self, agent: AgentContext, llm: LLMProvider) -> LLMProvider:
        """Return the model that is asked for this agent."""
        found = LimitedModel(llm, self._state, self._escape) if self._own else self.asked
        is_root = agent.parent_session_id is None
        return IntroducedModel(found, self._system) if self._system and is_root else found


class AskedModel:
    """The model that Inspect evaluates: its logs, limits, cache and retries are those of a task."""

    name = PROVIDER

    def __init__(self, escape: Escape) -> None:
        self._escape = escape
        self._replies: dict[str, ChatMessageAssistant] = {}

    @property
    def model(self) -> str:
        """Its name, as Inspect writes it."""
        return str(_active_model())

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        """Ask the model, and then stream the whole reply."""
        with self._escape.carry():
            output = await _active_model().generate(
                write_chat(_system_of(request), request.messages, self._replies),
                tools=[_write_tool(each) for each in request.tools],
                tool_choice=_write_choice(request),
                config=_write_config(request),
            )
            message = read_output(output)
        if message.response_id:
            self._replies[message.response_id] = output.message
        yield replay(message)

    async def generate(self, request: ModelRequest) -> Message:
        """Ask the model."""
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Leave the model to Inspect."""


class LimitedModel(ProviderWrapper):
    """An agent's own model, which is not asked beyond the sample's limit of messages."""

    def __init__(self, llm: LLMProvider, state: "TaskState", escape: Escape) -> None:
        super().__init__(llm)
        self._state = state
        self._escape = escape

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        """Ask the model, unless the conversation is too long."""
        with self._escape.carry():
            self._check_messages(request)
        async with self.llm.stream(request) as stream:
            yield stream

    def _check_messages(self, request: ModelRequest) -> None:
        limit = self._state.message_limit
        if limit is None:
            return
        from inspect_ai.util import LimitExceededError

        count = len(write_chat(_system_of(request), request.messages))
        if count >= limit:
            raise LimitExceededError("message", value=count, limit=limit)


class IntroducedModel(ProviderWrapper):
    """A model that is asked with the system prompt of a task before the agent's own."""

    def __init__(self, llm: LLMProvider, system: str) -> None:
        super().__init__(llm)
        self._system = system

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Ask the model."""
        system = "\n\n".join(filter(None, (self._system, _system_of(request))))
        return self.llm.stream(replace(request, system=system))


def _active_model() -> "Model":
    from inspect_ai.model import get_model

    return get_model()


def _system_of(request: ModelRequest) -> str:
    if isinstance(request.system, str):
        return request.system
    return "\n\n".join(block.text for block in request.system)


def _write_tool(tool: ToolDefinition) -> "ToolInfo":
    from inspect_ai.tool import ToolInfo, ToolParams

    schema = write_out(dict(tool.parameters))
    parameters = ToolParams.model_validate(schema)
    return ToolInfo(name=tool.name, description=tool.description, parameters=parameters)


def write_out(schema: dict[str, object]) -> dict[str, object]:
    """Write a schema's references out, which Inspect's form of schemas has not.

    A reference to what contains it ends as a schema that takes anything.

    Example:
        >>> text = {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
        >>> write_out(text)
        {'properties': {'x': {'type': 'string'}}}
    """
    found = _write_out(serde.loads(serde.dumps(schema)), schema, 0)
    return cast("dict[str, object]", found)


def _write_out(value: object, root: dict[str, object], depth: int) -> object:
    if isinstance(value, list):
        return [_write_out(each, root, depth) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        found: object = root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        others = {key: each for key, each in value.items() if key != "$ref"}
        meant = {**found, **others} if isinstance(found, dict) and depth < _DEEPEST else others
        return _write_out(meant, root, depth + 1)
    names = {"oneOf": "anyOf"}
    return {
        names.get(key, key): _write_out(each, root, depth)
        for key, each in value.items()
        if key not in ("$defs", "definitions")
    }


def _write_choice(request: ModelRequest) -> "ToolChoice":
    from inspect_ai.tool import ToolFunction

    choice = request.tool_choice
    return ToolFunction(name=choice.name) if isinstance(choice, NamedTool) else choice


def _write_config(request: ModelRequest) -> "GenerateConfig":
    """Return how the agent wants the model to be asked; the rest is the task's."""
    from inspect_ai.model import GenerateConfig

    given = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_seqs": list(request.stop_sequences) or None,
        "seed": request.seed,
        "reasoning_effort": request.effort,
        "parallel_tool_calls": request.parallel_tools,
    }
    return GenerateConfig(**{key: each for key, each in given.items() if each is not None})
