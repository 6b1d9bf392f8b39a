"""Open a model by its name, and close it: `llm: LLMProvider | str`.

What lives in an agent finds it in its runtime, which opens each once and closes it at its end
(`find_model`); a call opens it for its own duration (`use_model`). A wrapper opens the model inside
with `open_provider`, and closes it with itself.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from greenroom.core import ConfigurationError, Price, ResourceMap
from greenroom.llm.model_names import OFFLINE, open_provider
from greenroom.llm.model_settings import ConfiguredModel, ModelSettings
from greenroom.llm.provider import LLMProvider
from greenroom.llm.resilient import resilient
from greenroom.resilience import RateLimit, Retry


def open_model(
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    *,
    price: Price | None = None,
    settings: ModelSettings | None = None,
    window: int | None = None,
    retry: Retry | None = Retry(),  # noqa: B008 (a frozen value)
    rate_limit: RateLimit | None = None,
) -> LLMProvider:
    """Open the model of this name; nothing is sent yet.

    It is `resilient`: what fails for a while is tried again, for ten minutes by default, and a
    reply that breaks off starts over. `retry=None` opens the bare provider.

    Args:
        name: `provider:model`, such as `anthropic:claude-sonnet-5-5`, `groq:openai/gpt-oss-120b` or
            `offline:`; a vendor's own model name alone, such as `gpt-5.4`; or None for
            `default_model(env)`. The model need not be in the catalogue.
        env: where to look for keys and base URLs, by default in this process's environment.
        price: what the provider charges for this model, for the cost in `Usage` and in budgets;
            no prices are built in, since they change. The offline model is free.
        settings: how to ask the model where a request does not say.
        window: the tokens that the model takes, request and reply together. Without it, a server on
            this machine or its private network is asked, and the catalogue is looked up.
        retry: how long and how often to retry, and which errors; None raises each error at once.
        rate_limit: what its calls wait for; share one object between all models with one key.

    Warns:
        UserWarning: the model is not in the catalogue, and its name resembles one that is. It is
            opened all the same, since the catalogue does not know every model.

    Raises:
        ConfigurationError: the provider is unknown, its key is missing, the name has no model and
            the provider no default, or the window is not a number of tokens.

    Example:
        >>> open_model("offline:"), open_model("gpt-5.4", {"OPENAI_API_KEY": "sk-1"})
        (OfflineProvider(), resilient(OpenAIResponsesProvider('gpt-5.4')))
        >>> open_model("gpt-5.4", {"OPENAI_API_KEY": "sk-1"}, retry=None)
        OpenAIResponsesProvider('gpt-5.4')
    """
    if name is not None and not isinstance(name, str):
        raise ConfigurationError(
            f"{name!r} is not the name of a model", hint='write "anthropic:claude-sonnet-5-5"'
        )
    if isinstance(env, str):
        raise ConfigurationError(
            "env is a text, and should be a dict", hint="write {'OPENAI_API_KEY': key}"
        )
    llm = open_provider(name, env, price=price, window=window)
    if llm.name != OFFLINE and (retry is not None or rate_limit is not None):
        once = Retry(attempts=1)
        llm = resilient(llm, retry=retry or once, limits=rate_limit, after_output="restart")
    return llm if settings is None else ConfiguredModel(llm, settings)


class OpenModels:
    """The models that agents opened by name: a resource of the runtime, which closes it.

    Args:
        open: opens a model by its name.
    """

    def __init__(self, open: Callable[[str], LLMProvider] = open_model) -> None:  # noqa: A002
        self._opener = open
        self._open: dict[str, LLMProvider] = {}

    def find(self, name: str) -> LLMProvider:
        """Return the model of this name, opened at its first use."""
        if name not in self._open:
            self._open[name] = self._opener(name)
        return self._open[name]

    async def aclose(self) -> None:
        """Close all of them."""
        async with AsyncExitStack() as stack:  # closes each, even if closing another fails
            for llm in self._open.values():
                stack.push_async_callback(llm.aclose)


def find_model(llm: LLMProvider | str, resources: ResourceMap) -> LLMProvider:
    """Return the model; if only its name is given, open it, or find it open.

    Raises:
        ConfigurationError: the model can't be opened.
    """
    if not isinstance(llm, str):
        return llm
    models = resources.shared.get(OpenModels)
    if models is None:
        models = OpenModels()
        resources.shared.insert(models)
    return models.find(llm)


@asynccontextmanager
async def use_model(llm: LLMProvider | str) -> AsyncIterator[LLMProvider]:
    """Give the model; one that is given by name is opened here, and closed at the end of the block.

    Raises:
        ConfigurationError: the model can't be opened.
    """
    if not isinstance(llm, str):
        yield llm
        return
    model = open_model(llm)
    try:
        yield model
    finally:
        await model.aclose()
