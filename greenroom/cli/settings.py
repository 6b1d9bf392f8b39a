"""Reads settings files: the options of a run, the default model, what models cost; strict.

`settings_layers` puts a user's and a project's together.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import msgspec

from greenroom import core
from greenroom.agents._internal import user_rules_path
from greenroom.cli.argument_values import PASSFILE, holds_password
from greenroom.cli.web_search import WebSearchSettings
from greenroom.core import Price
from greenroom.core._internal import (
    ConfigurationFileError,
    InvalidJSONError,
    NamedTool,
    Reticent,
    describe_error,
    error_at,
    error_of_json,
    serde,
)
from greenroom.llm import LLMProvider, ModelSettings, open_model, resilient
from greenroom.llm._internal import (
    FILE_SUFFIX,
    VENDORS,
    AfterOutput,
    ModelChoice,
    choose_model,
    full_name,
    without_date,
)
from greenroom.permissions import PermissionRule
from greenroom.resilience import RateLimit, Retry

if TYPE_CHECKING:
    from pydantic import BaseModel

    from greenroom.cli.settings_schema import FixedSettingsModel

KeyBindingsName: TypeAlias = Literal["emacs", "vi"]
"""Whose keys edit the input line."""

_MAX_SIZE = 1 << 20
_SHAPE = (
    '{"model": "anthropic:claude-sonnet-5-5", "prices": {"anthropic:claude-sonnet-5-5": '
    '{"input": …, "output": …, "date": "2026-11-01", "source": "https://…"}}}'
)


class ListedPrice(msgspec.Struct, frozen=True):
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


class KeyPlace(msgspec.Struct, frozen=True):
    """Where the key of a provider is: in a file, or in the keyring under this name."""

    file: str = ""
    keyring: str = ""


class HookSettings(msgspec.Struct, frozen=True):
    """A hook as a settings file has it: a shell command, and when it runs."""

    event: str
    command: str
    matcher: str = ""
    timeout: float = 5.0


class Settings(Reticent, frozen=True):
    """What settings files say.

    Attributes:
        values: the settings that are given, by name, as the file has them.
        model: the default model, as `provider:model`; or None.
        window: the tokens that the model of a run takes, whichever it is; or None.
        prices: what models cost, by `provider:model`.
        model_settings: how the model is asked.
        retry: how long to hold out while a model fails; None for not at all.
        rate_limit: what all calls of models wait for, or None.
        api_keys: where the keys of providers are, by provider.
        web_search: what searches the web, or None.
        key_bindings: whose keys edit the input line, "emacs" or "vi".
        editor: the command of the editor for a draft, if the environment names none; or None.
        theme: the colours of the terminal.
        notify: how the terminal calls the person.
        hooks: the commands that run at events, in the order of the file.
        keys: the variables that would hold the keys of providers, and their values.
    """

    model: str | None = None
    window: int | None = None
    prices: Mapping[str, ListedPrice] = msgspec.field(default_factory=dict)
    model_settings: ModelSettings | None = None
    retry: Retry | None = msgspec.field(default_factory=Retry)
    rate_limit: RateLimit | None = None
    values: Mapping[str, object] = msgspec.field(default_factory=dict)
    api_keys: Mapping[str, KeyPlace] = msgspec.field(default_factory=dict)
    web_search: WebSearchSettings | None = None
    key_bindings: KeyBindingsName = "emacs"
    editor: str | None = None
    theme: str = "auto"
    notify: tuple[str, ...] = ("bell", "title")
    hooks: tuple[HookSettings, ...] = ()
    keys: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        """Name what is set; the values of keys are secrets."""
        return f"<settings: {', '.join(self.values) or 'none'}>"

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
        return choose_model(self.add_keys(env), self.model)

    def add_keys(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return an environment with the keys that were read, where it has none itself."""
        missing = (each for name, each in self.keys.items() if not VENDORS[name].key_in(env))
        return {**env, **dict(missing)}

    def open(self, name: str | None, env: Mapping[str, str]) -> LLMProvider:
        """Open the model of this name, or the chosen default; it does not retry.

        Raises:
            ConfigurationError: no such provider, or its key is missing.
        """
        env = self.add_keys(env)
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
            llm, retry=self.retry or once, limits=self.rate_limit, after_output=after_output
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
    return parse_settings(text, str(path))


def parse_settings(text: str, path: str) -> Settings:
    """Parse the text of a settings file; errors name `path` as their origin.

    Raises:
        ConfigurationFileError: as `read_settings`.
    """
    model = _validate(text, path)
    retry = Retry(deadline=model.retry) if model.retry else None
    limit = model.rate_limit
    _check_rules(model, text, path)
    _check_matchers(model, text, path)
    _check_keys(model.api_keys, text, path)
    _check_place(model, text, path)
    return Settings(
        _check_name(model.model, text, path, ("model",)) if model.model else None,
        model.window,
        _read_prices(model, text, path),
        _read_model_settings(model, text, path),
        retry,
        RateLimit(requests=limit.requests, tokens=limit.tokens) if limit else None,
        key_bindings=model.key_bindings,
        editor=model.editor,
        theme=model.theme,
        notify=() if model.notify == "none" else tuple(model.notify),
        values=model.model_dump(mode="json", exclude_unset=True, exclude={"schema_"}),
        api_keys={
            name: KeyPlace(each.file or "", each.keyring or "")
            for name, each in model.api_keys.items()
        },
        web_search=_read_search(model, text, path),
        hooks=tuple(
            HookSettings(event, each.command, each.matcher or "", each.timeout)
            for event in type(model.hooks).model_fields
            for each in getattr(model.hooks, event)
        ),
    )


def _validate(text: str, path: str) -> "FixedSettingsModel":
    # Here and not above: pydantic is only loaded by those who have settings.
    from pydantic import ValidationError

    from greenroom.cli.settings_schema import SettingsModel

    kind, hint = ConfigurationFileError, f"write {_SHAPE}"
    try:
        values = serde.loads_object(text)
        for steps in _find_nul(values):
            raise error_at(kind, text, path, steps, "holds a NUL character, which no setting can")
        return cast("FixedSettingsModel", SettingsModel.model_validate(values))
    except InvalidJSONError as error:
        raise error_of_json(kind, text, error, path, hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message, hint = "no such setting", _suggest(first["loc"], SettingsModel, hint)
        raise error_at(kind, text, path, first["loc"], message, hint) from error


def _find_nul(value: object, *steps: int | str) -> Iterator[tuple[int | str, ...]]:
    """Find the texts that neither a path nor a word of a command can be."""
    if isinstance(value, str) and "\0" in value:
        yield steps
    elif isinstance(value, dict | list):
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _find_nul(each, *steps, step)


def _read_prices(model: "FixedSettingsModel", text: str, path: str) -> dict[str, ListedPrice]:
    prices: dict[str, ListedPrice] = {}
    kind = ConfigurationFileError
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
    return prices


def _read_model_settings(model: "FixedSettingsModel", text: str, path: str) -> ModelSettings | None:
    given = model.model_settings.model_dump(exclude_unset=True)
    if isinstance(named := given.get("tool_choice"), dict):
        given["tool_choice"] = NamedTool(**named)
    try:
        return ModelSettings(**given) if given else None
    except core.ConfigurationError as error:
        kind, place = ConfigurationFileError, ("model_settings",)
        raise error_at(kind, text, path, place, error.message, error.hint) from error


def _read_search(model: "FixedSettingsModel", text: str, path: str) -> WebSearchSettings | None:
    given = model.web_search
    if given is None:
        return None
    search = WebSearchSettings(given.backend, given.url or "", given.key_env or "")
    try:
        search.check()
    except core.ConfigurationError as error:
        steps, kind = ("web_search", "url"), ConfigurationFileError
        raise error_at(kind, text, path, steps, error.message, error.hint) from error
    return search


def _suggest(steps: tuple[int | str, ...], model: "type[BaseModel]", hint: str) -> str:
    """Suggest the nearest name of a setting where one of the outermost is unknown."""
    near = get_close_matches(str(steps[0]), model.model_fields, 1) if len(steps) == 1 else []
    return f"did you mean {near[0]}?" if near else hint


def _check_rules(model: "FixedSettingsModel", text: str, path: str) -> None:
    for name in ("allow", "deny"):
        for at, rule in enumerate(getattr(model, name) or ()):
            try:
                PermissionRule.parse(rule, core.RuleDecision(name))
            except core.RuleFileError as error:
                steps, kind = (name, at), ConfigurationFileError
                raise error_at(kind, text, path, steps, error.message, error.hint) from error


def is_tool_names(matcher: str) -> bool:
    """Whether the matcher of a hook is the name of a tool, or names with `|`, and not a rule."""
    return re.fullmatch(r"[\w.-]+(\|[\w.-]+)*", matcher) is not None


def _check_matchers(model: "FixedSettingsModel", text: str, path: str) -> None:
    for event in type(model.hooks).model_fields:
        for at, each in enumerate(getattr(model.hooks, event)):
            if each.matcher is None or is_tool_names(each.matcher):
                continue
            try:
                PermissionRule.parse(each.matcher, core.RuleDecision.DENY)
            except core.RuleFileError as error:
                steps, kind = ("hooks", event, at, "matcher"), ConfigurationFileError
                raise error_at(kind, text, path, steps, error.message, error.hint) from error


def _check_keys(names: Iterable[str], text: str, path: str) -> None:
    for name in names:
        if name not in VENDORS:
            near = get_close_matches(name, VENDORS, 1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(VENDORS))}"
            kind, steps = ConfigurationFileError, ("api_keys", name)
            raise error_at(kind, text, path, steps, "no such provider", hint)


def _check_place(model: "FixedSettingsModel", text: str, path: str) -> None:
    """Refuse a place of sessions with a password, which many things show."""
    if holds_password(getattr(model, "sessions", None) or ""):
        kind = ConfigurationFileError
        raise error_at(kind, text, path, ("sessions",), "holds a password", PASSFILE)


def read_keys(settings: Settings) -> Settings:
    """Read the keys that settings keep in the keyring, and note where the others are; it blocks.

    Raises:
        ConfigurationError: the keyring has no such entry, or can't be used.
    """
    keys = dict[str, tuple[str, str]]()
    for provider, place in settings.api_keys.items():
        variable = VENDORS[provider].keys[0]
        if place.file:
            keys[provider] = variable + FILE_SUFFIX, place.file
        else:
            keys[provider] = variable, _read_keyring(place.keyring, provider)
    return msgspec.structs.replace(settings, keys=keys)


def _read_keyring(name: str, provider: str) -> str:
    place = f"the key of {provider} in the keyring, greenroom {name},"
    try:
        keyring = import_module("keyring")
    except ImportError as error:
        raise core.ConfigurationError(
            f"{place} can't be read: keyring is not installed",
            hint="pip install 'greenroom[keyring]'",
        ) from error
    try:
        key = keyring.get_password("greenroom", name)
    except keyring.errors.KeyringError as error:
        raise core.ConfigurationError(
            f"{place} can't be read: {describe_error(error)}", hint="unlock the keyring"
        ) from error
    if not key:
        raise core.ConfigurationError(
            f"{place} does not exist", hint=f"store it: keyring set greenroom {name}"
        )
    return str(key)


def _check_name(name: str, text: str, path: str, steps: tuple[str, ...]) -> str:
    try:
        return full_name(name)
    except core.ConfigurationError as error:
        kind = ConfigurationFileError
        raise error_at(kind, text, path, steps, error.message, error.hint) from error
