"""Writes docs/reference/models.md from the catalogue of models: python docs/reference/models.py."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from greenroom.llm._internal import MODELS, ModelProfile
from greenroom.llm.catalog import ABILITIES
from greenroom.llm.request_rules import UNKNOWN_RULES

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

The second table of a provider has what its models accept in a request: the efforts, "budget" for a
number of tokens to think for, and when they take a temperature, a call that is forced, and tools
over Chat Completions; "bound" says that thinking goes back only while nothing before it changes.
Each request is made to fit: an effort becomes the nearest that the model has, and what nothing can
replace is an error before anything is sent. A model whose rules are not known gets what was asked.
"""

_TITLES = {"json_schema": "JSON Schema", "documents": "PDF"}


def page() -> str:
    """Write the page."""
    return HEAD + "".join(_section(name, models) for name, models in _by_provider())


def _by_provider() -> Iterator[tuple[str, list[ModelProfile]]]:
    for name in dict.fromkeys(full.partition(":")[0] for full in MODELS):
        yield name, [each for each in MODELS.values() if each.name.startswith(f"{name}:")]


def _section(provider: str, models: Sequence[ModelProfile]) -> str:
    abilities = (_TITLES.get(each, each) for each in ABILITIES)
    titles = ["model", "window", "reply", *abilities, "source"]
    lines = [f"\n## {provider}\n", _row(titles), _row("---" for _ in titles)]
    rules = ["", *_list_rules(each for each in models if each.rules != UNKNOWN_RULES)]
    return "\n".join([*lines, *map(_describe, models), *(rules if rules[1:] else [])]) + "\n"


def _list_rules(models: Iterable[ModelProfile]) -> Iterator[str]:
    """Write a table of what models accept, if there are any."""
    for number, model in enumerate(models):
        is_openai = model.name.startswith("openai:")
        if not number:
            chat = ["tools over Chat Completions"] if is_openai else []
            titles = ["model", "efforts", "temperature", "forced call", *chat, "thinking"]
            yield from (_row(titles), _row("---" for _ in titles))
        rules = model.rules
        efforts = "budget" if rules.budget else ", ".join(rules.efforts or ()) or "none"
        kept = "bound" if rules.binds_thinking else ""
        when = (rules.sampling, rules.forced_tools, *([rules.chat_tools] if is_openai else []))
        yield _row([f"`{model.name}`", efforts, *when, kept])


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
