"""The random programs can fail: each runtime with one promise broken is noticed by a few of them.

The program that notices a mutant keeps all promises under the runtime as it is.
"""

import pytest
import trio

from greenroom.core import SubAgentResult, untrusted
from greenroom.core._internal import Instruments
from greenroom.resilience import Budget
from greenroom.runtime import calls, lifecycle
from greenroom.runtime.actor import Actor
from greenroom.runtime.approvals import Approvals
from greenroom.runtime.budgets import Budgets
from greenroom.runtime.calls import ToolSlot
from greenroom.runtime.interruption import Cleanups
from greenroom.runtime.kernel import Registry
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.output_ring import Output, OutputRing
from greenroom.runtime.restarts import RestartWindow
from greenroom.runtime.subagents import Children, Monitor, Report
from greenroom.runtime.tasks import TaskGroup
from greenroom.runtime.turns import Turns
from greenroom.session._internal import Conversation
from tests.runtime.chaos.faults import FaultyFamily, FaultyTree
from tests.runtime.chaos.run import find_violation
from tests.runtime.chaos.world import Family, Tree

MOST = 40  # programs until a mutant must be noticed


def nothing(*_, **__):
    return ()


async def wait_for_nothing(*_, **__):
    pass


async def call_in_the_same_task(actor, nursery):
    """Call the function where the runtime's own scopes are open."""
    if not await lifecycle._open(actor):
        return
    actor.life.nursery = nursery
    try:
        actor.main_task = trio.lowlevel.current_task()
        actor.life.value = await actor.call()
    except BaseException as error:
        actor.life.raised = error
    else:
        actor.life.has_returned = True
    nursery.start_soon(lifecycle._end_rest, actor)


def tell_twice(monitor, message):
    _TELL(monitor, message)
    monitor._mailbox.put_result(message)


def one_restart_more(window, child, now):
    window.intensity += 1
    try:
        return _ADD(window, child, now)
    finally:
        window.intensity -= 1


async def take_beyond_the_limit(budget):
    await trio.lowlevel.checkpoint()
    budget.acquire_nowait()


async def go_on_at_once(slot, _):
    slot._waits -= 1
    slot._settle()


def describe_by_itself(error):
    return str(error)


def hand_down_to_nobody(mailbox, message):
    if isinstance(message, SubAgentResult):
        _PUT_RESULT(mailbox, message)
    _PUT_RESULT(mailbox, message)


async def save_or_raise(actor):
    actor.session.conversation.pair_tool_uses()
    await actor.flush()


def let_hooks_raise(instruments, hook, agent, *details):
    for method in instruments.methods[hook]:
        method(agent.snapshot(), *details)


_TELL, _ADD, _PUT_RESULT = Monitor.tell, RestartWindow.add, Mailbox.put_result

MUTANTS = {
    # what an agent leaves open
    "the function shares its task with the runtime": (lifecycle, "_start", call_in_the_same_task),
    "tasks of lost nurseries are forgotten": (TaskGroup, "end", wait_for_nothing),
    "turns that are left open stay open": (Turns, "abandon", wait_for_nothing),
    "slots that are left stay taken": (Budgets, "end_life", nothing),
    # errors
    "errors are described by themselves": (lifecycle, "describe_error", describe_by_itself),
    "errors are not cut": (untrusted, "clip", lambda text, _: text),
    # books
    "calls stay unanswered": (Conversation, "pair_tool_uses", nothing),
    "tools stay open": (Output, "close_tools", lambda *_: {}),
    "chunks do not reach the parent": (
        Output,
        "publish",
        lambda self, *chunks: [self.ring.append(each) for each in chunks],
    ),
    "readers do not learn of the end": (OutputRing, "close", nothing),
    "the registry keeps ghosts": (Registry, "forget", nothing),
    "the history is not saved": (Actor, "flush", wait_for_nothing),
    # inputs and word of others
    "undelivered inputs vanish": (Mailbox, "drain", nothing),
    "inputs of a broken life vanish": (Turns, "put_back", lambda self: self._unopened.clear()),
    "results come twice": (Mailbox, "put_result", hand_down_to_nobody),
    "results come although they are known": (Report, "withdraw", nothing),
    "monitors tell twice": (Monitor, "tell", tell_twice),
    # waits and ends
    "circles of asks are not refused": (calls, "_refuse_circle", nothing),
    "an agent may wait for itself": (calls, "refuse_self_wait", nothing),
    "whoever asks is forgotten": (Turns, "end", nothing),
    "subagents outlive their turn": (Children, "end", wait_for_nothing),
    "clean-ups are not shortened": (Cleanups, "clip", nothing),
    "prompts stay open at a shutdown": (Approvals, "_close", nothing),
    "slots are kept after the call": (ToolSlot, "close", nothing),
    "calls begin beyond the limit": (Budget, "acquire", take_beyond_the_limit),
    "calls go on beyond the limit": (ToolSlot, "take_again", go_on_at_once),
    "a restart too many": (RestartWindow, "add", one_restart_more),
}


# what fails around agents
MUTANTS_OF_FAULTS = {
    "a last save that fails ends the runtime": (lifecycle, "_flush", save_or_raise),
    "hooks raise": (Instruments, "notify", let_hooks_raise),
}


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("kinds", "owner", "name", "mutant"),
    [
        *(pytest.param((Tree, Family), *each, id=name) for name, each in MUTANTS.items()),
        *(
            pytest.param((FaultyTree, FaultyFamily), *each, id=name)
            for name, each in MUTANTS_OF_FAULTS.items()
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Async generator")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_promise_is_noticed(kinds, owner, name, mutant, monkeypatch):
    programs = ((kind, seed) for seed in range(MOST) for kind in kinds)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, mutant)
        noticed = next((each for each in programs if find_violation(*each)), None)
    assert noticed is not None
    assert not find_violation(*noticed)
