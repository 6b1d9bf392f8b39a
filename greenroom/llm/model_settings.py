"""Settings for the calls of a model: sampling, thinking, length, and how it may call tools."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, get_args

import msgspec

from greenroom.core import ConfigurationError, ModelRequest
from greenroom.core._internal import Effort, NamedTool, Thinking, ToolChoice, freeze_fields
from greenroom.llm.provider import LLMProvider, ProviderWrapper
from greenroom.llm.stream import ModelStream

if TYPE_CHECKING:
    from types import UnionType

T = TypeVar("T")


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked; what is None, or empty, is left to the model.

    A provider sends each setting in its own terms. A setting that its API or the model does not
    have is a `ModelBadRequestError` before anything is sent; an effort is sent as the nearest one.

    Attributes:
        temperature: the sampling temperature.
        top_p: the nucleus to sample from.
        max_tokens: the limit of a reply.
        stop: texts at which a reply stops.
        seed: makes the sampling repeatable, as far as the provider can.
        effort: how hard the model thinks; see `ModelRequest`.
        thinking: how many tokens it may think for; see `ModelRequest`.
        tool_choice: whether it may, must or must not call a tool, or which one, where the request
            offers that. An `Agent` says so until a tool was called in the turn, or the model could
            never answer.
        parallel_tools: whether a reply may call several tools.
        extra: fields of the provider's own request body; they win over all others.

    Raises:
        ConfigurationError: a value makes no sense.

    Example:
        >>> usual, careful = ModelSettings(temperature=0, seed=1), ModelSettings(effort="high")
        >>> both = usual.merge(careful)
        >>> both.seed, both.effort
        (1, 'high')
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    effort: Effort | None = None
    thinking: Thinking | None = None
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    extra: Mapping[str, object] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values."""
        for name, kinds, least in _NUMBERS:
            value = getattr(self, name)
            is_word = name == "thinking" and value in _WAYS_TO_THINK
            if value is not None and not (is_word or _is_number(value, kinds, least)):
                words = "a whole number" if kinds is int else "a number"
                hint = words if least is None else f"{words}, {least} or more"
                if name == "thinking":
                    hint += f", or one of {', '.join(_WAYS_TO_THINK)}"
                raise ConfigurationError(f"{name} is {value!r}", hint=f"give {hint}")
        if self.effort is not None and self.effort not in get_args(Effort):
            efforts = ", ".join(get_args(Effort))
            raise ConfigurationError(f"{self.effort!r} is not an effort", hint=f"one of {efforts}")
        self._check_choice()
        if isinstance(self.stop, str) or not isinstance(self.stop, Sequence):
            raise ConfigurationError(
                f"stop is {self.stop!r}", hint=f"write stop={[str(self.stop)]}"
            )
        if not isinstance(self.extra, Mapping):
            raise ConfigurationError(f"extra is {self.extra!r}", hint='write extra={"top_k": 5}')
        freeze_fields(self, "stop", "extra")

    def _check_choice(self) -> None:
        choice = self.tool_choice
        if choice is not None and not isinstance(choice, NamedTool) and choice not in _CHOICES:
            hint = f"one of {', '.join(_CHOICES)}, or NamedTool(name)"
            raise ConfigurationError(f"tool_choice is {choice!r}", hint=hint)

    def merge(self, over: "ModelSettings | None") -> "ModelSettings":
        """Return these settings with those that are given in `over` in their place.

        Raises:
            ConfigurationError: `over` is something else.
        """
        if not isinstance(over, ModelSettings | None):
            raise ConfigurationError(
                f"settings={over!r} is not a ModelSettings",
                hint="write ModelSettings(temperature=0)",
            )
        given = {name: getattr(over, name) for name in self.__struct_fields__} if over else {}
        changes = {name: value for name, value in given.items() if value not in (None, (), {}, [])}
        if changes.keys() & {"effort", "thinking"}:  # they say the same in two ways
            changes = {"effort": None, "thinking": None} | changes
        if "extra" in changes:
            changes["extra"] = {**self.extra, **changes["extra"]}
        return msgspec.structs.replace(self, **changes)

    def complete(self, request: ModelRequest) -> ModelRequest:
        """Return a request with these settings where it says nothing itself."""
        if self == _NONE:
            return request
        thinks = request.effort is not None or request.thinking is not None
        return replace(
            request,
            temperature=_first(request.temperature, self.temperature),
            top_p=_first(request.top_p, self.top_p),
            max_tokens=_first(request.max_tokens, self.max_tokens),
            stop_sequences=request.stop_sequences or tuple(self.stop),
            seed=_first(request.seed, self.seed),
            effort=request.effort if thinks else self.effort,
            thinking=request.thinking if thinks else self.thinking,
            tool_choice=self._choose(request),
            parallel_tools=_first(request.parallel_tools, self.parallel_tools),
            options={**self.extra, **request.options},
        )

    def _choose(self, request: ModelRequest) -> ToolChoice:
        """Return the tool choice of a request, or that of the settings where it may call any."""
        choice = self.tool_choice
        if request.tool_choice != "auto" or choice is None or not request.tools:
            return request.tool_choice
        is_answering = bool(request.messages) and bool(request.messages[-1].tool_results)
        if isinstance(choice, NamedTool) and all(
            tool.name != choice.name for tool in request.tools
        ):
            return "auto"
        is_forced = choice == "any" or isinstance(choice, NamedTool)
        return "auto" if is_forced and is_answering else choice


_NUMBERS = (
    ("temperature", int | float, 0),
    ("top_p", int | float, 0),
    ("max_tokens", int, 1),
    ("thinking", int, 0),
    ("seed", int, None),
)
"""The settings that are numbers, and the least of each."""

_CHOICES = tuple(each for kind in get_args(ToolChoice) for each in get_args(kind))
_WAYS_TO_THINK = tuple(each for kind in get_args(Thinking) for each in get_args(kind))


def _is_number(value: object, kinds: "type | UnionType", least: int | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, kinds) and (least is None or least <= value < math.inf)


_NONE = ModelSettings()


def _first(one: "T | None", other: "T | None") -> "T | None":
    return other if one is None else one


class ConfiguredModel(ProviderWrapper):
    """A model whose requests have these settings where they say nothing themselves."""

    def __init__(self, llm: LLMProvider, settings: ModelSettings) -> None:
        super().__init__(llm)
        self.settings = settings

    def accepts_forced_tool(self, request: ModelRequest) -> bool:
        """Whether the model, with these settings, lets this request force a call."""
        return super().accepts_forced_tool(self.settings.complete(request))

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request with the settings, and stream the reply."""
        return self.llm.stream(self.settings.complete(request))
