"""The model of a run, which a person can exchange while the conversation goes on."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from greenroom.core import ModelRequest
from greenroom.llm import LLMProvider, ModelStream, ProviderWrapper

if TYPE_CHECKING:
    from greenroom.core._internal import Effort


class ExchangeableModel(ProviderWrapper):
    """A model that can be exchanged, or made to think harder, from the next request on.

    A request that is under way stays with the model that it was sent to.

    Attributes:
        effort: how hard the model thinks where a request does not say; None for as it was set up.
    """

    def __init__(self, llm: LLMProvider) -> None:
        super().__init__(llm)
        self.effort: Effort | None = None
        self._others: list[LLMProvider] = []

    def exchange(self, llm: LLMProvider) -> None:
        """Send the next request to another model."""
        if llm is not self.llm:
            self._others.append(self.llm)
            self.llm = llm

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request to the model of this moment."""
        if self.effort is not None and request.effort is None and request.thinking is None:
            request = replace(request, effort=self.effort)
        return self.llm.stream(request)

    async def aclose(self) -> None:
        """Close the model, and those before it."""
        for each in (*self._others, self.llm):
            await each.aclose()
