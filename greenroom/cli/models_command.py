"""`greenroom models`: what it prints, as tables or as JSON."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio
from msgspec.structs import asdict

from greenroom import llm
from greenroom.cli.command_options import ModelsOptions
from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.settings import ListedPrice, Settings, user_settings_path
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core._internal import serde
from greenroom.llm._internal import MODELS, VENDORS, ModelProfile, Vendor, full_name, similar_models

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class _Selection:
    """The selected providers and models; `one` for a single model."""

    vendors: Sequence[Vendor]
    models: Sequence[ModelProfile]
    one: bool = False


async def list_models(options: ModelsOptions, env: Mapping[str, str] | None = None) -> int:
    """Print the providers, the default and the models, or the one model that was asked for.

    Raises:
        ConfigurationError: no such provider, or settings that can't be used.
    """
    env = os.environ if env is None else env
    settings = await trio.to_thread.run_sync(read_run_settings, working_folder(), env)
    env = settings.add_keys(env)
    selection = _choose(options.name, settings, env)
    page = OutputWriter()
    if options.json:
        await page.line(serde.dumps(_as_json(selection, settings, env)))
    elif selection.one:
        await page.text(_describe(selection.models[0], settings))
    else:
        await _print_tables(page, selection, settings, env)
    return 0


def _choose(name: str | None, settings: Settings, env: Mapping[str, str]) -> _Selection:
    known = {
        each.name: each for each in (*MODELS.values(), *map(llm.model_profile, settings.prices))
    }
    if name is None:
        return _Selection(list(VENDORS.values()), list(known.values()))
    if vendor := VENDORS.get(name.strip().removesuffix(":")):
        models = [each for each in known.values() if each.name.startswith(f"{vendor.name}:")]
        return _Selection([vendor], models)
    full = full_name(name, env)
    profile = llm.model_profile(full)
    if profile.looked_up is None and (near := similar_models(full)):
        tell(f"{full} is not in the catalogue, though it may exist; did you mean {near[0]}?")
    vendor = VENDORS.get(full.partition(":")[0])
    return _Selection([vendor] if vendor else [], [profile], one=True)


async def _print_tables(
    page: OutputWriter, selection: _Selection, settings: Settings, env: Mapping[str, str]
) -> None:
    choice = settings.choose(env)
    await page.text(f"default: {choice.name}, {choice.reason}\n")
    rows = [(each.name, _describe_key(each, env), _default(each)) for each in selection.vendors]
    await page.table(("provider", "key", "model"), rows)
    await page.text("")
    models = [_row(model, settings) for model in selection.models]
    await page.table(("model", "window", "output", "abilities", "price"), models)
    await page.text(f"\n{_FOOT}\nSettings: {shorten_home(str(user_settings_path()))}")


_FOOT = """\
Window and output in tokens; the window is for request and reply together. An ability with a
question mark is unknown. Prices, from your settings, are for a million tokens: input, output, read
from the cache, written to it. greenroom models NAME says where and when all that was looked up."""


def _describe_key(vendor: Vendor, env: Mapping[str, str]) -> str:
    """Say whether a provider has its key, and in which variable; never the key."""
    if variable := vendor.key_in(env):
        return f"{variable} is set"
    return f"set {vendor.keys[0]}" if vendor.needs_key(env) else "needs none"


def _default(vendor: Vendor) -> str:
    return f"{vendor.name}:{vendor.default or 'MODEL'}"


def _row(model: ModelProfile, settings: Settings) -> tuple[str, ...]:
    return (
        model.name,
        _tokens(model.context_window),
        _tokens(model.max_output_tokens),
        _abilities(model),
        _price(settings.price_of(model.name)),
    )


def _tokens(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count:,}"


def _abilities(model: ModelProfile) -> str:
    marks = {True: "", None: "?"}
    abilities = model.abilities.items()
    if all(has is None for _, has in abilities):
        return _UNKNOWN
    return ", ".join(f"{_words(name)}{marks[has]}" for name, has in abilities if has is not False)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _price(listed: ListedPrice | None) -> str:
    if listed is None:
        return _UNKNOWN
    price = listed.price
    parts = [price.input, price.output, price.cache_read, price.cache_write]
    while parts[-1] is None:
        parts.pop()
    amounts = " / ".join("-" if part is None else f"{part:g}" for part in parts)
    return f"{amounts} {listed.currency}, {listed.date}"


def _describe(model: ModelProfile, settings: Settings) -> str:
    """Describe one model, a line for each thing that is known or unknown."""
    answers = {True: "yes", False: "no", None: _UNKNOWN}
    listed = settings.price_of(model.name)
    lines = [
        model.name,
        f"  context window: {_tokens(model.context_window)}",
        f"  longest reply: {_tokens(model.max_output_tokens)}",
        *(f"  {_words(name)}: {answers[has]}" for name, has in model.abilities.items()),
        *(f"  looked up {model.looked_up}: {source}" for source in model.sources),
        f"  price: {_price(listed)}" + (f", {one_line(listed.source)}" if listed else ""),
    ]
    return "\n".join(lines)


def _as_json(
    selection: _Selection, settings: Settings, env: Mapping[str, str]
) -> dict[str, object]:
    choice = settings.choose(env)
    return {
        "default": {"name": choice.name, "reason": choice.reason},
        "settings": str(user_settings_path()),
        "providers": [
            {
                "name": vendor.name,
                "key": vendor.key_in(env) or None,
                "keys": vendor.keys,
                "needs_key": vendor.needs_key(env),
                "default_model": vendor.default or None,
            }
            for vendor in selection.vendors
        ],
        "models": [_model_as_json(model, settings) for model in selection.models],
    }


def _model_as_json(model: ModelProfile, settings: Settings) -> dict[str, object]:
    listed = settings.price_of(model.name)
    return {
        "name": model.name,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "abilities": model.abilities,
        "sources": model.sources,
        "looked_up": model.looked_up,
        "price": None
        if listed is None
        else {
            **asdict(listed.price),
            "currency": listed.currency,
            "date": listed.date,
            "source": listed.source,
        },
    }
