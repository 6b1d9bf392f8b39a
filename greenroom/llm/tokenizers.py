"""The tokenizers that vendors publish; the extra `tokenizer` installs OpenAI's.

OpenAI publishes `tiktoken`, and which of its encodings a model has. Anthropic publishes none for
its current models, but counts on request; Google neither.
"""

from typing import TYPE_CHECKING

import trio

from greenroom.core import ConfigurationError
from greenroom.llm.tokens import Tokenizer, estimate_text

if TYPE_CHECKING:
    from tiktoken import Encoding

_LONGEST = 65_536
"""The most characters that are encoded of one text; they take some 20 ms in the worst case."""

_SECONDS = 60.0
_HOSTS = ("openai:", "azure:")


async def open_tokenizer(model: str) -> Tokenizer:
    """Load the exact tokenizer of a model, for `EstimatedCounter`.

    It works in a thread. The first time on a machine it downloads the tables of the encoding, some
    megabytes, from OpenAI; then they are in the folder that `TIKTOKEN_CACHE_DIR` names, by default
    among the temporary files. Of a text above 65,536 characters the beginning is encoded, and the
    rest is estimated in proportion.

    Args:
        model: the name of a model of OpenAI, such as "openai:gpt-5.4" or "gpt-5.4".

    Raises:
        ConfigurationError: the extra is not installed, OpenAI does not say which encoding the model
            has, or its tables can't be loaded within a minute.

    Example:
        ```python
        counter = EstimatedCounter(await open_tokenizer("openai:gpt-5.4"))
        ```
    """
    encoding: Encoding | None = None
    with trio.move_on_after(_SECONDS):
        encoding = await trio.to_thread.run_sync(_load, model, abandon_on_cancel=True)
    if encoding is None:
        raise _unreachable(model, f"within {_SECONDS:g} seconds")
    encode = encoding.encode_ordinary

    def count(text: str) -> float:
        if len(text) <= _LONGEST:
            return len(encode(text))
        beginning = text[:_LONGEST]
        share = len(encode(beginning)) / (estimate_text(beginning) or 1.0)
        return share * estimate_text(text)

    return count


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
