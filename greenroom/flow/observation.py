"""What a failed call means for the next step, in words for a model that acts in plain text."""

import re

from greenroom.flow.error_context import ErrorClass, classify
from greenroom.schemas._internal import is_misfit

_TEMPORARY = (
    "This may be temporary. Try again if the action may be repeated safely; otherwise find out"
    " first whether it had its effect."
)
_WRONG = "The action was not run, and would fail again: correct it."
_BROKEN = (
    "The tool has failed; the same action will probably fail again: change it, or use another."
)

_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*): ")
_NETWORK = re.compile(
    r"(?:Timeout|TooSlow|Connection|Connect|BrokenPipe|Read|Write|Pool)(?:\w*Error|Timeout)?"
)


def describe_failure(text: str) -> str:
    """Return the text of a failed call with a hint: whether it may be temporary, and what to do.

    Nothing is added to an error that a tool reports in its own words, or to a denial.

    Example:
        >>> print(describe_failure("KeyError: 'id'"))
        Error: KeyError: 'id'
        The tool has failed; the same action will probably fail again: change it, or use another.
        >>> describe_failure("no such city: Olso")
        'Error: no such city: Olso'
    """
    return "\n".join(filter(None, (f"Error: {text}", _find_hint(text))))


def _find_hint(text: str) -> str:
    first = text.partition("\n")[0]
    if is_misfit(text) or first.startswith("There is no tool named "):
        return _WRONG
    if " was stopped: it did not finish within " in first:
        return _TEMPORARY
    raised = _RAISED.match(first)
    if raised is None:
        return ""
    if _NETWORK.fullmatch(raised[1]) or classify(raised[1]) is ErrorClass.TRANSIENT:
        return _TEMPORARY
    return _BROKEN if raised[1].endswith(("Error", "Exception")) else ""
