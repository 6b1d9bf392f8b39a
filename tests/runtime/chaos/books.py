"""What a program knows of each of its agents, and the audit that holds it against what they told.

A book is kept by those who use an agent and by the function that is the agent: who spawned it, what
it was sent, what it took, what it returned. None of that is asked of the runtime.
"""

import re
from collections import Counter

import trio

from greenroom.core import (
    AgentExit,
    Done,
    Error,
    Exited,
    PermissionRequest,
    PermissionResponse,
    Restarted,
    StateChange,
    SubAgentComplete,
    SubAgentOutput,
    SubAgentResult,
    ToolEnd,
    ToolStart,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.core._internal import EndStatus, StateKind, describe_error
from greenroom.runtime import AgentNotRunningError
from greenroom.session import AgentSession

MOST = 2_000  # characters of an error, wherever it goes


class Violation(AssertionError):
    """The runtime has broken a promise."""


def expect(is_kept, promise, *details):
    """Raise a violation unless a promise is kept."""
    if not is_kept:
        words = "; ".join(str(detail)[:500] for detail in details)
        raise Violation(f"not kept: {promise} ({words})")


class Life:
    """One run of an agent's function."""

    def __init__(self, book, agent, depth):
        self.book, self.agent, self.depth = book, agent, depth
        self.alone = True
        """Whether its turns are outside of the agent's own nurseries, which print errors."""
        self.turn = None
        """The input whose turn is open."""
        self.texts = []
        """What its function has taken within that turn."""
        self.never_leaves = False
        """Whether it has entered a turn by hand: what it takes then, it takes within that turn."""
        self.left_open = False
        """Whether a call of that turn has been left without a result."""
        self.absorbed = set()
        """The ids of all that it has taken within turns."""
        self.ended = None
        self.returned = False
        self.was_ended = False
        """Whether it was being ended when its function ended."""

    @property
    def is_over(self):
        """Whether the agent has ended, or has begun another life."""
        return self.book.ended is not None or self.book.lives[-1] is not self


class Book:
    """What is known of one agent."""

    def __init__(self, handle, *, parent=None, detached=False, turn=None, reports=True, restart=""):
        self.handle = handle
        self.parent = parent
        """The life of the agent that spawned it."""
        self.detached = detached
        self.turn = turn
        """The parent's input whose turn it ends with."""
        self.reports = reports
        self.restart = restart
        self.lives = []
        self.tasks = set()
        """Its living tasks, as trio reports them."""
        self.ended = None
        """When it ended: the number of that moment, and trio's time."""
        self.value = None
        self.sent = {}
        """The ids of inputs that have a receipt, by their texts."""
        self.withdrawn = set()
        self.got = {}
        """What its function was given, by id: the message, and the life that was given it last."""
        self.asked = {}
        """What its parent or others asked: the text, and the result."""
        self.touched = False
        """Whether the parent has waited for it."""
        self.learned = None
        """How much the parent had heard of its end when it learned of it by waiting."""
        self.monitors = []
        """Who monitors it: the lives of other agents."""
        self.called_off = []
        """Who monitored it when it had ended, and called that off: perhaps it had been told."""
        self.readers = []
        """What readers got, and whether each began at the beginning."""

    @property
    def session_id(self):
        return self.handle.session_id

    @property
    def actor(self):
        return self.handle._actor

    @property
    def outcome(self):
        return self.actor.outcome

    @property
    def published(self):
        """Everything that it told, and the agents below it."""
        return vars(self.actor.output.ring).get("published", [])

    @property
    def told(self):
        """Everything that it told itself."""
        return [chunk for chunk in self.published if not isinstance(chunk, SubAgentOutput)]

    def begin_life(self, agent, depth):
        expect(not self.tasks, "nothing of one life is alive in the next", self.tasks)
        self.lives.append(Life(self, agent, depth))
        return self.lives[-1]

    def take(self, life, message):
        self.got[message.id] = message, life
        if life.never_leaves:
            life.absorbed.add(message.id)

    def look(self, runtime):
        """Check what must be true at any moment between two steps."""
        actor, running = self.actor, runtime.get(self.session_id)
        waiting = sum(
            not isinstance(item, SubAgentResult | AgentExit) for item in actor.mailbox._items
        )
        expect(waiting <= 2 * actor.limits.mailbox, "the mailbox is bounded", waiting)
        if self.outcome is None:
            expect(running is not None, "who runs is in the registry", self.handle)
            return
        expect(running is None, "there is no ghost in the registry", self.handle)
        expect(actor.ended.is_set(), "who has ended has woken who waits", self.handle)
        expect(not self.tasks, "nothing of it is alive", self.handle, self.tasks)
        expect(not actor.children, "no subagent is left", self.handle)
        expect(actor.state.is_final, "the state is final", actor.state)
        expect(isinstance(self.told[-1], Exited), "Exited is the last chunk", self.told[-3:])

    async def audit(self):
        with trio.move_on_after(1) as scope:
            outcome = await self.handle.wait()
        expect(not scope.cancelled_caught, "wait() returns", self.handle)
        self._audit_end(outcome)
        self._audit_turns()
        self._audit_pairs()
        self._audit_texts()
        self._audit_parent()
        history = await self.handle.history()
        await self._audit_history(history)
        self._audit_inputs(outcome, history)
        self._audit_answers(history)
        self._audit_word_of_others(outcome, history)
        self._audit_readers()

    def _audit_end(self, outcome):
        told, actor, last = self.told, self.actor, self.told[-1]
        expect(
            [chunk for chunk in told if isinstance(chunk, Exited)] == [last], "Exited comes once"
        )
        expect(last.status is outcome.status, "Exited tells the outcome", last, outcome.status)
        expect(
            last.error == describe_error(outcome.error) or outcome.status == "cancelled", "and why"
        )
        if outcome.status is EndStatus.COMPLETED:
            expect(outcome.error is None, "who completed has no error", last)
            expect(outcome.value == self.value, "the outcome has the function's value")
            expect(self.lives[-1].returned, "who completed has returned")
            expect(actor.state.kind is StateKind.DONE, "the state is done", actor.state)
        if outcome.status is EndStatus.CRASHED:
            expect(outcome.error is not None, "who crashed has an error")
            expect(actor.state.kind is StateKind.FAILED, "the state is failed", actor.state)
        expect(self.restart not in {"", "temporary"} or not outcome.restarts, "once is once")
        expect(len(self.lives) <= outcome.restarts + 1, "a life for each restart")
        states = [chunk.state for chunk in told if isinstance(chunk, StateChange)]
        expect(sum(state.is_final for state in states) == 1, "one state is final", states[-3:])
        expect(not actor.waits, "it waits for no agent")
        expect(not actor.turns.answers, "nothing waits for its turns")
        expect(not actor.approvals.open_requests, "it asks nothing")

    def _audit_turns(self):
        """Turns are bracketed; a failed one says why, or the agent has crashed of it."""
        begun, errors, crashing = None, 0, False
        is_one_task = all(life.alone for life in self.lives)
        for chunk in self.told:
            match chunk:
                case TurnStart():
                    expect(begun is None, "one turn at a time", chunk)
                    expect(
                        not (crashing and is_one_task),
                        "after a crash no turn follows in that life",
                        chunk,
                    )
                    begun, errors = chunk.input_id, 0
                case Error():
                    errors += 1
                case Done():
                    expect(begun == chunk.input_id, "each Done has its TurnStart", begun, chunk)
                    crashing = chunk.status is TurnStatus.FAILED and not errors
                    begun = None
                case Restarted() | Exited():
                    expect(begun is None, "no turn is open at the end of a life", chunk)
                    crashing = False
        begun = [chunk.input_id for chunk in self.told if isinstance(chunk, TurnStart)]
        expect(len(begun) == len(set(begun)), "an input begins one turn", begun)

    def _audit_pairs(self):
        told = self.told
        started = Counter(chunk.id for chunk in told if isinstance(chunk, ToolStart))
        ended = Counter(chunk.id for chunk in told if isinstance(chunk, ToolEnd))
        expect(started == ended, "each ToolStart has its ToolEnd", started - ended, ended - started)
        asked = Counter(c.request_id for c in told if isinstance(c, PermissionRequest))
        answered = Counter(c.request_id for c in told if isinstance(c, PermissionResponse))
        expect(asked == answered, "each request has its response", asked, answered)
        numbers = [chunk.restarts for chunk in told if isinstance(chunk, Restarted)]
        restarts = self.outcome.restarts
        expect(numbers == sorted(numbers), "restarts are counted up", numbers)
        expect(
            set(range(1, restarts + 1)) <= set(numbers),
            "each restart is published",
            numbers,
            restarts,
        )
        expect(max(numbers, default=0) <= restarts + 1, "no other is published", numbers, restarts)

    def _audit_texts(self):
        """At most 2,000 characters of an error go anywhere, and a crash is published once."""
        for chunk in self.told:
            match chunk:
                case Error(message=text) | Exited(error=text) | Done(error=text):
                    pass
                case Restarted(error=text) | SubAgentComplete(result=text):
                    pass
                case StateChange(state=state):
                    text = state.detail or ""
                case _:
                    continue
            expect(len(text) <= MOST, "an error is cut", type(chunk), len(text))
        for result in self.asked.values():
            expect(len(getattr(result, "error", "")) <= MOST, "an error is cut in a result")
        last = [chunk for chunk in self.told[-3:] if isinstance(chunk, Error)]
        if self.outcome.status is EndStatus.CRASHED and self.outcome.restarts == 0:
            told = [chunk for chunk in self.told if isinstance(chunk, Error | Restarted)]
            expect(last or told, "a crash is published")

    def _audit_parent(self):
        """Its chunks are in its parent's output too, in order, and its usage is counted there."""
        own = sum(
            (chunk.usage for chunk in self.told if isinstance(chunk, UsageReport)), start=Usage()
        )
        expect(self.actor.output.usage == own, "what it used is counted")
        if self.parent is None or self.detached:
            return
        parent = self.parent.book
        wrapped = [
            chunk.chunk
            for chunk in parent.published
            if isinstance(chunk, SubAgentOutput) and chunk.session_id == self.session_id
        ]
        expect(wrapped == self.published, "a subagent's chunks are in its parent's output")
        completed = [
            chunk
            for chunk in parent.told
            if isinstance(chunk, SubAgentComplete) and chunk.session_id == self.session_id
        ]
        expect(len(completed) == 1, "the parent's readers are told of the end once", completed)

    async def _audit_history(self, history):
        open_calls = []
        for message in history:
            if message.role == "assistant":
                open_calls += [call.id for call in message.tool_uses]
            for result in message.tool_results:
                expect(result.tool_use_id in open_calls, "each result has its call")
                open_calls.remove(result.tool_use_id)
            expect(len(message.text) <= 2 * MOST, "an error is cut in a history")
        expect(open_calls == [], "each call has its result", open_calls)
        if history and (self.outcome.error is None or self.lives):
            self._audit_stored(history, await self._load())

    async def _load(self):
        return (await AgentSession.load(self.session_id, store=self.actor.session.store)).history

    def _audit_stored(self, history, stored):
        expect(stored == history, "the history is saved")

    def _audit_inputs(self, outcome, history):
        """Each input has begun a turn, has joined one, was withdrawn, or is reported; once."""
        undelivered = [message.id for message in outcome.undelivered]
        expect(len(undelivered) == len(set(undelivered)), "each is reported once", undelivered)
        begun = {chunk.input_id for chunk in self.told if isinstance(chunk, TurnStart)}
        said = Counter(message.text for message in history if message.role == "user")
        for text, input_id in self.sent.items():
            joined = said[text] and input_id not in begun
            places = [
                input_id in begun,
                bool(joined),
                input_id in self.withdrawn,
                input_id in undelivered,
            ]
            expect(sum(places) <= 1, "an input is in one place", text, places)
            expect(said[text] <= 1, "an input is said once", text)
            expect(said[text] or input_id not in begun, "what a turn answers is in the history")
            if not any(places):
                self._audit_dropped(input_id, outcome)

    def _audit_dropped(self, input_id, outcome):
        """Nobody but the agent's own function may drop an input: by a return, or by a crash."""
        expect(input_id in self.got, "no input vanishes", input_id, outcome.status)
        _, life = self.got[input_id]
        is_last = life is self.lives[-1]
        expect(
            life.returned
            or input_id in life.absorbed
            or (is_last and outcome.status is EndStatus.CRASHED),
            "what was taken and not begun waits again, or is reported",
            input_id,
            outcome.status,
        )

    def _audit_answers(self, history):
        said = Counter(message.text for message in history if message.role == "user")
        absorbed = {
            message.text
            for message, _ in self.got.values()
            if not isinstance(message, SubAgentResult)
        }
        for text, result in self.asked.items():
            if getattr(result, "status", None) is not TurnStatus.COMPLETED:
                continue
            expect(said[text] == 1 or text in absorbed, "what was answered was taken", text)
            expect(text in result.text, "an ask gets the result of its own turn", text, result.text)

    def heard(self, kind, session_id, undelivered=()):
        """Count how often its function was, or would be, told of the end of another agent."""
        got = {
            each.id
            for each, _ in self.got.values()
            if isinstance(each, kind) and each.session_id == session_id
        }
        left = {
            each.id
            for each in undelivered
            if isinstance(each, kind) and each.session_id == session_id
        }
        begun = {chunk.input_id for chunk in self.told if isinstance(chunk, TurnStart)}
        who = "subagent" if kind is SubAgentResult else "agent"
        begins = re.compile(rf"\[The {who} \w+ \({session_id}\) has ended").match
        said = sum(bool(begins(message.text)) for message in self.actor.session.history)
        # What has no turn of its own was said by another one, which it joined: perhaps after it had
        # been put back.
        joined = max(0, said - len(got & begun) - len(got - begun - left))
        return len(got | left) + joined

    def _audit_word_of_others(self, outcome, history):
        if self.parent is not None and not self.detached:
            self._audit_report()
        for life in self.monitors:
            watcher = life.book
            count = watcher.heard(AgentExit, self.session_id, watcher.outcome.undelivered)
            orders = sum(each.book is watcher for each in self.monitors)
            most = orders + self.called_off.count(watcher)
            expect(count <= most, "a monitor tells once", count, orders)
            is_due = life.ended is None or self.ended[0] < life.ended
            if most == 1 and is_due and not life.was_ended:
                expect(count == 1, "a monitor tells", watcher.handle, self.handle)

    def _audit_report(self):
        parent = self.parent.book
        count = parent.heard(SubAgentResult, self.session_id, parent.outcome.undelivered)
        expect(count <= self.reports, "a result is reported once, if it is wanted", count)
        if self.learned is not None:
            expect(count <= self.learned, "what the parent has learned is not reported", count)
        turns = [chunk for chunk in parent.told if isinstance(chunk, Done)]
        is_kept = self.turn is None or any(
            done.input_id == self.turn and done.status is TurnStatus.COMPLETED for done in turns
        )
        expect(count == 0 or is_kept, "who ends with a turn reports nothing", self.handle)
        life = self.parent
        is_due = self.ended[0] < life.ended and not life.was_ended
        if is_due and is_kept and self.reports and not self.touched:
            expect(count == 1, "a result is reported", self.handle, parent.handle)

    def _audit_readers(self):
        for chunks, missed in self.readers:
            expect(isinstance(chunks[-1], Exited), "a reader learns of the end")
            expect(len(chunks) + missed == len(self.published), "a reader knows what it missed")
            if not missed:
                expect(chunks == self.published, "a reader gets each chunk once, in order")


async def refuses(handle):
    """Check that an agent that has ended says so."""
    try:
        handle.send_input_nowait("too late")
    except AgentNotRunningError as error:
        expect(error.outcome is handle._actor.outcome, "the refusal has the outcome")
        expect(len(str(error)) <= MOST + 200, "an error is cut in another one")
    else:
        raise Violation("an agent that has ended takes input")
