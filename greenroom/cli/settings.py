"""Reads the user's settings file: the default model, how it is asked, what models cost; strict."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias

from greenroom import core
from greenroom.core import ConfigurationFileError, Price, error_at, serde
from greenroom.llm import (
    AfterOutput,
    LLMProvider,
    ModelChoice,
    ModelSettings,
    choose_model,
    full_name,
    open_model,
    resilient,
    without_date,
)
from greenroom.permissions import user_rules_path
from greenroom.resilience import RateLimit, Retry

KeyBindingsName: TypeAlias = Literal["emacs", "vi"]
"""Whose keys edit the input line."""

_MAX_SIZE = 1 << 20
_SHAPE = (
    '{"model": "anthropic:claude-sonnet-5-5", "prices": {"anthropic:claude-sonnet-5-5": '
    '{"input": …, "output": …, "date": "2026-11-01", "source": "https://…"}}}'
)


@dataclass(frozen=True)
class ListedPrice:
    """A price as the user has looked it up.

    Attributes:
        price: of a million tokens of each kind.
        currency: its three letters, such as "USD".
        date: the day on which it was looked up.
        source: where.
    """

    price: Price
    currency: str
    date: date
    source: str


@dataclass(frozen=True)
class Settings:
    """What the user's settings file says.

    Attributes:
        model: the default model, as `provider:model`; or None.
        window: the tokens that the model of a run takes, whichever it is; or None.
        prices: what models cost, by `provider:model`.
        model_settings: how the model is asked.
        retry: how long to hold out while a model fails; None for not at all.
        rate_limit: what all calls of models wait for, or None.
        key_bindings: whose keys edit the input line, "emacs" or "vi".
        editor: the command of the editor for a draft, if the environment names none; or None.
    """

    model: str | None = None
    window: int | None = None
    prices: Mapping[str, ListedPrice] = field(default_factory=dict)
    model_settings: ModelSettings | None = None
    retry: Retry | None = field(default_factory=Retry)
    rate_limit: RateLimit | None = None
    key_bindings: KeyBindingsName = "emacs"
    editor: str | None = None

    @property
    def currency(self) -> str:
        """The currency of all prices; empty without prices."""
        return next((each.currency for each in self.prices.values()), "")

    def price_of(self, name: str) -> ListedPrice | None:
        """Return the price of `provider:model`; a snapshot without one has that of its model."""
        return self.prices.get(name) or self.prices.get(without_date(name))

    def choose(self, env: Mapping[str, str]) -> ModelChoice:
        """Choose the default model, and give the reason.

        Raises:
            ConfigurationError: `GREENROOM_MODEL` names no model.
        """
        return choose_model(env, self.model)

    def open(self, name: str | None, env: Mapping[str, str]) -> LLMProvider:
        """Open the model of this name, or the chosen default; it does not retry.

        Raises:
            ConfigurationError: no such provider, or its key is missing.
        """
        name = self.choose(env).name if name is None else full_name(name, env)
        listed = self.price_of(name)
        price = listed.price if listed else None
        return open_model(
            name,
            env,
            price=price,
            window=self.window,
            settings=self.model_settings,
            retry=None,
        )

    def make_resilient(self, llm: LLMProvider, after_output: AfterOutput) -> LLMProvider:
        """Add the retries and the rate limit to a model; the offline model needs neither."""
        if llm.name == "offline":
            return llm
        once = Retry(attempts=1)
        return resilient(
            llm, retry=self.retry or once, limit=self.rate_limit, after_output=after_output
        )


@contextmanager
def collect_advice() -> Iterator[list[str]]:
    """Collect the warnings of models that are opened in the block, for a person to read."""
    advice: list[str] = []
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield advice
    advice += (str(each.message) for each in caught)


def user_settings_path() -> Path:
    """Return the user's settings file, which is beside their rule file and need not exist."""
    return user_rules_path().with_name("settings.json")


def read_settings(path: Path | None = None) -> Settings:
    """Read a settings file, the user's own by default; a missing file is empty.

    Raises:
        ConfigurationFileError: it can't be read, is not a regular file, is larger than 1 MiB, is
            not JSON, or has a key twice, an unknown field, an unknown model, or a value that can't
            be used. It names line, column and field, and nothing of the file is used.
    """
    path = user_settings_path() if path is None else path
    try:
        if not path.exists():
            return Settings()
        if not path.is_file():
            raise ConfigurationFileError("is not a regular file", path=str(path))
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationFileError(f"can't be read: {error}", path=str(path)) from error
    if len(data) > _MAX_SIZE:
        raise ConfigurationFileError(f"larger than {_MAX_SIZE >> 20} MiB", path=str(path))
    return _parse(text, str(path))


def _parse(text: str, path: str) -> Settings:
    # Here and not above: pydantic is only loaded by those who have settings.
    from pydantic import ValidationError

    from greenroom.cli.settings_schema import SettingsModel

    kind = ConfigurationFileError
    try:
        model = SettingsModel.model_validate(serde.loads_object(text))
    except core.InvalidJSONError as error:
        raise core.error_of_json(kind, text, error, path, f"write {_SHAPE}") from error
    except ValidationError as error:
        first = error.errors()[0]
        message = "no such setting" if first["type"] == "extra_forbidden" else first["msg"]
        raise error_at(kind, text, path, first["loc"], message, f"write {_SHAPE}") from error
    chosen = _check_name(model.model, text, path, ("model",)) if model.model else None
    prices: dict[str, ListedPrice] = {}
    for name, each in model.prices.items():
        steps = ("prices", name)
        if each.currency != next(iter(model.prices.values())).currency:
            what = "another currency than the first price: costs could not be added up"
            raise error_at(kind, text, path, (*steps, "currency"), what, "use one currency")
        listed = Price(each.input, each.output, each.cache_read, each.cache_write)
        full = _check_name(name, text, path, steps)
        if full in prices:
            what = f"two prices of {full}"
            raise error_at(kind, text, path, steps, what, "leave one of them out")
        prices[full] = ListedPrice(listed, each.currency, each.date, each.source)
    given = model.model_settings.model_dump(exclude_unset=True)
    if isinstance(named := given.get("tool_choice"), dict):
        given["tool_choice"] = core.NamedTool(**named)
    try:
        settings = ModelSettings(**given) if given else None
    except core.ConfigurationError as error:
        place = ("model_settings",)
        raise error_at(kind, text, path, place, error.message, error.hint) from error
    retry = Retry(seconds=model.retry) if model.retry else None
    limit = model.rate_limit
    rate_limit = RateLimit(requests=limit.requests, tokens=limit.tokens) if limit else None
    return Settings(
        chosen,
        model.window,
        prices,
        settings,
        retry,
        rate_limit,
        model.key_bindings,
        model.editor,
    )


def _check_name(name: str, text: str, path: str, steps: tuple[str, ...]) -> str:
    try:
        return full_name(name)
    except core.ConfigurationError as error:
        kind = ConfigurationFileError
        raise error_at(kind, text, path, steps, error.message, error.hint) from error
