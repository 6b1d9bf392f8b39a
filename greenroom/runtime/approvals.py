"""Permission requests: published as chunks, answered by id, never through the mailbox.

An answer finds its request by its id, so it can't be taken by somebody who waits for something
else, and the answer to one prompt can't decide another. Somebody who answers for an agent answers
for its descendants too.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from greenroom.core import (
    AgentState,
    Answer,
    MailboxFullError,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
    StateKind,
    clip,
    new_id,
    notice,
    visible,
)
from greenroom.session import OpenQuestion

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turn import Turn


logger = logging.getLogger("greenroom.runtime")

_SHUTTING_DOWN = Answer(RuleDecision.DENY, message="the agent is shutting down", by="shutdown")


class _Pending:
    """A request that is published and not decided."""

    def __init__(self, request: PermissionRequest, turn: "Turn | None") -> None:
        self.request = request
        self.turn = turn  # in which it was asked
        self.answer: Answer | None = None
        self.decided = trio.Event()

    def decide(self, answer: Answer) -> None:
        self.answer = answer
        self.decided.set()


class Approvals:
    """The open requests of one agent, and who can answer them."""

    def __init__(self, actor: "Actor", limit: int) -> None:
        """Start with nothing open and nobody to answer."""
        self._actor = actor
        self._limit = limit
        self._open: dict[str, _Pending] = {}
        # What was asked before this life, by the call; and by the id what the answer to it is bound
        # to, and the answer that came before it was asked again.
        self._expected: dict[str, OpenQuestion] = {}
        self._digests: dict[str, str] = {}
        self._ahead: dict[str, Answer] = {}
        self.expect(actor.session.open_questions)
        self._answerers = 0
        self._ever_attended = False
        self._said_unattended = False
        self._state_before = AgentState.idle()

    @property
    def open(self) -> tuple[PermissionRequest, ...]:
        """The requests that wait for an answer, oldest first."""
        waiting = (each for each in self._open.values() if not each.decided.is_set())
        return tuple(pending.request for pending in waiting)

    def expect(self, questions: Iterable[OpenQuestion]) -> None:
        """These questions will be asked again: answers to them may come ahead, to others not."""
        self._expected = {each.tool_use_id: each for each in questions}
        self._digests = {each.request_id: each.digest for each in self._expected.values()}
        self._ahead = {id_: each for id_, each in self._ahead.items() if id_ in self._digests}

    def question(self, tool_use_id: str, digest: str) -> OpenQuestion:
        """Return the question about a call; where it was asked before, it keeps its id, once.

        Two calls of a reply may have the same id.
        """
        self._drop_stale()
        before = self._expected.pop(tool_use_id, None)
        return OpenQuestion(before.request_id if before else new_id("p"), tool_use_id, digest)

    def _drop_stale(self) -> None:
        """Forget the questions that the conversation went on without; a later call may have their ids."""
        if self._digests:
            still = {each.request_id for each in self._actor.session.open_questions}
            self._expected = {c: q for c, q in self._expected.items() if q.request_id in still}
            self._digests = {id_: each for id_, each in self._digests.items() if id_ in still}
            self._ahead = {id_: each for id_, each in self._ahead.items() if id_ in still}

    async def request(self, request: PermissionRequest, timeout: float | None) -> Answer:
        """Publish a request and wait for its answer, unless that was given ahead to the very same.

        It is denied where nobody can answer any more, and where the agent or one above it is
        shutting down.

        Raises:
            MailboxFullError: as many requests as the limit allows are open already.
        """
        if len(self._open) >= self._limit:
            raise MailboxFullError(f"{self._limit} permission requests are open already")
        actor = self._actor
        if not self._open:
            self._state_before = actor.state
        pending = _Pending(request, actor.turns.current if actor.turns.is_in_turn() else None)
        digest = self._digests.pop(request.request_id, None)
        ahead = self._ahead.pop(request.request_id, None)
        if ahead is not None and digest == request.digest:
            pending.decide(ahead)
        self._open[request.request_id] = pending
        try:
            actor.notify("before_permission", request)
            actor.publish(request)
            actor.set_state(AgentState.waiting_for_permission())
            answer = await self._answer(pending, timeout)
        except BaseException:
            self._close(request, Answer(RuleDecision.DENY, by="withdrawn"), cancelled=True)
            raise
        self._close(request, answer)
        return answer

    async def _answer(self, pending: _Pending, timeout: float | None) -> Answer:
        await trio.lowlevel.checkpoint()
        self._refuse_without_answerer(pending)
        if timeout is None and not pending.decided.is_set():
            self._say_unattended(pending.request)
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await pending.decided.wait()
        return pending.answer or Answer(
            RuleDecision.DENY, message=f"nobody answered within {timeout:g} seconds", by="time-out"
        )

    def _say_unattended(self, request: PermissionRequest) -> None:
        """Say, once for a root, that a question waits without end for somebody to come."""
        line = [each.approvals for each in (self._actor, *self._actor.ancestors())]
        root = line[-1]
        is_waited_for = root._actor.unattended == "ask" and not root._said_unattended
        if not is_waited_for or any(each._answerers for each in line):
            return
        root._said_unattended = True
        notice(
            logger,
            f"{self._actor.signature} waits for permission, and nobody is there to give it: "
            f"{visible(clip(request.action, 500))}\n"
            "To answer, run ConsoleRenderer(handle), or read handle.subscribe(answers=True) and call"
            f" handle.respond_permission({request.request_id!r}, 'allow'); to deny what nobody"
            " answers, spawn with unattended='deny'; to deny it after a while, set"
            " RuntimeLimits.permission_timeout.",
        )

    def _close(
        self, request: PermissionRequest, answer: Answer, *, cancelled: bool = False
    ) -> None:
        del self._open[request.request_id]
        self._actor.notify("after_permission", request, answer)
        self._actor.publish(
            PermissionResponse(
                request_id=request.request_id,
                tool_name=request.tool_name,
                decision=answer.decision,
                by=answer.by,
                message=answer.message,
                remember=answer.remember,
                cancelled=cancelled,
            )
        )
        # The state goes back when the last request is decided, unless it has moved on meanwhile.
        if not self._open and self._actor.state.kind is StateKind.WAITING_FOR_PERMISSION:
            self._actor.set_state(self._state_before)

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Decide a request of this agent or of a descendant; False where none is open by this id.

        A question that an earlier process asked is open before it is asked again.
        """
        pending = self._open.get(request_id)
        if pending is not None:
            if pending.decided.is_set():
                return False
            pending.decide(answer)
            return True
        self._drop_stale()
        if request_id in self._digests:
            return self._ahead.setdefault(request_id, answer) is answer
        return any(child.approvals.answer(request_id, answer) for child in self._actor.children)

    def answerer_came(self) -> None:
        """Register somebody who can answer for this agent and its descendants."""
        self._answerers += 1
        self._ever_attended = True

    def answerer_left(self) -> None:
        """Take one back; when that was the last, open requests are denied."""
        self._answerers -= 1
        self.check_attendance()

    def check_attendance(self) -> None:
        """Deny what nobody can answer any more, here and below, also because of a shutdown."""
        for pending in self._open.values():
            self._refuse_without_answerer(pending)
        for child in self._actor.children:
            child.approvals.check_attendance()

    def _refuse_without_answerer(self, pending: _Pending) -> None:
        line = [self._actor, *self._actor.ancestors()]
        if pending.decided.is_set():
            return
        is_ending = any(actor.mailbox.closed for actor in line)
        if not is_ending and self._is_awaited(line):
            return
        turn = pending.turn
        if line[-1].unattended == "suspend" and turn is not None and len(line) == 1:
            turn.leave_suspended()
        elif is_ending:
            pending.decide(_SHUTTING_DOWN)
        else:
            message = "nobody is there to ask; the call was not allowed by a rule"
            pending.decide(Answer(RuleDecision.DENY, message=message, by="unattended"))

    def _is_awaited(self, line: "list[Actor]") -> bool:
        """Whether somebody answers for one of these agents, or may still come to."""
        if any(actor.approvals._answerers for actor in line):
            return True
        left = any(actor.approvals._ever_attended for actor in line)
        return not left and line[-1].unattended == "ask"
