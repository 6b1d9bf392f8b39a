"""The protocol of a provider, and what stands in its place: a wrapper, or a substitute.

A provider may know its model's context window: how many tokens it takes, and who says so. A window
that the program gives wins. Else the model's server is asked where it can tell, and else the
catalogue is looked up. A wrong guess would be worse than none: a conversation that is shortened too
early loses what the model could have read, and one that is shortened too late loses its beginning
unsaid. So what nobody states stays unknown, but for Ollama's documented default.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from greenroom.core import (
    AgentContext,
    ConfigurationError,
    Message,
    ModelRequest,
    Price,
    ToolError,
    ToolResult,
    ToolRun,
    ToolUseBlock,
)
from greenroom.core._internal import OutputSchema, serde
from greenroom.llm.stream import ModelStream, collect

WindowSource: TypeAlias = Literal["given", "server", "catalogue", "assumed", "unlimited", "unknown"]
"""Who says how large a window is."""

SMALLEST_WINDOW = 128
"""The fewest tokens that a window may be said to have."""


class ContextWindow(msgspec.Struct, frozen=True):
    """What is known of a model's context window.

    Attributes:
        tokens: the most tokens of a request and its reply together; None if there is no number.
        source: who says so: the program ("given"), the model's "server", the "catalogue";
            "assumed", the smallest default of a server that does not say; "unlimited", a model that
            reads no more than the end of a conversation; or "unknown".
        is_final: whether asking again, once the model has replied, would bring nothing new.
    """

    tokens: int | None
    source: WindowSource
    is_final: bool = True


UNKNOWN_WINDOW = ContextWindow(None, "unknown")


@runtime_checkable
class KnowsWindow(Protocol):
    """A provider that knows its model's window, or can ask its server for it."""

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return what is known of the window; its source is "unknown" if that is nothing.

        Args:
            has_replied: whether the model has replied, so that its server has loaded it.
            load: whether to have the server load the model, if it knows the window only then.
        """


async def own_window(
    llm: object, *, has_replied: bool = False, load: bool = False
) -> ContextWindow:
    """Return what a provider itself knows of its model's window."""
    if isinstance(llm, KnowsWindow):
        return await llm.find_window(has_replied=has_replied, load=load)
    return UNKNOWN_WINDOW


def check_window(tokens: int | None) -> int | None:
    """Return the size of a window that a program gives, or None if it gives none.

    Raises:
        ConfigurationError: it is not a whole number, or too small for any conversation.
    """
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        raise ConfigurationError(f"the window is {tokens!r}", hint="give a whole number of tokens")
    if tokens < SMALLEST_WINDOW:
        raise ConfigurationError(
            f"a window of {tokens} tokens is too small for a conversation",
            hint=f"give {SMALLEST_WINDOW} or more",
        )
    return tokens


@runtime_checkable
class LLMProvider(Protocol):
    """A model of a vendor; any object with these members is one.

    One provider may serve many requests at the same time. Leaving the block of `stream` early, or
    cancelling it, closes only the connection of that request.

    A provider with a known price also has a member `price: Price`, and sets the cost in the usage
    of each reply. Without it, a budget that limits the cost refuses the model's calls.

    A provider whose limits count for several models, such as all with one key, also has a member
    `account: str`, the same for all of them; `resilient` makes them wait for each other.

    A provider that can enforce a JSON Schema, `ModelRequest.output`, also has a method
    `accepts_output(output: OutputSchema) -> bool`. Without it, `generate_structured` uses a tool. A
    provider that may refuse to force a call, `ModelRequest.tool_choice`, has a method
    `accepts_forced_tool(request: ModelRequest) -> bool`. Without it, a tool may be forced.

    A provider that knows how many tokens its model takes also has the method of `KnowsWindow`.
    """

    @property
    def name(self) -> str:
        """The provider's name, such as "anthropic"; `Message.provider` of its replies."""

    @property
    def model(self) -> str:
        """The model's name, as the provider knows it."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply.

        Raises:
            ModelError: the request failed; raised on entering the block, or between two events.
        """

    async def generate(self, request: ModelRequest) -> Message:
        """Send a request and return the complete reply.

        Raises:
            ModelError: the request failed or the reply broke off; the subclass says why.
        """

    async def aclose(self) -> None:
        """Close the connections that the provider keeps."""


@runtime_checkable
class SupportsSchemas(Protocol):
    """A provider whose API can enforce a JSON Schema."""

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether a request may have this schema as its `output`."""


@runtime_checkable
class ChecksForcedTools(Protocol):
    """A provider that may refuse to force a call."""

    def accepts_forced_tool(self, request: ModelRequest) -> bool:
        """Whether this request may force a call."""


class ProviderWrapper(ABC):
    """A provider around another one: write `stream`, and override anything else that differs.

    The wrapper has the name, the model and the price of the model inside, and closes it.

    Attributes:
        llm: the model inside.
    """

    def __init__(self, llm: LLMProvider) -> None:
        """Wrap a model.

        Raises:
            TypeError: it is only the name of a model.
        """
        if isinstance(llm, str):
            raise TypeError(f"{llm!r} is the name of a model: pass open_model({llm!r})")
        self.llm = llm

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.llm!r})"

    @property
    def name(self) -> str:
        """The name of the model's provider."""
        return self.llm.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self.llm.model

    @property
    def price(self) -> Price | None:
        """What the model charges, or None if that is not known."""
        return price_of(self.llm)

    @property
    def account(self) -> str | None:
        """What the limits of the model's provider count for, or None if that is not known."""
        account = getattr(self.llm, "account", None)
        return account if isinstance(account, str) else None

    @property
    def window(self) -> int | None:
        """The context window that the program gave the model, or None."""
        return window_of(self.llm)

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the model's provider can enforce this schema."""
        return accepts_output(self.llm, output)

    def accepts_forced_tool(self, request: ModelRequest) -> bool:
        """Whether the model lets this request force a call."""
        return accepts_forced_tool(self.llm, request)

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return what the model's provider knows of its window."""
        return await own_window(self.llm, has_replied=has_replied, load=load)

    @abstractmethod
    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply."""

    async def generate(self, request: ModelRequest) -> Message:
        """Send a request and return the complete reply; raises what `stream` raises."""
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Close the model inside."""
        await self.llm.aclose()


def accepts_output(llm: LLMProvider, output: OutputSchema) -> bool:
    """Whether a provider can enforce this schema."""
    return isinstance(llm, SupportsSchemas) and llm.accepts_output(output)


def accepts_forced_tool(llm: LLMProvider, request: ModelRequest) -> bool:
    """Whether a model lets a request force a call; if that is not known, unless it thinks."""
    if isinstance(llm, ChecksForcedTools):
        return llm.accepts_forced_tool(request)
    return not request.thinking and request.effort in (None, "none")


def price_of(llm: LLMProvider) -> Price | None:
    """Return what a provider charges, or None if that is not known."""
    price = getattr(llm, "price", None)
    return price if isinstance(price, Price) else None


def window_of(llm: LLMProvider) -> int | None:
    """Return the context window that the program gave a provider, or None."""
    window = getattr(llm, "window", None)
    return window if isinstance(window, int) else None


class Substitutes:
    """Answers in place of a model or a tool: derive a class, and write either method or both.

    Insert an instance into the resources of a runtime or an agent. Several form a chain, those of
    the agent first, in the order in which they were inserted: the first answer wins.

    Example:
        >>> import trio
        >>> from greenroom import Agent, AgentRuntime, InMemoryStore
        >>>
        >>> from greenroom.testing import ScriptedProvider
        >>> class Script(Substitutes):
        ...     def __init__(self, *steps):
        ...         self.llm = ScriptedProvider(*steps)
        ...
        ...     def model(self, agent, llm):
        ...         return self.llm
        >>> async def main():
        ...     async with AgentRuntime(InMemoryStore()) as runtime:
        ...         runtime.resources.insert(Script("As it was."))
        ...         print((await Agent("offline:").run("How was it?", runtime=runtime)).text)
        >>> trio.run(main)
        As it was.
    """

    resource_type: ClassVar[type]
    """The class under which a `ResourceMap` holds every substitute: this one."""

    def model(self, agent: AgentContext, llm: LLMProvider) -> LLMProvider | None:
        """Return the model to ask in place of `llm`, or None to leave it at that.

        It is called before each model call of an agent.
        """
        return None

    async def result(self, agent: AgentContext, call: ToolUseBlock) -> ToolResult | None:
        """Return the result of a call in place of running its tool, or None to let it run.

        It is asked about each call of `run_tools` that is valid and allowed, before the gates'
        `before_run`, since nothing runs. An exception is the result of the call, as a tool's is.
        """
        return None


Substitutes.resource_type = Substitutes


def substitute_model(agent: AgentContext, llm: LLMProvider) -> LLMProvider:
    """Return the model that an agent asks in place of this one, which may be the same."""
    for each in agent.resources.get_all(Substitutes):
        found = each.model(agent, llm)
        if found is not None:
            return found
    return llm


async def substitute_result(agent: AgentContext, call: ToolRun) -> ToolResult | None:
    """Return the result that stands in for a call, or None if its tool has to run.

    Raises:
        ToolError: a substitute returned something else.
    """
    for each in agent.resources.get_all(Substitutes):
        block = ToolUseBlock(call.id, call.name, call.input)
        found: object = await each.result(agent, block)
        if found is None:
            continue
        if not isinstance(found, ToolResult):
            kind = type(found).__name__
            raise ToolError(f"{type(each).__name__} returned {kind}, which is not a ToolResult")
        return serde.decode(serde.encode(found), ToolResult).with_error_message()
    return None
