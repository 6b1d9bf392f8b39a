"""Whether a scenario goes the same way each time; what differs by itself is no cancel's fault."""

from itertools import zip_longest

from greenroom.core._internal import clip
from greenroom.testing.fuzz.evidence import EndedCall, EndedTurn, Trial

_ROUNDING = 0.001  # seconds
_MAX_NAME = 200  # characters of a call
_ADVICE = (
    "so nothing that differs can be blamed on a cancel (make it repeatable: give it a "
    "`random.Random(0)` that is made with the scenario, the time by `trio.current_time()`, and an "
    "order to what it takes from sets and folders)"
)


def find_difference(one: Trial, other: Trial) -> str:
    """Say where two undisturbed runs with one seed part; or "". Their texts may differ.

    On a real clock the times and the checkpoints are never quite the same, so how calls end is all
    that is compared.
    """
    difference = _find_end(one, other)
    if not one.turns:  # an agent may wait by chance before it tries again, as ours do
        difference = difference or _find_place(one, other)
    return f"it takes another way each time without any cancel: {difference}; {_ADVICE}" * bool(
        difference
    )


def _find_end(one: Trial, other: Trial) -> str:
    pairs = zip_longest(_list_ended(one), _list_ended(other))
    for first, second in pairs:
        if first is None or second is None:
            longer = first or second
            return f"{_name(longer)} ran in one run only" if longer else ""
        if first.name != second.name:
            return f"{_name(first)} in one run, {_name(second)} in another"
        if first.status != second.status:
            return f"{_name(first)} ended {first.status}, and in another run {second.status}"
        if not one.turns and abs(first.seconds - second.seconds) > _ROUNDING:
            times = f"{first.seconds:.3g} s, and in another run {second.seconds:.3g} s"
            return f"{_name(first)} took {times}"
    return ""


def _find_place(one: Trial, other: Trial) -> str:
    """Compare the places of the checkpoints in the user's code."""
    for number, (first, second) in enumerate(zip_longest(one.way, other.way), 1):
        if first != second:
            return (
                f"at checkpoint {number} it is in {first or 'no code'}, and in another run in "
                + (second or "no code")
            )
    return ""


def _list_ended(trial: Trial) -> list[EndedCall | EndedTurn]:
    ended: list[EndedCall | EndedTurn] = [*trial.calls, *trial.calls_again]
    ended += [*trial.turns, *trial.turns_again]
    return sorted(ended, key=lambda each: each.name)  # calls side by side end in any order


def _name(ended: EndedCall | EndedTurn) -> str:
    return clip(ended.name, _MAX_NAME)
