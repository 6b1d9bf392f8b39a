"""The run of one tool: what is asked and told immediately before it, and after it.

`Gates` asks the gates of a runtime, and makes up for those that fail. `ToolRuns` is where each tool
of an agent runs, whoever asked for it: the registry calls it with every valid call.
"""

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator

import trio
from msgspec import structs
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    Ask,
    ConfigurationError,
    Deny,
    Gate,
    TextBlock,
    ToolResult,
    ToolRun,
    ToolStatus,
    ToolUseBlock,
)
from greenroom.core._internal import (
    GATE_METHODS,
    Instruments,
    PermissionRecord,
    clip,
    conceal_secrets,
    describe_error,
    freeze,
    log_error,
    quantity,
)

_SECONDS = 5.0  # that a gate has for an answer
_REASON = 1_000  # characters

logger = logging.getLogger("greenroom.gates")


class Gates:
    """The gates of a runtime, asked one after the other in their order."""

    def __init__(self, gates: Iterable[object] = ()) -> None:
        """Take these.

        Raises:
            ConfigurationError: one of them can't be a gate.
        """
        self._gates: tuple[object, ...] = ()
        for gate in gates:
            _check_gate(gate)
            self._gates = (*self._gates, gate)

    def __iter__(self) -> Iterator[object]:
        return iter(self._gates)

    def __len__(self) -> int:
        return len(self._gates)

    def put_before(self, outer: "Gates") -> None:
        """Ask the gates of an outer runtime first, in which this one was opened."""
        own = [each for each in self._gates if not any(each is other for other in outer)]
        self._gates = (*outer, *own)

    async def judge(self, agent: AgentContext, call: ToolUseBlock) -> Deny | Ask | None:
        """Return the strictest answer about a call; a gate that fails asks a person."""
        reasons = []
        for gate in self._having("judge"):
            answer, failure = await _put(gate, "judge", agent, call)
            match answer:
                case Deny(reason):
                    return Deny(_clean(reason))
                case Ask(reason):
                    reasons.append(_clean(reason))
                case None if not failure:
                    pass
                case _:
                    reasons.append(failure or _describe_answer(gate, answer))
        return Ask("; ".join(reasons)) if reasons else None

    async def refuse(self, agent: AgentContext, call: ToolRun) -> str:
        """Return why a call must not run; empty if it may. A gate that fails refuses."""
        call = replace(call, input=freeze(call.input))
        for gate in self._having("before_run"):
            answer, failure = await _put(gate, "before_run", agent, call)
            if isinstance(answer, str):
                return _clean(answer) or f"{_name(gate)} has refused it"
            if failure or answer is not None:
                return failure or _describe_answer(gate, answer)
        return ""

    async def add_to(self, result: ToolResult, agent: AgentContext, call: ToolRun) -> ToolResult:
        """Add what gates say about a result; one that fails is logged, and adds nothing."""
        call = replace(call, input=freeze(call.input))
        for gate in self._having("after_run"):
            answer, _ = await _put(gate, "after_run", agent, call, result)
            if isinstance(answer, str) and answer:
                result = structs.replace(result, content=(*result.content, TextBlock(answer)))
        return result

    def _having(self, method: str) -> Iterable[object]:
        return [gate for gate in self._gates if _has(gate, method)]


async def _put(
    gate: object, method: str, agent: AgentContext, *about: ToolUseBlock | ToolRun | ToolResult
) -> tuple[object, str]:
    """Return the answer of a gate, and why it has none."""
    seconds = getattr(gate, "timeout", _SECONDS)
    answer: object = None
    try:
        with trio.move_on_after(seconds) as scope:
            answer = await getattr(gate, method)(agent.snapshot(), *about)
    except Exception as error:  # noqa: BLE001 (whatever fails must not let the call through)
        log_error(logger, f"{'/'.join(agent.lineage)}: the gate {_name(gate)} raised", error)
        return None, f"the gate {_name(gate)} failed: {_clean(describe_error(error))}"
    if scope.cancel_called:  # also where it has swallowed the cancel
        return None, f"the gate {_name(gate)} did not answer within {quantity(seconds, 'second')}"
    return answer, ""


def _describe_answer(gate: object, answer: object) -> str:
    return f"the gate {_name(gate)} returned {type(answer).__name__}, which is not an answer"


def _clean(reason: object) -> str:
    return clip(conceal_secrets(str(reason)), _REASON).rstrip(".")


def _name(gate: object) -> str:
    return type(gate).__name__


def _has(gate: object, method: str) -> bool:
    """Whether it has a method of its own, and not the one that leaves everything to the rules."""
    inherited = getattr(type(gate), method, None) is getattr(Gate, method)
    return hasattr(gate, method) and not inherited


def _check_gate(gate: object) -> None:
    if isinstance(gate, type):
        raise ConfigurationError(
            f"{gate.__name__} is a class, not a gate", hint=f"pass {gate.__name__}()"
        )
    methods = [method for method in GATE_METHODS if _has(gate, method)]
    if not methods:
        raise ConfigurationError(
            f"{_name(gate)} is not a gate", hint=f"give it {' or '.join(GATE_METHODS)}"
        )
    for method in methods:
        if not inspect.iscoroutinefunction(getattr(gate, method)):
            raise ConfigurationError(
                f"{_name(gate)}.{method} is not async", hint=f"write async def {method}(…)"
            )
    seconds = getattr(gate, "timeout", _SECONDS)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or math.isnan(seconds) or seconds <= 0:
        raise ConfigurationError(
            f"the timeout of {_name(gate)} is {seconds!r}", hint="give seconds, above 0"
        )


class ToolRuns:
    """The runs of one agent's tools."""

    def __init__(
        self,
        gates: Gates,
        instruments: Instruments,
        record: Callable[[PermissionRecord], None],
    ) -> None:
        """Ask these gates, tell these instruments, and record refusals with `record`."""
        self._gates = gates
        self._instruments = instruments
        self._record = record

    async def run(
        self, call: ToolRun, run: Callable[[], Awaitable[ToolResult]], context: AgentContext
    ) -> ToolResult:
        """Run a valid call unless a gate refuses it, and tell the instruments.

        They get the call's own context: its folder may differ from where the agent is by now.
        """
        if self._gates and (refusal := await self._refuse(call, context)) is not None:
            return refusal
        result = await self._watch(call, run, context)
        return await self._gates.add_to(result, context, call) if self._gates else result

    async def _watch(
        self, call: ToolRun, run: Callable[[], Awaitable[ToolResult]], context: AgentContext
    ) -> ToolResult:
        hooks = self._instruments.methods
        if call.by_client or not (hooks["before_tool_run"] or hooks["after_tool_run"]):
            return await run()
        result = None
        block = ToolUseBlock(call.id, call.name, call.input)
        self._instruments.notify("before_tool_run", context, block)
        try:
            result = await run()
        finally:
            self._instruments.notify("after_tool_run", context, block, result)
        return result

    async def _refuse(self, call: ToolRun, agent: AgentContext) -> ToolResult | None:
        """Return the denial of a call that a gate refuses, else None."""
        reason = ""
        if call.approval is None:  # a loop of the program's own, that has not asked them
            block = ToolUseBlock(call.id, call.name, call.input)
            found = await self._gates.judge(agent, block)
            reason = "" if found is None else found.reason
        reason = reason or await self._gates.refuse(agent, call)
        await trio.lowlevel.checkpoint_if_cancelled()
        if not reason:
            return None
        self._record(PermissionRecord.by_gate(call.id, call.name, reason, call.rule, call.digest))
        text = f"{call.name} was not run: {reason}."
        return ToolResult.error(text, ToolStatus.DENIED, could_run=False)
