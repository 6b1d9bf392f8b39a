"""The boundary of a model call: the kernel knows that one is made, and never makes one."""

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from greenroom.core import ModelCall
from greenroom.resilience import metered

if TYPE_CHECKING:
    from greenroom.core import Message, ModelRequest, Price
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.budgets.budgets import Budgets


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
        self._further = _FurtherAttempts(actor.budgets)
        self._metered = ExitStack()
        self.reply: Message | None = None

    def __enter__(self) -> Self:
        if self._price is None:
            self._actor.budgets.refuse_unpriced(self._name)
        self._metered.enter_context(metered(self._further))
        self._actor.notify("before_model_call", self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._metered.close()
        self._further.is_over = True
        self._actor.notify("after_model_call", self._call, self.reply, error)
        turn = self._actor.turns.current
        # What came of a call that broke off may be in the history as well.
        if turn is not None and (self.reply is not None or error is not None):
            turn.replies += 1
        is_free = self._price is not None and self._price.is_free
        if self.reply is not None and self.reply.usage is None and error is None and not is_free:
            self._actor.budgets.refuse_unreported(self._name)


class _FurtherAttempts:
    """Asks the agent's budgets before a failed request is sent again.

    The first attempt was counted by `step`; each further one is a model call of its own.
    """

    def __init__(self, budgets: "Budgets") -> None:
        self._budgets = budgets
        self.is_over = False  # a task that outlives the call has inherited this

    def check_wait(self, seconds: float) -> None:
        if not self.is_over:
            self._budgets.check_wait(seconds)

    def check_attempt(self) -> None:
        if not self.is_over:
            self._budgets.check_model_call()

    def begin_attempt(self) -> None:
        if not self.is_over:
            self._budgets.begin_model_call()
