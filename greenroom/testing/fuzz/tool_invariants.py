"""What must be true of what calls and turns leave behind, whatever cuts them short.

They compare a run with the undisturbed ones, its controls: what a tool leaves behind there it
leaves on purpose. After a kill they hold nothing against a tool but a cancel that it swallows,
since a kill gives clean-up no time.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from greenroom import core
from greenroom.core._internal import clip
from greenroom.testing.fuzz.evidence import EndedCall, EndedTurn, Files, Leftovers, Trial
from greenroom.testing.fuzz.file_contents import find_fault

Ended: TypeAlias = EndedCall | EndedTurn
_E = TypeVar("_E", EndedCall, EndedTurn)

_ROUNDING = 0.001  # seconds
_FIRST_AND_LATER = 2  # times of a call: with a cold cache, and with a warm one
_TIMES = 3  # that an undisturbed run repeats an input: once in this agent, twice in the next
_GIVE_BACK = "give back in a `finally` what the call has taken"
_WRITE_WHOLE = (
    "write a file beside it, and put it in place with `os.replace`; append a whole record at once"
)
_WHOLE = frozenset({core.ToolStatus.SUCCESS, core.TurnStatus.COMPLETED})


def calls_end_as_before(trial: Trial) -> None:
    """The same call as in the undisturbed run ends in the same way after the cancel.

    A lock that was kept shows so, as a time-out, and so does a flag that still says "busy". The
    text is compared as well where it is the same each time.
    """
    expected, hint = _by_name(_all_calls(trial)), _GIVE_BACK
    if trial.control is None:
        expected = _by_name(trial.calls)
        hint = "choose an input that can be repeated, or another `probe`"
    for ended in trial.calls_again if trial.mode != "kill" else ():
        usual = expected.get(ended.name, [ended])
        text = (
            f"the same call again, {_describe(ended)}; undisturbed {_describe(usual[0])} ({hint})"
        )
        assert ended.status in {each.status for each in usual}, text
        if trial.control is not None and _is_steady(usual):
            assert ended.result == usual[0].result, text


def calls_take_no_longer(trial: Trial) -> None:
    """The same call takes no longer after the cancel than the longest undisturbed one.

    Where undisturbed calls take another time each, there is nothing to compare with.
    """
    if trial.control is None or trial.mode == "kill":
        return
    expected = _by_name(_all_calls(trial))
    for ended in trial.calls_again:
        usual = _times(expected.get(ended.name, [ended]))
        assert len(usual) > _FIRST_AND_LATER or ended.seconds <= max(usual) + _ROUNDING, (
            f"the same call again, {_describe(ended)}; undisturbed {max(usual):g} s ({_GIVE_BACK})"
        )


def no_cancel_is_swallowed(trial: Trial) -> None:
    """Nothing that is cancelled goes on, apart from clean-up behind a shield."""
    assert not trial.swallowed_cancels, (
        f"`trio.Cancelled` was caught {'; '.join(trial.swallowed_cancels)} "
        "(let it pass: clean up in a `finally`, and wait there within `context.cleanup(…)` only)"
    )


def a_call_is_whole_or_interrupted(trial: Trial) -> None:
    """A call that a cancel cuts short does not end as if it were whole.

    So it is where `trio.Cancelled` was caught. Texts and times are compared where they are the same
    each time, of calls that the probe repeats.
    """
    if trial.control is None or trial.mode == "kill":
        return
    repeated = {each.name for each in trial.control.calls_again}
    expected = _by_name(each for each in _all_calls(trial) if each.name in repeated)
    for ended in trial.calls:
        whole = expected.get(ended.name, [])
        if ended.status in {core.ToolStatus.SUCCESS, core.ToolStatus.ERROR} and whole:
            times = _times(whole)
            is_whole = ended.status in {each.status for each in whole}
            is_whole &= ended.result == whole[0].result or not _is_steady(whole)
            is_whole &= len(times) > 1 or round(ended.seconds, 3) in times
            assert is_whole, (
                f"{_describe(ended)}; undisturbed {_describe(whole[0])} "
                "(let `trio.Cancelled` pass: clean up in a `finally`)"
            )


def a_turn_is_whole_or_interrupted(trial: Trial) -> None:
    """A turn that a cancel cuts short does not say all that a whole one says.

    So it is where `trio.Cancelled` was caught, or where the answer is given before the work is
    done. Only turns that say the same in the same time each time are compared.
    """
    if trial.control is None or trial.mode == "kill":
        return
    expected = _by_name(each for run in _controls(trial) for each in (*run.turns, *run.turns_again))
    for ended in trial.turns:
        whole = expected.get(ended.name, [])
        times, texts = _times(whole), {each.text for each in whole}
        is_cut = ended.status not in _WHOLE and len(times) == 1
        is_cut = is_cut and ended.seconds < min(times) - _ROUNDING
        assert not (is_cut and ended.text and texts == {ended.text}), (
            f"{ended.name}: {ended.status} after {ended.seconds:g} s of {min(times):g} s, and says "
            f"{clip(ended.text, 200)!r} as a whole one does "
            "(let `trio.Cancelled` pass, and say that something is done once it is)"
        )


def what_is_called_done_is_done(trial: Trial) -> None:
    """The same input again does the work that the cancel has cut off, unless it was done.

    Something is called done before it is where the second time ends sooner than the rest of the
    work takes, as only a repetition does, or without the files that the undisturbed runs have then.
    Nothing is compared where a person was asked what the call that was cut off has done.
    """
    if trial.control is None or trial.mode == "kill" or _is_answered_for(trial):
        return
    runs, is_counted = _controls(trial), not trial.successor
    calls = [(*run.calls, *run.calls_again) for run in runs]
    _check_work(trial.calls, trial.calls_again, calls, is_counted=is_counted)
    turns = [(*run.turns, *run.turns_again) for run in runs]
    _check_work(trial.turns, trial.turns_again, turns, is_counted=is_counted)
    _check_files_of_work(trial)


def _is_answered_for(trial: Trial) -> bool:
    chunks = (chunk for stream in trial.streams.values() for chunk in stream)
    return any(isinstance(each, core.PermissionRequest) and each.may_have_run for each in chunks)


def _check_work(
    cut: Sequence[_E], again: Sequence[_E], runs: Sequence[Sequence[_E]], *, is_counted: bool
) -> None:
    """Compare what was spent with what the work takes; a repetition takes less, or nothing.

    The checkpoints of a next agent are not counted.
    """
    by_name = [_by_name(run) for run in runs]
    for ended in _firsts(again):
        before = [each for each in cut if each.name == ended.name]
        is_cut = bool(before) and all(each.status not in _WHOLE for each in before)
        usual = [run.get(ended.name, []) for run in by_name]
        for measure, unit in ((_seconds, "s"), (_checkpoints, "checkpoints")):
            work, repetition = _measure(usual, measure)
            took = measure(ended)
            if measure is _checkpoints and (ended.seconds or not is_counted):
                break  # the clock tells more
            spent = took + sum(map(measure, before))
            is_short = max(spent, repetition) < work - _ROUNDING and took <= repetition + _ROUNDING
            assert not (is_cut and is_short and ended.status in _WHOLE), (
                f"{ended.name}: the second time {ended.status} after {took:g} {unit}, as if the "
                f"first had been whole; both have taken {spent:g} {unit} of {work:g} "
                "(mark as done what is done, at the end of the work)"
            )


def _measure(
    runs: Sequence[Sequence[_E]], measure: Callable[[Ended], float]
) -> tuple[float, float]:
    """Return what the work takes the first time and when it is repeated; 0 where that varies.

    What is done is known to this agent and the next one, or the next one has to do it once, too.
    """
    taken = {tuple(map(measure, run)) for run in runs if run}
    first, *later = taken.pop() if len(taken) == 1 else (0.0,)
    if measure is _checkpoints:
        # Those of the next agent are not counted; a repetition may take none.
        later = [each for each in later if each] or later[:1]
    is_known = len({*later}) == 1 or (len(later) == _TIMES and later == [later[0], first, later[0]])
    return (first, later[0]) if is_known else (0.0, 0.0)


def _check_files_of_work(trial: Trial) -> None:
    is_done = trial.probe is not None and trial.probe.status is core.TurnStatus.COMPLETED
    if not is_done or any(each.status not in _WHOLE for each in trial.calls_again):
        return
    runs, at_end = _controls(trial), trial.leftovers_at_end.files
    is_repeated = _names(trial.calls_again, trial.turns_again) >= _names(
        runs[0].calls, runs[0].turns
    )
    if not is_repeated:
        return
    made = {*runs[0].leftovers.files}.intersection(
        *(files for run in runs for files in (run.leftovers.files, run.leftovers_at_end.files))
    )
    missing = sorted(_paths(trial, made) - trial.files_before.keys() - at_end.keys())
    assert not missing, (
        f"the second time it ended well, and there is no {', '.join(missing)} "
        "(mark as done what is done, at the end of the work)"
    )


def no_file_is_left(trial: Trial) -> None:
    """No file is new in the workspace or TMPDIR that the undisturbed run does not leave."""
    control = trial.control
    if control is None or trial.mode == "kill":
        return
    known = {path for files in _settled_files(control) for path in files}
    usual = _paths(control, control.leftovers_at_end.files) - control.files_before.keys()
    for left in (trial.leftovers, trial.leftovers_at_end):
        files = _paths(trial, left.files)
        new = files - trial.files_before.keys() - known
        # Where names are made up, as those of temporary files are, as many of a kind may be left.
        too_many = Counter(map(_shape, new)) - Counter(map(_shape, usual - files))
        leftovers = sorted(path for path in new if _shape(path) in too_many)
        assert not leftovers, f"left behind: {', '.join(leftovers)} (remove it in a `finally`)"


def files_are_whole(trial: Trial) -> None:
    """A file holds after the cancel what it held before, or what it holds after a whole call.

    One that calls append to holds whole records once the input has come again.
    """
    control = trial.control
    if control is None or trial.mode == "kill":
        return
    runs = _controls(trial)
    for path in sorted(
        {path for files in _settled_files(control) for path in _paths(control, files)}
    ):
        versions = [[files.get(path) for files in _settled_files(run)] for run in runs]
        after, at_end = (left.files.get(path) for left in (trial.leftovers, trial.leftovers_at_end))
        fault = find_fault(versions, after, at_end)
        assert not fault, f"{path} {fault} ({_WRITE_WHOLE})"


def no_thread_is_left(trial: Trial) -> None:
    """No thread runs that was started in the run."""
    _compare(trial, lambda left: left.threads, "still running", "tell it to end, and join it")


def no_descriptor_is_left(trial: Trial) -> None:
    """No file, socket or pipe is open that was opened in the run; seen on Linux alone."""
    _compare(trial, lambda left: left.descriptors, "still open", "open it with `with`")


def nothing_is_left_to_the_collector(trial: Trial) -> None:
    """The garbage collector had nothing to close, and no async generator to end."""
    _compare(trial, lambda left: left.unclosed_resources, "not closed", "open it with `with`")


def settings_are_restored(trial: Trial) -> None:
    """What the process has set is as it was, such as its environment, umask and loggers."""
    _compare(trial, lambda left: left.settings, "still changed", "restore it in a `finally`")


def _controls(trial: Trial) -> Sequence[Trial]:
    """Return the undisturbed runs to compare with."""
    return trial.controls or ([trial.control] if trial.control else [])


def _all_calls(trial: Trial) -> Iterator[EndedCall]:
    for run in _controls(trial):
        yield from (*run.calls, *run.calls_again)


def _by_name(ended: Iterable[_E]) -> Mapping[str, list[_E]]:
    by_name: defaultdict[str, list[_E]] = defaultdict(list)
    for each in ended:
        by_name[each.name].append(each)
    return by_name


def _firsts(ended: Iterable[_E]) -> list[_E]:
    """Return the first of each name."""
    return [each[0] for each in _by_name(ended).values()]


def _names(calls: Iterable[Ended], turns: Iterable[Ended]) -> set[str]:
    return {each.name for each in (*calls, *turns)}


def _seconds(ended: Ended) -> float:
    return round(ended.seconds, 3)


def _checkpoints(ended: Ended) -> float:
    return ended.checkpoints


def _times(ended: Iterable[Ended]) -> set[float]:
    return {*map(_seconds, ended)}


def _is_steady(calls: Sequence[EndedCall]) -> bool:
    return len(calls) > 1 and all(each.result == calls[0].result for each in calls)


def _describe(ended: EndedCall) -> str:
    text = clip(ended.text, 200)
    return f"{ended.name}: {ended.status}, {text!r}, after {ended.seconds:g} s"


def _shape(text: str) -> str:
    """Replace the parts of a path or message that differ between runs: made-up names, numbers."""
    if "/" in text:
        text = "/".join("*" + os.path.splitext(part)[1] for part in text.split("/"))
    return re.sub(r"\d+|0x[0-9a-f]+", "*", text)


def _paths(trial: Trial, files: Iterable[str]) -> set[str]:
    """Leave out the folders of sessions."""
    sessions = {*trial.streams, trial.successor}
    return {path for path in files if sessions.isdisjoint(path.split("/"))}


def _settled_files(control: Trial) -> tuple[Files, ...]:
    """Return the files before the run, after each call and at the end."""
    return (control.files_before, *control.files_after_calls, control.leftovers_at_end.files)


def _compare(
    trial: Trial, kind: Callable[[Leftovers], Sequence[str]], what: str, hint: str
) -> None:
    """Compare with the undisturbed run, ignoring numbers and made-up names."""
    control = trial.control
    if control is None or trial.mode == "kill":
        return
    for left, usual in (
        (trial.leftovers, control.leftovers),
        (trial.leftovers_at_end, control.leftovers_at_end),
    ):
        known = Counter(map(_shape, kind(usual)))
        leftovers = []
        for each in kind(left):
            known[_shape(each)] -= 1
            if known[_shape(each)] < 0:
                leftovers.append(each)
        assert not leftovers, f"{what}: {', '.join(leftovers)} ({hint})"
