"""Models by name: `provider:model`, or the first vendor whose key is there."""

import os
import re
from collections.abc import Callable, Mapping

from greenroom.core import ConfigurationError, Price
from greenroom.llm.anthropic import AnthropicProvider
from greenroom.llm.offline import OfflineProvider
from greenroom.llm.openai import OpenAIProvider
from greenroom.llm.provider import LLMProvider

__all__ = ["DEFAULT_MODELS", "default_model", "open_model"]

DEFAULT_MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.4", "offline": "rules"}
"""The model of each provider where a name leaves it open, such as `openai:`."""

_OPENERS: dict[str, Callable[[str, Mapping[str, str], Price | None], LLMProvider]] = {
    "anthropic": lambda model, env, price: AnthropicProvider(model, env=env, price=price),
    "openai": lambda model, env, price: OpenAIProvider(model, env=env, price=price),
    "offline": lambda _model, _env, _price: OfflineProvider(),
}

_KEYS = (
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("anthropic", "ANTHROPIC_AUTH_TOKEN"),
    ("openai", "OPENAI_API_KEY"),
)
"""The keys that decide where no model is named; the first one that is set does."""

_BARE_NAMES = (
    ("anthropic", re.compile(r"claude-")),
    ("openai", re.compile(r"(gpt|chatgpt|codex)-|o\d")),
    ("offline", re.compile(r"offline$")),
)


def open_model(
    name: str | None = None,
    env: Mapping[str, str] = os.environ,
    *,
    price: Price | None = None,
) -> LLMProvider:
    """Open the model of this name; nothing is sent yet.

    Args:
        name: `provider:model`, such as `anthropic:claude-sonnet-5`, `openai:gpt-5.4` or `offline:`;
            a vendor's own model name alone, such as `gpt-5.4`; or None for `default_model(env)`.
        env: where to look for keys and base URLs.
        price: what the provider charges for this model, for the cost in `Usage` and in budgets;
            none is known of itself, since prices change. The offline model is free.

    Raises:
        ConfigurationError: no such provider, or its key is missing.

    Example:
        >>> open_model("offline:"), open_model("gpt-5.4", {"OPENAI_API_KEY": "sk-1"})
        (OfflineProvider(), OpenAIProvider('gpt-5.4'))
    """
    provider, model = _split(name or default_model(env))
    return _OPENERS[provider](model or DEFAULT_MODELS[provider], env, price)


def default_model(env: Mapping[str, str] = os.environ) -> str:
    """Name the model that is used where none is named.

    The first of these keys decides: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, `OPENAI_API_KEY`.
    Without any of them it is the offline model.

    Example:
        >>> default_model({})
        'offline:rules'
    """
    found = (provider for provider, variable in _KEYS if env.get(variable, "").strip())
    provider = next(found, "offline")
    return f"{provider}:{DEFAULT_MODELS[provider]}"


def _split(name: str) -> tuple[str, str]:
    provider, colon, model = name.strip().partition(":")
    if colon and provider in _OPENERS:
        return provider, model
    for vendor, pattern in _BARE_NAMES:
        if pattern.match(name.strip()):
            return vendor, "" if vendor == "offline" else name.strip()
    raise ConfigurationError(
        f"{name!r} names no model that I know",
        hint=f"write provider:model, where the provider is one of {', '.join(sorted(_OPENERS))}",
    )
