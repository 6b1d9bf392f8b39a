"""Models by name, as `provider:model`, and the choice of the default model."""

import os
import re
import warnings
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import TypeAlias

import msgspec

from greenroom.core import ConfigurationError, Price
from greenroom.core._internal import compile_later

# Of these packages only what opens a model is loaded, once it is opened.
from greenroom.llm import anthropic, gemini, openai, responses
from greenroom.llm.catalog import MODELS, meant_model, model_profile, similar_models
from greenroom.llm.endpoint import (
    GEMINI,
    GEMINI_KEYS,
    LOCAL_PROGRAMS,
    bare_host,
    is_local,
    missing_key,
    server_name,
)
from greenroom.llm.keys import find_key_variable
from greenroom.llm.openai.hosts import HOSTS, HostProfile, host_profile
from greenroom.llm.provider import LLMProvider
from greenroom.llm.provider_aliases import explain_provider

OFFLINE = "offline"
"""The provider of the model that follows rules."""

DEFAULT_MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "google": "gemini-3.8-flash",
    "offline": "rules",
}
"""The default model of each provider, for names such as `openai:`."""

MODEL_VARIABLE = "GREENROOM_MODEL"
"""The environment variable for the model to use by default."""

Opener: TypeAlias = Callable[[str, Mapping[str, str], Price | None, int | None], LLMProvider]
"""Opens a model, given its name, the environment, its price and its window."""


class Vendor(msgspec.Struct, frozen=True):
    """A vendor of models, which are named `name:model`.

    Attributes:
        name: the part before the colon.
        keys: the environment variables for its key; the first one that is set counts.
        open: opens the provider of a model.
        needs_key: whether it needs a key in this environment.
    """

    name: str
    keys: tuple[str, ...]
    open: Opener
    needs_key: Callable[[Mapping[str, str]], bool] = lambda _env: True

    @property
    def default(self) -> str:
        """The model that `name:` means, or an empty text if it has no default."""
        return DEFAULT_MODELS.get(self.name, "")

    def key_in(self, env: Mapping[str, str]) -> str:
        """Return the name of the variable that holds its key or names its file, or ""."""
        return find_key_variable(env, self.keys)


class ModelChoice(msgspec.Struct, frozen=True):
    """The default model, and why it was chosen.

    Attributes:
        name: `provider:model`.
        reason: why, to be shown after the name, such as "since OPENAI_API_KEY is set".
    """

    name: str
    reason: str


def open_provider(
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    *,
    price: Price | None = None,
    window: int | None = None,
) -> LLMProvider:
    """Open the model of this name without retries, as `open_model` describes it.

    Warns:
        UserWarning: the model is not in the catalogue, and its name resembles one that is.

    Raises:
        ConfigurationError: the provider is unknown, its key is missing, the name has no model and
            the provider no default, or the window is not a number of tokens.
    """
    env = os.environ if env is None else env
    provider, model = _split(full_name(name or default_model(env), env), env)
    if advice := _advise(provider, model, env):
        warnings.warn(advice, stacklevel=3)  # of the caller of `open_model`, or of a wrapper
    return _vendor(provider, env).open(model, env, price, window)


def open_inner(llm: LLMProvider | str) -> LLMProvider:
    """Return the model that a wrapper is to wrap; one that is given by name is opened.

    Raises:
        ConfigurationError: it can't be opened.
    """
    return open_provider(llm) if isinstance(llm, str) else llm


def default_model(env: Mapping[str, str] | None = None) -> str:
    """Return the name of the default model; `choose_model` returns the reason as well.

    Raises:
        ConfigurationError: `GREENROOM_MODEL` is not the name of a model.

    Example:
        >>> default_model({})
        'offline:rules'
        >>> default_model({"GREENROOM_MODEL": "xai:grok-4.7"})
        'xai:grok-4.7'
    """
    return choose_model(env).name


def choose_model(env: Mapping[str, str] | None = None, preferred: str | None = None) -> ModelChoice:
    """Choose the default model.

    It is the one in `GREENROOM_MODEL`, else the `preferred` one, else the default of the first
    vendor whose key is set (`ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, `OPENAI_API_KEY`,
    `GOOGLE_API_KEY`, `GEMINI_API_KEY`), else the offline model.

    Args:
        env: where to look, by default in this process's environment.
        preferred: the model in the user's settings.

    Raises:
        ConfigurationError: a name can't be used; the message says where it was found.
    """
    env = os.environ if env is None else env
    if named := env.get(MODEL_VARIABLE, "").strip():
        return ModelChoice(_check_variable(named, env), f"since {MODEL_VARIABLE} says so")
    if preferred:
        return ModelChoice(full_name(preferred, env), "since your settings say so")
    for vendor in VENDORS.values():
        if vendor.default and (variable := vendor.key_in(env)):
            return ModelChoice(f"{vendor.name}:{vendor.default}", f"since {variable} is set")
    return ModelChoice(f"offline:{DEFAULT_MODELS['offline']}", _why_offline(env))


def full_name(name: str, env: Mapping[str, str] | None = None) -> str:
    """Return a model's name as `provider:model`, with the provider's default if it has no model.

    Raises:
        ConfigurationError: the provider is unknown, or the name has no model and the provider no
            default.

    Example:
        >>> full_name("gpt-5.4"), full_name("anthropic:")
        ('openai:gpt-5.4', 'anthropic:claude-sonnet-5-5')
    """
    env = os.environ if env is None else env
    name = name.strip()
    provider, model = _split(name, env)
    if provider:
        model = model or DEFAULT_MODELS.get(provider, "")
        if model:
            return f"{provider}:{model}"
        raise ConfigurationError(
            f"{name!r} names no model, and {provider} has no default",
            hint=f"write {provider}:MODEL",
        )
    for known, pattern in _BARE_NAMES:
        if pattern.match(name):
            return f"{known}:{DEFAULT_MODELS[known] if known == 'offline' else name}"
    raise _unknown_model_error(name)


def _split(name: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the provider and the model of a name; the provider is empty if it is not known."""
    provider, colon, model = name.partition(":")
    if colon and provider in VENDORS:
        return provider, model
    own = _own_server(env) or ""
    names = dict.fromkeys((own, bare_host(own)), own)  # older sessions have no port in the name
    names |= _programs_by_address(env)
    for known, provider in names.items():
        if known and name.startswith(f"{known}:"):
            return provider, name.removeprefix(f"{known}:")
    return "", ""


def _programs_by_address(env: Mapping[str, str]) -> dict[str, str]:
    """Return the programs whose address is set, by what sessions called them before."""
    programs = [HOSTS[name] for name in sorted(LOCAL_PROGRAMS)]
    placed = [each for each in programs if any(env.get(name) for name in each.base_variables)]
    return {server_name(each.base(env)): each.name for each in placed}


def _advise(provider: str, model: str, env: Mapping[str, str]) -> str:
    """Say which listed model a name probably means, or return an empty text."""
    if provider == "openai" and _own_server(env) not in (None, "openai"):
        return ""  # another server has its own models
    near = meant_model(f"{provider}:{model}")
    if near is None:
        return ""
    return f"{provider}:{model} is not in the catalogue, though it may exist; did you mean {near}?"


def _unknown_model_error(name: str) -> ConfigurationError:
    provider, colon, model = name.partition(":")
    before, slash, after = name.partition("/")
    if slash and (before in VENDORS or explain_provider(before)):  # as some libraries write it
        provider, colon, model = before, slash, after
    hint = f"write provider:model, where the provider is one of {', '.join(sorted(VENDORS))}"
    if meant := _find_meant(provider, model if colon else "", name):
        hint = f"did you mean {meant}? If not, {hint}"
    elif explained := explain_provider(provider, model or "MODEL"):
        hint = explained
    elif _ADDRESS.match(name):
        hint = f"to reach a server of your own, set OPENAI_BASE_URL to its address; else {hint}"
    return ConfigurationError(f"{name!r} is not the name of a known model", hint=hint)


def _find_meant(provider: str, model: str, name: str) -> str:
    """Find the model that a name with a slip means, or return an empty text."""
    if provider in VENDORS and model:
        return f"{provider}:{model}"
    if _OLLAMA_TAG.match(model):
        return f"ollama:{name}"
    # A provider without a model must be spelled right: too many words resemble one so short.
    near = get_close_matches(provider.lower(), VENDORS, n=1, cutoff=0.6 if model else 1.0)
    model = model if model or provider.lower() in DEFAULT_MODELS else "MODEL"
    found = [f"{each}:{model}" for each in near]
    listed = [each for each in found if each in MODELS]
    if not listed and explain_provider(provider):
        return ""
    return next(iter([*found, *similar_models(name)]), "")


def _check_variable(name: str, env: Mapping[str, str]) -> str:
    try:
        return full_name(name, env)
    except ConfigurationError as error:
        raise ConfigurationError(f"{MODEL_VARIABLE}: {error.message}", hint=error.hint) from error


def _vendor(provider: str, env: Mapping[str, str]) -> Vendor:
    """Find a vendor; the name of the server at `OPENAI_BASE_URL` opens it with OpenAI's key."""
    vendor = VENDORS.get(provider)
    if vendor is None or (provider == _own_server(env) and not _is_set_up(vendor, env)):
        return VENDORS["openai"]
    return vendor


def _is_set_up(vendor: Vendor, env: Mapping[str, str]) -> bool:
    """Whether the environment has a variable of this vendor."""
    bases = HOSTS[vendor.name].base_variables if vendor.name in HOSTS else ()
    return bool(vendor.key_in(env)) or any(env.get(each, "").strip() for each in bases)


_OLLAMA_TAG = compile_later(r"\d+(\.\d+)?[bm]\b|latest$", re.IGNORECASE)
_ADDRESS = compile_later(r"(localhost|\d+(\.\d+){3}|\[[^]]*\])(:\d+)?:|[\w.-]+:\d+:")


def _own_server(env: Mapping[str, str]) -> str | None:
    """Return the name of the server at `OPENAI_BASE_URL`, if that is set."""
    base = env.get("OPENAI_BASE_URL", "").strip()
    return host_profile(base).name if base else None


def _why_offline(env: Mapping[str, str]) -> str:
    for vendor in VENDORS.values():
        if vendor.key_in(env):
            return f"since your keys name no model: set {MODEL_VARIABLE}={vendor.name}:MODEL"
    return "since no key is set"


def _open_host(
    host: HostProfile, model: str, env: Mapping[str, str], price: Price | None, window: int | None
) -> LLMProvider:
    base, key = host.base(env), host.key(env)
    if "://" not in base:
        variables = " or ".join(host.base_variables)
        raise ConfigurationError(
            f"{host.name} needs the address of your own server", hint=f"set {variables}"
        )
    if not key and not is_local(base):
        raise missing_key(host.name, host.key_variables[0])
    return openai.OpenAIProvider(
        model, host=host, api_key=key, base_url=base, price=price, window=window, env={}
    )


def _open_openai(
    model: str, env: Mapping[str, str], price: Price | None, window: int | None
) -> LLMProvider:
    """Open a model over the API by which it can think and call tools."""
    needs_responses = model_profile(f"openai:{model}").rules.chat_tools != "always"
    if needs_responses and _own_server(env) in (None, "openai"):
        return responses.OpenAIResponsesProvider(model, env=env, price=price, window=window)
    return openai.OpenAIProvider(model, env=env, price=price, window=window)


def _open_offline(
    _model: str, _env: Mapping[str, str], _price: Price | None, window: int | None
) -> LLMProvider:
    from greenroom.llm.offline import OfflineProvider

    return OfflineProvider(window)


def _host(profile: HostProfile) -> Vendor:
    return Vendor(
        profile.name,
        profile.key_variables,
        partial(_open_host, profile),
        lambda env: "://" not in (base := profile.base(env)) or not is_local(base),
    )


_VENDORS = (
    Vendor(
        "anthropic",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        lambda model, env, price, window: anthropic.AnthropicProvider(
            model, env=env, price=price, window=window
        ),
        lambda env: not is_local(env.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")),
    ),
    Vendor(
        "openai",
        ("OPENAI_API_KEY",),
        _open_openai,
        lambda env: not is_local(env.get("OPENAI_BASE_URL", "https://api.openai.com/v1")),
    ),
    Vendor(
        "google",
        GEMINI_KEYS,
        lambda model, env, price, window: gemini.GeminiProvider(
            model, env=env, price=price, window=window
        ),
        lambda env: not is_local(env.get("GOOGLE_GEMINI_BASE_URL", GEMINI)),
    ),
    *(_host(profile) for profile in HOSTS.values() if profile.name != "openai"),
    Vendor(
        "offline",
        (),
        _open_offline,
        lambda _env: False,
    ),
)

VENDORS: Mapping[str, Vendor] = {vendor.name: vendor for vendor in _VENDORS}
"""The vendors whose models can be opened by name, in the order in which keys are tried."""

_BARE_NAMES = (
    ("anthropic", compile_later(r"claude-")),
    ("openai", compile_later(r"(gpt|chatgpt|codex)-|o\d")),
    ("google", compile_later(r"gemini-")),
    ("offline", compile_later(r"offline$")),
)
