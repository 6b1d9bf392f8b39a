"""The configuration of an `Agent`, as the parts of a run see it.

`AgentConfiguration` has the fields of an `Agent` without the methods that run it. `Toolbox` holds
its tools, and knows which of them the program consented to by passing them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, TypeGuard, TypeVar, cast

import msgspec

from greenroom.agents.callers import limit_to_caller
from greenroom.agents.guards import Guard
from greenroom.agents.resilient_tool import unwrap_tool
from greenroom.agents.run_context import RunContext, check_deps
from greenroom.core import AgentContext, ConfigurationError
from greenroom.llm import LLMProvider, ModelSettings
from greenroom.llm._internal import OutputType
from greenroom.memory import Memory
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.tools import Tool, ToolProvider, ToolRegistry, as_tool
from greenroom.tools._internal import FunctionTool

DepsT = TypeVar("DepsT")
OutputT_co = TypeVar("OutputT_co", covariant=True)

Tools: TypeAlias = Iterable[object] | ToolProvider
"""Functions, tools, providers of tools, and anything else that `as_tool` accepts: one provider, a
`ToolRegistry`, or a list."""

_log = logging.getLogger("greenroom.agents")

_NEAR = 0.8
"""How much alike two names are of which one is probably meant for the other."""

_BUILTIN = "greenroom.tools.builtin."
_READING = ("Read", "Grep", "Glob")
"""The built-in tools that read the workspace and change nothing."""


class Toolbox(msgspec.Struct, frozen=True):
    """Tools, with the permissions that hold for them by default.

    Attributes:
        registry: the tools, by name.
        names: those of the tools, except those of providers, which may not be open yet.
        consents: the names of the functions among them. By passing a function a program consents
            to its calls, unless the function requires permission in so many words; by passing
            someone else's tool it does not.
        policy: allows these functions, and reading; every other call needs a person's answer.
            Beside a manager that the program gives, only the consent counts, where no rule is about
            a call.
    """

    registry: ToolRegistry
    names: frozenset[str]
    consents: frozenset[str]
    policy: PermissionManager

    @classmethod
    def of(cls, tools: Tools) -> "Toolbox":
        """Make a toolbox of functions, tools and providers of tools.

        Raises:
            ToolError: one of them can't be a tool, or two have one name.
        """
        given = list_tools(tools)
        own = [as_tool(each) for each in given if not is_provider(each)]
        registry = ToolRegistry(own)
        for each in filter(is_provider, given):
            registry.add(each)
        consents = frozenset(
            each.name
            for each in own
            if isinstance(inner := unwrap_tool(each), FunctionTool)
            and not inner.asks_despite_consent
        )
        foreign = {each.name for each in own if not _is_builtin(each)}
        reading = [name for name in _READING if name not in foreign]
        rules = [
            PermissionRule.allow_tool(*names, id=id_, description=why)
            for names, id_, why in (
                (sorted(consents), "own functions", "the program has passed them"),
                (reading, "reading", "they change nothing"),
            )
            if names
        ]
        names = frozenset(each.name for each in own)
        return cls(registry, names, consents, PermissionManager(rules, read_only=False))

    def permissions(
        self, own: PermissionManager | None, context: AgentContext
    ) -> PermissionManager:
        """Return the permissions for an agent's calls: its own, below those of its caller."""
        if own is None or own is self.policy:
            return limit_to_caller(self.policy, context, self.consents)
        return limit_to_caller(own.with_consents(self.consents), context, self.consents)


def is_provider(thing: object) -> TypeGuard[ToolProvider]:
    """Whether something provides tools and is not a tool itself."""
    is_one = isinstance(thing, ToolProvider) and not isinstance(thing, type)
    # An agent has tools as well, and provides none.
    return is_one and callable(getattr(thing, "tools", None)) and not isinstance(thing, Tool)


def list_tools(tools: Tools) -> tuple[object, ...]:
    """Return what a program has passed as tools, one by one; a provider is one of them.

    Raises:
        ConfigurationError: it is neither a provider nor a list.
    """
    return (tools,) if is_provider(tools) else tuple(list_items(tools, "tools", "[look_up]"))


def list_items(given: object, what: str, example: str) -> Iterable[object]:
    """Return the items of an argument; refuse a single one, which was probably meant as a list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{what} is {given!r}", hint=f"write {what}={example}")
    return given


def read_capabilities(given: Iterable[str]) -> tuple[str, ...]:
    """Return the words for what an agent or a team is good at.

    Raises:
        ConfigurationError: it is not a list of words.
    """
    example = f"[{given!r}]" if isinstance(given, str) else "['refunds', 'German']"
    words = tuple(list_items(given, "capabilities", example))
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise ConfigurationError(f"a capability is a word or two, not {word!r}")
    return cast("tuple[str, ...]", words)


def _is_builtin(tool: Tool) -> bool:
    return type(unwrap_tool(tool)).__module__.startswith(_BUILTIN)


def tool_name(thing: object) -> str:
    """Return the name of a function or tool, for an error."""
    name: object = getattr(thing, "name", None) or getattr(thing, "__name__", None)
    return name if isinstance(name, str) else type(thing).__name__


def check_tools(tools: Iterable[object], deps_type: object) -> None:
    """Refuse functions that want other `deps` than a run passes.

    Raises:
        TypeError: one does; the message says what it wants.
    """
    for tool in map(unwrap_tool, tools):
        if callable(tool):
            check_deps(f"the tool {tool_name(tool)}", tool, deps_type)


def warn_of_near_names(rules: Iterable[PermissionRule], names: frozenset[str]) -> None:
    """Warn of each name in rules that is nearly that of a tool: such a rule decides about nothing.

    Other names that no tool has may be those of tools that come later, or of other agents.
    """
    from difflib import get_close_matches

    for rule in rules:
        for name in filter(str.isidentifier, set(rule.matcher.tool) - names):
            if near := get_close_matches(name, names, 1, _NEAR):
                _log.warning(
                    "the rule %.200s is about no tool: there is no %.100r; did you mean %.100r?",
                    rule, name, near[0],
                )  # fmt: skip


class AgentConfiguration(Protocol[DepsT, OutputT_co]):
    """The fields of an `Agent`, which documents them."""

    @property
    def name(self) -> str:
        """Its name, for people, logs and models."""

    @property
    def description(self) -> str:
        """What it is good for."""

    @property
    def llm(self) -> LLMProvider | str:
        """The model, or its name."""

    @property
    def window(self) -> int | None:
        """The model's context window, if the program gives it."""

    @property
    def instructions(self) -> str | Callable[[RunContext[DepsT]], str | Awaitable[str]]:
        """The system prompt, or a function that makes it."""

    @property
    def tools(self) -> Tools | Callable[[RunContext[DepsT]], Tools | Awaitable[Tools]]:
        """The tools, or a function that returns them."""

    @property
    def toolbox(self) -> Toolbox:
        """The tools, ready to be called."""

    @property
    def deps_type(self) -> type[DepsT] | None:
        """The type of the `deps`."""

    @property
    def output(self) -> OutputType[OutputT_co] | None:
        """How to ask a model for a value; None for a text."""

    @property
    def output_retries(self) -> int:
        """How often the model is asked again after an invalid answer."""

    @property
    def permissions(self) -> PermissionManager | None:
        """The rules for its calls."""

    @property
    def settings(self) -> ModelSettings:
        """How its model is asked."""

    @property
    def memory(self) -> Memory | None:
        """What it keeps across conversations."""

    @property
    def recall_threshold(self) -> float:
        """The lowest score of a memory that is put before a turn."""

    @property
    def budget(self) -> Budget | None:
        """The limits of each turn."""

    @property
    def max_steps(self) -> int:
        """The most model calls in a turn."""

    @property
    def guards(self) -> Sequence[Guard[DepsT]]:
        """The checks of inputs, texts and outputs."""

    @property
    def handoffs(self) -> "Sequence[AgentConfiguration[DepsT, object] | str]":
        """The agents to which it may pass the conversation, or their names."""
