"""Instruments: hooks that watch agents, and how the failures of hooks are contained."""

import inspect
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec

from greenroom.core import serde
from greenroom.core.context import AgentContext
from greenroom.core.errors import ConfigurationError
from greenroom.core.gate import GATE_METHODS
from greenroom.core.input import SubAgentResult, UserInput
from greenroom.core.message import Message, ToolUseBlock
from greenroom.core.output import Done, Exited, OutputChunk, PermissionRequest
from greenroom.core.permission import Answer
from greenroom.core.tooling import ModelRequest, ToolResult
from greenroom.core.untrusted import describe_error, log_error


class ModelCall(msgspec.Struct, frozen=True, eq=False):
    """One call of a model; both hooks get the same object, so it can be a key.

    Attributes:
        provider: the provider's name, such as "anthropic".
        model: the model's name.
        request: what is asked.
    """

    provider: str
    model: str
    request: ModelRequest


class Instrument:
    """The hooks of an instrument: write a class with those that you need, derived from this or not.

    Pass an instance to `AgentRuntime(instruments=[…])`, or add it to `runtime.instruments`. It sees
    every agent of the runtime: each hook gets the context of the agent that it is about
    (`session_id`, `lineage`, `current_turn` and so on). Each "before" is followed by its "after"
    exactly once, also on an error, an interrupt or a crash.

    Hooks are plain functions. They run on the event loop, between two steps of the agent, so they
    must be quick and can't wait; hand slow work to a task of your own, such as over a memory
    channel. A hook that raises is logged with the agent's path and counted, and changes nothing.
    Hooks decide nothing either; the one thing that they may change is the input of a tool. What
    they get are the values in use, which are frozen, dicts and lists included, and a snapshot of
    the agent's context.
    """

    def before_agent(self, agent: AgentContext) -> None:
        """An agent begins, before it has the lock of its session."""

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """The agent has ended, with everything that it started."""

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """A turn begins with this input."""

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """The turn has ended and is saved; `end.input_id` is its message's id."""

    def before_model_call(self, agent: AgentContext, call: ModelCall) -> None:
        """A request is about to be sent to a model."""

    def after_model_call(
        self,
        agent: AgentContext,
        call: ModelCall,
        reply: Message | None,
        error: BaseException | None,
    ) -> None:
        """The reply is complete, or this error ended it (`trio.Cancelled` on an interrupt)."""

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> dict[str, object] | None:
        """A model asks for a tool; nothing is judged yet.

        Return another input to replace the model's: it is validated, judged, shown to the person
        and run, and the model is told. Return None to leave the input alone, which can't be
        changed in place. The next instrument gets the input that this one returned.
        """

    def after_tool_call(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """The call has its result, which may be a refusal; or this error ended it."""

    def before_tool_run(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """The tool itself runs now, with this input, in the task that calls this.

        A call that is refused, invalid, run by the client, or of an unknown tool never runs. A
        context variable that is set here is that of this call, even in the thread of its function.
        """

    def after_tool_run(
        self, agent: AgentContext, call: ToolUseBlock, result: ToolResult | None
    ) -> None:
        """The tool has ended, in the same task; without a result if it was cancelled."""

    def before_permission(self, agent: AgentContext, request: PermissionRequest) -> None:
        """A person is about to be asked."""

    def after_permission(
        self, agent: AgentContext, request: PermissionRequest, answer: Answer
    ) -> None:
        """The request is decided; a withdrawn one is denied by "withdrawn"."""

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """The agent publishes a chunk of its own; those of its subagents have their own context.

        So it also tells of spawns, restarts and compactions.
        """


Hook: TypeAlias = Literal[
    "before_agent",
    "after_agent",
    "before_turn",
    "after_turn",
    "before_model_call",
    "after_model_call",
    "before_tool_call",
    "after_tool_call",
    "before_tool_run",
    "after_tool_run",
    "before_permission",
    "after_permission",
    "on_chunk",
]
"""The name of a hook; `Instrument` says what each receives."""

_HOOKS: tuple[Hook, ...] = get_args(Hook)


class _Method(Protocol):
    """A hook of one instrument."""

    def __call__(self, agent: AgentContext, /, *details: object) -> object: ...


logger = logging.getLogger("greenroom.instruments")


class InstrumentStatistics(msgspec.Struct, frozen=True):
    """A look at the instruments of a runtime.

    Attributes:
        attached: their classes' names, in the order in which they are called.
        failures: how often hooks have raised, by class and hook, such as "Tracer.before_turn".
    """

    attached: tuple[str, ...]
    failures: dict[str, int]


class Instruments:
    """The instruments of a runtime, and the calls of their hooks.

    Example:
        >>> class Meter:
        ...     def before_turn(self, agent, message):
        ...         print(agent.name, "begins a turn")
        >>> instruments = Instruments([Meter()])
        >>> ann = AgentContext(session_id="s-1", agent_type="coder", name="Ann")
        >>> instruments.notify("before_turn", ann, "hello")
        Ann begins a turn
    """

    def __init__(self, instruments: Iterable[object] = ()) -> None:
        """Attach these.

        Raises:
            ConfigurationError: one of them can't be an instrument.
        """
        self._attached: tuple[object, ...] = ()
        self.methods: dict[Hook, tuple[_Method, ...]] = dict.fromkeys(_HOOKS, ())
        """The methods to call for each hook: tuples, as a hook may attach and remove others."""
        self._failures: Counter[str] = Counter()
        for instrument in instruments:
            self.add(instrument)

    def add(self, instrument: object) -> None:
        """Attach an instrument behind the others; one that is attached already keeps its place.

        It sees what begins from now on, and the end of what has begun.

        Raises:
            ConfigurationError: it has no hook, an async hook, or one of an unknown name; or it is a
                gate, which as an instrument would refuse nothing.
        """
        if not self._is_attached(instrument):
            _refuse_gate(instrument)
            _check(instrument)
            self._attach((*self._attached, instrument))

    def add_gate(self, gate: object) -> None:
        """Attach a gate as an instrument too, if it has hooks.

        Raises:
            ConfigurationError: one of them is async, or of an unknown name.
        """
        if not self._is_attached(gate) and any(_has(gate, hook) for hook in _HOOKS):
            _check(gate)
            self._attach((*self._attached, gate))

    def _is_attached(self, instrument: object) -> bool:
        return any(each is instrument for each in self._attached)

    def remove(self, instrument: object) -> None:
        """Detach an instrument.

        Raises:
            ConfigurationError: it is not attached.
        """
        rest = tuple(each for each in self._attached if each is not instrument)
        if len(rest) == len(self._attached):
            raise ConfigurationError(f"the instrument {_name(instrument)} is not attached")
        self._attach(rest)

    def statistics(self) -> InstrumentStatistics:
        """Return which are attached, and how often their hooks have raised."""
        return InstrumentStatistics(tuple(map(_name, self._attached)), dict(self._failures))

    def notify(self, hook: Hook, agent: AgentContext, *details: object) -> None:
        """Call a hook of every instrument that has it; nothing that they raise gets out.

        Each gets a snapshot of the context that is its own.
        """
        for method in self.methods[hook]:
            try:
                method(agent.snapshot(), *details)
            except Exception as error:  # noqa: BLE001 (a hook never changes what it watches)
                self._log_failure(method, hook, agent, error)

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> ToolUseBlock:
        """Call that hook, and return the call with the input that results."""
        for method in self.methods["before_tool_call"]:
            try:
                call = _replace_input(call, method(agent.snapshot(), call))
            except Exception as error:  # noqa: BLE001 (as above; the input stays as it was)
                self._log_failure(method, "before_tool_call", agent, error)
        return call

    def _attach(self, instruments: tuple[object, ...]) -> None:
        self._attached = instruments
        for hook in _HOOKS:
            having = (each for each in instruments if _has(each, hook))
            self.methods[hook] = tuple(getattr(each, hook) for each in having)

    def _log_failure(
        self, method: _Method, hook: Hook, agent: AgentContext, error: Exception
    ) -> None:
        """Log a failure; only the first one of a hook with its traceback, as there may be many."""
        name = f"{_name(getattr(method, '__self__', method))}.{hook}"
        self._failures[name] += 1
        path = "/".join(agent.lineage) or agent.session_id
        what = f"{path}: the hook {name} raised {describe_error(error)}"
        if self._failures[name] == 1:
            log_error(logger, what, error)
        else:
            logger.error("%s", what)


def _name(instrument: object) -> str:
    return type(instrument).__name__


def _has(instrument: object, hook: Hook) -> bool:
    """Whether it has a hook of its own, and not the one that does nothing."""
    inherited = getattr(type(instrument), hook, None) is getattr(Instrument, hook)
    return hasattr(instrument, hook) and not inherited


def _refuse_gate(instrument: object) -> None:
    found = [getattr(instrument, name, None) for name in GATE_METHODS]
    if not isinstance(instrument, type) and any(map(inspect.iscoroutinefunction, found)):
        raise ConfigurationError(
            f"{_name(instrument)} is a gate, and would refuse nothing as an instrument",
            hint="pass it as AgentRuntime(gates=[…]); its hooks are called as well",
        )


def _check(instrument: object) -> None:
    name = _name(instrument)
    if isinstance(instrument, type):
        raise ConfigurationError(
            f"{instrument.__name__} is a class, not an instrument",
            hint=f"add {instrument.__name__}()",
        )
    unknown = [
        each
        for each in dir(type(instrument))
        if each.startswith(("before_", "after_", "on_"))
        and each not in (*_HOOKS, *GATE_METHODS)
        and callable(getattr(type(instrument), each))
    ]
    if unknown:
        raise ConfigurationError(
            f"{name} has {', '.join(unknown)}, which is not the name of a hook",
            hint=f"the hooks are {', '.join(_HOOKS)}",
        )
    hooks = [hook for hook in _HOOKS if _has(instrument, hook)]
    if not hooks:
        raise ConfigurationError(
            f"{name} has no hook",
            hint=f"what takes spans goes into a Tracer(…); the hooks are {', '.join(_HOOKS)}",
        )
    for hook in hooks:
        if inspect.iscoroutinefunction(getattr(instrument, hook)):
            raise ConfigurationError(
                f"{name}.{hook} is async, and hooks can't wait",
                hint="hand what takes time to a task of your own, over a memory channel",
            )


def _replace_input(call: ToolUseBlock, value: object) -> ToolUseBlock:
    if value is None:
        return call
    if not isinstance(value, dict):
        raise ConfigurationError(f"it returned {type(value).__name__}, which is not an input")
    # By their text, since True == 1 in Python.
    if serde.dumps(value) == serde.dumps(call.input) and not call.invalid:
        return call
    plain = serde.plain(value, "the input")
    return msgspec.structs.replace(call, input=plain, invalid="", raw_input="")
