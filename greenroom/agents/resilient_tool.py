"""`resilient_tool`: a tool with a retry, a circuit breaker and limits."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from typing import TypeAlias

import trio

from greenroom.agents.plan_mode import SubmitPlan
from greenroom.agents.questions import AskPerson
from greenroom.core import (
    AgentContext,
    AgentCrashError,
    GreenroomError,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
)
from greenroom.core._internal import clip, describe_error, quantity
from greenroom.resilience import (
    CircuitBreaker,
    CircuitOpenError,
    ConcurrencyLimit,
    RateLimit,
    Retry,
)
from greenroom.resilience._internal import Attempts
from greenroom.tools import Tool, as_tool
from greenroom.tools._internal import OPTIONAL_MEMBERS, RegisteredTool, may_repeat

ToolLimit: TypeAlias = RateLimit | ConcurrencyLimit

_REASON = 300  # characters
_MARGIN = 1.0  # seconds


def resilient_tool(
    tool: object,
    *,
    retry: Retry | None = None,
    breaker: CircuitBreaker | None = None,
    limits: ToolLimit | Sequence[ToolLimit] | None = None,
    slow_timeout: float | None = None,
) -> Tool:
    """Add policies to a tool; to the model, the rules and the person it is the same tool.

    The circuit breaker counts calls that crash, raise a retryable error (such as a `NetworkError`)
    or time out. A `ToolError`, or a result that is an error, tells the model something about its
    call and does not count. While the circuit is open the tool is not called, and the model is told
    when to try again. Calls wait their turn for a limit. Waits are shown as progress of the call.
    An interrupt passes through and does not count.

    Nothing is retried without a `retry`, since a failed call may have had effects. For a tool that
    doesn't declare whether a call may be repeated, a `retry` says that it may. A tool that declares
    the opposite (`idempotent=False`, or `destructive=True` unless it is idempotent) is called once;
    only its open circuit is waited for.

    The tool's time-out holds for each attempt, without the waits. The whole call may take as long
    as an attempt and the time of the retry together, and twice as long with a limit.

    A tool is slow from a time-out on until a call is as fast as usual (`tool.is_slow`). Meanwhile
    its attempts may take `slow_timeout` seconds, and a `ModelPlanner` is told.

    `AskPerson` and `SubmitPlan` are returned as they are: a person is asked once, and may take
    their time.

    Args:
        tool: the tool, or anything that `as_tool` accepts.
        retry: how often and how long to retry, and which errors; a time-out is retryable.
        breaker: one object for all tools that use the same thing, such as one server.
        limits: a `RateLimit` (a call is one request), a `ConcurrencyLimit`, or several, in order.
        slow_timeout: seconds for an attempt while the tool is slow, if that is more than its own.

    Raises:
        ToolError: it is not a tool; see `as_tool`.

    Example:
        >>> from greenroom.tools import ToolRegistry
        >>> async def look_up(word: str) -> str:
        ...     raise ConnectionError("the dictionary is closed")
        >>> guarded = resilient_tool(look_up, breaker=CircuitBreaker("dictionary", failures=1))
        >>> registry = ToolRegistry([guarded])
        >>> context = AgentContext(session_id="s", agent_type="a")
        >>> async def main() -> None:
        ...     for _ in range(2):
        ...         print((await registry.execute("look_up", {"word": "actor"}, context)).text)
        >>> trio.run(main)  # doctest: +ELLIPSIS
        ConnectionError: the dictionary is closed
        look_up was not run: dictionary has failed 1 time lately...
    """
    given = as_tool(tool)
    if isinstance(RegisteredTool.of(given).tool, AskPerson | SubmitPlan):
        return given
    limits = () if limits is None else (limits,) if isinstance(limits, ToolLimit) else tuple(limits)
    return _ResilientTool(given, retry, breaker, limits, slow_timeout or 0.0)


def unwrap_tool(thing: object) -> object:
    """Return the tool without its policies; anything else is returned as it is."""
    while isinstance(thing, _ResilientTool):
        thing = thing.original
    return thing


class _ResilientTool:
    """A tool whose calls go through the policies."""

    def __init__(
        self,
        tool: Tool,
        retry: Retry | None,
        breaker: CircuitBreaker | None,
        limits: Sequence[ToolLimit],
        slow_timeout: float,
    ) -> None:
        # Without a retry here, the tool's own retries are not nested in one.
        self._is_repeated = retry is not None
        retry = retry or Retry(attempts=1)
        self._may_repeat = may_repeat(tool, unknown=True)
        complete = RegisteredTool.of(tool)
        self.original: Tool = complete.tool  # its own `execute`, which raises the original errors
        for member in OPTIONAL_MEMBERS:
            if hasattr(self.original, member):
                setattr(self, member, getattr(self.original, member))
        self.name = complete.name
        self.description = complete.description
        self.category = complete.category
        self.parameters = complete.parameters
        self._once = complete.timeout
        self._once_slow = max(slow_timeout, self._once)
        self.is_slow = False
        """Whether a call has timed out, and none was as fast as usual since."""
        whole = self._once_slow + (retry.deadline if retry.attempts != 1 else 0.0)
        # The registry's time-out is the last resort, so it is later than that of the last attempt.
        self.timeout = (2 * whole if limits else whole) + _MARGIN
        self._retry = retry
        self._breaker = breaker
        self._limits = limits

    def __repr__(self) -> str:
        return f"resilient_tool({self.original!r})"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe the call as the tool does."""
        return self.original.info(input)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run the call, as often as the policies allow."""
        attempts = Attempts(self._retry)
        while True:
            try:
                with attempts.current if self._is_repeated else nullcontext():
                    result = await self._attempt(input, context)
            except CircuitOpenError as refusal:
                error: Exception = refusal
                if (seconds := attempts.plan(refusal)) is None:
                    return self._refuse(refusal)
            except AgentCrashError:
                raise
            except Exception as failure:
                error = failure
                if not self._may_repeat or (seconds := attempts.plan(failure)) is None:
                    raise
            else:
                late = _find_timeout(result) if self._may_repeat else None
                if late is None or (seconds := attempts.plan(late)) is None:
                    return result
                error = late
            attempts.check()
            context.progress(f"{_reason_of(error)}; {attempts.announce(seconds)}\n")
            await attempts.wait(seconds)

    async def _attempt(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        circuit = self._breaker.begin() if self._breaker else None
        try:
            result = await self._in_turn(input, context)
        except BaseException as error:
            if circuit is not None:
                circuit.end(error)
            raise
        if circuit is not None:
            circuit.end(_find_timeout(result))
        return result

    async def _in_turn(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        async with AsyncExitStack() as stack:
            for limit in self._limits:
                await stack.enter_async_context(limit)
            begin, most = trio.current_time(), self._once_slow if self.is_slow else self._once
            with trio.move_on_after(most):
                result = await self.original.execute(input, context)
                is_late = trio.current_time() - begin > self._once
                self.is_slow = is_late or _find_timeout(result) is not None
                return result
        self.is_slow = True
        text = f"{self.name} was stopped: it did not finish within {quantity(most, 'second')}."
        return ToolResult.error(text, ToolStatus.TIMEOUT)

    def _refuse(self, error: CircuitOpenError) -> ToolResult:
        seconds = error.retry_after
        when = f"in {quantity(round(seconds), 'second')}" if seconds else "a little later"
        return ToolResult.error(
            f"{self.name} was not run: {error.message}. Try again {when}, or go on without it.",
            error_message=error.message,
        )


def _reason_of(error: Exception) -> str:
    return clip(
        error.message if isinstance(error, GreenroomError) else describe_error(error), _REASON
    )


def _find_timeout(result: ToolResult) -> ToolError | None:
    """Return a time-out as an error for the policies, or None for any other result."""
    if not isinstance(result, ToolResult) or result.status is not ToolStatus.TIMEOUT:
        return None
    error = ToolError(result.with_error_message().error_message)
    error.retryable = True
    return error
