"""`greenroom -p`: one prompt, one answer, one exit code."""

import signal

import trio

from greenroom import core
from greenroom.cli.arguments import BROKEN_PIPE, DENIED, DONE, FAILED, INTERRUPTED, USAGE, Options
from greenroom.cli.diagnostics import open_dump_target, serve_tree
from greenroom.cli.formatting import describe_call
from greenroom.cli.run_setup import RunSetup, open_setup
from greenroom.cli.stdio import OutputWriter, add_context, read_piped, tell
from greenroom.cli.stored_sessions import describe_session, resume_command
from greenroom.core import Message, OutputChunk, PermissionRequest, TurnStatus, exact, serde
from greenroom.runtime import AgentHandle, AgentRuntime, Unattended

_CONFIGURATION = frozenset(
    {
        "ConfigurationError",
        "ConfigurationFileError",
        "ModelAuthenticationError",
        "ModelCallForbiddenError",
        "RuleFileError",
    }
)


class TurnRecord:
    """Collects the result of one turn from its chunks: errors, denials, the end."""

    def __init__(self, session_id: str, model: str) -> None:
        """Start with an empty record of this session and model."""
        self._session_id = session_id
        self._model = model
        self._calls: dict[tuple[str, str], core.ToolStart] = {}
        self._denials: list[dict[str, object]] = []
        self._open_requests: dict[str, PermissionRequest] = {}
        self._is_last_call_denied = False
        self._has_begun = False
        self.credentials: dict[str, PermissionRequest] = {}
        """Requests for credentials, of subagents too, by the credentials' names."""
        self.signal: int | None = None
        self.error: core.Error | None = None
        self.end: core.Done | core.Exited | None = None

    def note(self, chunk: OutputChunk, source: str = "") -> None:
        """Take a chunk of the agent, or with its session as `source` of a subagent."""
        if isinstance(chunk, PermissionRequest) and chunk.credential:
            self.credentials[chunk.credential] = chunk
        match chunk:
            case core.SubAgentOutput():
                self.note(chunk.chunk, chunk.session_id)
            case core.ToolStart():
                self._calls[source, chunk.id] = chunk
            case core.ToolEnd():
                self._note_end(chunk, source)
            case PermissionRequest() if not source:
                self._open_requests[chunk.request_id] = chunk
            case core.PermissionResponse(cancelled=False):
                self._open_requests.pop(chunk.request_id, None)
            case core.TurnStart() if not source:
                self._has_begun = True
            case core.Error() if not source:
                self.error = chunk
            case core.Done() | core.Exited() if not source:
                self.end = chunk
            case _:
                pass

    def _note_end(self, end: core.ToolEnd, source: str) -> None:
        denied = end.result.status is core.ToolStatus.DENIED
        if not source:
            self._is_last_call_denied = denied
        # Ids are unique within one reply of one agent only, so a call is forgotten at its end.
        call = self._calls.pop((source, end.id), None)
        if denied and call is not None:
            self._denials.append(
                {"tool": call.name, "input": call.input, "reason": end.result.text}
            )

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The questions that the turn left open."""
        waits = isinstance(self.end, core.Done) and self.end.status is TurnStatus.WAITING
        return tuple(self._open_requests.values()) if waits else ()

    @property
    def exit_code(self) -> int:
        """The exit code of the turn's end, or that of the `signal` that ended it."""
        if self.signal is not None:
            return 128 + self.signal
        match self.end:
            case core.Done(status=TurnStatus.COMPLETED):
                return DONE
            case core.Done(status=TurnStatus.WAITING):
                return DENIED
            case core.Done(status=TurnStatus.INTERRUPTED):
                return INTERRUPTED
            case _:
                return self._failure_code

    @property
    def _failure_code(self) -> int:
        kind = self.error.kind if self.error else ""
        is_unusable = not self._has_begun and kind.startswith("Session")
        if kind in _CONFIGURATION or is_unusable:
            return USAGE
        # The model tried what it may not do until its steps were used up.
        return DENIED if self._is_last_call_denied and kind == "BudgetExceededError" else FAILED

    def result(self, reply: Message | None) -> dict[str, object]:
        """Make the object that `--output-format json` prints."""
        done, error = self.end if isinstance(self.end, core.Done) else None, self.error
        usage = done.usage if done else core.Usage()
        return {
            "type": "result",
            "result": reply.text if reply else "",
            "session_id": self._session_id,
            "model": self._model,
            "status": done.status if done else TurnStatus.FAILED,
            "stop_reason": done.stop_reason if done else None,
            "usage": {
                **{name: getattr(usage, name) for name in usage.__struct_fields__},
                "cached": usage.cache_share,
            },
            "denials": self._denials,
            "pending": [_describe_question(request) for request in self.pending],
            "error": error and {"message": error.message, "kind": error.kind, "hint": error.hint},
            "exit_code": self.exit_code,
        }


def _describe_question(request: PermissionRequest) -> dict[str, object]:
    return {
        "request_id": request.request_id,
        "tool_use_id": request.tool_use_id,
        "tool": request.tool_name,
        "input": request.input,
        "action": request.action,
        "reason": request.reason,
    }


async def run_headless(options: Options) -> int:
    """Answer one prompt and return the exit code.

    SIGINT and SIGTERM interrupt the turn, a second one ends the agent at once; the session is saved
    all the same. SIGUSR1 writes what the agents are doing to the log, else to the standard error.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    prompt = add_context(options.prompt or "", await read_piped())
    async with open_setup(options) as setup:
        tell(*setup.warnings, *setup.notes)
        async with AgentRuntime(setup.store, workspace=setup.workspace) as runtime:
            unattended: Unattended = "suspend" if options.on_question == "wait" else "deny"
            handle = setup.spawn(runtime, unattended=unattended)
            # Before the agent first asks for input, so that it skips what an earlier run left open.
            handle.send_input_nowait(prompt)
            with runtime.dump_on_signal(
                signal.SIGUSR1, open_dump_target(options, owns_terminal=False)
            ):
                code = await _Headless(handle, setup, options).answer(runtime)
    return code


class _Headless:
    """One headless run of one agent."""

    def __init__(self, handle: AgentHandle, setup: RunSetup, options: Options) -> None:
        self._handle = handle
        self._setup = setup
        self._options = options
        self._format = options.output_format
        self._out = OutputWriter()
        self._record = TurnRecord(handle.session_id, setup.model_name)

    async def answer(self, runtime: AgentRuntime) -> int:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_signals)
            nursery.start_soon(serve_tree, runtime)
            try:
                code = await self._run_turn()
            except BrokenPipeError:
                await self._handle.interrupt()
                code = BROKEN_PIPE
            except OSError as error:
                await self._handle.interrupt()
                tell(f"{error.filename}: {error.strerror}")
                code = FAILED
            nursery.cancel_scope.cancel()
        return code

    async def _watch_signals(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for number in signals:
                if self._record.signal is not None:
                    self._handle.kill()
                self._record.signal = number
                self._handle.interrupt_nowait()

    async def _run_turn(self) -> int:
        before = len(self._setup.session.history)
        async with self._handle.subscribe("all") as chunks:
            async for chunk in chunks:
                self._record.note(chunk)
                if self._format == "stream-json":
                    await self._out.line(serde.encode(chunk))
                if self._format == "text" and isinstance(chunk, core.Custom) and chunk.text:
                    tell(" ".join(chunk.text.split()))  # such as why it waits
                if isinstance(chunk, core.TurnStart):
                    self._begin_turn()
                if isinstance(chunk, core.Done | core.Exited):
                    break
        await self._print_result(before)
        return self._record.exit_code

    def _begin_turn(self) -> None:
        describe_session(self._setup.session, self._setup.workspace)
        if self._record.signal is not None:
            self._handle.interrupt_nowait()  # the signal came before the turn

    async def _print_result(self, before: int) -> None:
        for request in self._record.credentials.values():
            tell(
                f"{exact(request.tool_name)} needs the credential {exact(request.credential)},"
                " which only a person at a terminal can give; to be asked, run"
                f" {resume_command(self._handle.session_id, self._options)}"
            )
        new = (await self._handle.history())[before:]
        reply = next((each for each in reversed(new) if each.role == "assistant"), None)
        match self._format:
            case "json":
                await self._out.line(serde.dumps(self._record.result(reply)))
            case "text":
                await self._print_text(reply)
            case "stream-json":
                pass

    async def _print_text(self, reply: Message | None) -> None:
        if reply is not None and reply.text:
            await self._out.text(reply.text)
        for request in self._record.pending:
            if request.credential:
                continue  # said above
            call = f"{exact(request.tool_name)} {describe_call(request.input)}"
            command = resume_command(self._handle.session_id, self._options)
            tell(f"waits for an answer: {call}; to be asked, run {command}")
        error = self._record.error
        if error is not None:
            # What can't be stored is lost with this process.
            hint = error.hint.removesuffix("; what is unsaved is kept in memory")
            tell(f"{error.message} ({hint})" if hint else error.message)
