"""The protocol that every model speaks here."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from greenroom.core import Message, ModelRequest, OutputSchema
from greenroom.llm.stream import ModelStream


@runtime_checkable
class LLMProvider(Protocol):
    """A model that can be asked; any object of this shape is one.

    One provider may serve many requests at the same time. Leaving the block of `stream` early, or
    cancelling it, closes the connection of that request and no other.

    A provider that knows what it charges has a member `price: Price` as well, and fills in the cost
    of each reply's usage. Without it, a budget that limits the cost refuses the model's calls.

    One that can hold its replies to a JSON Schema, `ModelRequest.output`, has a method
    `accepts_output(output: OutputSchema) -> bool` that says so of a schema. Without it,
    `generate_structured` uses a tool.
    """

    @property
    def name(self) -> str:
        """The provider's name, such as "anthropic"; `Message.provider` of its replies."""
        ...

    @property
    def model(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply.

        Raises:
            ModelError: the request failed; raised on entering the block, or between two events.
        """
        ...

    async def generate(self, request: ModelRequest) -> Message:
        """Send a request and return the complete reply.

        Raises:
            ModelError: the request failed or the reply broke off; the subclass says why.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that the provider keeps."""
        ...


@runtime_checkable
class KnowsSchemas(Protocol):
    """What a provider has besides, whose API has a mode for replies of a type."""

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether a request may ask for this type in that mode."""
        ...
