"""A run of an `Agent`, from its spawn to its result."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Generic, Literal, NoReturn, Self, TypeAlias, get_args

import msgspec
import trio
from msgspec import UNSET
from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents.agent_result import AgentResult, RunReport
from greenroom.agents.callers import current_caller
from greenroom.agents.chunk_streams import texts
from greenroom.agents.cut_off import reopen_calls
from greenroom.agents.errors import AlreadyAnsweredError
from greenroom.agents.questions import Decide, as_answer, attend, respond
from greenroom.agents.session_queue import OnBusy, hold_session
from greenroom.core import (
    Answer,
    BudgetExceededError,
    ConfigurationError,
    ContentBlock,
    Custom,
    Done,
    Error,
    Exited,
    GreenroomError,
    Message,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    SessionNotFoundError,
    StopReason,
    TurnError,
    TurnStatus,
    Usage,
)
from greenroom.core._internal import RUNTIME, SUMMARY, EndStatus, Wire, as_blocks, serde
from greenroom.resilience import Budget
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime, spawn_subagent
from greenroom.runtime._internal import Unattended, calling_agent
from greenroom.session import AgentSession, InMemoryStore, SessionStore
from greenroom.session._internal import check_store

OutputT = TypeVar("OutputT", default=str)
RunT = TypeVar("RunT")

Approve: TypeAlias = Decide | Literal["later"]
"""Who answers permission requests: an async function, or a person later."""

Answers: TypeAlias = Mapping[str, bool | str | Answer]
"""Answers to questions that an earlier run left open, by the requests' ids."""

GO_ON = "Go on where you left off."
"""The input of a run without one; its sender is `RUNTIME`."""

_ANSWERS = "agent.answers"
_MOST_EVENTS = 1_000


class _Given(Wire, frozen=True):
    """An answer on record, and the digest of the question that it was given to."""

    answer: Answer
    digest: str


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one run; `Agent.run` explains those not listed here.

    Attributes:
        function: the agent's function.
        report: collects what chunks don't say.
        name: the agent's name, for its session.
        has_more: whether a session that was answered has something to go on with nevertheless.
        asks: whether it begins with calls that were cut off, and asks a person about each.
        read_answer: returns the output in a session that was answered, or `msgspec.UNSET`.
    """

    function: Callable[[AgentInternals], Awaitable[object]]
    report: RunReport
    name: str
    input: str | Iterable[ContentBlock] | None
    sender: str = ""
    session: AgentSession | str | None = None
    store: SessionStore | None = None
    runtime: AgentRuntime | None = None
    approve: Approve | None = None
    answers: Answers | None = None
    budget: Budget | None = None
    on_busy: OnBusy = "error"
    has_more: Callable[[AgentSession], bool] = lambda session: False
    asks: bool = False
    read_answer: Callable[[AgentSession], object] = lambda session: UNSET


class RunBlock(AbstractAsyncContextManager[RunT]):
    """A block in which a run is read; to iterate over it without the block is a clear error."""

    def __init__(self, block: AbstractAsyncContextManager[RunT]) -> None:
        """Take what opens the run and ends it."""
        self._block = block

    async def __aenter__(self) -> RunT:
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)

    def __aiter__(self) -> NoReturn:
        raise TypeError(
            "stream() is for a block, which ends the run: write "
            "`async with agent.stream(…) as run:` and in it `async for chunk in run:`"
        )


@asynccontextmanager
async def open_run(
    options: RunOptions, run: type["AgentRun[OutputT]"]
) -> AsyncIterator["AgentRun[OutputT]"]:
    """Spawn the agent for one run; it ends with the block, however the block is left."""
    _check_options(options)
    async with AsyncExitStack() as stack:
        await _take_session(options, stack)
        if calling_agent() is None:
            session, handle = await _spawn_root(options, stack)
        else:
            options, session, handle = await _spawn_below(options)
        made = run(handle, session, options.report)
        try:
            async with AsyncExitStack() as attended:
                if callable(options.approve):
                    await attended.enter_async_context(attend(handle, options.approve))
                await made._begin(options)
                yield made
        finally:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
                await made._finish()


async def _take_session(options: RunOptions, stack: AsyncExitStack) -> None:
    """Keep the session for this run until the stack is left; wait for it if the run may."""
    given, runtime = options.session, options.runtime
    if given is None:
        return
    store = options.store or (runtime.store if runtime is not None else None)
    if calling_agent() is not None:
        store = current_caller().store
    if isinstance(given, AgentSession):
        session_id, store = given.session_id, given.store or store
    else:
        session_id = given
    await stack.enter_async_context(hold_session(session_id, store, options.on_busy))


def _check_options(options: RunOptions) -> None:
    if options.on_busy not in get_args(OnBusy):
        raise ConfigurationError(f"on_busy={options.on_busy!r} is neither 'error' nor 'queue'")
    approve = options.approve
    if approve is not None and approve != "later" and not callable(approve):
        raise ConfigurationError(
            f"approve={approve!r} is neither an async function nor 'later'",
            hint="to let calls run without a question, use permissions=",
        )
    check_store(options.store)
    if isinstance(options.session, AgentSession):
        _check_place(options.session, options.store)
    if options.answers is not None and not isinstance(options.answers, Mapping):
        raise ConfigurationError(
            f"answers={options.answers!r} names no question",
            hint="write answers={result.pending[0].request_id: 'allow'}",
        )
    if options.answers is not None and options.input is not None:
        raise ConfigurationError(
            "a run takes an input, or answers to the questions of an earlier run",
            hint="an input gives up the calls that wait: give the answers first",
        )
    if options.answers is not None and options.session is None:
        raise ConfigurationError(
            "answers belong to a session", hint="pass session=result.session, or its id"
        )


def _check_place(session: AgentSession, store: SessionStore | None) -> None:
    """Refuse a store in which the session would not be kept, even if it is only in memory now."""
    own = session.store
    if own is not None and store is not None and own != store:
        raise ConfigurationError(
            f"session {session.session_id!r} is kept in {own!r}, not in store={store!r}",
            hint="leave store= out, and give it to the run that begins the session",
        )


async def _spawn_root(
    options: RunOptions, stack: AsyncExitStack
) -> tuple[AgentSession, AgentHandle]:
    """Start the agent under the given runtime, or under one of its own."""
    runtime = options.runtime
    store = options.store or (runtime.store if runtime is not None else None)
    if options.session is None:
        store = store or InMemoryStore()
    session = await _open_session(options, store)
    if runtime is None:
        runtime = await stack.enter_async_context(AgentRuntime(store))
    unattended: Unattended = "suspend" if options.approve == "later" else "deny"
    return session, runtime.spawn(
        session, options.function, unattended=unattended, budget=options.budget
    )


async def _spawn_below(options: RunOptions) -> tuple[RunOptions, AgentSession, AgentHandle]:
    """Start the agent as a subagent of the one that calls."""
    refused = {
        "runtime": options.runtime is not None,
        "store": options.store is not None,
        "answers": options.answers is not None,
        "approve='later'": options.approve == "later",
    }
    if any(refused.values()):
        what = next(name for name, is_given in refused.items() if is_given)
        raise ConfigurationError(
            f"{what} has no place in a run inside an agent's tool call or task: it is a subagent",
            hint="it shares the runtime and the store of its caller, which also gets its questions",
        )
    options, session = await _open_nested(options)
    handle = spawn_subagent(session, options.function, report=False, budget=options.budget)
    assert handle is not None  # an agent calls
    return options, session, handle


async def _open_nested(options: RunOptions) -> tuple[RunOptions, AgentSession]:
    """Return the session of a run in a tool call; it goes on if the same call was cut off."""
    caller, agent = current_caller(), calling_agent()
    runs = caller.runs
    is_inside = runs and agent and runs.session.session_id == agent.session_id
    if options.session is not None or options.input is None or not runs or not is_inside:
        return options, await _open_session(options, caller.store)
    content = as_blocks(options.input)
    session = await runs.open(options.name, content)
    if not session.history:
        return replace(options, input=content), session
    if (value := options.read_answer(session)) is not UNSET:
        repeat = partial(_repeat_answer, value=value, report=options.report)
        return replace(options, input=None, function=repeat), session
    if options.asks:
        reopen_calls(session)
    return replace(options, input=None), session


async def _repeat_answer(internals: AgentInternals, value: object, report: RunReport) -> None:
    """Give the answer that is on record."""
    async for message in internals.inputs():
        async with internals.turn(message, append=False):
            report.output = value


async def _open_session(options: RunOptions, store: SessionStore | None) -> AgentSession:
    given = options.session
    if isinstance(given, AgentSession):
        session = given
    elif given is None:
        session = AgentSession.new(options.name, store=store)
    else:
        session = await _load_or_begin(given, store, options)
    if options.asks and options.input is None:
        reopen_calls(session)
    _check_session(options, session)
    return session


async def _load_or_begin(
    session_id: str, store: SessionStore | None, options: RunOptions
) -> AgentSession:
    try:
        return await AgentSession.load(session_id, store=store, keep_open=True)
    except SessionNotFoundError:
        if options.input is None:
            raise
        return AgentSession.new(options.name, session_id=session_id, store=store)


def _check_session(options: RunOptions, session: AgentSession) -> None:
    if options.answers is not None:
        _check_answers(options.answers, session)
    has_more = session.unstarted or _is_broken_off(session) or options.has_more(session)
    if options.input is None and not has_more:
        raise ConfigurationError(
            f"{session.session_id} has nothing to go on with", hint="pass an input"
        )


def _check_answers(answers: Answers, session: AgentSession) -> None:
    """Refuse an answer to what is not open; the same one may be given again after a crash.

    Raises:
        AlreadyAnsweredError: it was open, and was answered or left behind.
        ConfigurationError: this session never asked it.
    """
    open_ids = [question.request_id for question in session.open_questions]
    stored = _stored_answers(session)
    for request_id, answer in answers.items():
        if request_id not in open_ids and not session.conversation.was_asked(request_id):
            raise ConfigurationError(
                f"{session.session_id} has no open question {request_id!r}",
                hint=f"it has {', '.join(open_ids) or 'none'}",
            )
        before = stored.get(request_id)
        if request_id not in open_ids or (before and before.answer != as_answer(answer)):
            raise AlreadyAnsweredError(
                f"the question {request_id!r} of {session.session_id} is answered already, or was"
                " left behind by an input, a rewind or an interrupt",
                session_id=session.session_id,
            )


def _stored_answers(session: AgentSession) -> dict[str, _Given]:
    """Return the answers on record to questions that are open, and the same as when answered."""
    digests = {question.request_id: question.digest for question in session.open_questions}
    record = session.last_record(_ANSWERS)
    found = dict[str, _Given]()
    for request_id, given in record.items() if isinstance(record, dict) else ():
        # What an earlier version stored names no digest: then the question is asked again.
        if isinstance(given, dict) and "answer" in given:
            found[request_id] = serde.convert(given, _Given)
    return {id_: each for id_, each in found.items() if digests.get(id_) == each.digest}


def _collect_answers(session: AgentSession, given: Answers) -> dict[str, Answer]:
    """Return the answers that apply: those given now, and unused ones of earlier runs.

    A reply may ask about several calls, one after the other, and a call may have to wait for those
    before it. So a run that got an answer may end at the next question, with that call not started.
    """
    answers = _stored_answers(session)
    if given:
        digests = {question.request_id: question.digest for question in session.open_questions}
        answers |= {id_: _Given(as_answer(each), digests[id_]) for id_, each in given.items()}
        session.add_record(_ANSWERS, msgspec.to_builtins(answers))
    return {id_: each.answer for id_, each in answers.items()}


def _is_broken_off(session: AgentSession) -> bool:
    """Whether the model has not answered the end of the conversation."""
    last = session.history[-1:]
    return any(
        message.role == "user" or message.stop_reason is StopReason.INTERRUPTED for message in last
    )


class AgentRun(Generic[OutputT]):
    """A run in progress: an iterator over its chunks, from `TurnStart` to `Done`.

    A reader that falls behind gets `Lagged` and goes on; the result is complete all the same.

    Example:
        ```python
        async with agent.stream("Tell me a story.") as run:
            async for piece in run.text():
                print(piece, end="", flush=True)
        print(run.result.usage)
        ```
    """

    def __init__(self, handle: AgentHandle, session: AgentSession, report: RunReport) -> None:
        """Made by `Agent.stream`."""
        self.handle = handle
        """The agent's handle: to interrupt it, or, with `subscribe(answers=True)`, to answer it."""
        self._session = session
        self._before = session.history
        self._report = report
        self._chunks = handle.stream()
        self._requests: dict[str, PermissionRequest] = {}
        self._error: Error | None = None
        self._end: Done | Exited | None = None
        self._usage = Usage()
        self._events = deque[Custom](maxlen=_MOST_EVENTS)

    async def _begin(self, options: RunOptions) -> None:
        """Send the agent its input, or the answers that it waits for."""
        for request_id, answer in _collect_answers(self._session, options.answers or {}).items():
            await respond(self.handle, request_id, answer)
        session = self._session
        has_asked = session.conversation.questions_of_turn and session.cut_off  # asked again
        if options.input is not None or not (session.unstarted or has_asked):
            given = options.input
            content, sender = (GO_ON, RUNTIME) if given is None else (given, options.sender)
            self.handle.send_input_nowait(content, sender=sender)

    async def _finish(self) -> None:
        """Find out how it ended if its chunks were not read to the end; this never waits."""
        if self._end is None:
            chunks = self.handle.subscribe("turn")
            self._events.clear()  # they come again
            while self._end is None:
                self._note(await anext(chunks, Exited(EndStatus.CANCELLED)))
        self._usage = await self.handle.tree_usage()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        """Return the next chunk.

        Raises:
            Exception: the bug that made the agent crash; errors that end a turn are not raised.
        """
        try:
            return await self._receive()
        except StopAsyncIteration:
            await self._raise_crash()
            raise

    async def _receive(self) -> OutputChunk:
        chunk = await self._chunks.__anext__()
        if isinstance(chunk, Done | Exited):
            self._usage = await self.handle.tree_usage()
        self._note(chunk)
        return chunk

    async def finish(self) -> None:
        """Read the chunks to the end, if only the result matters; raises as reading them does."""
        async for chunk in self._chunks:
            self._note(chunk)
        await self._raise_crash()

    async def _raise_crash(self) -> None:
        if isinstance(self._end, Exited) or self._report.has_crashed:
            await self.handle.wait(check=True)

    def _note(self, chunk: OutputChunk) -> None:
        match chunk:
            case PermissionRequest():
                self._requests[chunk.request_id] = chunk
            case PermissionResponse(cancelled=False):
                self._requests.pop(chunk.request_id, None)
            case Custom():
                self._events.append(chunk)
            case Error():
                self._error = chunk
            case Done() | Exited():
                self._end = chunk
            case _:
                pass

    def text(self) -> AsyncIterator[str]:
        """Iterate over the text alone, piece by piece as the model writes it."""
        return texts(self)

    @property
    def result(self) -> AgentResult[OutputT]:
        """How the run ended; available once its chunks are read to the end, or the block is left.

        Raises:
            TurnError: the run has not ended.
        """
        if self._end is None:
            raise TurnError(
                "the run has not ended, so it has no result yet",
                hint="read its chunks to the end, or leave the `async with` block",
            )
        report, messages, status = self._report, self._messages(), _status(self._end)
        replies = (each.text for each in reversed(messages) if each.role == "assistant")
        return AgentResult(
            status=status,
            text=next(filter(None, replies), ""),
            messages=messages,
            usage=self._usage,
            steps=report.steps,
            is_truncated=report.is_truncated,
            denials=tuple(report.denials),
            pending=tuple(self._requests.values()) if status is TurnStatus.WAITING else (),
            warnings=tuple(report.warnings),
            error=self._failure() if status is TurnStatus.FAILED else None,
            session=self._session,
            state=report.state,
            events=tuple(self._events),
            value=report.output if status is TurnStatus.COMPLETED else UNSET,
        )

    def _messages(self) -> tuple[Message, ...]:
        # By id, since a compaction shortens messages. Messages of old files have none.
        known = {message.id or id(message) for message in self._before}
        return tuple(
            message
            for message in self._session.history
            if (message.id or id(message)) not in known and message.sender != SUMMARY
        )

    def _failure(self) -> GreenroomError:
        if self._report.error is not None:
            return self._report.error
        error = self._error or Error("the agent has crashed")
        # Time that is over cancels the agent: only the runtime knows why.
        is_spent = error.kind == BudgetExceededError.__name__
        kind = BudgetExceededError if is_spent else GreenroomError
        return kind(error.message, hint=error.hint)


def _status(end: Done | Exited) -> TurnStatus:
    if isinstance(end, Done):
        return end.status
    return TurnStatus.FAILED if end.status is EndStatus.CRASHED else TurnStatus.INTERRUPTED
