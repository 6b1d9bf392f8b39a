"""From a goal to finished work, for any model.

`react` is an agent that thinks, acts and observes in words; `text_tools` gives tools to a model that
has none of its own; `parse_action` reads what a reply means to do, with `almost_json` (objects as
models write them) and `live_text` (what of a reply may be shown while it comes).
"""

from greenroom.planning.parse_action import (
    Action as Action,
    Fault as Fault,
    FinalAnswer as FinalAnswer,
    parse_action as parse_action,
)
from greenroom.planning.react import react as react
from greenroom.planning.text_tools import TextTools as TextTools

__all__ = [
    "Action",
    "Fault",
    "FinalAnswer",
    "TextTools",
    "parse_action",
    "react",
]
