"""What must be true of an agent and its tools whatever happens to them, and whenever.

An invariant takes a `Trial` and raises `AssertionError` where it does not hold. Add your own:
`cancel_at_every_checkpoint(..., invariants=[*INVARIANTS, every_oven_is_off])`.

Those here are about an agent and its runtime; those in `tool_invariants` are about what calls and
turns leave behind.
"""

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import UNSET

from greenroom import core
from greenroom.core._internal import EndStatus
from greenroom.testing.fuzz import tool_invariants
from greenroom.testing.fuzz.evidence import Trial

Invariant: TypeAlias = Callable[[Trial], None]
"""A function that raises `AssertionError` where a trial breaks it; its name is shown."""


def no_call_is_stuck(trial: Trial) -> None:
    """Every call to the handle has returned: `ask`, `wait`, `interrupt`, `shutdown`."""
    assert not trial.stuck, f"never returned: {', '.join(trial.stuck)}"


def nothing_is_alive(trial: Trial) -> None:
    """No task that the agent has started is alive when `wait()` returns."""
    assert not trial.alive, f"still alive: {'; '.join(trial.alive)}"


def no_process_is_left(trial: Trial) -> None:
    """No process that was started is there when the runtime has been left; seen on Linux alone."""
    processes = trial.leftovers_at_end.processes
    assert not processes, (
        f"still there: {'; '.join(processes)} (end it in a `finally`, and wait for it)"
    )


def the_registry_is_empty(trial: Trial) -> None:
    """The runtime calls nothing running that has ended."""
    assert not trial.running, f"still registered: {', '.join(trial.running)}"


def the_agent_has_an_outcome(trial: Trial) -> None:
    """`wait()` says how the agent ended: without a crash, and stopped by nothing but the sweep."""
    assert trial.outcome is not None, "wait() has returned nothing"
    crash = trial.outcome.error
    assert crash is None, f"the agent crashed: {type(crash).__name__}: {crash}"
    fitting = {
        "kill": {EndStatus.KILLED, EndStatus.COMPLETED},
        "cancel": {EndStatus.CANCELLED, EndStatus.COMPLETED},
        "shutdown": {EndStatus.CANCELLED, EndStatus.COMPLETED},
    }.get(trial.mode or "", {EndStatus.COMPLETED})
    assert trial.outcome.status in fitting, f"the agent ended {trial.outcome.status}"


def history_is_paired(trial: Trial) -> None:
    """Each tool call is answered once, before the next reply, and nothing else is answered."""
    for session_id, history in {trial.session_id: trial.history, **trial.stored_histories}.items():
        _check_pairs(session_id, history)


def an_interrupt_leaves_nothing(trial: Trial) -> None:
    """When `interrupt()` returns the turn is over, and nothing of it is abandoned or unpaired.

    A plain tool's thread can't be stopped, and may end by itself: see `no_thread_is_left`.
    """
    interrupt = trial.interrupt
    if interrupt is None:
        return
    abandoned = [each for each in interrupt.report.abandoned if not each.startswith("thread of ")]
    assert not abandoned, (
        f"abandoned: {', '.join(abandoned)} (wait for it no longer than `context.cleanup` allows)"
    )
    open_before = _open_turns(trial.all_chunks[: interrupt.before])
    open_after = _open_turns(trial.all_chunks[: interrupt.after])
    assert not open_before & open_after, "interrupt() returned before the turn was over"
    if not open_after:
        _check_pairs(trial.session_id, interrupt.history)


def results_are_real(trial: Trial) -> None:
    """Where a tool had ended, its result is in the history, even if the turn was cut off."""
    histories = {**trial.stored_histories, trial.session_id: trial.history}
    for session_id, chunks in trial.streams.items():
        history = histories.get(session_id, ())
        results = {result.tool_use_id: result for m in history for result in m.tool_results}
        for chunk in chunks:
            if (
                isinstance(chunk, core.ToolEnd)
                and chunk.result.status is not core.ToolStatus.INTERRUPTED
            ):
                assert results.get(chunk.id) == chunk.result.block(chunk.id), (
                    f"{session_id}: the result of {chunk.id} was {chunk.result.text!r}, "
                    "and the history says something else"
                )


def subagents_end_with_a_turn_that_breaks(trial: Trial) -> None:
    """The subagents of a turn have ended when it is reported as interrupted or failed."""
    for session_id, chunks in trial.streams.items():
        running: set[str] = set()
        for chunk in chunks:
            match chunk:
                case core.TurnStart():
                    running = set()
                case core.SubAgentSpawned(session_id=child, detached=False):
                    running.add(child)
                case core.SubAgentComplete(session_id=child):
                    running.discard(child)
                case core.Done(status=status) if status is not core.TurnStatus.COMPLETED:
                    assert not running, f"{session_id}: its turn {status}, {running} went on"
                case _:
                    pass


def only_completed_turns_have_values(trial: Trial) -> None:
    """What a turn has set as its result is published if it completes, and only then."""
    for session_id, chunks in trial.streams.items():
        for chunk in chunks:
            if isinstance(chunk, core.Done) and chunk.status is not core.TurnStatus.COMPLETED:
                assert chunk.value is UNSET, (
                    f"{session_id}: its turn {chunk.status}, with the value {chunk.value!r}"
                )


def the_session_is_stored(trial: Trial) -> None:
    """What the store gives back is what was in memory, and needs no repair."""
    for session_id, damage in trial.damaged.items():
        raise AssertionError(f"{session_id}: {damage}")
    stored = trial.stored_histories.get(trial.session_id, ())
    assert stored == trial.history, (
        f"the store has {len(stored)} messages, memory has {len(trial.history)}"
        if len(stored) != len(trial.history)
        else "a stored message is another than the one in memory"
    )


def input_is_accounted_for(trial: Trial) -> None:
    """Each input with a receipt is in the history or undelivered, and never both."""
    inputs = [message.text for message in trial.history if message.role == "user"]
    undelivered = trial.undelivered_ids
    started = {chunk.input_id for chunk in trial.chunks if isinstance(chunk, core.TurnStart)}
    for each in trial.acknowledged_inputs:
        input_id = each.receipt.input_id
        is_in_history = each.text in inputs
        assert is_in_history or input_id in undelivered, f"the input {each.text!r} is lost"
        assert not (input_id in started and input_id in undelivered), (
            f"the input {each.text!r} began a turn, and is called undelivered"
        )


def turns_are_closed(trial: Trial) -> None:
    """Every `TurnStart` is followed by its `Done` before the next one."""
    for session_id, chunks in trial.streams.items():
        turns = [chunk for chunk in chunks if isinstance(chunk, (core.TurnStart, core.Done))]
        expected = [chunk.input_id for chunk in turns if isinstance(chunk, core.TurnStart)]
        actual = [(type(chunk).__name__, chunk.input_id) for chunk in turns]
        wanted = [(kind, id_) for id_ in expected for kind in ("TurnStart", "Done")]
        assert actual == wanted, f"{session_id}: the turns are {actual}"


def tools_are_closed(trial: Trial) -> None:
    """Every `ToolStart` is followed by one `ToolEnd` of its id, within its turn."""
    for session_id, chunks in trial.streams.items():
        running: list[str] = []
        for chunk in chunks:
            match chunk:
                case core.ToolStart(id=tool_use_id):
                    assert tool_use_id not in running, f"{session_id}: {tool_use_id} started twice"
                    running.append(tool_use_id)
                case core.ToolEnd(id=tool_use_id):
                    assert tool_use_id in running, f"{session_id}: {tool_use_id} ended unstarted"
                    running.remove(tool_use_id)
                case core.Done() | core.Exited():
                    assert not running, f"{session_id}: no ToolEnd for {', '.join(running)}"
                case _:
                    pass
        assert not running, f"{session_id}: no ToolEnd for {', '.join(running)}"


def prompts_are_closed(trial: Trial) -> None:
    """Every permission request is answered or withdrawn once, and none is open at the end."""
    assert not trial.pending, f"{len(trial.pending)} permission requests are still open"
    for session_id, chunks in trial.streams.items():
        requested = [c.request_id for c in chunks if isinstance(c, core.PermissionRequest)]
        decided = [c.request_id for c in chunks if isinstance(c, core.PermissionResponse)]
        assert sorted(requested) == sorted(decided), (
            f"{session_id}: asked {requested}, decided {decided}"
        )


def states_are_legal(trial: Trial) -> None:
    """A final state is the last one and the only one, and the handle shows it."""
    for session_id, chunks in trial.streams.items():
        states = [core.AgentState.idle()]
        states += [chunk.state for chunk in chunks if isinstance(chunk, core.StateChange)]
        for one, other in pairwise(states):
            assert not one.is_final, f"{session_id}: from {one} to {other}"
        assert states[-1].is_final, f"{session_id}: the last state is {states[-1]}"
        if session_id == trial.session_id:
            assert states[-1] == trial.state, f"the handle says {trial.state}, not {states[-1]}"


def a_turn_ends_idle(trial: Trial) -> None:
    """When a turn is reported as over, the agent is idle."""
    for session_id, chunks in trial.streams.items():
        state = core.AgentState.idle()
        for chunk in chunks:
            if isinstance(chunk, core.StateChange):
                state = chunk.state
            elif isinstance(chunk, core.Done):
                assert state == core.AgentState.idle(), (
                    f"{session_id}: {state} at the end of a turn"
                )


def exited_is_last(trial: Trial) -> None:
    """`Exited` is the last chunk of every agent, and comes once."""
    for session_id, chunks in trial.streams.items():
        places = [place for place, chunk in enumerate(chunks) if isinstance(chunk, core.Exited)]
        assert places == [len(chunks) - 1], f"{session_id}: Exited at {places} of {len(chunks)}"


def subagents_are_reported(trial: Trial) -> None:
    """Every subagent that was spawned has one `SubAgentComplete`, unless it is detached."""
    for session_id, chunks in trial.streams.items():
        ended = [chunk.session_id for chunk in chunks if isinstance(chunk, core.SubAgentComplete)]
        spawned = [
            chunk.session_id
            for chunk in chunks
            if isinstance(chunk, core.SubAgentSpawned) and not chunk.detached
        ]
        assert sorted(spawned) == sorted(ended), f"{session_id}: spawned {spawned}, ended {ended}"


def the_next_input_works(trial: Trial) -> None:
    """After an interrupt the agent lives on and answers; after its end the next one does."""
    if trial.mode != "kill":
        assert trial.probe is not None, "the agent did not answer the last input"
        assert trial.probe.status is core.TurnStatus.COMPLETED, (
            f"the turn of the last input {trial.probe.status}: {trial.probe.error}"
        )


def _open_turns(chunks: Sequence[core.OutputChunk]) -> set[str]:
    started = {chunk.input_id for chunk in chunks if isinstance(chunk, core.TurnStart)}
    return started - {chunk.input_id for chunk in chunks if isinstance(chunk, core.Done)}


def _check_pairs(session_id: str, history: Sequence[core.Message]) -> None:
    requested: list[str] = []
    for place, message in enumerate(history):
        for result in message.tool_results:
            id_ = result.tool_use_id
            text = f"{session_id}: message {place} answers {id_}, which was not requested"
            assert id_ in requested, text
            requested.remove(id_)
        if message.role == "assistant":
            assert not requested, f"{session_id}: before message {place}, no answer to {requested}"
            requested = [call.id for call in message.tool_uses]
    assert not requested, f"{session_id}: no answer to {requested}"


INVARIANTS: Sequence[Invariant] = tuple(
    each
    for each in [*globals().values(), *vars(tool_invariants).values()]
    if inspect.isfunction(each)
    and not each.__name__.startswith("_")
    and [*inspect.signature(each).parameters] == ["trial"]
)
"""What holds for every agent and every tool; add your own."""
