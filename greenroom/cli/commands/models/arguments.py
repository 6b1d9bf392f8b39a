"""What may stand behind `greenroom models`; loads nothing but argparse."""

import argparse
from dataclasses import dataclass

from greenroom.cli.options import Options, Parsers, add_report

_MODELS = """\
List whose models can be used, which model is the default and why, and what is known of models: how
much they take, what they can do, what they cost. Models that are not listed can be used as well.
Prices are those of your settings file. Keys are never shown."""


@dataclass(frozen=True, kw_only=True)
class ModelsOptions(Options):
    """What the user asked for behind `greenroom models`.

    Attributes:
        name: a model or a provider, or None for all.
    """

    name: str | None = None


def add_models(commands: Parsers) -> None:
    """Add the command."""
    models = commands.add_parser(
        "models",
        help="list models, whose key is set, which is the default, and what they cost",
        description=_MODELS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    models.add_argument("name", metavar="NAME", nargs="?", help="only this model or provider")
    add_report(models, "models", ModelsOptions)
