"""The settings file as pydantic models, apart, so that pydantic is loaded only if there is one."""

import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from greenroom.llm import SMALLEST_WINDOW, Effort

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


class SettingsModel(BaseModel, extra="forbid"):
    """A user's settings of Greenroom."""

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
    key_bindings: Literal["emacs", "vi"] = Field(
        "emacs", description="Whose keys edit the input line."
    )
    editor: Text | None = Field(
        None, description="The command of the editor, if VISUAL and EDITOR are not set."
    )
