"""Handles: how code outside reaches a running agent."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec
import trio

from greenroom.core import (
    AgentState,
    Answer,
    ContentBlock,
    Message,
    PermissionRequest,
    RuleDecision,
    ToolError,
    ToolResult,
    ToolResultInput,
    TurnError,
    TurnStatus,
    Usage,
    UserInput,
)
from greenroom.core._internal import AUTOMATIC_DECIDERS, Remember, quantity
from greenroom.runtime.actor import Actor
from greenroom.runtime.calls import Wait, reader_hooks
from greenroom.runtime.errors import AgentNotRunningError
from greenroom.runtime.interruption import InterruptMode, check_grace, check_order
from greenroom.runtime.introspection import AgentStatistics, describe_agent, find_pending
from greenroom.runtime.mailbox import user_input
from greenroom.runtime.output_ring import Replay, Subscription
from greenroom.runtime.requests import read_fields
from greenroom.runtime.results import (
    MOST_KEPT,
    InterruptReport,
    Outcome,
    Receipt,
    TurnResult,
    Waiter,
)
from greenroom.runtime.turn_stream import TurnStream

_ASK_GRACE = 2.0  # seconds for the clean-up of a turn that an `ask` has given up, as in `interrupt`


class ParentInfo(msgspec.Struct, frozen=True):
    """The session that spawned an agent, and the tool call in which it did, if any."""

    session_id: str
    tool_use_id: str | None = None


class AgentHandle:
    """The one interface to an agent from outside; cheap to share, it owns nothing.

    Sending, answering and interrupting never touch the agent's code: they go through its mailbox,
    its open requests and its turn. A handle belongs to the event loop of its runtime. From another
    thread use `trio.from_thread`; a direct call there raises `EventLoopError` and changes nothing.

    Example:
        ```python
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        result = await handle.ask("What does this project do?")
        print(result.text)
        ```
    """

    def __init__(self, actor: Actor) -> None:
        """Made by `spawn` and `AgentRuntime.get`."""
        self._actor = actor

    def __repr__(self) -> str:
        return f"<AgentHandle {self.session_id} {self._actor.name!r} {self.state}>"

    @property
    def session_id(self) -> str:
        """The id of the agent's session."""
        return self._actor.session_id

    @property
    def agent_type(self) -> str:
        """The agent's type, such as "coder"."""
        return self._actor.session.agent_type

    @property
    def name(self) -> str:
        """The name that it was spawned with, by default its type."""
        return self._actor.name

    @property
    def state(self) -> AgentState:
        """The last state that it has published."""
        return self._actor.state

    @property
    def parent(self) -> ParentInfo | None:
        """The session and the call that it was spawned from, or None for a root."""
        session = self._actor.session
        if session.parent_session_id is None:
            return None
        return ParentInfo(session.parent_session_id, session.parent_tool_use_id)

    async def send_input(
        self,
        content: str | Iterable[ContentBlock],
        *,
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
    ) -> Receipt:
        """Send the agent an input, waiting for room in its mailbox.

        Args:
            content: a text, or content blocks.
            sender: the program or agent that speaks, in at most 64 printable characters without
                brackets; empty for a person. The model sees it as a line `[from NAME]`.
            metadata: JSON facts for the agent's function, which the model does not see.
            id: the input's id, if the caller has one of its own; it names one input only.

        Raises:
            AgentNotRunningError: it has ended or is shutting down.
            TypeError: it is no text, and something in it is not a block.
            InvalidJSONError: something in it can't be stored.
            ValueError: the sender is not a usable name, or the id is not usable, or it is taken by
                another input (`session.has_input`) or by a message of the conversation.
        """
        return await self._send(self._input(content, sender, metadata, id))

    def send_input_nowait(
        self,
        content: str | Iterable[ContentBlock],
        *,
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
        instead_of: Callable[[UserInput], bool] = lambda _: False,
    ) -> Receipt:
        """Send the agent an input at once.

        Args:
            content: a text, or content blocks.
            sender: the program or agent that speaks.
            metadata: JSON facts for the agent's function.
            id: the input's id.
            instead_of: which inputs may be withdrawn for this one if the mailbox has no room; the
                oldest of them is, and `Receipt.replaced` has its id. It must not change anything.

        Raises:
            MailboxFullError: its mailbox has no room.
            Exception: as `send_input` says.
        """
        self._actor.check_loop("send_input_nowait()")
        message = self._input(content, sender, metadata, id)
        self._actor.refuse_if_ended()
        is_delivered, replaced = self._actor.mailbox.put_nowait(message, instead_of)
        if replaced:
            self._actor.turns.withdraw((replaced,))
        return self._receipt(message, is_delivered, replaced)

    def _input(
        self,
        content: str | Iterable[ContentBlock],
        sender: str,
        metadata: Mapping[str, object] | None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
    ) -> UserInput:
        message = user_input(content, sender, metadata, id)
        if id is not None and self._has_input(id):
            raise ValueError(f"the input {id!r} was sent to this agent before")
        return message

    def _has_input(self, input_id: str) -> bool:
        actor = self._actor
        if self._is_on_its_way(input_id) or actor.session.has_input(input_id):
            return True
        return any(message.id == input_id for message in actor.session.history)

    def _is_on_its_way(self, input_id: str) -> bool:
        """Whether an input waits for its turn, or for its end."""
        turns = self._actor.turns
        return turns.is_queued(input_id) or turns.find(input_id) is not None

    async def _send(self, message: UserInput) -> Receipt:
        actor = self._actor
        actor.check_loop("send_input()")
        actor.refuse_if_ended()
        return self._receipt(message, await actor.mailbox.put(message))

    def _receipt(self, message: UserInput, is_delivered: bool, replaced: str = "") -> Receipt:
        if is_delivered:
            return Receipt(message.id, "delivered")
        turn = self._actor.turns.current
        is_steered = turn is not None and turn.is_steerable
        return Receipt(message.id, "steered" if is_steered else "queued", replaced)

    async def withdraw_inputs(self, *input_ids: str) -> tuple[str, ...]:
        """Take inputs back that the agent has not taken yet, all in one moment.

        They get no turn; an `ask` that waits for one gets a result with the status interrupted.

        Args:
            *input_ids: the ids of their receipts.

        Returns:
            The ids of those that were still waiting, in order; the agent never sees these.
        """
        self._actor.check_loop("withdraw_inputs()")
        await trio.lowlevel.checkpoint()
        withdrawn = self._actor.mailbox.withdraw(input_ids)
        self._actor.turns.withdraw(withdrawn)
        return withdrawn

    async def steer_input(self, input_id: str) -> bool:
        """Let an input that waits join the open turn at its next step, whoever came before it.

        If no step follows, it keeps its place and gets a turn of its own. An input that joins is
        published as `input.joined`, and answered by the turn.

        Returns:
            Whether it waits and a turn is open that it may join.
        """
        self._actor.check_loop("steer_input()")
        await trio.lowlevel.checkpoint()
        turn = self._actor.turns.current
        if turn is None or turn.interruption.is_ordered or input_id not in self._actor.mailbox:
            return False
        turn.joining |= {input_id}
        return True

    async def send_tool_result(self, tool_use_id: str, result: ToolResult) -> None:
        """Hand in the result of a tool that the client runs; it may come before it is waited for.

        Raises:
            ToolError: no turn is open, or the call has a result already.
            MailboxFullError: too many results wait to be taken.
            AgentNotRunningError: it has ended.
        """
        self._actor.check_loop("send_tool_result()")
        await trio.lowlevel.checkpoint()
        self._actor.refuse_if_ended()
        if self._actor.turns.current is None:
            raise ToolError(f"no turn is open that could wait for the call {tool_use_id}")
        self._actor.client_results.put(ToolResultInput(tool_use_id, result))

    async def respond_permission(
        self,
        request_id: str,
        decision: RuleDecision | str,
        *,
        remember: Remember | None = None,
        message: str | None = None,
        input: dict[str, object] | None = None,  # noqa: A002 (the field's word for it)
        by: str = "user",
        prefix: bool = False,
    ) -> bool:
        """Answer a permission request of this agent or of a descendant; the first answer wins.

        Args:
            request_id: the request's id.
            decision: allow or deny.
            remember: for how long the answer becomes a rule; None for this call alone.
            message: for the model, such as why not.
            input: the call's input as the person edited it; it is judged again. If the request has
                `fields`, it is what they ask for.
            by: who answers, for the record; not a word that stands for no person, such as "rules".
            prefix: whether a remembered allow becomes the rules in the request's `prefixes`, if it
                has any, in place of those in `remembers`.

        Returns:
            Whether the answer was accepted: False if the request is unknown or already decided.

        Raises:
            ValueError: the decision is neither allow nor deny, or `by` is such a word.
            InvalidAnswerError: an allow's input does not fit the request's `fields`, and the
                request is still open.
        """
        self._actor.check_loop("respond_permission()")
        await trio.lowlevel.checkpoint()
        if decision not in ("allow", "deny"):
            raise ValueError(f"a person's answer is 'allow' or 'deny', not {decision!r}")
        if by in AUTOMATIC_DECIDERS:
            raise ValueError(f"by={by!r} means in the record that no person has decided")
        approvals = self._actor.approvals
        if decision == "allow":
            input = await read_fields(approvals.find(request_id), input)  # noqa: A001 (as above)
        answer = Answer(RuleDecision(decision), remember, message or "", by, input, prefix)
        return approvals.answer(request_id, answer)

    async def give_credential(self, name: str, value: str) -> None:
        """Give a credential to this agent and all agents of its tree; only memory keeps it.

        Where a `PermissionRequest` asks for it, answer that with allow afterwards.

        Raises:
            ValueError: the value is empty.
        """
        self._actor.check_loop("give_credential()")
        await trio.lowlevel.checkpoint()
        self._actor.credentials.give(name, value)

    async def interrupt(self, mode: InterruptMode = "now", grace: float = 2.0) -> InterruptReport:
        """Stop the turn in flight, and return when nothing of it is left.

        With "after_step" the turn goes on to its next boundary between two steps. The agent lives
        on; its state is idle, unless input is queued. Clean-up has `grace` seconds; a quarter of a
        second later this returns in any case, and names what is still alive. With no turn in flight
        it changes nothing. Cancelling this does not take the interrupt back.

        Raises:
            SelfWaitError: called from inside the agent.
            ValueError: the mode is unknown, or the grace negative or not a number.
        """
        check_order(mode, grace)
        async with Wait(self._actor, "interrupt"):
            await trio.lowlevel.checkpoint()
            turn = self._actor.turns.interrupt(mode, grace)
            return await turn.interruption.report() if turn is not None else InterruptReport()

    def interrupt_nowait(self, mode: InterruptMode = "now", grace: float = 2.0) -> None:
        """Ask for an interrupt and do not wait; allowed from inside the agent too.

        Raises:
            ValueError: the mode is unknown, or the grace negative or not a number.
        """
        self._actor.check_loop("interrupt_nowait()")
        check_order(mode, grace)
        self._actor.turns.interrupt(mode, grace)

    async def shutdown(self, grace: float = 5.0) -> None:
        """End the agent: no more input, `grace` seconds for the open turn, then cancel.

        Returns when it has ended, however that took place; `wait()` has the outcome. Cancelling
        this does not take the shutdown back: the agent ends within its grace.

        Raises:
            SelfWaitError: called from inside the agent.
            ValueError: the grace is negative, or not a number.
        """
        check_grace(grace)
        async with Wait(self._actor, "shutdown") as wait:
            self._actor.begin_shutdown(trio.current_time() + grace)
            await self._actor.wait_end()
            wait.learn_end()

    def kill(self) -> None:
        """Cancel the agent at once, without time for clean-up; allowed from inside too."""
        self._actor.check_loop("kill()")
        self._actor.kill()

    def subscribe(self, replay: Replay = "turn", answers: bool = False) -> Subscription:
        """Read the agent's chunks, as many readers as you like, each at its own pace.

        Args:
            replay: where to begin: "none" (what comes next), "turn" (the open turn, else the
                last one), "all" (what the ring still has) or a `Subscription.position`.
            answers: whether this reader answers permission requests, for the descendants too; it
                counts while its `async with` block is open.

        Raises:
            ValueError: `replay` is something else.
        """
        attendance = self._actor.approvals if answers else None
        return Subscription(self._actor.output, replay, reader_hooks(self._actor), attendance)

    @asynccontextmanager
    async def attend(self) -> AsyncIterator[None]:
        """Answer permission requests without reading chunks, while the block is open.

        It counts as a reader with `answers=True`: open requests, of the descendants too, wait for
        an answer through `respond_permission`, whichever readers come and go. A server whose
        clients may lose their connections attends in their place. When the last one that could
        answer leaves, open requests are denied, or suspend their turn, as the root was spawned.

        Raises:
            EventLoopError: called from another thread.

        Example:
            ```python
            async with handle.attend():
                await serve(handle)  # a client may leave and come back; its question stays open
            ```
        """
        self._actor.check_loop("attend()")
        self._actor.approvals.add_answerer()
        try:
            yield
        finally:
            self._actor.approvals.remove_answerer()

    def stream(self, receipt: Receipt | None = None) -> TurnStream:
        """Iterate over the chunks of one turn, until its `Done` or the agent's `Exited`.

        Args:
            receipt: the input whose turn to read; by default the open turn, else the next one. A
                turn that has ended is read as far as the ring still holds it. An input without a
                turn, or whose turn is forgotten, gives nothing.

        Raises:
            TypeError: `receipt` is something else.
        """
        if not isinstance(receipt, Receipt | None):
            raise TypeError(
                f"{receipt!r} is not a receipt: write `receipt = await handle.send_input(…)` first"
            )
        return TurnStream(self._actor.output, self._actor.turns, receipt, reader_hooks(self._actor))

    async def ask(
        self,
        content: str | Iterable[ContentBlock],
        timeout: float | None = None,
        *,
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
    ) -> TurnResult:
        """Send the agent an input and wait for the result of the turn that takes it.

        Cancelling this does not cancel the turn; its time-out does.

        Args:
            content: a text, or content blocks.
            timeout: seconds until the turn that has taken this input is interrupted; the result
                then has the status interrupted. An input that no turn has begun with is taken back.
            sender: who speaks, as for `send_input`.
            metadata: JSON facts for the agent's function, as for `send_input`.
            id: the input's id, as for `send_input`; `answer(id)` then has the same result.

        Raises:
            AgentNotRunningError: it ended before that; `outcome` says how.
            TurnError: the agent took the input and went on without opening a turn for it. Where
                another task of the agent could still open one, this waits.
            SelfWaitError: called from inside the agent, or from the turn of an agent for which this
                one waits, directly or through others; the message names all of them.
            TypeError: it is no text, and something in it is not a block.
            InvalidJSONError: something in it can't be stored.
            ValueError: the time-out, the sender or the id is not usable, or the id is taken.
        """
        if timeout is not None:
            check_grace(timeout, "timeout")
        return await self._wait_answer(self._input(content, sender, metadata, id), timeout)

    async def answer(self, receipt: Receipt | str) -> TurnResult:
        """Return the result of the turn that took an input, waiting for its end if need be.

        Several tasks may wait for the same one. After the end of the turn, and of the agent, the
        results for the last 100 inputs are kept. Cancelling this changes nothing.

        Args:
            receipt: the receipt of the input, or its id.

        Raises:
            TurnError: there is no such input, its result is no longer kept, or it got no turn.
            AgentNotRunningError: the agent ended before that; `outcome` says how.
            SelfWaitError: as for `ask`.

        Example:
            ```python
            receipt = await handle.send_input("What is new?")
            result = await handle.answer(receipt)
            ```
        """
        input_id = receipt.input_id if isinstance(receipt, Receipt) else receipt
        answers = self._actor.turns.answers
        if (known := answers.find(input_id)) is not None:
            await trio.lowlevel.checkpoint()
            return known
        async with Wait(self._actor, "answer") as wait:
            self._actor.refuse_if_ended()
            if not self._is_on_its_way(input_id):
                raise TurnError(
                    f"no turn is known that would answer the input {input_id!r}",
                    hint=f"the results for the last {MOST_KEPT} inputs are kept",
                )
            with answers.wait_for(input_id) as waiter:
                await waiter.event.wait()
            result = self._require(waiter)
            wait.learn_answer(result)
        return result

    async def _wait_answer(self, message: UserInput, timeout: float | None) -> TurnResult:
        async with Wait(self._actor, "ask") as wait:
            try:
                result = await self._send_and_wait(message, timeout)
            except AgentNotRunningError:
                wait.learn_end()
                raise
            wait.learn_answer(result)
        return result

    async def _wait_or_give_up(self, message: UserInput, timeout: float | None) -> TurnResult:
        """Wait as `ask` does; a cancel interrupts the turn, or takes the input back."""
        try:
            return await self._wait_answer(message, timeout)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):  # an interrupt is over within its grace
                await self._give_up(message)
            raise

    async def _send_and_wait(self, message: UserInput, timeout: float | None) -> TurnResult:
        with self._actor.turns.answers.wait_for(message.id) as waiter:
            if timeout is None:
                await self._send(message)
                await waiter.event.wait()
                return self._require(waiter)
            with trio.move_on_after(timeout) as scope:
                await self._send(message)
                await waiter.event.wait()
            if scope.cancelled_caught and not waiter.event.is_set():
                await self._give_up(message)
                if not waiter.event.is_set():
                    problem = f"no turn has answered this within {quantity(timeout, 'second')}"
                    return TurnResult(TurnStatus.INTERRUPTED, error=problem)
        return self._require(waiter)

    def _require(self, waiter: Waiter) -> TurnResult:
        if waiter.result is None:
            self._actor.refuse_if_ended()
            raise TurnError(
                "the agent took the input, and opened no turn for it",
                hint="its function answers in `async with agent.turn(message):`",
            )
        return waiter.result

    async def _give_up(self, message: UserInput) -> None:
        """Take an input back that waits, or interrupt the turn that has taken it."""
        self._actor.mailbox.remove(message)
        turn = self._actor.turns.find(message.id)
        if turn is not None:
            turn.interruption.order("now", _ASK_GRACE)
            # One that was handed on may never be opened, but is waited for once it is.
            if turn is self._actor.turns.current or not turn.is_handed_on:
                await turn.interruption.report()

    async def wait(self, *, check: bool = False) -> Outcome:
        """Wait until the agent has ended and nothing of it is left, and return how.

        Args:
            check: raise the error that crashed it, instead of returning it.

        Raises:
            SelfWaitError: called from inside the agent.
        """
        async with Wait(self._actor, "wait") as wait:
            await self._actor.wait_end()
            wait.learn_end()
        outcome = self._actor.outcome
        assert outcome is not None  # set in the same step as the event
        if check and outcome.error is not None:
            raise outcome.error
        return outcome

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation so far."""
        return await self._actor.view.history()

    async def metadata(self) -> Mapping[str, object]:
        """Return the session's metadata as they are now."""
        await trio.lowlevel.checkpoint()
        return self._actor.session.metadata

    async def children(self) -> tuple[str, ...]:
        """Return the session ids of all subagents that it ever had."""
        return await self._actor.view.children()

    async def usage(self) -> Usage:
        """Return the tokens of its model calls since the spawn, without those of its subagents.

        The earlier use of its session is in `session.used`.
        """
        await trio.lowlevel.checkpoint()
        return self._actor.output.usage

    async def tree_usage(self) -> Usage:
        """Return the tokens of its model calls and those of all agents below it, past and present.

        It starts at 0 with the spawn, even for a session that goes on. A detached subagent does not
        count.
        """
        await trio.lowlevel.checkpoint()
        return self._actor.output.tree_usage

    async def pending(self) -> tuple[PermissionRequest, ...]:
        """Return the open permission requests, its own and its descendants'.

        In an agent whose session was loaded with `keep_open`, these include what an earlier process
        asked, which may be answered before it is asked again.
        """
        await trio.lowlevel.checkpoint()
        return find_pending(self._actor)

    async def partial_text(self) -> str:
        """Return the unfinished text of the open reply: its last 100,000 characters by default."""
        await trio.lowlevel.checkpoint()
        return self._actor.output.partial

    async def statistics(self) -> AgentStatistics:
        """Return figures about its queues, readers and budgets."""
        await trio.lowlevel.checkpoint()
        return describe_agent(self._actor)
