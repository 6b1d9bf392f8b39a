"""Writes docs/reference/models.md from the catalogue of models: python docs/reference/models.py."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from greenroom.llm import MODELS, ModelProfile
from greenroom.llm.catalog import ABILITIES

PAGE = Path(__file__).with_suffix(".md")

HEAD = """\
# Models

<!-- Written by docs/reference/models.py from greenroom/llm/catalog.py; edit the catalogue. -->

What the catalogue knows of some models, with the sources and the day on which they were read; `?`
is a fact that none of them states. A model that is not listed works as well: give its window as
[`window=`](../concepts/context.md#how-large-the-window-is), unless its server says it. The window
is for a request and its reply together, in tokens, and so is the longest reply. There are no
prices; [those are yours](../concepts/models.md#settings-and-what-models-cost). `greenroom models`
shows the same, and `greenroom.llm.model_profile` returns it.
"""

_TITLES = {"json_schema": "JSON Schema", "documents": "PDF"}


def page() -> str:
    """Write the page."""
    return HEAD + "".join(_section(name, models) for name, models in _by_provider())


def _by_provider() -> Iterator[tuple[str, list[ModelProfile]]]:
    for name in dict.fromkeys(full.partition(":")[0] for full in MODELS):
        yield name, [each for each in MODELS.values() if each.name.startswith(f"{name}:")]


def _section(provider: str, models: Iterable[ModelProfile]) -> str:
    abilities = (_TITLES.get(each, each) for each in ABILITIES)
    titles = ["model", "window", "reply", *abilities, "source"]
    lines = [f"\n## {provider}\n", _row(titles), _row("---" for _ in titles)]
    return "\n".join([*lines, *map(_describe, models)]) + "\n"


def _describe(model: ModelProfile) -> str:
    marks = {True: "yes", False: "no", None: "?"}
    sources = " ".join(f"[{n}]({each})" for n, each in enumerate(model.sources, 1))
    return _row(
        [
            f"`{model.name}`",
            _tokens(model.context_window),
            _tokens(model.max_output_tokens),
            *(marks[has] for has in model.abilities.values()),
            f"{sources}, {model.looked_up}",
        ]
    )


def _tokens(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
