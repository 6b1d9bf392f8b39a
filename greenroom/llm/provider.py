"""The protocol of a provider, and the base of a provider that wraps another one."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from greenroom.core import Message, ModelRequest, Price
from greenroom.core._internal import OutputSchema
from greenroom.llm.stream import ModelStream, collect
from greenroom.llm.windows import ContextWindow, own_window


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
