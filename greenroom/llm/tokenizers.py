"""The tokenizers that vendors publish; the extra `tokenizer` installs OpenAI's.

OpenAI publishes `tiktoken`, and which of its encodings a model has. Anthropic publishes none for
its current models, but counts on request; Google neither.
"""

from typing import TYPE_CHECKING

import trio

from greenroom.core import ConfigurationError

if TYPE_CHECKING:
    from tiktoken import Encoding

_SECONDS = 60.0
_HOSTS = ("openai:", "azure:")


async def load_encoding(model: str) -> "Encoding":
    """Load the encoding of a model in a thread; see `EstimatedCounter.with_tokenizer`.

    Raises:
        ConfigurationError: there is none, or it can't be loaded.
    """
    encoding: Encoding | None = None
    with trio.move_on_after(_SECONDS):
        encoding = await trio.to_thread.run_sync(_load, model, abandon_on_cancel=True)
    if encoding is None:
        raise _unreachable(model, f"within {_SECONDS:g} seconds")
    return encoding


def _load(model: str) -> "Encoding":
    try:
        import tiktoken
    except ImportError as error:
        raise ConfigurationError(
            "no tokenizer is installed",
            hint="pip install 'greenroom[tokenizer]', or use EstimatedCounter() as it is",
        ) from error
    name = next((model.removeprefix(each) for each in _HOSTS if model.startswith(each)), model)
    try:
        return tiktoken.encoding_for_model(name)
    except KeyError as error:
        raise ConfigurationError(
            f"no tokenizer is published for {model}, or not in this version of tiktoken",
            hint="use EstimatedCounter() as it is: it learns from what replies report",
        ) from error
    except (OSError, ValueError) as error:  # no network, or a file that is damaged
        raise _unreachable(model, "") from error


def _unreachable(model: str, when: str) -> ConfigurationError:
    return ConfigurationError(
        f"the tables of the tokenizer of {model} could not be loaded {when}".rstrip(),
        hint="connect to the internet once, or set TIKTOKEN_CACHE_DIR to a folder that has them",
    )
