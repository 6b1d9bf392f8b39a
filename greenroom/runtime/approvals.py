"""Permission requests: published as chunks, answered by id, never through the mailbox.

Theory of operation
===================

A request is open from the step that publishes it until the step that sets `decided`. Its answer
finds it by its id, so no task that waits for another answer can take it, and the answer to one
question can't decide a second one. The first of these decides it: a person's answer; the time-out;
a shutdown of the agent or of one above it; the last reader that could answer leaves, or there never
was one (`_refuse_without_answerer`, which waits, denies or suspends the turn, as the root was
spawned). A reader that answers for an agent also answers for those below it.

However it ends, a `PermissionResponse` is published, even if a cancel falls into the wait: then
it says `cancelled`. A crash of the process leaves an `OpenQuestion` in the session: the next
life asks again under the same id, and an answer that comes before that (`_ahead`) counts if it is
bound to the same digest.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias

import trio
from msgspec.structs import replace

from greenroom.core import (
    AgentState,
    Answer,
    MailboxFullError,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
)
from greenroom.core._internal import Hook, StateKind, clip, new_id, notice, quantity, visible
from greenroom.session import AgentSession
from greenroom.session._internal import OpenQuestion

Unattended: TypeAlias = Literal["ask", "deny", "suspend"]
"""How a permission request waits while no reader can answer it: it waits for one, is denied, or
suspends the turn."""

logger = logging.getLogger("greenroom.runtime")

_SHUTTING_DOWN = Answer(RuleDecision.DENY, message="the agent is shutting down", by="shutdown")


class _OpenRequest:
    """A request that is published and not decided."""

    def __init__(self, request: PermissionRequest, suspend: Callable[[], None] | None) -> None:
        self.request = request
        self.suspend = suspend  # suspends the turn in which it was asked
        self.answer: Answer | None = None
        self.decided = trio.Event()

    def decide(self, answer: Answer) -> None:
        self.answer = answer
        self.decided.set()


class _Agent(Protocol):
    """What a request needs of the agent that asks."""

    @property
    def session(self) -> AgentSession:
        """Its session, where questions survive."""

    @property
    def state(self) -> AgentState:
        """What it is doing."""

    @property
    def unattended(self) -> Unattended:
        """What happens while no reader can answer."""

    @property
    def takes_input(self) -> bool:
        """Whether it has not begun to shut down."""

    def set_state(self, state: AgentState) -> None:
        """Move to a state and publish it."""

    def publish(self, chunk: OutputChunk) -> None:
        """Publish a chunk."""

    def notify(self, hook: Hook, *details: object) -> None:
        """Tell the instruments."""

    def find_suspender(self) -> Callable[[], None] | None:
        """Return what suspends the caller's turn; None outside of a turn."""

    def approvals_below(self) -> "Iterable[Approvals]":
        """Find those of the subagents."""


class Approvals:
    """The open requests of one agent, and who can answer them."""

    def __init__(self, agent: _Agent, above: "Approvals | None", limit: int) -> None:
        """Start with nothing open and no reader that answers, below those of the parent."""
        self._agent = agent
        self._above = above
        self._limit = limit
        self._open: dict[str, _OpenRequest] = {}
        # What was asked before this life and will be asked again, by the question's id.
        self._expected: dict[str, OpenQuestion] = {}
        self.digests: dict[str, str] = {}
        """What the answers to expected questions are bound to, by the questions' ids."""
        # The answers that came before their question was asked again, by its id.
        self._ahead: dict[str, Answer] = {}
        self._answerers = 0
        self._was_attended = False
        self._has_warned = False
        self._state_before = AgentState.idle()

    @property
    def open_requests(self) -> tuple[PermissionRequest, ...]:
        """The requests that wait for an answer, oldest first."""
        waiting = (each for each in self._open.values() if not each.decided.is_set())
        return tuple(pending.request for pending in waiting)

    def expect(self, questions: Iterable[OpenQuestion]) -> None:
        """Expect these questions to be asked again: only answers to them may come ahead."""
        self._expected = {each.request_id: each for each in questions}
        self.digests = {id_: each.digest for id_, each in self._expected.items()}
        self._ahead = {id_: each for id_, each in self._ahead.items() if id_ in self.digests}

    @property
    def expected_requests(self) -> tuple[PermissionRequest, ...]:
        """What an earlier process asked and nobody has answered; it will be asked again."""
        self._drop_stale()
        waiting = (q for q in self._expected.values() if q.request_id not in self._ahead)
        return tuple(question.request for question in waiting if question.request is not None)

    def choose_id(self, request: PermissionRequest) -> str:
        """Return the id of a question; one that was asked before keeps its id, once.

        One about a call was if the call is the same, of which a reply may have two; any other if
        all is the same that a person is shown.
        """
        self._drop_stale()
        for id_, before in self._expected.items():
            is_calls = bool(request.tool_use_id) and before.tool_use_id == request.tool_use_id
            if is_calls or _is_same(before, request):
                del self._expected[id_]
                return id_
        return new_id("p")

    def _drop_stale(self) -> None:
        """Forget questions that the conversation left behind; a later call may have their ids."""
        if self.digests:
            still = {each.request_id for each in self._agent.session.open_questions}
            self._expected = {id_: each for id_, each in self._expected.items() if id_ in still}
            self.digests = {id_: each for id_, each in self.digests.items() if id_ in still}
            self._ahead = {id_: each for id_, each in self._ahead.items() if id_ in still}

    async def request(
        self, request: PermissionRequest, timeout: float | None, *, is_kept: bool
    ) -> Answer:
        """Publish a request and wait for its answer, unless that was given ahead to the very same.

        Then only the decision is published: whoever answered has seen the question. Another one is
        denied if no reader can answer any more, or if the agent or one above it is shutting down,
        unless it is kept in the session and its turn can be suspended.

        Raises:
            MailboxFullError: as many requests as the limit allows are open already.
        """
        if len(self._open) >= self._limit:
            raise MailboxFullError(f"{self._limit} permission requests are open already")
        agent = self._agent
        if not self._open:
            self._state_before = agent.state
        digest = self.digests.pop(request.request_id, None)
        ahead = self._ahead.pop(request.request_id, None)
        if ahead is not None and digest == request.digest:
            await trio.lowlevel.checkpoint()
            agent.notify("before_permission", request)
            self._tell_decision(request, ahead)
            return ahead
        pending = _OpenRequest(request, agent.find_suspender() if is_kept else None)
        self._open[request.request_id] = pending
        try:
            agent.notify("before_permission", request)
            agent.publish(request)
            agent.set_state(AgentState.waiting_for_permission())
            answer = await self._answer(pending, timeout)
        except BaseException:
            self._close(request, Answer(RuleDecision.DENY, by="withdrawn"), cancelled=True)
            raise
        self._close(request, answer)
        return answer

    async def _answer(self, pending: _OpenRequest, timeout: float | None) -> Answer:
        await trio.lowlevel.checkpoint()
        self._refuse_without_answerer(pending)
        if timeout is None and not pending.decided.is_set():
            self._warn_unattended(pending.request)
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await pending.decided.wait()
        return pending.answer or Answer(
            RuleDecision.DENY,
            message=f"no answer came within {quantity(timeout or 0, 'second')}",
            by="time-out",
        )

    def _warn_unattended(self, request: PermissionRequest) -> None:
        """Say, once for a root, that a question waits without end for a reader that answers."""
        chain = self._chain()
        root = chain[-1]
        is_attended = any(each._answerers for each in chain)
        if is_attended or root._has_warned or root._agent.unattended != "ask":
            return
        root._has_warned = True
        notice(
            logger,
            f"{self._agent} waits for permission, and no reader can give it: "
            f"{visible(clip(request.action, 500))}\n"
            "To answer, run ConsoleRenderer(handle), or read handle.subscribe(answers=True) and"
            f" call handle.respond_permission({request.request_id!r}, 'allow'); to deny what has"
            " no answer, spawn with unattended='deny'; to deny it after a while, set"
            " RuntimeLimits.permission_timeout.",
        )

    def _close(
        self, request: PermissionRequest, answer: Answer, *, cancelled: bool = False
    ) -> None:
        del self._open[request.request_id]
        self._tell_decision(request, answer, cancelled=cancelled)
        # The state goes back when the last request is decided, unless it has moved on meanwhile.
        if not self._open and self._agent.state.kind is StateKind.WAITING_FOR_PERMISSION:
            self._agent.set_state(self._state_before)

    def _tell_decision(
        self, request: PermissionRequest, answer: Answer, *, cancelled: bool = False
    ) -> None:
        self._agent.notify("after_permission", request, answer)
        self._agent.publish(
            PermissionResponse(
                request_id=request.request_id,
                tool_name=request.tool_name,
                decision=answer.decision,
                by=answer.by,
                message=answer.message,
                remember=answer.remember,
                cancelled=cancelled,
                rules=_find_rules(request, answer),
            )
        )

    def find(self, request_id: str) -> PermissionRequest | None:
        """Return the question with this id, of this agent or of a descendant, if it is known."""
        known = (*self.open_requests, *self.expected_requests)
        own = next((each for each in known if each.request_id == request_id), None)
        below = (each.find(request_id) for each in self._agent.approvals_below())
        return own or next(filter(None, below), None)

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Decide a request of this agent or of a descendant; False if none with this id is open.

        A question that an earlier process asked is open before it is asked again.
        """
        pending = self._open.get(request_id)
        if pending is not None:
            if pending.decided.is_set():
                return False
            pending.decide(answer)
            return True
        self._drop_stale()
        if request_id in self.digests:
            return self._ahead.setdefault(request_id, answer) is answer
        return any(each.answer(request_id, answer) for each in self._agent.approvals_below())

    def add_answerer(self) -> None:
        """Register one that can answer for this agent and its descendants."""
        self._answerers += 1
        self._was_attended = True

    def remove_answerer(self) -> None:
        """Take one back; when that was the last, open requests are denied."""
        self._answerers -= 1
        self.check_attendance()

    def check_attendance(self) -> None:
        """Deny requests, here and below, that no reader can answer or that a shutdown ends."""
        for pending in self._open.values():
            self._refuse_without_answerer(pending)
        for approvals in self._agent.approvals_below():
            approvals.check_attendance()

    def _refuse_without_answerer(self, pending: _OpenRequest) -> None:
        """Deny a request that nobody will answer, or suspend its turn, as the root was spawned."""
        if pending.decided.is_set():
            return
        chain = self._chain()
        is_ending = not all(each._agent.takes_input for each in chain)
        if not is_ending and self._is_awaited(chain):
            return
        suspends = self._agent.unattended == "suspend" and self._above is None
        if suspends and pending.suspend is not None:
            pending.suspend()
        elif is_ending:
            pending.decide(_SHUTTING_DOWN)
        else:
            message = _say_unattended(pending.request)
            pending.decide(Answer(RuleDecision.DENY, message=message, by="unattended"))

    @property
    def would_suspend(self) -> bool:
        """Whether a question would suspend the turn now, since no reader can answer it."""
        suspends = self._agent.unattended == "suspend" and self._above is None
        return suspends and not self._is_awaited(self._chain())

    def _chain(self) -> "list[Approvals]":
        """Return this one and those above it, the root's last."""
        chain: list[Approvals] = []
        each: Approvals | None = self
        while each is not None:
            chain.append(each)
            each = each._above
        return chain

    def _is_awaited(self, chain: "list[Approvals]") -> bool:
        """Whether a reader answers for one of these agents, or may still come to."""
        if any(each._answerers for each in chain):
            return True
        was_attended = any(each._was_attended for each in chain)
        return not was_attended and chain[-1]._agent.unattended == "ask"


def _is_same(before: OpenQuestion, request: PermissionRequest) -> bool:
    """Whether a question that is about no call was asked before, word for word."""
    asked = before.request
    if request.tool_use_id or before.tool_use_id or asked is None:
        return False
    return replace(asked, request_id="") == replace(request, request_id="")


def _say_unattended(request: PermissionRequest) -> str:
    """Say that nobody can be asked, and why somebody would be: for a call, the rule that asks."""
    why = "" if request.credential else request.reason.rstrip(".")
    return f"no one can be asked; {why}" if why else "no one can be asked"


def _find_rules(request: PermissionRequest, answer: Answer) -> tuple[str, ...]:
    """Return the rules that an answer adds, in words; one to a changed call adds none."""
    if answer.remember is None or answer.input is not None:
        return ()
    if not answer.allowed:
        return request.forbids
    return (answer.prefix and request.prefixes) or request.remembers
