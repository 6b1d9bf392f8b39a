"""The checks can fail: a runtime that is broken in one way is found by the invariant for it.

What is found of tools is in `test_tools.py`.
That the control is clean is what `test_own_agents.py` shows.
"""

from contextlib import suppress
from functools import wraps

import pytest
import trio

from greenroom.agents import reply
from greenroom.core import AgentState, Done, Exited, StateChange, StopReason, SubAgentComplete
from greenroom.runtime import (
    actor,
    approvals,
    handle as handles,
    interruption,
    kernel,
    lifecycle,
    mailbox,
    output_ring,
    results,
    subagents,
    turn,
    turns,
)
from greenroom.session import AgentSession
from greenroom.session._internal import Conversation
from greenroom.session.transcript import Pairs
from greenroom.testing.fuzz import INVARIANTS, MODES, FuzzError, cancel_at_every_checkpoint
from tests.testing.fuzz import scenarios
from tests.testing.fuzz.careless_tools import CARELESS
from tests.testing.fuzz.planted_bugs import PLANTED

MUTANTS = {}


def breaks(*invariants, first="interrupt"):
    """Register a mutant with the invariants that have to find it, and the mode to find it by."""

    def register(mutate):
        MUTANTS[mutate.__name__] = (mutate, set(invariants), first)
        return mutate

    return register


def silenced(kind):
    """Make an `append` of a ring that keeps chunks of this kind to itself."""
    append = output_ring.OutputRing.append
    return lambda self, chunk: None if isinstance(chunk, kind) else append(self, chunk)


async def nothing(*args, **kwargs):
    await trio.lowlevel.checkpoint()


@breaks("history_is_paired", "the_session_is_stored")
def calls_are_not_paired(patch):
    patch.setattr(Conversation, "pair_tool_uses", lambda *args, **kwargs: ())
    # A call that stays open is answered when the next reply comes, else.
    patch.setattr(Pairs, "add", lambda self, messages, message, started: messages.append(message))


@breaks("tools_are_closed")
def open_tools_get_no_end(patch):
    patch.setattr(output_ring.Output, "close_tools", lambda self: {})


@breaks("results_are_real")
def the_results_of_a_turn_that_is_cut_off_are_dropped(patch):
    add = AgentSession.add_message

    def add_message(self, message):
        # A batch in which something is missing is one that was cut off.
        calls = [m.tool_uses for m in self.history if m.tool_uses]
        if not message.tool_results or len(message.tool_results) == len(calls[-1]):
            add(self, message)

    patch.setattr(AgentSession, "add_message", add_message)


@breaks("only_completed_turns_have_values")
def a_value_is_published_however_the_turn_ends(patch):
    patch.setattr(turn.Turn, "value", property(lambda self: "early"))


@breaks("subagents_end_with_a_turn_that_breaks", first="kill")
def subagents_are_not_ended(patch):
    patch.setattr(subagents.Children, "end", nothing)


@breaks("subagents_are_reported")
def the_end_of_a_subagent_is_not_told(patch):
    patch.setattr(output_ring.OutputRing, "append", silenced(SubAgentComplete))


@breaks("a_turn_ends_idle")
def the_state_is_not_set_at_the_end_of_a_turn(patch):
    set_state = actor.Actor.set_state

    def stay(self, state):
        if state != AgentState.idle():
            set_state(self, state)

    patch.setattr(actor.Actor, "set_state", stay)


@breaks("states_are_legal")
def the_last_state_is_not_set(patch):
    set_state = actor.Actor.set_state

    def stay(self, state):
        if not state.is_final:
            set_state(self, state)

    patch.setattr(actor.Actor, "set_state", stay)
    patch.setattr(lifecycle, "_DONE", StateChange(AgentState.idle()))


@breaks("turns_are_closed")
def the_end_of_a_turn_is_not_told(patch):
    patch.setattr(output_ring.OutputRing, "append", silenced(Done))


@breaks("exited_is_last")
def the_end_of_an_agent_is_not_told(patch):
    patch.setattr(output_ring.OutputRing, "append", silenced(Exited))


@breaks("no_call_is_stuck")
def who_asks_is_not_woken(patch):
    patch.setattr(results.Answers, "_wake", lambda *args: None)


@breaks("no_call_is_stuck", first="kill")
def who_asks_is_not_woken_at_the_end_of_the_agent(patch):
    patch.setattr(turns.Turns, "end", lambda self: None)


@breaks("no_call_is_stuck", "the_agent_has_an_outcome")
def who_waits_is_not_woken(patch):
    async def wait(self):
        await trio.sleep_forever()

    patch.setattr(handles.AgentHandle, "wait", wait)


@breaks("the_session_is_stored")
def a_turn_is_not_flushed(patch):
    patch.setattr(actor.Actor, "flush", nothing)


@breaks("the_session_is_stored")
def the_lock_is_not_let_go(patch):
    patch.setattr(lifecycle, "_release", nothing)


@breaks("every_tray_comes_out")
def clean_up_is_not_shielded(patch):
    init = interruption.CleanupScope.__init__

    def unshielded(self, *args):
        init(self, *args)
        self._scope = trio.CancelScope()

    patch.setattr(interruption.CleanupScope, "__init__", unshielded)


@breaks("nothing_is_alive")
def a_task_is_leaked_into_the_runtime(patch):
    enter = turn.Turn.__aenter__

    async def leak(self):
        self._agent.kernel.nursery.start_soon(trio.sleep_forever)
        return await enter(self)

    patch.setattr(turn.Turn, "__aenter__", leak)


@breaks("the_registry_is_empty")
def the_registry_keeps_what_has_ended(patch):
    patch.setattr(kernel.Registry, "forget", lambda self, actor: None)


@breaks("prompts_are_closed")
def a_prompt_is_not_withdrawn(patch):
    close = approvals.Approvals._close

    def close_answered(self, request, answer, *, cancelled=False):
        if not cancelled:
            close(self, request, answer)

    patch.setattr(approvals.Approvals, "_close", close_answered)


@breaks("input_is_accounted_for", first="kill")
def what_is_left_in_the_mailbox_is_forgotten(patch):
    patch.setattr(mailbox.Mailbox, "drain", lambda self: ())


@breaks("an_interrupt_leaves_nothing")
def an_interrupt_returns_too_early(patch):
    stop = interruption.Interruption._stop

    def stop_and_say_over(self):
        stop(self)
        self._over.set()

    patch.setattr(interruption.Interruption, "_stop", stop_and_say_over)


@breaks("the_agent_has_an_outcome", "the_next_input_works")
def an_interrupt_ends_the_agent(patch):
    interrupt = turns.Turns.interrupt

    def interrupt_all(self, mode, grace):
        self.agent.scope.cancel()
        return interrupt(self, mode, grace)

    patch.setattr(turns.Turns, "interrupt", interrupt_all)


@breaks("what_was_said_is_kept")
def the_partial_reply_is_dropped(patch):
    add = AgentSession.add_message

    def add_whole(self, message):
        if message.stop_reason != "interrupted":
            add(self, message)

    patch.setattr(AgentSession, "add_message", add_whole)


@breaks("every_reply_is_billed")
def a_reply_that_is_cut_off_is_not_billed(patch):
    keep = reply._Reader._keep

    def keep_and_bill_whole_ones(reader, message, call):
        if message.stop_reason is StopReason.INTERRUPTED:
            reader.agent.session.add_message(message)
        else:
            keep(reader, message, call)

    patch.setattr(reply._Reader, "_keep", keep_and_bill_whole_ones)


class AllFound(Exception):
    """Every invariant that is sought was broken: the rest of the sweep can show nothing else."""


def left_unbroken(sought, first):
    """Sweep until each of these invariants was broken, and return those that never were."""
    missing = set(sought)

    def watched(invariant):
        @wraps(invariant)
        def check(trial):
            try:
                invariant(trial)
            except AssertionError:
                missing.discard(invariant.__name__)
                raise

        return check

    def stop_when_all_are_found(trial):
        if not missing:
            raise AllFound

    invariants = map(watched, (*INVARIANTS, *scenarios.OF_THE_BAKERY))
    with suppress(AllFound, FuzzError):
        cancel_at_every_checkpoint(
            scenarios.bakery,
            invariants=[*invariants, stop_when_all_are_found],
            modes=sorted(MODES, key=lambda mode: mode != first),
            at_most=180,  # with half as many it is luck which mutants are found
        )
    return missing


@pytest.mark.every(5)
@pytest.mark.parametrize(("mutate", "invariants", "first"), MUTANTS.values(), ids=MUTANTS)
def test_the_fuzz_finds(mutate, invariants, first, monkeypatch):
    mutate(monkeypatch)
    assert left_unbroken(invariants, first) == set()


def test_every_invariant_has_a_mutant():
    found = (*MUTANTS.values(), *CARELESS.values())
    covered = set().union(*(invariants for _, invariants, *_ in found))
    covered |= {invariant for _, _, invariant, _ in PLANTED.values()}
    names = {invariant.__name__ for invariant in (*INVARIANTS, *scenarios.OF_THE_BAKERY)}
    assert names - covered == set()
