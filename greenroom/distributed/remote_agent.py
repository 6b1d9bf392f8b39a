"""`RemoteAgent`: what a program holds of an agent, wherever that runs."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec
import trio
from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    MailboxFullError,
    Message,
    PermissionRequest,
    RuleDecision,
    SessionNotFoundError,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import EndStatus, serde
from greenroom.distributed import directory, mailbox
from greenroom.distributed.host_client import session_path
from greenroom.distributed.links import LOST, Links, check_seconds
from greenroom.distributed.outcomes import UNREAD, read_outcome, write_outcome
from greenroom.distributed.remote_chunks import CUT_OFF, RemoteChunks, RemoteReplay, ask_about
from greenroom.interop import RemoteError
from greenroom.runtime import AgentNotRunningError, InterruptReport, Outcome, Receipt, TurnResult
from greenroom.runtime._internal import InterruptMode, user_input

_AGAIN = 2.0  # seconds until a turn that has not ended is interrupted again
_GRACE = 2.0
_LONGEST_STEP = 60.0  # seconds that an interrupt may wait for the end of a step


class _Snapshot(msgspec.Struct):
    """What is used of a snapshot."""

    pending: tuple[PermissionRequest, ...] = ()


@dataclass(frozen=True)
class AgentStatus:
    """Where an agent is, and how it does.

    Attributes:
        host: the number of its host; None while it waits for one.
        epoch: how often it was placed.
        state: "live" or "ended".
        queued: how many inputs wait, with the one that its turn is about.
        parent: the session that it was started for, or None.
    """

    host: int | None
    epoch: int
    state: str
    queued: int
    parent: str | None = None


class RemoteAgent:
    """An agent on one of the hosts of a cluster; made by `Cluster.spawn` and `Cluster.get`.

    What is sent to it is stored first, so it arrives whatever becomes of its host: each input joins
    the conversation once, in the order of the receipts.

    Example:
        ```python
        receipt = await agent.send_input("Is the build green?", id="build-417")
        print((await agent.answer(receipt)).text)
        ```
    """

    def __init__(self, session_id: str, agent_type: str, links: Links) -> None:
        """Made by `Cluster`."""
        self._session_id = session_id
        self._agent_type = agent_type
        self._links = links

    def __repr__(self) -> str:
        return f"<RemoteAgent {self._session_id} of the type {self._agent_type!r}>"

    @property
    def session_id(self) -> str:
        """The id of its session."""
        return self._session_id

    @property
    def agent_type(self) -> str:
        """The name of its type."""
        return self._agent_type

    async def send_input(
        self,
        content: str | Iterable[ContentBlock],
        *,
        id: str | None = None,  # noqa: A002 (the field's word for it)
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> Receipt:
        """Send it an input, which is stored when this returns.

        Args:
            content: a text, or content blocks.
            id: the input's id, if the caller has one: the same input again under its id is taken
                once, and gets the same receipt.
            sender: the program or agent that speaks; empty for a person.
            metadata: JSON facts for the agent's function, which the model does not see.

        Raises:
            AgentNotRunningError: it has ended.
            MailboxFullError: 1,000 inputs wait already.
            InvalidJSONError: something in it is not a block, or can't be stored.
            ValueError: the sender or the id is not usable, or the id names another input, or what
                it says has more than 16 MB.
            SessionStorageError: the database refused, or was away for too long; sent again under
                its id, the input is taken once.
        """
        message = user_input(content, sender, metadata, id)
        facts = dict(message.metadata)
        letter = mailbox.Letter(tuple(message.content), sender, facts)
        body = serde.encode(letter)
        if len(body) > mailbox.LONGEST:
            raise ValueError(
                f"an input has at most {mailbox.LONGEST >> 20} MB, not {len(body):,} bytes"
            )
        status = await self._links.database.run(
            lambda each: mailbox.store_input(each, self._session_id, message.id, body)
        )
        if status == "other":
            raise ValueError(f"the input {message.id!r} was sent before, with other content")
        if status == "full":
            raise MailboxFullError(
                f"{mailbox.MOST_WAITING:,} inputs of the agent wait already",
                hint="wait for answers before you send more",
            )
        if status in ("ended", "unknown"):
            raise AgentNotRunningError(
                f"the agent of the session {self._session_id!r} has ended",
                outcome=await self._outcome(),
                hint="`Cluster.spawn` starts it again",
            )
        await self._links.poke(self._session_id)
        return Receipt(message.id, "queued")

    async def answer(self, receipt: Receipt | str, timeout: float | None = None) -> TurnResult:
        """Return the result of the turn that took an input, waiting for its end if need be.

        It is on record, so it may be asked for at any time, by any program.

        Args:
            receipt: the receipt of the input, or its id.
            timeout: seconds to wait for the end of the turn, which goes on; 0 looks once.

        Raises:
            TooSlowError: the turn has not ended within the time-out.
            TurnError: there is no such input.
            ValueError: the time-out is negative or not a number.
            SessionStorageError: the database refused, or was away for too long.
        """
        input_id = receipt.input_id if isinstance(receipt, Receipt) else receipt
        limit = math.inf if timeout is None else check_seconds(timeout)
        found = await self._links.wait_answer(self._session_id, input_id, limit)
        if found is None or found.result is None:
            raise TurnError(
                f"the agent of the session {self._session_id!r} was never sent the input "
                f"{input_id!r}",
                hint="pass the receipt that `send_input` returned, or its id",
            )
        return serde.decode(found.result, TurnResult)

    async def ask(
        self,
        content: str | Iterable[ContentBlock],
        *,
        timeout: float | None = None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> TurnResult:
        """Send it an input, and wait for the result of its turn; cancelling this leaves the turn.

        The other arguments and the errors are those of `send_input`.

        Args:
            content: a text, or content blocks.
            timeout: seconds until the turn that has taken this input is interrupted; the result
                then has the status interrupted. An input that no host has taken is taken back.
            id: the input's id.
            sender: who speaks.
            metadata: JSON facts for the agent's function.

        Raises:
            ValueError: the time-out is negative or not a number, or as for `send_input`.
        """
        limit = math.inf if timeout is None else check_seconds(timeout)
        receipt = await self.send_input(content, id=id, sender=sender, metadata=metadata)
        with trio.move_on_after(limit):
            return await self.answer(receipt)
        is_taken = not await self._withdraw(receipt.input_id)
        while is_taken:  # by a host that has perhaps not begun with it
            with suppress(AgentNotRunningError):  # its end is the answer
                await self._interrupt("now", _GRACE, receipt.input_id)
            with trio.move_on_after(_AGAIN):
                return await self.answer(receipt)
        return await self.answer(receipt)

    async def interrupt(
        self, mode: InterruptMode = "now", grace: float = 2.0, *, input_id: str | None = None
    ) -> InterruptReport:
        """Stop the turn in flight, and return when nothing of it is left on its host.

        A turn that was cut off, and waits until a person says whether it goes on, is given up. If
        the agent moves meanwhile, its turn is stopped where it goes on; no later turn ever is.

        Args:
            mode: "now", or "after_step" for the next boundary between two steps.
            grace: seconds for clean-up.
            input_id: stop only the turn of this input, or take it back if no host has it yet.

        Raises:
            AgentNotRunningError: it has ended.
            RemoteLostError: no host that has it can be reached for a minute.
            ValueError: the mode is unknown, or the grace negative or not a number.
        """
        if mode not in get_args(InterruptMode):
            raise ValueError(f"mode is 'now' or 'after_step', not {mode!r}")
        check_seconds(grace)
        placed = await self._links.find(self._session_id)
        if input_id is None and placed is not None:
            input_id = placed.in_hand
        elif input_id is not None and await self._withdraw(input_id):
            return InterruptReport()
        until = trio.current_time() + LOST
        while True:
            report = await self._interrupt(mode, grace, input_id, placed)
            placed = None
            if input_id is None or report != InterruptReport() or trio.current_time() > until:
                return report
            if await self._links.is_answered(self._session_id, input_id):
                return report
            await self._links.wait_change(self._session_id)  # its turn begins, or has just ended

    async def _withdraw(self, input_id: str) -> bool:
        """Take an input back that no host has taken; whether that is so."""
        withdrawn = serde.encode(TurnResult(TurnStatus.INTERRUPTED))
        return await self._links.database.run(
            lambda each: mailbox.withdraw_input(each, self._session_id, input_id, withdrawn)
        )

    async def _give_up(self, placed: directory.Placed | None) -> bool:
        """Give up a turn that was cut off and waits for a person's word; whether there was one."""
        asked = None if placed is None else placed.asked
        if asked is None:
            return False
        is_given = await self._links.database.run(
            lambda each: mailbox.give_word(each, self._session_id, asked, "deny")
        )
        await self._links.poke(self._session_id)
        return is_given

    async def _interrupt(
        self,
        mode: InterruptMode,
        grace: float,
        input_id: str | None,
        placed: directory.Placed | None = None,
    ) -> InterruptReport:
        """Stop the turn of an input and no other, or one that no input has begun."""
        placed = placed or await self._links.find(self._session_id)
        if await self._give_up(placed):
            return InterruptReport()
        body = {"mode": mode, "grace": grace, "input": input_id}
        path = session_path(self._session_id, "interrupt")
        wait = grace if mode == "now" else _LONGEST_STEP
        return await self._links.ask_host(
            self._session_id, "POST", path, InterruptReport, body, wait, placed
        )

    async def shutdown(self, grace: float = 5.0) -> Outcome:
        """End it: no more input, `grace` seconds for the open turn, then cancel.

        One that has no host is ended at once.

        Raises:
            RemoteLostError: no host that has it can be reached for a minute.
            ValueError: the grace is negative or not a number.
        """
        body = {"grace": check_seconds(grace)}
        ended = write_outcome(Outcome(EndStatus.CANCELLED))
        await self._links.database.run(
            lambda each: directory.end_homeless(each, self._session_id, ended, UNREAD)
        )
        await self._give_up(await self._links.find(self._session_id))
        path = session_path(self._session_id, "shutdown")
        with suppress(AgentNotRunningError):
            await self._links.ask_host(
                self._session_id, "POST", path, dict[str, object], body, grace
            )
        return await self.wait()

    def subscribe(self, replay: RemoteReplay = "all") -> RemoteChunks:
        """Read its chunks, wherever it runs by then.

        Args:
            replay: where to begin: "none" (what comes next), "all" (what it still has) or a
                `position` of an earlier reader. What is lost is told as a `Lagged`.

        Raises:
            ValueError: `replay` is something else.
        """
        return RemoteChunks(self._session_id, self._links, replay)

    async def pending(self) -> tuple[PermissionRequest, ...]:
        """Return the open questions, each with the name of the machine that it is about.

        One of them may be of the machinery: whether a turn goes on that the end of its host has cut
        off. It is asked once by the host that has the agent now.

        Raises:
            RemoteLostError: no host that has it can be reached for a minute.
            SessionStorageError: the database refused, or was away for too long.
        """
        placed = await self._links.find(self._session_id)
        if placed is None or placed.state != "live":
            return ()
        if placed.asked is not None:
            return (ask_about(placed.asked, placed.host_name),)
        path = session_path(self._session_id)
        try:
            now = await self._links.ask_host(
                self._session_id, "GET", path, _Snapshot, placed=placed
            )
        except RemoteError as error:
            if error.status != 404:  # nothing of it is stored yet
                raise
            return ()
        name = placed.host_name
        return tuple(replace(each, host=each.host or name) for each in now.pending)

    async def respond_permission(
        self,
        request_id: str,
        decision: RuleDecision | str,
        *,
        remember: Literal["session"] | None = None,
        message: str | None = None,
        input: dict[str, object] | None = None,  # noqa: A002 (the field's word for it)
    ) -> bool:
        """Answer a question; the first answer counts. It goes to the host that has the agent now.

        Args:
            request_id: the request's id.
            decision: allow or deny.
            remember: "session" makes it a rule for the rest of the session.
            message: for the model, such as why not.
            input: the call's input as the person edited it, or what the request's fields ask for.

        Returns:
            Whether the answer was accepted: False if the question is unknown or answered.

        Raises:
            ValueError: the decision is neither allow nor deny.
            RemoteError: the host refuses the answer.
            RemoteLostError: no host that has it can be reached for a minute.
            SessionStorageError: the database refused, or was away for too long.
        """
        if decision not in ("allow", "deny"):
            raise ValueError(f"a person's answer is 'allow' or 'deny', not {decision!r}")
        if request_id.startswith(CUT_OFF):
            about = request_id.removeprefix(CUT_OFF)
            is_first = await self._links.database.run(
                lambda each: mailbox.give_word(each, self._session_id, about, str(decision))
            )
            await self._links.poke(self._session_id)
            return is_first
        asked = {each.request_id: each for each in await self.pending()}
        if request_id not in asked:
            return False
        body = {
            "decision": str(decision),
            "digest": asked[request_id].digest,
            "remember": remember,
            "message": message,
            "input": input,
        }
        path = session_path(self._session_id, "permissions", request_id)
        try:
            await self._links.ask_host(self._session_id, "POST", path, dict[str, object], body)
        except RemoteError as error:
            if error.status != 409:  # somebody was faster
                raise
            return False
        return True

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation, as far as it is saved.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        try:
            return (await self._links.load(self._session_id)).history
        except SessionNotFoundError:
            return ()

    async def status(self) -> AgentStatus:
        """Return where it is, and how it does.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        placed = await self._links.find(self._session_id)
        assert placed is not None  # no agent is forgotten
        return AgentStatus(placed.host, placed.epoch, placed.state, placed.queued, placed.parent)

    async def wait(self) -> Outcome:
        """Wait until it has ended, and return how; a move to another host is not an end.

        The error of one that crashed is one of ours, of its own class where that is known.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        placed = await self._links.wait_end(self._session_id)
        assert placed is not None
        return read_outcome(placed.outcome)

    async def _outcome(self) -> Outcome | None:
        placed = await self._links.find(self._session_id)
        return None if placed is None else read_outcome(placed.outcome)
