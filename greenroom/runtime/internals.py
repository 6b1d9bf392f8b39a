"""The agent's side: what an agent function is given."""

from typing import TYPE_CHECKING

import trio

from greenroom.core import (
    AgentContext,
    AgentState,
    Answer,
    ConversationInput,
    Interrupt,
    OutputChunk,
    PermissionEffects,
    PermissionPart,
    PermissionRequest,
    SandboxReport,
    Shutdown,
    ToolResult,
    TurnError,
    Usage,
    disguises,
    texts_in,
)
from greenroom.runtime.budgets.boundaries import Boundaries
from greenroom.runtime.caller import require_loop
from greenroom.runtime.input.mailbox import Inputs
from greenroom.runtime.turns.cleanup import CleanupScope
from greenroom.runtime.turns.turn import Turn

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.session import AgentSession

_YIELD_EVERY = 64
_NO_EFFECTS = PermissionEffects()
_LONG = 100_000  # characters that take some tens of milliseconds to look through


class AgentInternals(Boundaries):
    """What an agent can do: receive input, open turns, send chunks, ask, spawn.

    The runtime makes one for each agent and passes it as the function's first argument.

    Example:
        ```python
        async def echo(agent: AgentInternals) -> None:
            async for message in agent.inputs():
                async with agent.turn(message):
                    await agent.send(TextComplete(f"you said {message.text}"))
        ```
    """

    def __init__(self, actor: "Actor") -> None:
        """Made by the runtime."""
        super().__init__(actor)
        self._sent = 0

    @property
    def session(self) -> "AgentSession":
        """The agent's session; the agent is its only writer."""
        return self._actor.session

    @property
    def context(self) -> AgentContext:
        """The context that tools are given; `with_tool_use_id` makes one for a call."""
        return self._actor.context

    @property
    def state(self) -> AgentState:
        """What the agent is doing."""
        return self._actor.state

    @property
    def is_suspended(self) -> bool:
        """Whether the open turn is being suspended: what it asks is not withdrawn, but stays open."""
        turn = self._actor.turns.current
        return turn is not None and turn.is_suspended

    @property
    def usage(self) -> Usage:
        """Tokens of all `UsageReport`s that this agent has sent."""
        return self._actor.output.usage

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the agents from the root down to this one."""
        return self._actor.lineage()

    # -- input ----------------------------------------------------------------------------------

    def inputs(self) -> Inputs:
        """Iterate over the inputs of the agent, waiting for each; ends on shutdown.

        Yields `UserInput`, `SubAgentResult` and `AgentExit`; and first of all, where nothing else waits
        and the session was loaded with `keep_open`, a `Resume` with the calls that are open. Inputs that
        are still queued at a shutdown are not delivered; the outcome lists them.
        """
        return Inputs(self._actor)

    async def receive(self) -> ConversationInput | Interrupt | Shutdown:
        """Wait for the next message of any kind, for a loop that wants to see them all.

        An interrupt shows here only while no turn is open. After `Shutdown` nothing follows: the
        function is expected to return.
        """
        self._actor.turns.await_input()
        return await self._actor.mailbox.next_message()

    async def wait_tool_result(self, tool_use_id: str) -> ToolResult:
        """Wait for the result of a tool that the client runs (`handle.send_tool_result`).

        Raises:
            ToolError: another task waits for this result already.
        """
        return await self._actor.client_results.take(tool_use_id)

    # -- turns ----------------------------------------------------------------------------------

    def turn(self, message: ConversationInput, *, steer: bool = False, append: bool = True) -> Turn:
        """Open a turn with `async with`: what an interrupt cancels.

        Entering answers calls that are open as not run, and appends the message to the history; for a
        `Resume` it does neither. Leaving, however it happens, answers every open tool call (but see
        `Turn.suspend`), saves, sets the state and publishes `Done`. One of our typed errors ends the turn
        (`Error`, `Done(failed)`) and is not raised further; any other exception is. A failed save is
        such an error of the turn too.

        Args:
            message: the input that the turn answers, as `inputs()` or `receive()` gave it.
            steer: let input that arrives meanwhile join this turn: at each `step()` what waits in
                the mailbox is appended to the history. What comes after the last step stays queued.
            append: whether the message is appended. If not, the body does so, with
                `session.add_message`, once it knows what of the message may be kept.

        Raises:
            TypeError: it is not an input.
            TurnError: a turn is open already, or calls of a `Resume` are open no longer.
            AgentNotRunningError: the agent has ended.
            InvalidJSONError: the message holds something that can't be stored.
        """
        if not isinstance(message, ConversationInput):
            raise TypeError(
                f"a turn answers an input, not {message!r}: "
                "write agent.turn(message) with what agent.inputs() gave, or a UserInput of yours"
            )
        return self._actor.turns.make(message, steer=steer, append=append)

    def cleanup(self, grace: float) -> CleanupScope:
        """Open a scope for clean-up that a cancel can't abort, for `grace` seconds at the most.

        Use it inside a `finally`: `with agent.cleanup(2.0): await connection.aclose()`. The grace
        of an interrupt shortens it, a kill ends it; one inside another ends with the outer one.

        Raises:
            ValueError: the grace is negative, or not a number.
        """
        return CleanupScope(self._actor.cleanups, grace)

    # -- output ---------------------------------------------------------------------------------

    async def send(self, chunk: OutputChunk) -> None:
        """Publish a chunk. Never waits for readers; lets others run at least every 64 chunks.

        Raises:
            TypeError: it is not a chunk.
            InvalidJSONError: it holds something that JSON can't express.
        """
        _check_chunk(chunk)
        self._sent += 1
        if self._sent % _YIELD_EVERY == 0:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self._actor.publish(chunk)

    def send_nowait(self, chunk: OutputChunk) -> None:
        """Publish a chunk without a checkpoint, as clean-up code may have to.

        Raises:
            TypeError: it is not a chunk.
            InvalidJSONError: it holds something that JSON can't express.
        """
        _check_chunk(chunk)
        self._actor.publish(chunk)

    def set_state(self, state: AgentState) -> None:
        """Say what the agent is doing; a change is published as a `StateChange`.

        Raises:
            TurnError: done and failed are set by the runtime alone.
        """
        require_loop(self._actor.runtime, "set_state()")
        if state.is_final:
            raise TurnError(
                f"an agent can't set its state to {state}", hint="return, or raise an exception"
            )
        self._actor.set_state(state)

    # -- others ---------------------------------------------------------------------------------

    async def request_permission(
        self,
        tool_name: str,
        action: str,
        *,
        details: str = "",
        diff: str = "",
        input: dict[str, object] | None = None,  # noqa: A002 (the field's word for it)
        parts: tuple[PermissionPart, ...] = (),
        reason: str = "",
        remembers: tuple[str, ...] = (),
        unremembered: str = "",
        forbids: tuple[str, ...] = (),
        digest: str = "",
        tool_use_id: str = "",
        sandbox: SandboxReport | None = None,
        effects: PermissionEffects = _NO_EFFECTS,
        claim: str = "",
        options: tuple[str, ...] | None = None,
        credential: str = "",
        timeout: float | None = None,
    ) -> Answer:
        """Ask whoever answers for this agent, or for one above it, and wait for the answer.

        A question about a call of the last reply is stored before it is asked, so that it survives
        the process. Asked again by a later one it keeps its id, and an answer that was given ahead
        counts where the digest is the same.

        Denied, with the reason in `Answer.message`: at the time-out (by default the runtime's limit),
        when the last one who could answer leaves, at a shutdown, and at once where nobody answers
        and the root was spawned with `unattended="deny"`; with "suspend" the turn ends instead, and
        the question stays open.

        Raises:
            MailboxFullError: too many requests of this agent are open.
            SessionError: the question could not be stored; nobody was asked.
        """
        question = self._actor.approvals.question(tool_use_id, digest)
        if self.session.add_question(question):
            # A person may take hours, and what they are asked about is not to be lost meanwhile.
            await self.session.save(flush=False)
        request = PermissionRequest(
            request_id=question.request_id,
            tool_name=tool_name,
            action=action,
            details=details,
            diff=diff,
            input=input or {},
            parts=parts,
            reason=reason,
            remembers=remembers,
            unremembered=unremembered,
            forbids=forbids,
            digest=digest,
            tool_use_id=tool_use_id,
            session_id=self._actor.session.session_id,
            lineage=self._actor.lineage(),
            cwd=str(self.context.workspace.cwd),
            sandbox=sandbox,
            effects=effects,
            warnings=await _warnings(action, details, diff, *texts_in(input)),
            claim=claim,
            options=options,
            credential=credential,
        )
        limit = self._actor.limits.permission_timeout if timeout is None else timeout
        return await self._actor.approvals.request(request, limit)


async def _warnings(*texts: str) -> tuple[str, ...]:
    """Say what may mislead a reader of these texts; of long ones in a thread."""
    if sum(map(len, texts)) < _LONG:
        return disguises(*texts)
    return await trio.to_thread.run_sync(disguises, *texts)


def _check_chunk(chunk: object) -> None:
    if not isinstance(chunk, OutputChunk):
        raise TypeError(
            f"{chunk!r} is not a chunk: write TextComplete({str(chunk)!r}), or another one"
        )
