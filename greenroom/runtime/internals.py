"""The inside of an agent: the object that its function is given."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVarTuple, Unpack, get_args

import trio
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    AgentExit,
    AgentState,
    Answer,
    Ask,
    Deny,
    Interrupt,
    MailboxFullError,
    ModelRequest,
    OutputChunk,
    PermissionRequest,
    SelfWaitError,
    Shutdown,
    ToolResult,
    ToolUseBlock,
    TurnError,
    Usage,
)
from greenroom.core._internal import ConversationInput, new_id
from greenroom.resilience import Backoff, Budget
from greenroom.runtime.actor import Actor
from greenroom.runtime.budgets import BudgetScope
from greenroom.runtime.calls import (
    Model,
    ModelCallScope,
    ToolCallScope,
    current_actor,
    current_call,
    is_call_over,
)
from greenroom.runtime.errors import AgentNotRunningError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.interruption import CleanupScope
from greenroom.runtime.mailbox import Inputs
from greenroom.runtime.requests import RequestFields, draft_request, find_warnings
from greenroom.runtime.restarts import AgentHost, Strategy
from greenroom.runtime.spawning import Scope, spawn_child
from greenroom.runtime.subagents import Monitor
from greenroom.runtime.supervisor import Supervisor, make_supervisor
from greenroom.runtime.turn import Turn
from greenroom.session import AgentSession

Ts = TypeVarTuple("Ts")

_YIELD_EVERY = 64


class AgentInternals:
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

    def __init__(self, actor: Actor) -> None:
        """Made by the runtime."""
        self._actor = actor
        self._sent = 0

    @property
    def session(self) -> AgentSession:
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
        """Whether the open turn is being suspended: its questions then stay open."""
        turn = self._actor.turns.current
        return turn is not None and turn.is_suspended

    @property
    def would_suspend(self) -> bool:
        """Whether a question would suspend the turn now: no reader can answer it.

        So it was spawned, with `unattended="suspend"`.
        """
        return self._actor.approvals.would_suspend

    @property
    def usage(self) -> Usage:
        """Tokens of all `UsageReport`s that this agent has sent."""
        return self._actor.output.usage

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the agents from the root down to this one."""
        return self._actor.lineage

    def inputs(self) -> Inputs:
        """Iterate over the inputs of the agent, waiting for each; ends on shutdown.

        Yields `UserInput`, `SubAgentResult` and `AgentExit`; and first of all, where nothing else
        waits and the session was loaded with `keep_open`, a `Resume` with the calls that are open;
        with `on_cut_off="continue"`, one for the turn that was cut off.
        Inputs that are still queued at a shutdown are not delivered; the outcome lists them.
        """
        return Inputs(self._actor.turns)

    async def receive(self) -> ConversationInput | Interrupt | Shutdown:
        """Wait for the next message of any kind, for a loop that handles them all.

        An interrupt shows here only while no turn is open. After `Shutdown` nothing follows: the
        function is expected to return.
        """
        self._actor.turns.begin_wait()
        return await self._actor.mailbox.next_message()

    async def wait_tool_result(self, tool_use_id: str) -> ToolResult:
        """Wait for the result of a tool that the client runs (`handle.send_tool_result`).

        Raises:
            ToolError: another task waits for this result already.
        """
        return await self._actor.client_results.take(tool_use_id)

    def turn(self, message: ConversationInput, *, steer: bool = False, append: bool = True) -> Turn:
        """Open a turn with `async with`: what an interrupt cancels.

        Entering answers calls that are open as not run, and appends the message to the history; for
        a `Resume` it does neither. Leaving, however it happens, answers every open tool call (but
        see `Turn.suspend`), saves, sets the state and publishes `Done`. One of our typed errors
        ends the turn (`Error`, `Done(failed)`) and is not raised further; any other exception is. A
        failed save is such an error of the turn too.

        Args:
            message: the input that the turn answers, as `inputs()` or `receive()` gave it.
            steer: whether input that arrives meanwhile joins this turn: each `step()` appends what
                waits in the mailbox to the history. Input after the last step stays queued.
            append: whether the message is appended. If not, the body does so with
                `session.add_message`, once it knows what may be kept.

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

    async def send(self, chunk: OutputChunk) -> None:
        """Publish a chunk. Never waits for readers; lets others run at least every 64 chunks.

        Raises:
            TypeError: it is not a chunk.
            InvalidJSONError: it holds something that JSON can't express.
        """
        _check_chunks((chunk,))
        self._sent += 1
        if self._sent % _YIELD_EVERY == 0:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self._actor.publish(chunk)

    def send_nowait(self, *chunks: OutputChunk) -> None:
        """Publish chunks without a checkpoint, as clean-up code may have to.

        Several at once wake their readers once.

        Raises:
            TypeError: one is not a chunk; none was published.
            InvalidJSONError: one holds something that JSON can't express; those before it were
                published.
        """
        _check_chunks(chunks)
        self._actor.publish(*chunks)

    def set_state(self, state: AgentState) -> None:
        """Say what the agent is doing; a change is published as a `StateChange`.

        Raises:
            TurnError: done and failed are set by the runtime alone.
        """
        self._actor.check_loop("set_state()")
        if state.is_final:
            raise TurnError(
                f"an agent can't set its state to {state}", hint="return, or raise an exception"
            )
        self._actor.set_state(state)

    async def step(self) -> None:
        """Mark the boundary between two steps, before each model call.

        Here an `after_step` interrupt takes effect, budgets are checked and count the call, and
        input joins a turn that may be steered.

        Raises:
            BudgetExceededError: a budget of this agent, or of one above it, is spent.
        """
        actor = self._actor
        actor.turns.end_step()
        await trio.lowlevel.checkpoint()
        actor.budgets.begin_model_call()
        actor.turns.begin_step()

    @property
    def has_budget(self) -> bool:
        """Whether another model call and tool call could begin, by this agent's budgets."""
        return self._actor.budgets.is_left

    def model_call(
        self,
        model: Model,
        request: ModelRequest,
        count: Callable[[ModelRequest], int] | None = None,
    ) -> ModelCallScope:
        """Open the block in which a model is asked, with `async with`; put its reply into `.reply`.

        Where a budget limits tokens or cost, the block is entered once it has room for this call
        beside those that run; send the `UsageReport` in the block. A plain `with` does not wait.

        Args:
            model: the model that will be asked.
            request: what it will be sent.
            count: estimates the tokens of the request; called only where a budget limits them.

        Raises:
            BudgetExceededError: on entering: a budget was spent by the calls that ran.
            ConfigurationError: on entering: a budget limits the cost, and the model has no price;
                on leaving: one limits tokens or cost, and the reply has no usage.

        Example:
            ```python
            async with agent.model_call(llm, request) as call:
                call.reply = await llm.generate(request)
            ```
        """
        return ModelCallScope(self._actor, model, request, count)

    def tool_call(self, call: ToolUseBlock) -> ToolCallScope:
        """Open the block of one call that a model has asked for, with `with`.

        Judge and run `.call` inside, the latter under `async with scope.running():`, and pass the
        result to `.end()`.

        Example:
            ```python
            with agent.tool_call(call) as scope:
                async with scope.running():
                    result = await tools.execute(scope.call.name, scope.call.input, context)
                scope.end(result)
            ```
        """
        return ToolCallScope(self._actor, call)

    async def judge(self, call: ToolUseBlock) -> Deny | Ask | None:
        """Ask the runtime's gates about a valid call, before the rules: the strictest answer.

        `run_tools` does. A loop of its own that does not is asked when the tool runs, and an `Ask`
        is a refusal there; one that does sets `approval` in the context of a call that it allows.
        """
        gates = self._actor.kernel.gates
        return await gates.judge(self.context, call) if gates else None

    def budget(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost: float | None = None,
        model_calls: int | None = None,
        tool_calls: int | None = None,
        concurrency: int | None = None,
    ) -> BudgetScope:
        """Limit what the block under `with` may use, including the subagents spawned in it.

        Spent model calls, tokens or cost show at the next `step()`; spent tool calls at the next
        one that would run; a deadline cancels the block; concurrency lets tool calls wait. Without
        a limit the block is only counted. `with … as budget` gives the `Budget`.

        Raises:
            BudgetExceededError: from the block, when something is spent.
            ConfigurationError: a limit makes no sense.
        """
        budget = Budget(
            seconds=seconds,
            tokens=tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=cost,
            model_calls=model_calls,
            tool_calls=tool_calls,
            concurrency=concurrency,
        )
        return BudgetScope(self._actor.budgets, budget)

    async def request_permission(
        self,
        tool_name: str = "",
        action: str = "",
        *,
        of: PermissionRequest | None = None,
        timeout: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Answer:
        """Ask the readers that answer for this agent, or for one above it, and wait for the answer.

        A question about a call of the last reply is stored before it is asked, so that it survives
        the process. Asked again by a later one it keeps its id, and an answer that was given ahead
        counts if the digest is the same. The same holds for a question about no call that a root
        asks in its turn, outside of tools: a later agent, which begins with a `Resume`, asks it
        again if it goes the same way, and it counts as the same if all is that a person is shown.

        Denied, with the reason in `Answer.message`: at the time-out, when the last reader that
        could answer leaves, at a shutdown, and at once if none can answer and the root was spawned
        with `unattended="deny"`. With "suspend" the turn ends instead, and the question stays open;
        only a question that could not be asked again, such as that of a running tool, is denied.

        Args:
            tool_name: the tool that may not run before the answer.
            action: one line on what it would do.
            of: a request of an agent elsewhere, to pass on. The reader sees its directory, lineage,
                machine, effects and warnings; give `host=` if it does not say the machine. It is
                not stored here: its own session has it.
            timeout: seconds to wait; None for the runtime's limit.
            **fields: what else the reader is shown, as fields of `PermissionRequest`.

        Raises:
            MailboxFullError: too many requests of this agent are open.
            ToolError: `fields` is not a valid JSON Schema of an object.
            SessionError: the question could not be stored, and was not asked.
        """
        draft = draft_request(tool_name, action, of, fields)
        approvals = self._actor.approvals
        if of is None:
            cwd = str(self.context.workspace.cwd)
            draft = replace(draft, lineage=self._actor.lineage, cwd=cwd)
        session_id, warnings = self._actor.session_id, await find_warnings(draft)
        request = replace(draft, session_id=session_id, warnings=warnings)
        id_ = new_id("p") if of else approvals.choose_id(request)
        request, conversation = replace(request, request_id=id_), self.session.conversation
        is_in_turn = self._actor.is_root and self._actor.turns.is_in_turn()
        of_turn = is_in_turn and current_call(self._actor) is None
        is_kept = of is None and conversation.add_question(request, of_turn=of_turn)
        if is_kept:
            # A person may take hours, and the question must not be lost meanwhile.
            await self.session.save(flush=False)
        limit = self._actor.limits.permission_timeout if timeout is None else timeout
        answer = await approvals.request(request, limit, is_kept=is_kept)
        if is_kept and not request.tool_use_id:
            conversation.close_question(request)
        return answer

    @property
    def subagent_room(self) -> int:
        """How many subagents it can spawn now, beside those that are alive or untaken."""
        return max(0, self._actor.limits.subagents - self._actor.children.used_room)

    def spawn(
        self,
        session: AgentSession,
        agent_fn: Callable[["AgentInternals", Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        detached: bool = False,
        scope: Scope = "turn",
        report: bool = True,
        name: str | None = None,
        budget: Budget | None = None,
    ) -> AgentHandle:
        """Start a subagent and return its handle at once.

        It lives in this agent's task tree, and ends with it at the latest. Its chunks show in this
        agent's output as `SubAgentOutput`; its permission requests can be answered here.

        Args:
            session: the conversation that it continues.
            agent_fn: an async function; its first argument is the agent's `AgentInternals`.
            *args: its other arguments.
            detached: whether it belongs to the runtime alone, and to no budget of this agent.
            scope: "turn" cancels it when the turn that is open now is interrupted or fails; after a
                turn that completes it goes on. With "agent" no turn ends it.
            report: whether its end arrives here as a `SubAgentResult`, unless this agent has
                learned it through the handle: by `wait` or `shutdown`, or by `ask`, if it then
                completes and has said no more.
            name: for people and logs; by default the agent's type.
            budget: a bound for it and all below it, beside the budgets that are open here.

        Raises:
            SessionInUseError: the session has an agent already.
            SessionError: the session has another parent, or is stored as a root already.
            TurnError: as many subagents as the limit allows are alive, or have untaken results.
            AgentNotRunningError: this agent's function has returned.
            RuntimeClosedError: the runtime has been left.
            ConfigurationError: `scope` is another word.
            EventLoopError: called from another thread.
            TypeError: `agent_fn` is not an async function, or `budget` not a `Budget`.
        """
        return spawn_child(
            self._actor,
            session,
            agent_fn,
            args,
            detached=detached,
            scope=scope,
            report=report,
            name=name,
            budget=budget,
        )

    def supervisor(
        self,
        strategy: Strategy = "one_for_one",
        *,
        intensity: int = 3,
        period: float = 5.0,
        backoff: Backoff | None = None,
        name: str = "supervisor",
    ) -> Supervisor:
        """Make a supervisor whose children are subagents of this agent.

        Should it give up, this agent crashes with its `SupervisionError`. It ends with this run of
        the agent's function. The arguments are those of `AgentRuntime.supervisor`.

        Raises:
            AgentNotRunningError: this agent's function has returned.
            RuntimeClosedError: the runtime has been left.
            ConfigurationError: an argument makes no sense.
        """
        return make_supervisor(
            AgentHost(self._actor.kernel, self._actor),
            strategy,
            intensity=intensity,
            period=period,
            backoff=backoff,
            name=name,
        )

    def monitor(self, handle: AgentHandle) -> Monitor:
        """Receive one `AgentExit` as input when another agent has ended for good.

        It comes at once if that agent has ended already, and always finds room. Neither agent ends
        with the other. The monitor ends with this run of the agent's function.

        Raises:
            SelfWaitError: it is this agent's own handle.
            MailboxFullError: it monitors as many agents as the limit allows.
            AgentNotRunningError: this agent's function has returned.
        """
        watcher, watched = self._actor, handle._actor
        watcher.check_loop("monitor()")
        _refuse_monitor(watcher, watched)
        monitor = Monitor(
            watcher.life.monitors, watched.monitors, watcher.mailbox, watcher.check_loop
        )
        if watched.outcome is not None:
            watched.tell_monitors(watched.outcome)
        return monitor


def spawn_subagent(
    session: AgentSession,
    agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    *args: *Ts,
    scope: Scope = "turn",
    report: bool = True,
    name: str | None = None,
    budget: Budget | None = None,
) -> AgentHandle | None:
    """Start a subagent of the agent in whose task tree or tool call the caller is.

    A tool can start agents without the internals or the handle of the agent that calls it. The
    subagent is under that agent's budgets and ends with its turn, as if the agent had spawned it.
    In the thread of a plain tool, write
    `trio.from_thread.run_sync(spawn_subagent, session, fn)`. A task that a tool has started in a
    nursery of the application's is not part of the agent.

    Args:
        session: the conversation that it continues.
        agent_fn: an async function; its first argument is the subagent's `AgentInternals`.
        *args: its other arguments.
        scope: as in `AgentInternals.spawn`.
        report: as in `AgentInternals.spawn`.
        name: for people and logs; by default the agent's type.
        budget: a bound for it and all below it, beside the budgets that are open there.

    Returns:
        Its handle, or None if the caller is not part of an agent; nothing has started then.

    Raises:
        TurnError: the caller is in a thread whose tool call is over, or as many subagents as the
            limit allows are alive, or have untaken results.
        EventLoopError: called in the thread of a tool directly.
        SessionInUseError: and others, as `AgentInternals.spawn` does.

    Example:
        ```python
        @tool
        async def research(question: str) -> str:
            handle = spawn_subagent(AgentSession.new("researcher"), researcher, llm, report=False)
            assert handle is not None, "this tool is called by an agent"
            return (await handle.ask(question)).text
        ```
    """
    parent = current_actor()
    if parent is None:
        return None
    if is_call_over():
        raise TurnError(
            f"the tool call of {parent.name} that this thread belongs to is over: it was given up,"
            " and spawns no more",
            hint="make the tool an async function, which ends with its call",
        )
    return spawn_child(
        parent,
        session,
        agent_fn,
        args,
        detached=False,
        scope=scope,
        report=report,
        name=name,
        budget=budget,
    )


def calling_internals() -> AgentInternals | None:
    """Return the inside of the agent in whose task tree or tool call the caller is, or None.

    A tool that has to ask a person in the middle of a call asks through it.
    """
    actor = current_actor()
    return None if actor is None else AgentInternals(actor)


def _refuse_monitor(watcher: Actor, watched: Actor) -> None:
    if watched is watcher:
        raise SelfWaitError("an agent can't monitor itself: it has ended by then")
    if watcher.life.nursery is None:
        raise AgentNotRunningError(
            f"the agent {watcher.name} has returned, and monitors no more", outcome=watcher.outcome
        )
    limit = watcher.limits.monitors
    if len(watcher.life.monitors) + watcher.mailbox.count(AgentExit) >= limit:
        raise MailboxFullError(
            f"{watcher.name} monitors {limit} agents, or has not taken word of their ends",
            hint="cancel some of its monitors, or raise RuntimeLimits.monitors",
        )


_CHUNKS: frozenset[type] = frozenset(get_args(OutputChunk))


def _check_chunks(chunks: Iterable[object]) -> None:
    for chunk in chunks:
        if type(chunk) not in _CHUNKS:  # nor is a subclass one: no reader elsewhere could decode it
            raise TypeError(
                f"{chunk!r} is not a chunk: write TextComplete({str(chunk)!r}), or another one"
            )
