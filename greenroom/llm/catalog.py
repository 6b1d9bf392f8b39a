"""A catalogue of some models: their context windows and their abilities.

Each row names its sources and their date. A fact that no source states is None, never 0 or a guess.
The catalogue does not limit which models may be used. It has no prices, since they change; those
come from the user.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches

from greenroom.llm.provider import LLMProvider

ABILITIES = ("images", "documents", "thinking", "json_schema", "tools", "caching")
"""The abilities in the order in which they are shown; each is a member of `ModelProfile`."""


@dataclass(frozen=True, kw_only=True)
class ModelProfile:
    """Facts about a model; None means that a fact is not known.

    Attributes:
        name: `provider:model`.
        context_window: the most tokens of a request and its reply together.
        max_output_tokens: the most tokens of a reply.
        images: whether it reads images.
        documents: whether it reads PDF documents.
        thinking: whether it thinks before it answers.
        json_schema: whether the provider enforces a JSON Schema.
        tools: whether it calls tools.
        caching: whether the provider caches the prefix of a request for the next one.
        sources: the pages that state the facts.
        looked_up: the date of the sources, or None without any.
    """

    name: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    images: bool | None = None
    documents: bool | None = None
    thinking: bool | None = None
    json_schema: bool | None = None
    tools: bool | None = None
    caching: bool | None = None
    sources: tuple[str, ...] = ()
    looked_up: date | None = None

    @property
    def abilities(self) -> dict[str, bool | None]:
        """Each ability by its name: true, false, or None if that is not known."""
        return {name: getattr(self, name) for name in ABILITIES}


def model_profile(model: str | LLMProvider) -> ModelProfile:
    """Return the facts about a model, given its name or its provider; nothing is looked up online.

    A snapshot, whose name ends in a date, has the facts of its model.

    Example:
        >>> model_profile("anthropic:claude-haiku-4-5-20251001").context_window
        200000
        >>> model_profile("ollama:llama3.2").context_window is None
        True
    """
    name = model if isinstance(model, str) else f"{model.name}:{model.model}"
    found = MODELS.get(name) or MODELS.get(without_date(name)) or ModelProfile(name=name)
    return replace(found, name=name)


def without_date(name: str) -> str:
    """Return the name of a snapshot without its date; any other name stays the same.

    Example:
        >>> without_date("openai:gpt-5.4-2026-03-05")
        'openai:gpt-5.4'
    """
    return _SNAPSHOT.sub("", name)


def similar_models(name: str) -> list[str]:
    """Return the listed models with similar names, the most similar first.

    Example:
        >>> similar_models("anthropic:claude-sonet-5")[0]
        'anthropic:claude-sonnet-5'
    """
    if ":" in name:
        return get_close_matches(name, MODELS, cutoff=0.8)
    bare = {full.partition(":")[2]: full for full in MODELS}
    return [bare[each] for each in get_close_matches(name, bare, cutoff=0.8)]


_SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")

_ALL: dict[str, bool | None] = dict.fromkeys(ABILITIES, True)
_TEXT = _ALL | {"images": False, "documents": False}
_SILENT = _ALL | {"thinking": False}
_MISTRAL_LARGE = {"images": True, "json_schema": True, "tools": True}
_DEEPSEEK_V4 = _ALL | {"images": False, "documents": None, "json_schema": False}
_GROK = _ALL | {"documents": None}

_DAY = date(2026, 11, 22)
_TABLE = "https://pypi.org/project/litellm/1.109.1/"  # its table of models
_CLAUDE = "https://platform.claude.com/docs"
_NEWEST_CLAUDE = f"{_CLAUDE}/about-claude/models/overview"
_CLAUDE_MODELS = f"{_CLAUDE}/en/models"
_OPUS_5 = f"{_CLAUDE}/es/models/opus-5/overview.md"
_GPT_6_1_SOL = "https://www.w3cschool.cn/openai_api/openai-api-docs-gpt-6-1-sol.html"
_GPT_5_MINI = "https://openrouter.ai/openai/gpt-5-mini"
_OXEN = "https://docs.oxen.ai/inference-api/reference/models"
_GROQ = "https://console.groq.com/docs/models"
_EVOLINK = "https://docs.evolink.ai/en/api-manual/language-series/deepseek-v4/deepseek-v4-chat.md"
_RUNWARE = "https://runware.ai/docs/models/xai-grok-4-7"


def _model(
    name: str, window: int, output: int | None, abilities: Mapping[str, bool | None], *sources: str
) -> ModelProfile:
    return ModelProfile(
        name=name,
        context_window=window,
        max_output_tokens=output,
        sources=sources,
        looked_up=_DAY,
        **abilities,
    )


_PROFILES = (
    _model("anthropic:claude-fable-5-1", 1_000_000, 128_000, _ALL, _NEWEST_CLAUDE, _TABLE),
    _model("anthropic:claude-opus-5-5", 1_000_000, 128_000, _ALL, _NEWEST_CLAUDE, _TABLE),
    _model("anthropic:claude-sonnet-5-5", 1_000_000, 128_000, _ALL, _NEWEST_CLAUDE, _TABLE),
    _model("anthropic:claude-haiku-5-5", 1_000_000, 128_000, _ALL, _NEWEST_CLAUDE, _TABLE),
    _model("anthropic:claude-opus-5", 1_000_000, 128_000, _ALL, _OPUS_5, _TABLE),
    _model("anthropic:claude-sonnet-5", 1_000_000, 128_000, _ALL, _CLAUDE_MODELS, _TABLE),
    _model("anthropic:claude-haiku-4-5", 200_000, 64_000, _ALL, _CLAUDE_MODELS, _TABLE),
    # It calls tools over the Responses API only.
    _model("openai:gpt-6.1-sol", 1_050_000, 128_000, _ALL | {"tools": False}, _GPT_6_1_SOL, _TABLE),
    _model("openai:gpt-5.5", 1_050_000, 128_000, _ALL, _TABLE),
    _model("openai:gpt-5.4", 1_050_000, 128_000, _ALL, f"{_OXEN}/gpt-5-4-2026-03-05.md", _TABLE),
    _model("openai:gpt-5.4-mini", 400_000, 128_000, _ALL, f"{_OXEN}/gpt-5-4-mini.md", _TABLE),
    _model("openai:gpt-5-mini", 400_000, 128_000, _ALL, _GPT_5_MINI, _TABLE),
    _model("openai:gpt-4.1", 1_047_576, 32_768, _SILENT, _TABLE),
    _model("openai:gpt-4o", 128_000, 16_384, _SILENT, _TABLE),
    _model("groq:openai/gpt-oss-120b", 131_072, 65_536, _TEXT, _GROQ, _TABLE),
    _model("groq:openai/gpt-oss-20b", 131_072, 65_536, _TEXT, _GROQ, _TABLE),
    # The table repeats the window as the limit of the output, so the limit is not known.
    _model("mistral:mistral-large-2512", 262_144, None, _MISTRAL_LARGE, _TABLE),
    _model("deepseek:deepseek-v4-pro", 1_000_000, 384_000, _DEEPSEEK_V4, _EVOLINK, _TABLE),
    _model("xai:grok-4.7", 500_000, None, _GROK, _RUNWARE, _TABLE),
)

MODELS: Mapping[str, ModelProfile] = {profile.name: profile for profile in _PROFILES}
"""The models of the catalogue, by name."""
