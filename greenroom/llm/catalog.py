"""A catalogue of some models: their context windows and their abilities.

Each row names its sources and their date. A fact that no source states is None, never 0 or a guess.
The catalogue does not limit which models may be used. It has no prices, since they change; those
come from the user.
"""

from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from greenroom.core._internal import compile_later
from greenroom.llm.provider import LLMProvider
from greenroom.llm.request_rules import EFFORTS, UNKNOWN_RULES, Budgets, RequestRules
from greenroom.llm.windows import ContextWindow, own_window

ABILITIES = ("images", "documents", "thinking", "json_schema", "tools", "caching")
"""The abilities in the order in which they are shown; each is a member of `ModelProfile`."""


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
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
        rules: what it accepts in a request.
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
    rules: RequestRules = UNKNOWN_RULES
    sources: tuple[str, ...] = ()
    looked_up: date | None = None

    @property
    def abilities(self) -> dict[str, bool | None]:
        """Each ability by its name: true, false, or None if that is not known."""
        return {name: getattr(self, name) for name in ABILITIES}


def model_profile(model: str | LLMProvider) -> ModelProfile:
    """Return the facts about a model, given its name or its provider; nothing is looked up online.

    A snapshot, whose name ends in a date, has the facts of its model. Of a model that is not listed
    only the rules are known, if its name tells the family.

    Example:
        >>> model_profile("anthropic:claude-haiku-4-5-20251001").context_window
        200000
        >>> model_profile("ollama:llama3.2").context_window is None
        True
    """
    name = model if isinstance(model, str) else f"{model.name}:{model.model}"
    found = MODELS.get(name) or MODELS.get(without_date(name))
    return replace(found, name=name) if found else ModelProfile(name=name, rules=_find_rules(name))


def _find_rules(name: str) -> RequestRules:
    """Return what a model accepts that is not listed, by the family in its name."""
    bare = without_date(name.replace("azure:", "openai:", 1))
    if bare in MODELS:
        return MODELS[bare].rules
    return next((rules for family, rules in _FAMILIES if family.match(bare)), UNKNOWN_RULES)


async def find_window(
    llm: LLMProvider, *, has_replied: bool = False, load: bool = False
) -> ContextWindow:
    """Return what is known of a model's context window.

    A server on this machine or its private network is asked, once a process for each model; that
    takes a few seconds at most, and never fails. Ollama knows the window of a model only once it
    has loaded it: until then the answer is not final.

    Args:
        llm: the model.
        has_replied: whether it has replied before, so that its server has loaded it.
        load: whether to have its server load it, which may take as long as a reply.

    Example:
        >>> import trio
        >>> from greenroom import open_model
        >>> llm = open_model("anthropic:claude-haiku-4-5", {"ANTHROPIC_API_KEY": "sk-ant-1"})
        >>> trio.run(find_window, llm)
        ContextWindow(tokens=200000, source='catalogue', is_final=True)
    """
    window = await own_window(llm, has_replied=has_replied, load=load)
    listed = model_profile(llm).context_window
    if window.source == "unknown" and listed:
        return ContextWindow(listed, "catalogue")
    return window


def without_date(name: str) -> str:
    """Return the name of a snapshot without its date; any other name stays the same.

    Example:
        >>> without_date("openai:gpt-5.4-2026-03-05")
        'openai:gpt-5.4'
        >>> without_date("anthropic:claude-haiku-4-5@20251001")  # as on Vertex AI
        'anthropic:claude-haiku-4-5'
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


def meant_model(name: str) -> str | None:
    """Return the listed model whose name a name probably misspells, or None.

    A name with other numbers is another version, and one that begins like another is a variant of
    it: both may exist. So may any other name, since the catalogue does not list every model.

    Example:
        >>> meant_model("anthropic:claude-sonet-5")
        'anthropic:claude-sonnet-5'
        >>> meant_model("anthropic:claude-sonnet-7") is None
        True
    """
    if name in MODELS or without_date(name) in MODELS:
        return None
    provider, _, model = name.partition(":")
    own = [each.partition(":")[2] for each in MODELS if each.startswith(f"{provider}:")]
    for near in get_close_matches(model, own, cutoff=0.85):
        is_variant = model.startswith(near) or near.startswith(model)
        if not is_variant and _NO_DIGITS.sub("", model) == _NO_DIGITS.sub("", near):
            return f"{provider}:{near}"
    return None


_NO_DIGITS = compile_later(r"\D+")
_SNAPSHOT = compile_later(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")

_ALL: dict[str, bool | None] = dict.fromkeys(ABILITIES, True)
_TEXT = _ALL | {"images": False, "documents": False}
_MISTRAL_LARGE = {"images": True, "json_schema": True, "tools": True}
_DEEPSEEK_V4 = _ALL | {"images": False, "documents": None, "json_schema": False}
_GROK = _ALL | {"documents": None}

_DAY = date(2026, 11, 28)
_TABLE = "https://pypi.org/project/litellm/1.109.1/"  # its table of models
_CLAUDE = "https://platform.claude.com/docs/en"
_CLAUDE_MODELS = f"{_CLAUDE}/models/overview"
_OPUS_5_5 = f"{_CLAUDE}/models/opus-5-5/migration-guide"
_SONNET_5_5 = f"{_CLAUDE}/models/sonnet-5-5/migration-guide"
_HAIKU_5_5 = f"{_CLAUDE}/models/haiku-5-5/migration-guide"
_PREFIX_CHECKS = f"{_CLAUDE}/build-with-claude/preserved-thinking/prefix-checks"
_GPT_6 = "https://developers.openai.com/api/docs/guides/latest-model"
_OXEN = "https://docs.oxen.ai/inference-api/reference/models"
_GEMINI = "https://ai.google.dev/gemini-api/docs/generate-content"
_AGENTS = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models"
_GROQ = "https://console.groq.com/docs/models"
_EVOLINK = "https://docs.evolink.ai/en/api-manual/language-series/deepseek-v4/deepseek-v4-chat.md"
_RUNWARE = "https://runware.ai/docs/models/xai-grok-4-7"

# Claude: up to 4.5 with a budget, since then with an effort.
_WITH_BUDGET = RequestRules(
    efforts=(),
    default_effort="none",
    budget=Budgets(least=1_024, is_below_limit=True, precede_calls=True),
    sampling="without thinking",
    forced_tools="without thinking",
)
_CLAUDE_4_6 = RequestRules(
    efforts=("low", "medium", "high", "max"),
    default_effort="none",
    is_adaptive=True,
    off=0,
    sampling="without thinking",
    takes_last_reply=False,
)
_CLAUDE_4_7 = replace(_CLAUDE_4_6, efforts=EFFORTS[1:], sampling="never")
_CLAUDE_5 = replace(_CLAUDE_4_7, default_effort="high")
_CLAUDE_HAIKU_5_5 = replace(_CLAUDE_5, default_effort="medium", binds_thinking=True)
_CLAUDE_SONNET_5_5 = replace(
    _CLAUDE_5, off="between_tools", forced_tools="never", binds_thinking=True
)
_CLAUDE_FABLE_5 = replace(_CLAUDE_5, off=None)
_CLAUDE_FABLE_5_1 = replace(_CLAUDE_FABLE_5, forced_tools="never", binds_thinking=True)
_CLAUDE_OPUS_5_5 = replace(_CLAUDE_FABLE_5_1, default_effort="medium")
_CLAUDE_UNKNOWN = RequestRules(efforts=EFFORTS[1:], is_adaptive=True, binds_thinking=True)

# OpenAI: over Chat Completions, newer models call tools only without thinking, the newest not.
_GPT_4 = RequestRules(efforts=(), default_effort="none")
_GPT_5 = RequestRules(efforts=("low", "medium", "high"), default_effort="medium", sampling="never")
_GPT_5_1 = RequestRules(efforts=EFFORTS[:5], default_effort="none", sampling="without thinking")
_GPT_5_2 = replace(_GPT_5_1, chat_tools="without thinking")
_GPT_5_5 = replace(_GPT_5_2, default_effort="medium")
_GPT_6_1_SOL = RequestRules(
    efforts=EFFORTS[1:5], default_effort="medium", sampling="never", chat_tools="never"
)

# Gemini: up to 2.5 with a budget, since then with a level, of which "minimal" is our "none".
_GEMINI_2 = RequestRules(efforts=(), default_effort="none")
_GEMINI_2_5_PRO = RequestRules(
    efforts=(), default_effort="medium", budget=Budgets(least=128, most=32_768, has_none=False)
)
_GEMINI_2_5_FLASH = RequestRules(
    efforts=(), default_effort="medium", budget=Budgets(least=1, most=24_576)
)
_GEMINI_2_5_LITE = RequestRules(
    efforts=(), default_effort="none", budget=Budgets(least=512, most=24_576)
)
_GEMINI_3_PRO = RequestRules(efforts=("low", "high"), default_effort="high")
_GEMINI_3_1_PRO = RequestRules(efforts=EFFORTS[1:4], default_effort="high")
_GEMINI_3_FLASH = RequestRules(efforts=EFFORTS[:4], default_effort="high")
_GEMINI_3_5_FLASH = replace(_GEMINI_3_FLASH, default_effort="medium")
_GEMINI_3_1_LITE = replace(_GEMINI_3_FLASH, default_effort="none")
_GEMINI_3_5_LITE = replace(_GEMINI_3_1_LITE, takes_last_reply=False)
_GEMINI_3_6_FLASH = replace(_GEMINI_3_5_FLASH, takes_last_reply=False)
_GEMINI_3_8_FLASH = replace(_GEMINI_3_6_FLASH, efforts=EFFORTS[1:4])

_GPT_OSS = RequestRules(efforts=("low", "medium", "high"), default_effort="medium")
_WITHOUT_EFFORT = RequestRules(efforts=())

_FAMILIES = (
    (compile_later(r"anthropic:claude-(?:[23]\b|\w+-4-[015]\b|\w+-4$)"), _WITH_BUDGET),
    (compile_later(r"anthropic:claude-\w+-4-6\b"), _CLAUDE_4_6),
    (compile_later(r"anthropic:claude-\w+-4-"), _CLAUDE_4_7),
    (compile_later(r"anthropic:claude-(?:fable|mythos)-5$"), _CLAUDE_FABLE_5),
    (compile_later(r"anthropic:claude-(?:fable|mythos)-5-"), _CLAUDE_FABLE_5_1),
    (compile_later(r"anthropic:claude-"), _CLAUDE_UNKNOWN),
    (compile_later(r"openai:(?:gpt-[34]|chatgpt-4)"), _GPT_4),
    (compile_later(r"openai:gpt-5(?:-|$)|openai:o\d"), _GPT_5),
    (compile_later(r"openai:gpt-5\.1"), _GPT_5_1),
    (compile_later(r"openai:gpt-5\.[234]"), _GPT_5_2),
    (compile_later(r"openai:gpt-(?:5\.|6-(?:sol|luna)|6\.1-terra)"), _GPT_5_5),
    (compile_later(r"openai:gpt-"), _GPT_6_1_SOL),
    (compile_later(r"google:.*-(?:audio|image|live|tts)\b"), UNKNOWN_RULES),
    (compile_later(r"google:gemini-(?:1|2\.0)"), _GEMINI_2),
    (compile_later(r"google:gemini-2\.5-pro"), _GEMINI_2_5_PRO),
    (compile_later(r"google:gemini-2\.5-flash-lite"), _GEMINI_2_5_LITE),
    (compile_later(r"google:gemini-2\.5-flash"), _GEMINI_2_5_FLASH),
    (compile_later(r"google:gemini-2"), UNKNOWN_RULES),
    (compile_later(r"google:gemini-3-pro"), _GEMINI_3_PRO),
    (compile_later(r"google:gemini-3\.1-pro"), _GEMINI_3_1_PRO),
    (compile_later(r"google:gemini-3-flash"), _GEMINI_3_FLASH),
    (compile_later(r"google:gemini-3\.1-flash-lite"), _GEMINI_3_1_LITE),
    (compile_later(r"google:gemini-3\.5-flash-lite"), _GEMINI_3_5_LITE),
    (compile_later(r"google:gemini-3\.5-flash"), _GEMINI_3_5_FLASH),
    (compile_later(r"google:gemini-3\.6-flash"), _GEMINI_3_6_FLASH),
    (compile_later(r"google:gemini-"), _GEMINI_3_8_FLASH),
)
"""What models accept that the catalogue does not list, by name; the first that matches."""


def _model(
    name: str,
    window: int,
    output: int | None,
    abilities: Mapping[str, bool | None],
    rules: RequestRules,
    *sources: str,
) -> ModelProfile:
    return ModelProfile(
        name=name,
        rules=rules,
        context_window=window,
        max_output_tokens=output,
        sources=sources,
        looked_up=_DAY,
        **abilities,
    )


def _claude(
    name: str, rules: RequestRules, *sources: str, window: int = 1_000_000, output: int = 128_000
) -> ModelProfile:
    return _model(f"anthropic:claude-{name}", window, output, _ALL, rules, *sources, _TABLE)


def _gpt(
    name: str, window: int, rules: RequestRules, *sources: str, output: int = 128_000
) -> ModelProfile:
    abilities = _ALL | {"thinking": rules is not _GPT_4}
    return _model(f"openai:{name}", window, output, abilities, rules, *sources, _TABLE)


def _gemini(name: str, rules: RequestRules, *sources: str) -> ModelProfile:
    return _model(f"google:gemini-{name}", 1_048_576, 65_536, _ALL, rules, *sources, _TABLE)


_PROFILES = (
    _claude("fable-5-2", _CLAUDE_FABLE_5_1, _CLAUDE_MODELS, _PREFIX_CHECKS),
    _claude("fable-5-1", _CLAUDE_FABLE_5_1, _CLAUDE_MODELS, _PREFIX_CHECKS),
    _claude("opus-5-5", _CLAUDE_OPUS_5_5, _CLAUDE_MODELS, _OPUS_5_5, _PREFIX_CHECKS),
    _claude("sonnet-5-5", _CLAUDE_SONNET_5_5, _CLAUDE_MODELS, _SONNET_5_5, _PREFIX_CHECKS),
    _claude("haiku-5-5", _CLAUDE_HAIKU_5_5, _CLAUDE_MODELS, _HAIKU_5_5, _PREFIX_CHECKS),
    _claude("opus-5", _CLAUDE_5, _OPUS_5_5),
    _claude("sonnet-5", _CLAUDE_5, _SONNET_5_5),
    _claude("fable-5", _CLAUDE_FABLE_5),
    _claude("opus-4-8", _CLAUDE_4_7),
    _claude("opus-4-7", _CLAUDE_4_7),
    _claude("opus-4-6", _CLAUDE_4_6),
    _claude("sonnet-4-6", _CLAUDE_4_6, _SONNET_5_5),
    _claude("opus-4-5", _WITH_BUDGET, window=200_000, output=64_000),
    _claude("sonnet-4-5", _WITH_BUDGET, _SONNET_5_5, window=200_000, output=64_000),
    _claude("haiku-4-5", _WITH_BUDGET, _HAIKU_5_5, window=200_000, output=64_000),
    _gpt("gpt-6-astra", 1_050_000, _GPT_6_1_SOL, _GPT_6, f"{_OXEN}/gpt-6-astra"),
    _gpt("gpt-6.1-sol", 1_050_000, _GPT_6_1_SOL, _GPT_6),
    _gpt("gpt-6.1-terra", 1_050_000, _GPT_5_5, _GPT_6),
    _gpt("gpt-6-luna", 1_050_000, _GPT_5_5, _GPT_6),
    _gpt("gpt-6-sol", 1_050_000, _GPT_5_5),
    _gpt("gpt-5.5", 1_050_000, _GPT_5_5),
    _gpt("gpt-5.4", 1_050_000, _GPT_5_2, f"{_OXEN}/gpt-5-4-2026-03-05.md"),
    _gpt("gpt-5.4-mini", 400_000, _GPT_5_2, f"{_OXEN}/gpt-5-4-mini.md"),
    _gpt("gpt-5.1", 400_000, _GPT_5_1),
    _gpt("gpt-5-mini", 400_000, _GPT_5, "https://openrouter.ai/openai/gpt-5-mini"),
    _gpt("gpt-4.1", 1_047_576, _GPT_4, output=32_768),
    _gpt("gpt-4o", 128_000, _GPT_4, output=16_384),
    # Argon writes more only over several requests that continue each other.
    _gemini(
        "4-argon", _GEMINI_3_8_FLASH, f"{_GEMINI}/latest-model", f"{_AGENTS}/guides/gemini-4-argon"
    ),
    _gemini("3.8-flash", _GEMINI_3_8_FLASH, f"{_AGENTS}/guides/gemini-3-8-flash"),
    _gemini("3.6-flash", _GEMINI_3_6_FLASH, f"{_GEMINI}/whats-new-gemini-3.6"),
    _gemini("3.5-flash", _GEMINI_3_5_FLASH, f"{_AGENTS}/guides/gemini-3-5-flash"),
    _gemini(
        "3.5-flash-lite",
        _GEMINI_3_5_LITE,
        f"{_GEMINI}/whats-new-gemini-3.6",
        f"{_AGENTS}/gemini/3-5-flash-lite",
    ),
    _gemini("3.1-pro-preview", _GEMINI_3_1_PRO, f"{_AGENTS}/guides/gemini-3-5-flash"),
    _gemini("3.1-flash-lite", _GEMINI_3_1_LITE, f"{_AGENTS}/guides/gemini-3-5-flash"),
    _gemini("3-flash-preview", _GEMINI_3_FLASH, f"{_GEMINI}/thinking"),
    _gemini("2.5-pro", _GEMINI_2_5_PRO, f"{_GEMINI}/thinking"),
    _gemini("2.5-flash", _GEMINI_2_5_FLASH, f"{_GEMINI}/thinking"),
    _gemini("2.5-flash-lite", _GEMINI_2_5_LITE, f"{_AGENTS}/gemini/2-5-flash-lite"),
    _model("groq:openai/gpt-oss-120b", 131_072, 65_536, _TEXT, _GPT_OSS, _GROQ, _TABLE),
    _model("groq:openai/gpt-oss-20b", 131_072, 65_536, _TEXT, _GPT_OSS, _GROQ, _TABLE),
    # The table repeats the window as the limit of the output, so the limit is not known.
    _model("mistral:mistral-large-2512", 262_144, None, _MISTRAL_LARGE, _WITHOUT_EFFORT, _TABLE),
    _model("deepseek:deepseek-v4-pro", 1_000_000, 384_000, _DEEPSEEK_V4, UNKNOWN_RULES, _EVOLINK),
    _model("xai:grok-4.7", 500_000, None, _GROK, UNKNOWN_RULES, _RUNWARE, _TABLE),
)

MODELS: Mapping[str, ModelProfile] = {profile.name: profile for profile in _PROFILES}
"""The models of the catalogue, by name."""
