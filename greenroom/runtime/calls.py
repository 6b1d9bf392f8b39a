"""The calls of an agent (of models, tools and other agents), and which agent is calling.

The runtime counts calls and limits them; it never makes one itself.

Each method of a handle that waits does so in a `Wait`. It refuses a wait that could never end: for
the calling agent itself, or an `ask` that closes a circle of asks. While it lasts, the tree shows
it, and the calling tool call gives back its slots for the work that it waits for. A subagent's end
that its parent learns in this way does not arrive again as input.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

import trio

from greenroom.core import (
    AgentContext,
    Custom,
    Message,
    ModelCall,
    ModelRequest,
    Price,
    SelfWaitError,
    ToolResult,
    ToolUseBlock,
    TurnError,
    UsageReport,
)
from greenroom.resilience import Budget
from greenroom.resilience._internal import UseMeter, current_meter
from greenroom.runtime.actor import Actor, HandleWait
from greenroom.runtime.output_ring import ReaderHooks
from greenroom.runtime.results import TurnResult
from greenroom.runtime.tasks import current_owner, entered_from_thread, is_cancelled


class Model(Protocol):
    """What the runtime needs to know about a model; every `LLMProvider` is one.

    It may also have a member `price: Price`.
    """

    @property
    def name(self) -> str:
        """The provider's name."""

    @property
    def model(self) -> str:
        """The model's name."""


class ModelCallScope:
    """The block behind `agent.model_call(...)`.

    Attributes:
        reply: put the complete reply here.
    """

    def __init__(
        self,
        actor: Actor,
        model: Model,
        request: ModelRequest,
        count: Callable[[ModelRequest], int] | None,
    ) -> None:
        """Made by `AgentInternals.model_call`."""
        self._actor = actor
        self._name = f"{model.name}:{model.model}"
        self._price: Price | None = getattr(model, "price", None)
        self._call = ModelCall(model.name, model.model, request)
        self._count = count
        self._running = _RunningCall(actor)
        self._meter = UseMeter(self._running)
        self.reply: Message | None = None

    async def __aenter__(self) -> Self:
        """Wait until the budgets have room for the call beside those that run, and begin it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        # A call inside of another one, as by a guard, must not wait for what that has reserved.
        if self._actor.budgets.limits_usage and _running_call() is None:
            await self._reserve()
        try:
            return self.__enter__()
        except BaseException:
            self._running.free()
            raise

    def discard(self, reply: Message) -> None:
        """Count a reply, complete or not, that is thrown away; its usage stays in the session.

        A `UsageReport` is published. Without reported usage it does nothing.
        """
        self._running.discard(reply)

    async def _reserve(self) -> None:
        budgets, call = self._actor.budgets, self._call
        sent = self._count(call.request) if self._count else 0
        amounts = (sent, call.request.max_tokens, self._price)
        if not budgets.has_room(*amounts):
            reason = "room in the budget"
            data = {
                "seconds": 0.0,
                "reason": reason,
                "provider": call.provider,
                "model": call.model,
            }
            self._actor.publish(Custom("model.wait", data, f"{self._name} waits for {reason}"))
        try:
            self._running.reserves = await budgets.reserve(*amounts)
        except BaseException:
            budgets.take_back_model_call()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def __enter__(self) -> Self:
        """Begin the call at once; it reserves nothing."""
        if self._price is None:
            self._actor.budgets.refuse_unpriced(self._name)
        self._meter.__enter__()
        self._actor.notify("before_model_call", self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._meter.__exit__(None, None, None)
        self._running.end()
        self._actor.notify("after_model_call", self._call, self.reply, error)
        # A call that broke off may have left a reply in the history as well.
        if self.reply is not None or error is not None:
            self._actor.turns.count_reply()
        is_free = self._price is not None and self._price.is_free
        if self.reply is not None and self.reply.usage is None and error is None and not is_free:
            self._actor.budgets.refuse_unreported(self._name)


class _RunningCall:
    """A model call that runs: what it has reserved, and the budgets to ask for another attempt.

    The first attempt was counted by `step`; each further one is a model call of its own.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._budgets = actor.budgets
        self.is_over = False  # a task that outlives the call has inherited this
        self.reserves = ExitStack()

    def free(self) -> None:
        """Give back what the call has reserved."""
        self.reserves.close()

    def end(self) -> None:
        """End the call."""
        self.is_over = True
        self.free()

    def check_wait(self, seconds: float) -> None:
        if not self.is_over:
            self._budgets.check_wait(seconds)

    def check_attempt(self) -> None:
        if not self.is_over:
            self._budgets.check_model_call()

    def begin_attempt(self) -> None:
        if not self.is_over:
            self._budgets.begin_model_call()

    def discard(self, reply: Message) -> None:
        if reply.usage is not None and not self.is_over:
            self._actor.publish(UsageReport(reply.usage, model=reply.model))
            self._actor.session.add_usage(reply.usage, reply.model)


def _running_call() -> _RunningCall | None:
    """Return the model call that the caller is part of, or None."""
    meter = current_meter()
    return meter if isinstance(meter, _RunningCall) and not meter.is_over else None


T = TypeVar("T")

_slot_var: ContextVar["ToolSlot | None"] = ContextVar("greenroom_tool_slot", default=None)


class ToolSlot:
    """Counts one tool call, and holds a slot of each budget above it while the call runs.

    While the call waits for an agent, or for tools that it calls itself, it gives back its slots
    for that work, and takes them again before it goes on. So a chain of subagents needs only one
    slot, and no call waits for a slot of a call above it. A call that is being cancelled can't wait
    for slots: it gets them at once, beyond the limit if need be.
    """

    def __init__(self, actor: Actor, tool_use_id: str) -> None:
        """Made by `ToolCallScope.running`."""
        self._actor = actor
        self._tool_use_id = tool_use_id
        self._outer = Pause()
        # Newest first: all calls take them in one order, so no two can wait for each other.
        self._budgets: list[Budget] = []
        self._acquired: list[Budget] = []
        self._is_open = False
        self._waits = 0
        # Held by the task that takes the slots, for the whole call.
        self._lock = trio.Lock()
        self._token: Token[ToolSlot | None] | None = None
        self._threads = set[trio.CancelScope]()  # what the call's thread waits for in the loop

    async def __aenter__(self) -> None:
        counted = self._actor.budgets.begin_tool_call()
        limited = [budget for budget in counted if budget.limits("concurrency")]
        self._budgets = sorted(limited, key=lambda budget: -budget.number)
        await self._outer.__aenter__()
        self._is_open = True
        self._actor.budgets.open_calls[self] = None
        try:
            await self._take()
        except BaseException as error:
            for budget in counted:
                budget.count(tool_calls=-1)  # it has not begun
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        self._token = _slot_var.set(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _slot_var.reset(self._token)
        self._actor.budgets.open_calls.pop(self, None)
        self.close()
        await self._outer.__aexit__(kind, error, trace)

    def close(self) -> None:
        """Release everything: the call has ended, or its agent has without leaving it."""
        self._is_open = False
        self._settle()
        for scope in self._threads:
            scope.cancel()

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function for the call's thread, and no longer than the call."""
        with trio.CancelScope() as scope:
            self._threads.add(scope)
            try:
                return await function()
            finally:
                self._threads.discard(scope)
        raise TurnError("the tool call whose thread this is has ended")

    def give_back(self) -> None:
        """Free the slots while the call waits; several of its tasks may do so at once."""
        self._waits += 1
        self._settle()

    async def take_again(self, error: BaseException | None) -> None:
        """End a wait, which raised this error; after the last one, wait for the slots."""
        self._waits -= 1
        try:
            if self._is_running and not is_cancelled(error) and not self._is_being_ended:
                await self._take()
        finally:
            self._settle()

    @property
    def _is_running(self) -> bool:
        """Whether the call neither waits nor has ended; a task of it may outlive it."""
        return self._is_open and not self._waits

    @property
    def _is_being_ended(self) -> bool:
        """Whether the call only cleans up; a shield may keep the cancel from it."""
        actor, turn = self._actor, self._actor.turns.current
        line = (actor, *actor.ancestors())
        return (turn is not None and turn.is_cancelled) or any(each.is_being_ended for each in line)

    async def _take(self) -> None:
        """Wait for the slots; if another task of the call already does, wait for it."""
        if not self._budgets:
            return
        if self._lock.locked():
            await self._lock.acquire()
        else:
            self._lock.acquire_nowait()  # no checkpoint before it joins the queue for a slot
        try:
            for budget in self._find_missing():
                await budget.acquire()
                self._acquired.append(budget)
        finally:
            self._lock.release()

    def _settle(self) -> None:
        """Hold the slots if, and only if, the call runs."""
        if self._lock.locked():
            return  # the task that is taking them settles it
        if not self._is_running:
            while self._acquired:
                self._acquired.pop().release()
        else:
            for budget in self._find_missing():
                budget.acquire_nowait()
                self._acquired.append(budget)

    def _find_missing(self) -> list[Budget]:
        return [budget for budget in self._budgets if budget not in self._acquired]


class Pause:
    """The block in which the caller's tool call waits; outside of a call it does nothing."""

    def __init__(self) -> None:
        self._slot: ToolSlot | None = None

    async def __aenter__(self) -> None:
        self._slot = current_slot()
        if self._slot is not None:
            self._slot.give_back()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._slot is not None:
            await self._slot.take_again(error)


def current_slot() -> ToolSlot | None:
    """Return the slot of the tool call in which the caller runs, or None outside of any."""
    slot = _slot_var.get()
    # A task that outlives the call inherits the variable, and so does one in a nursery outside of
    # the agent, which is not part of the call.
    is_ours = slot is not None and slot._is_open and slot._actor is current_owner()
    return slot if is_ours else None


def current_call(actor: Actor) -> str | None:
    """Return the id of the agent's tool call in which the caller runs, or None outside of any."""
    slot = current_slot()
    return slot._tool_use_id if slot is not None and slot._actor is actor else None


async def run_in_call(function: Callable[[], Awaitable[T]]) -> T:
    """Run a function for a thread, such as that of a plain tool, and end it with the tool call.

    A call that ends by its time-out or an interrupt leaves its thread behind, which nothing else
    would stop.

    Raises:
        TurnError: the call has ended before the function has.
    """
    slot = current_slot()
    return await (function() if slot is None else slot.run(function))


def is_call_over() -> bool:
    """Whether the caller is in a thread that outlived its tool call."""
    slot = _slot_var.get()
    return (
        slot is not None
        and not slot._is_open
        and slot._actor is current_owner()
        and entered_from_thread()
    )


class ToolCallScope:
    """The block behind `agent.tool_call(...)`: judge, run and end the call inside of it.

    Attributes:
        call: the call to judge and run; instruments may have changed its input.
        is_rewritten: whether they have.
    """

    def __init__(self, actor: Actor, call: ToolUseBlock) -> None:
        """Made by `AgentInternals.tool_call`."""
        self._actor = actor
        self._has_ended = False
        self.call = call
        self.is_rewritten = False

    def __enter__(self) -> Self:
        asked, instruments = self.call, self._actor.kernel.instruments
        if instruments.methods["before_tool_call"]:
            self.call = instruments.before_tool_call(self._actor.context, asked)
        self.is_rewritten = self.call is not asked
        return self

    def running(self) -> ToolSlot:
        """Open the block in which the tool runs, with `async with`.

        Entering counts the call, and waits for a slot if a budget limits how many run at once;
        who has waited longest gets the next. A call that gives work to a subagent, or waits for
        one, hands its slot down.

        Raises:
            BudgetExceededError: a budget of this agent, or of one above it, has no call left.
        """
        return ToolSlot(self._actor, self.call.id)

    def end(self, result: ToolResult) -> None:
        """Report how the call ended: its result, or why it was not run. The first report counts."""
        self._report(result, None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._report(None, error)

    def _report(self, result: ToolResult | None, error: BaseException | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._actor.notify("after_tool_call", self.call, result, error)


def current_actor() -> Actor | None:
    """Return the agent in whose task tree the caller runs, or None outside of any."""
    owner = current_owner()
    return owner if isinstance(owner, Actor) else None


def calling_agent() -> AgentContext | None:
    """Return the context of the agent in whose task tree or tool call the caller is, or None.

    Code that is called by an agent needs no argument to find it. A task that a tool starts in a
    nursery of the application is not part of the agent.
    """
    actor = current_actor()
    return None if actor is None else actor.context


def calling_history() -> tuple[Message, ...]:
    """Return the conversation so far of the calling agent; empty outside of any agent.

    It tells a tool who said what. Do not change the messages. See `calling_agent`.
    """
    actor = current_actor()
    return () if actor is None else actor.session.history


class Wait:
    """The block in which an agent is waited for, by a method of its handle; `async with` opens it.

    Raises:
        EventLoopError: the caller is not in the runtime's event loop.
        SelfWaitError: the wait could never end.
    """

    def __init__(self, target: Actor, method: str) -> None:
        """Refuse a wait that could never end."""
        target.check_loop(f"{method}()")
        refuse_self_wait(target, f"{method}()")
        self._target = target
        self._caller = caller = current_actor()
        self._pause = Pause()
        is_in_turn = caller is not None and _is_in_turn(caller)
        self._wait = HandleWait(target, method, trio.current_time(), is_in_turn)
        if method in ("ask", "answer") and caller is not None and is_in_turn:
            _refuse_circle(caller, target)

    @property
    def _is_parent_waiting(self) -> bool:
        return self._caller is not None and self._caller is self._target.parent

    def learn_end(self) -> None:
        """Note that the waiting agent knows how the other one ended, if it has ended."""
        if self._is_parent_waiting and self._target.outcome is not None:
            self._target.report.withdraw()

    def learn_answer(self, answer: TurnResult) -> None:
        """Note the answer that the waiting agent got."""
        if self._is_parent_waiting:
            self._target.report.add_answer(answer)

    async def __aenter__(self) -> Self:
        if self._caller is not None:
            self._caller.waits[self._wait] = None
        if self._is_parent_waiting:
            self._target.report.begin_wait()
        if call := _running_call():
            call.free()  # the other agent may need what it holds
        await self._pause.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._caller is not None:
            del self._caller.waits[self._wait]
        if self._is_parent_waiting:
            self._target.report.end_wait()
        await self._pause.__aexit__(kind, error, trace)


def _is_in_turn(caller: Actor) -> bool:
    # A tool's thread calls back from outside the task tree, but inside the call.
    return caller.turns.is_in_turn() or (
        caller.turns.current is not None and current_slot() is not None
    )


def reader_hooks(actor: Actor) -> ReaderHooks:
    """Return how code outside waits for the output of an agent."""
    return ReaderHooks(actor.check_loop, partial(_pause_reading, actor))


def _pause_reading(actor: Actor) -> AbstractAsyncContextManager[object] | None:
    """Return the block in which to wait for output of an agent; None outside of any tool call."""
    if current_slot() is None:
        return None
    # An agent may read what its own other tasks put out: it does not wait for its end.
    return Pause() if is_inside(actor) else Wait(actor, "subscribe")


def is_inside(actor: Actor) -> bool:
    """Whether the caller is part of an agent: runs in it, or in an agent below it."""
    caller = current_actor()
    while caller is not None and caller is not actor:
        caller = caller.above
    return caller is not None


def refuse_self_wait(actor: Actor, what: str) -> None:
    """Raise `SelfWaitError` if the caller is part of the agent that it would wait for."""
    if is_inside(actor):
        raise SelfWaitError(
            f"{what} would wait for the agent that calls it",
            hint="use interrupt_nowait() or kill(), or call it from outside of the agent",
        )


def _refuse_circle(caller: Actor, target: Actor) -> None:
    """Refuse an ask from a turn whose end the target waits for, directly or through others."""
    # For each agent found, the one whose turn waits for it.
    reached: dict[Actor, Actor] = {target: caller}
    found = [target]
    while found and caller not in reached:
        actor = found.pop()
        for wait in actor.waits:
            if wait.is_in_turn and wait.target not in reached:
                reached[wait.target] = actor
                found.append(wait.target)
    if caller in reached:
        chain = [caller, reached[caller]]
        while chain[-1] is not caller:
            chain.append(reached[chain[-1]])
        names = " → ".join(actor.path for actor in reversed(chain))
        raise SelfWaitError(
            f"ask() would close a circle of agents that wait for each other: {names}",
            hint="use send_input() where no answer is needed, or ask after the turn",
        )
