"""The settings file as pydantic models, apart, so that pydantic is loaded only if there is one."""

import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from greenroom.cli.run_settings import RunSetting, list_run_settings
from greenroom.core._internal import Effort
from greenroom.llm._internal import SMALLEST_WINDOW

Text = Annotated[str, Field(min_length=1)]


def _no_other_way_to_write_a_date(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("write the date as a text, such as 2026-11-01")  # noqa: TRY004 # for pydantic
    return value


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
Tokens = Annotated[int, Field(ge=0, strict=True)]
Day = Annotated[datetime.date, BeforeValidator(_no_other_way_to_write_a_date)]


class PriceModel(BaseModel, extra="forbid"):
    """What a vendor charges for a million tokens of a model, when that was so, and who says so."""

    input: Amount = Field(description="Of tokens that are sent.")
    output: Amount = Field(description="Of tokens that the model writes.")
    cache_read: Amount | None = Field(None, description="Of sent tokens that the cache holds.")
    cache_write: Amount | None = Field(None, description="Of sent tokens that go into the cache.")
    currency: str = Field("USD", pattern="^[A-Z]{3}$", description="One for the whole file.")
    date: Day = Field(description="The day on which the price was looked up.")
    source: Text = Field(description="Where it was looked up, such as an address.")


class NamedToolModel(BaseModel, extra="forbid"):
    """A tool that the model must call."""

    name: Text


class ModelSettingsModel(BaseModel, extra="forbid"):
    """How the model is asked."""

    temperature: Amount | None = Field(None, description="Of the sampling.")
    top_p: Amount | None = Field(None, description="The nucleus to sample from.")
    max_tokens: Count | None = Field(None, description="The limit of a reply.")
    stop: list[Text] = Field([], description="Texts at which a reply stops.")
    seed: Annotated[int, Field(strict=True)] | None = Field(None, description="For the sampling.")
    effort: Effort | None = Field(None, description="How hard the model thinks.")
    thinking: Tokens | None = Field(None, description="For how many tokens it may think.")
    tool_choice: Literal["auto", "any", "none"] | NamedToolModel | None = Field(
        None, description="Whether the model may, must or must not call a tool first, or which."
    )
    parallel_tools: bool | None = Field(None, description="Whether a reply may call several tools.")
    extra: dict[str, object] = Field({}, description="Fields of the vendor's own request.")


class RateLimitModel(BaseModel, extra="forbid"):
    """How much of the models may be used in any minute."""

    requests: Count | None = Field(None, description="Calls of models.")
    tokens: Count | None = Field(None, description="Tokens that are sent and received.")

    @model_validator(mode="after")
    def limits_something(self) -> Self:
        """Refuse a limit of nothing."""
        if self.requests is None and self.tokens is None:
            raise ValueError("write requests, tokens or both")
        return self


class KeyPlaceModel(BaseModel, extra="forbid"):
    """Where the key of a provider is kept."""

    file: Text | None = Field(None, description="A file with the key alone, for its owner alone.")
    keyring: Text | None = Field(None, description="The name of an entry in the keyring.")

    @model_validator(mode="after")
    def is_one_place(self) -> Self:
        """Refuse no place, and two."""
        if (self.file is None) == (self.keyring is None):
            raise ValueError("write either file or keyring")
        return self


class WebSearchModel(BaseModel, extra="forbid"):
    """What the tool WebSearch asks."""

    backend: Literal["searxng", "brave", "tavily"]
    url: Text | None = Field(None, description="Of your SearXNG; else the vendor's own.")
    key_env: Text | None = Field(None, description="The variable that holds the key.")

    @model_validator(mode="after")
    def has_what_it_needs(self) -> Self:
        """Refuse an engine without its address or key, and a key for one that takes none."""
        if self.backend == "searxng" and self.url is None:
            raise ValueError("searxng needs a url, that of your own")
        if self.backend == "searxng" and self.key_env is not None:
            raise ValueError("searxng takes no key, so leave key_env out")
        if self.backend != "searxng" and self.key_env is None:
            raise ValueError(f"{self.backend} needs key_env, the variable that holds the key")
        return self


class HookModel(BaseModel, extra="forbid"):
    """A shell command that runs at an event."""

    matcher: Text | None = Field(None, description="A tool, tools with |, or a rule; all without.")
    command: Text = Field(description="Run in the folder of the project.")
    timeout: Annotated[float, Field(gt=0, le=600, strict=True)] = Field(5, description="Seconds.")


class HooksModel(BaseModel, extra="forbid"):
    """The hooks of each event."""

    PreToolUse: list[HookModel] = []
    PostToolUse: list[HookModel] = []
    UserPromptSubmit: list[HookModel] = []
    PermissionRequest: list[HookModel] = []
    Stop: list[HookModel] = []
    SubagentStop: list[HookModel] = []
    SessionStart: list[HookModel] = []
    SessionEnd: list[HookModel] = []


class FixedSettingsModel(BaseModel, extra="forbid"):
    """The settings that are no options of a run, and the model."""

    schema_: str | None = Field(None, alias="$schema", description="For editors.")
    model: Text | None = Field(None, description="The model to use where none is named.")
    model_settings: ModelSettingsModel = Field(ModelSettingsModel(), description="For each call.")
    window: int | None = Field(
        None,
        ge=SMALLEST_WINDOW,
        strict=True,
        description="The tokens that the model takes, request and reply together.",
    )
    prices: dict[Text, PriceModel] = Field({}, description="By provider:model.")
    retry: Amount = Field(
        600,
        description="Seconds to hold out while a model fails for a while; 0 to give up at once.",
    )
    rate_limit: RateLimitModel | None = Field(None, description="For all models together.")
    api_keys: dict[Text, KeyPlaceModel] = Field({}, description="By provider; yours alone.")
    web_search: WebSearchModel | None = Field(None, description="What searches the web for you.")
    hooks: HooksModel = Field(HooksModel(), description="Commands that run at events.")
    theme: Literal["auto", "dark", "light", "colour-blind", "plain"] = Field(
        "auto", description="The colours of the terminal."
    )
    notify: Literal["none"] | list[Literal["bell", "title", "osc9", "osc777"]] = Field(
        ["bell", "title"], description="How the terminal calls you when a question waits."
    )
    key_bindings: Literal["emacs", "vi"] = Field("emacs", description="Of the input line.")
    editor: Text | None = Field(None, description="Instead of $VISUAL and $EDITOR.")


def _field_of(setting: RunSetting) -> tuple[object, object]:
    kinds: dict[str, object] = {
        "text": Text,
        "switch": Annotated[bool, Field(strict=True)],
        "count": Count,
        "amount": Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)],
        "rules": list[Text],
    }
    kind = kinds.get(setting.kind) or Literal[setting.choices]
    return kind | None, Field(None, description=f"As {setting.option}: {setting.text}")  # type: ignore[operator]


_OF_A_RUN = {each.name: _field_of(each) for each in list_run_settings().values()}
del _OF_A_RUN["model"]

SettingsModel = create_model(  # type: ignore[call-overload]
    "SettingsModel",
    __base__=FixedSettingsModel,
    __doc__="Settings of Greenroom, a user's or a project's.",
    **_OF_A_RUN,
)
"""All settings: the fixed ones, and each option of a run."""
