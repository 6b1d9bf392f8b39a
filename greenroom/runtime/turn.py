"""One turn: from an input to the end of the agent's answer to it.

A turn is a cancel scope with a clean end. Whatever happens inside (an end, an error, an interrupt,
the end of the agent) it leaves a history in which every tool call is answered, saves it, and says
how it ended. In order: the scope closes; subagents that the turn spawned are gone, unless it
completed; open calls get their `ToolEnd`; the history is paired and saved; the state is idle;
`Done` is published; whoever waits for the turn wakes.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import trio

from greenroom.core import (
    AgentState,
    Done,
    Error,
    GreenroomError,
    Message,
    OutputChunk,
    SubAgentResult,
    ToolEnd,
    ToolResult,
    ToolStart,
    ToolStatus,
    TurnError,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
    UserInput,
)
from greenroom.runtime.outcome import InterruptReport, TurnResult

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["InterruptMode", "Turn", "error_chunk", "is_typed"]

InterruptMode: TypeAlias = Literal["now", "after_step"]
"""When an interrupt takes effect: at once, or at the next boundary between two steps."""

_MARGIN = 0.25  # seconds beyond the grace until an interrupt returns with the rest as abandoned


class Turn:
    """One turn of one agent; made when its input is taken, entered with `async with`."""

    def __init__(self, actor: "Actor", message: UserInput | SubAgentResult) -> None:
        """Made by the runtime when the agent takes the message."""
        self._actor = actor
        self._scope = trio.CancelScope()
        self._entered = False
        self._order: InterruptMode | None = None
        self._grace = float("inf")
        self._deadline = float("inf")
        self._stopping = trio.Event()
        self._waiters: set[trio.CancelScope] = set()
        self._stopped: tuple[str, ...] = ()
        self._cleaned: list[str] = []
        self._repaired: tuple[str, ...] = ()
        self._open_tools: dict[str, str] = {}
        self._failures: list[BaseException] = []
        self._first_new = 0
        self.message = message
        self.usage = Usage()
        self.abandoned: list[str] = []
        self.over = trio.Event()

    # -- what the agent does with it ------------------------------------------------------------

    async def __aenter__(self) -> Self:
        # No checkpoint in here: a scope that is entered must reach its exit.
        actor = self._actor
        if self._entered or actor.turn is not None:
            raise TurnError(
                "a turn is open already", hint="leave its `async with` block before the next one"
            )
        self._entered = True
        actor.open_turn(self)
        self._scope.__enter__()
        self._first_new = len(actor.session.history)
        actor.session.add_message(Message.user(self.message.content))
        actor.publish(TurnStart(self.message.id))
        actor.set_state(AgentState.processing())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        remaining = self._close_scope(kind, error, trace)
        await self._end(remaining)
        if remaining is None or is_typed(remaining):
            return True
        if remaining is error:
            return False
        raise remaining

    def _close_scope(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> BaseException | None:
        try:
            absorbed = self._scope.__exit__(kind, error, trace)
        except BaseException as rest:  # noqa: BLE001 (handed on by the caller)
            return rest
        return None if absorbed else error

    async def _end(self, remaining: BaseException | None) -> None:
        status = self._status(remaining)
        actor = self._actor
        with trio.CancelScope(shield=True):
            if status is not TurnStatus.COMPLETED:
                await actor.end_children(of_turn=self)
            self._close_tools()
            self._repaired = actor.session.pair_tool_uses()
            try:
                await actor.flush()
            except GreenroomError as refused:
                self._failures.append(refused)
                status = TurnStatus.FAILED if status is TurnStatus.COMPLETED else status
        for failure in self._failures:
            actor.publish(error_chunk(failure))
        if not actor.state.is_final:
            actor.set_state(AgentState.idle())
        self._publish_end(status, remaining)

    def _status(self, remaining: BaseException | None) -> TurnStatus:
        if remaining is not None and is_typed(remaining):
            self._failures.append(remaining)
        if self._scope.cancel_called or isinstance(remaining, trio.Cancelled):
            return TurnStatus.INTERRUPTED
        return TurnStatus.COMPLETED if remaining is None else TurnStatus.FAILED

    def _publish_end(self, status: TurnStatus, remaining: BaseException | None) -> None:
        last = next(
            (
                message
                for message in reversed(self._actor.session.history[self._first_new :])
                if message.role == "assistant"
            ),
            None,
        )
        error = "; ".join(str(failure) for failure in self._failures)
        if not error and status is TurnStatus.FAILED and remaining is not None:
            error = f"{type(remaining).__name__}: {remaining}"
        result = TurnResult(
            status=status,
            text=last.text if last else "",
            stop_reason=last.stop_reason if last else None,
            usage=self.usage,
            error=error,
        )
        self._actor.publish(
            Done(self.message.id, status, result.stop_reason, result.usage, result.error)
        )
        self._actor.close_turn(self, result)
        self._finish()

    def _close_tools(self) -> None:
        for tool_use_id in tuple(self._open_tools):
            result = ToolResult.error("interrupted", ToolStatus.INTERRUPTED)
            self._actor.publish(ToolEnd(tool_use_id, result, is_error=True))

    # -- what the runtime sees of it ------------------------------------------------------------

    def note(self, chunk: OutputChunk) -> None:
        """Keep count of what a chunk says about this turn."""
        match chunk:
            case ToolStart():
                self._open_tools[chunk.id] = chunk.name
            case ToolEnd():
                self._open_tools.pop(chunk.id, None)
            case UsageReport():
                self.usage += chunk.usage
            case _:
                pass

    def abandon(self) -> None:
        """The agent took the next message without entering this turn: it is over."""
        self._finish()

    def _finish(self) -> None:
        self.over.set()
        self._stopping.set()

    # -- interrupts -----------------------------------------------------------------------------

    def interrupt(self, mode: InterruptMode, grace: float) -> None:
        """Ask the turn to end; joins an earlier interrupt, of which the shorter grace wins."""
        self._grace = min(self._grace, grace)
        self._order = "now" if mode == "now" else self._order or mode
        if self._stopping.is_set():
            self._clip(min(self._deadline, trio.current_time() + grace))
        elif self._order == "now":
            self._stop()

    def at_boundary(self) -> None:
        """Two steps meet here: an interrupt that waited for this takes effect."""
        if self._order is not None and not self._stopping.is_set():
            self._stop()

    def _stop(self) -> None:
        children = [
            f"subagent {child.name} ({child.session.session_id})"
            for child in self._actor.children.values()
            if child.spawn_turn is self
        ]
        tools = [f"tool {name} ({key})" for key, name in self._open_tools.items()]
        self._stopped = tuple(tools + children) or ("the turn",)
        self._clip(trio.current_time() + self._grace)
        self._stopping.set()
        self._scope.cancel()

    def _clip(self, deadline: float) -> None:
        self._deadline = deadline
        for scope in self._waiters:
            scope.deadline = deadline + _MARGIN
        self._actor.clip_cleanups(deadline)

    @property
    def cleanup_deadline(self) -> float:
        """Until when clean-up of this turn may run; infinite while nobody interrupts."""
        return self._deadline

    def note_cleaned(self, what: str) -> None:
        """Remember a clean-up that ran to its end."""
        self._cleaned.append(what)

    async def stopped(self) -> InterruptReport:
        """Wait for the end of the interrupted turn, at most its grace and a quarter of a second."""
        await self._stopping.wait()
        with trio.CancelScope(deadline=self._deadline + _MARGIN) as scope:
            self._waiters.add(scope)
            try:
                await self.over.wait()
            finally:
                self._waiters.discard(scope)
        alive = () if self.over.is_set() else tuple(self._stopped)
        return InterruptReport(
            stopped=self._stopped,
            cleaned=tuple(self._cleaned),
            abandoned=(*alive, *self.abandoned),
            repaired=self._repaired,
        )


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_typed(leaf) for leaf in error.exceptions)
    return isinstance(error, GreenroomError)


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    if isinstance(error, BaseExceptionGroup):
        return Error("; ".join(str(leaf) for leaf in leaves(error)), type(error).__name__)
    if isinstance(error, GreenroomError):
        return Error(error.message, type(error).__name__, error.hint)
    return Error(str(error) or type(error).__name__, type(error).__name__)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single exceptions that a group is made of."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]
