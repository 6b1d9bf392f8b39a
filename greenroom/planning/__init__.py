"""From a goal to finished work, for any model.

`react` is an agent that thinks, acts and observes in words; `text_tools` gives tools to a model that
has none of its own, with `tool_words` (what it reads of them) and `live_text` (what of a reply may be shown
while it comes). `parse_action` reads what a reply means to do: `outcome` (what that can be, and what an
object says of it) and `almost_json` (objects as models write them).
"""

from greenroom.planning.outcome import (
    Action as Action,
    Fault as Fault,
    FinalAnswer as FinalAnswer,
)
from greenroom.planning.parse_action import parse_action as parse_action
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
