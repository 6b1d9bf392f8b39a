"""How what stands around the input line looks; apart from `themes`, to be loaded without rich."""

from collections.abc import Mapping

LINE_STYLES: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "status": "ansibrightblack",
        "hint": "ansiyellow",
        "question": "bold ansiyellow",
        "chip": "ansicyan",
        "menu": "ansibrightblack",
        "menu.marked": "bold",
        "menu.preview": "ansicyan",
    },
    "light": {
        "status": "ansibrightblack",
        "hint": "#875f00",
        "question": "bold #875f00",
        "chip": "ansiblue",
        "menu": "ansibrightblack",
        "menu.marked": "bold",
        "menu.preview": "ansiblue",
    },
    "colour-blind": {
        "status": "ansibrightblack",
        "hint": "bold",
        "question": "bold underline",
        "chip": "underline",
        "menu": "ansibrightblack",
        "menu.marked": "bold",
        "menu.preview": "italic",
    },
    "plain": {
        "status": "",
        "hint": "bold",
        "question": "bold",
        "chip": "underline",
        "menu": "",
        "menu.marked": "bold",
        "menu.preview": "italic",
    },
}
"""What stands around the input line in each look; the styles are prompt_toolkit's."""
