"""The boundary of a model call: the kernel knows that one is made, and never makes one."""

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from greenroom.core import ModelCall

if TYPE_CHECKING:
    from greenroom.core import Message, ModelRequest, Price
    from greenroom.runtime.actor import Actor

__all__ = ["Model", "ModelCallScope"]


class Model(Protocol):
    """What has to be known of a model that is called; every `LLMProvider` is one.

    It may have a member `price: Price` as well.
    """

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    @property
    def model(self) -> str:
        """The model's name."""
        ...


class ModelCallScope:
    """The block behind `agent.model_call(...)`.

    Attributes:
        reply: put the complete reply here.
    """

    def __init__(self, actor: "Actor", model: Model, request: "ModelRequest") -> None:
        """Made by `AgentInternals.model_call`."""
        self._actor = actor
        self._name = f"{model.name}:{model.model}"
        self._price: Price | None = getattr(model, "price", None)
        self._call = ModelCall(model.name, model.model, request)
        self.reply: Message | None = None

    def __enter__(self) -> Self:
        if self._price is None:
            self._actor.budgets.refuse_unpriced(self._name)
        self._actor.notify("before_model_call", self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._actor.notify("after_model_call", self._call, self.reply, error)
        turn = self._actor.turns.current
        if turn is not None and self.reply is not None:
            turn.replies += 1
        is_free = self._price is not None and self._price.is_free
        if self.reply is not None and self.reply.usage is None and error is None and not is_free:
            self._actor.budgets.refuse_unreported(self._name)
