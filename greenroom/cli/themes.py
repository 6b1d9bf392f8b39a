"""The looks of the terminal."""

from collections.abc import Mapping

from greenroom.cli.painter import ColorScheme

_DARK = ColorScheme()
THEMES: Mapping[str, ColorScheme] = {
    "dark": _DARK,
    "light": ColorScheme(
        user="bold blue",
        hunk="blue",
        question="bold orange4",
        effect="orange4",
        subagent="dark_magenta",
        code_span="blue",
        code="ansi_light",
    ),
    "colour-blind": ColorScheme(
        error="bold orange3",
        added="dodger_blue2",
        removed="orange3",
        hunk="bold",
        question="bold underline",
        effect="orange3",
        code_span="bold",
        code="",
    ),
    "plain": ColorScheme(
        user="bold",
        error="bold",
        added="",
        removed="",
        hunk="bold",
        question="bold",
        effect="",
        subagent="bold",
        code_span="",
        code="",
    ),
}
"""Each look by its name. Differences of the last two can be told by their signs as well."""


DESCRIPTIONS = {
    "auto": "dark or light, as the terminal's background is",
    "dark": "for a dark background",
    "light": "for a light background",
    "colour-blind": "without a difference between red and green alone",
    "plain": "without colours",
}
"""What a person can choose."""


def name_look(theme: str, *, is_light: bool) -> str:
    """Return the name of the look that a theme stands for.

    Example:
        >>> name_look("auto", is_light=True), name_look("plain", is_light=True)
        ('light', 'plain')
    """
    return theme if theme in THEMES else "light" if is_light else "dark"


def choose_scheme(theme: str, *, is_light: bool) -> ColorScheme:
    """Return the look of this name; "auto" is the one for the terminal's background.

    Example:
        >>> choose_scheme("auto", is_light=True).code
        'ansi_light'
    """
    return THEMES[name_look(theme, is_light=is_light)]
