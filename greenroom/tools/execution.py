"""Execution: one call behind the gate, and several calls side by side."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import trio

from greenroom.core import (
    MAX_ERROR_TEXT,
    AgentContext,
    ToolError,
    ToolResult,
    ToolStatus,
    clip,
    conceal,
    describe_error,
    is_a,
    leaves,
    log_error,
    message_of,
    serde,
)
from greenroom.tools.spill import capped

if TYPE_CHECKING:
    from greenroom.tools.registered_tool import RegisteredTool

Call: TypeAlias = tuple[str, dict[str, object], AgentContext]
"""A tool's name, its input, and the context of this one call."""


class Gate(Protocol):
    """What calls go through: a registry, or something of the caller's that stands before one."""

    def get(self, name: str) -> "RegisteredTool | None":
        """Return the tool of this name, or None."""
        ...

    async def execute(
        self,
        name: str,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult:
        """Run one call; what fails is a result."""
        ...


_MAX_LEAVES = 5
_PASSING = (trio.Cancelled, KeyboardInterrupt, GeneratorExit)
"""What ends more than the call; everything else that a tool raises is about the call alone."""

_log = logging.getLogger("greenroom.tools")


async def execute_tool(
    tool: "RegisteredTool",
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> ToolResult:
    """Run one call as `ToolRegistry.execute` promises: validated, timed, isolated and capped."""
    try:
        fault = tool.fault(input)
        if fault:
            return ToolResult.error(fault, could_run=False)
        with trio.move_on_after(tool.timeout):
            # Before it is cut: what is left out goes to a file, and half a value is a secret, too.
            result = conceal(await _run(tool, input, context), context)
            return _check_result(tool, await capped(result, tool.name, context))
    except BaseException as error:  # noqa: BLE001  (whatever a tool raises is its result)
        return conceal(_failed(tool, error, context), context)
    return ToolResult.error(
        f"{tool.name} was stopped: it did not finish within {tool.timeout:g} seconds.",
        ToolStatus.TIMEOUT,
    )


async def _run(
    tool: "RegisteredTool",
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> ToolResult:
    result: object = await tool.tool.execute(input, context)
    if not isinstance(result, ToolResult):
        raise ToolError(f"{tool.name} returned {type(result).__name__}, which is no ToolResult")
    return result


def _check_result(tool: "RegisteredTool", result: ToolResult) -> ToolResult:
    """Make sure that a result can be stored and sent: what it holds is typed, and is Unicode."""
    try:
        return serde.decode(serde.encode(result), ToolResult).with_error_message()
    except serde.InvalidJSONError as error:
        raise ToolError(f"{tool.name} returned a result that can't be used: {error}") from error


def _failed(tool: "RegisteredTool", error: BaseException, context: AgentContext) -> ToolResult:
    """Log a failure and make a result of it; a cancel, alone or beside a failure, goes on."""
    found = leaves(error)
    passing = [leaf for leaf in found if issubclass(type(leaf), _PASSING)]
    if is_a(error, ToolError):
        _log.info("tool %s failed: %s", tool.name, conceal(message_of(error), context))
    elif len(passing) < len(found):
        log_error(_log, f"tool {tool.name} raised", error)
    if passing and passing[0] is error:
        raise error
    if passing:
        raise BaseExceptionGroup(f"{tool.name} was stopped", passing) from None
    return ToolResult.error(describe_failure(error), could_run=is_a(error, ToolError))


def describe_failure(error: BaseException) -> str:
    """Say what a tool raised, in words for the model: the first five of a group."""
    found = leaves(error)
    more = f"; and {len(found) - _MAX_LEAVES} more" if len(found) > _MAX_LEAVES else ""
    parts = [
        message_of(leaf) if is_a(leaf, ToolError) else describe_error(leaf)
        for leaf in found[:_MAX_LEAVES]
    ]
    return clip("; ".join(parts), MAX_ERROR_TEXT - len(more)) + more


async def run_batch(
    calls: Sequence[Call],
    gate: Gate,
    limit: int = 5,
    on_result: Callable[[int, ToolResult], None] | None = None,
) -> list[ToolResult]:
    """Run the calls of one reply; the results stand in the calls' order.

    They run side by side, at most `limit` at a time and begun in order, when every one of their
    tools is marked concurrent; otherwise one after the other. A failed call stops no other.

    Args:
        calls: name, input and context of each call.
        gate: what each goes through; usually the registry.
        limit: how many run at a time; at least one does.
        on_result: told the index and the result of each call as soon as it has ended; so on a
            cancel, the caller knows of every call that had ended.

    Example:
        >>> from greenroom.tools import ToolRegistry, tool
        >>> @tool(concurrent=True)
        ... async def double(number: int) -> int:
        ...     return 2 * number
        >>> context = AgentContext(session_id="s-1", agent_type="demo")
        >>> calls = [("double", {"number": n}, context) for n in (1, 2)]
        >>> [result.text for result in trio.run(run_batch, calls, ToolRegistry([double]))]
        ['2', '4']
    """
    results: dict[int, ToolResult] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for index, (name, arguments, context) in waiting:
            results[index] = await gate.execute(name, arguments, context)
            if on_result:
                on_result(index, results[index])

    tools = [gate.get(name) for name, _, _ in calls]
    if all(tool is not None and tool.concurrent for tool in tools):
        async with trio.open_nursery() as nursery:
            for _ in range(max(1, min(limit, len(calls)))):
                nursery.start_soon(work)
    else:
        await work()
    return [results[index] for index in range(len(calls))]
