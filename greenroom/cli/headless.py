"""`greenroom -p`: prompts in, answers out, one exit code.

Theory of operation
===================

Inputs wait in a queue until a turn has answered them, one after the other; the first in the queue
is the one whose turn runs. With `-p PROMPT` there is one, and with `--input-format stream-json`
`_read_lines` adds one for each line. The agent starts with the first of them. `_answer` reads its
chunks, prints what the output format asks for, and takes an input from the queue when its turn has
ended. The run ends when no more inputs can come and none waits.

Questions wait for an answer as long as lines may bring one, and no longer.
"""

import errno
import os
import signal
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from greenroom import core
from greenroom._version import __version__
from greenroom.cli.commands import find_unknown_command
from greenroom.cli.diagnostics import open_dump_target, serve_tree
from greenroom.cli.formatting import describe_call
from greenroom.cli.input_lines import AnswerLine, BadLine, InputLine, InputLines, UserLine
from greenroom.cli.options import BROKEN_PIPE, DONE, FAILED, Options
from greenroom.cli.run_setup import RunSetup, describe_untrusted, open_setup
from greenroom.cli.stdio import (
    OutputWriter,
    add_context,
    read_all,
    read_piped,
    tell,
    wait_for_hang_up,
)
from greenroom.cli.stored_sessions import describe_session, resume_command
from greenroom.cli.turn_record import TurnRecord
from greenroom.core import (
    ConfigurationError,
    ImageBlock,
    Message,
    OutputChunk,
    PermissionRequest,
    RuleDecision,
    TextBlock,
    TurnStatus,
)
from greenroom.core._internal import Remember, exact, leaves, serde
from greenroom.runtime import AgentHandle, AgentRuntime
from greenroom.runtime._internal import InvalidAnswerError

if TYPE_CHECKING:
    from greenroom.runtime._internal import Unattended

MAX_WAITING = 1_000
"""Inputs that may wait for their turn; a further line is answered with an `input_error`."""

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ANSWERS: dict[str, tuple[RuleDecision, Remember | None]] = {
    "once": (RuleDecision.ALLOW, None),
    "session": (RuleDecision.ALLOW, "session"),
    "project": (RuleDecision.ALLOW, "project"),
    "always": (RuleDecision.ALLOW, "always"),
    "no": (RuleDecision.DENY, None),
    "never": (RuleDecision.DENY, "always"),
}


async def run_headless(options: Options) -> int:
    """Answer the prompt, or what is read as lines, and return the exit code of the last turn.

    SIGINT, SIGTERM and SIGHUP interrupt the turn and end the run, a second one ends the agent at
    once; the session is saved all the same. SIGUSR1 writes what the agents are doing to the log,
    else to the standard error.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    prompt = await _read_prompt(options)
    async with open_setup(options) as setup:
        tell(*setup.warnings, *describe_untrusted(setup.untrusted), *setup.notes)
        _check_command(options, setup)
        async with AgentRuntime(
            setup.store,
            workspace=setup.workspace,
            gates=setup.gates,
            instruments=setup.instruments,
        ) as runtime:
            run = _Headless(runtime, setup, options)
            if prompt is not None:
                run.inputs.append(_Input(prompt))
            with runtime.dump_on_signal(
                signal.SIGUSR1, open_dump_target(options, owns_terminal=False)
            ):
                code = await run.run()
                tell(*(note for gate in setup.gates for note in gate.take_notes()))
    return code


async def _read_prompt(options: Options) -> str | None:
    """Read the prompt and what is piped in; None where lines bring the inputs.

    Raises:
        ConfigurationError: it is empty.
    """
    if options.input_format == "stream-json":
        return None
    if options.prompt != "-":
        return add_context(options.prompt or "", await read_piped())
    prompt = await read_all()
    if not prompt.strip():
        raise ConfigurationError(
            "the prompt is empty", hint="-p - takes it from standard input, such as a pipe"
        )
    return prompt


def _check_command(options: Options, setup: RunSetup) -> None:
    """Refuse a prompt that begins with an unknown command, which a model would answer at a price.

    Raises:
        ConfigurationError: it does. What is piped in may begin with anything.
    """
    text = options.prompt if options.input_format == "text" and options.prompt != "-" else ""
    if fault := find_unknown_command(text or "", setup.own.commands if setup.own else ()):
        raise ConfigurationError(fault, hint="a run with -p knows the commands in files that count")


@dataclass(eq=False)
class _Input:
    """An input that has no result yet.

    Attributes:
        content: what it says.
        id: its id, once it was sent to the agent.
        is_interrupted: whether its turn is to be interrupted, or was.
        before: how many messages the conversation had before it.
        record: what its turn comes to.
    """

    content: str | tuple[TextBlock | ImageBlock, ...]
    id: str = ""
    is_interrupted: bool = False
    before: int = 0
    record: TurnRecord | None = None


class _Headless:
    """One headless run of one agent."""

    def __init__(self, runtime: AgentRuntime, setup: RunSetup, options: Options) -> None:
        self.inputs: deque[_Input] = deque()
        self._runtime = runtime
        self._setup = setup
        self._options = options
        self._format = options.output_format
        self._out = OutputWriter()
        self._one_writer = trio.Lock()
        self._handle: AgentHandle | None = None
        self._questions: dict[str, PermissionRequest] = {}
        self._has_work = trio.Event()  # an input to start the agent with, or the end
        self._has_ended = trio.Event()  # standard input: nobody can answer a question any more
        self._answering = trio.CancelScope()
        self._signal: int | None = None
        self._code = DONE

    async def run(self) -> int:
        """Answer all inputs, and return the exit code."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_signals)
            nursery.start_soon(serve_tree, self._runtime)
            try:
                await self._work()
            except* OSError as group:
                await self._give_up(leaves(group)[0])
            nursery.cancel_scope.cancel()
        return self._code if self._signal is None else 128 + self._signal

    async def _work(self) -> None:
        if self._format == "stream-json":
            await self._print_line(serde.dumps(self._describe_run()))
        async with trio.open_nursery() as nursery:
            if self._options.input_format == "stream-json":
                nursery.start_soon(self._read_lines)
                nursery.start_soon(self._watch_reader)
            else:
                self._has_ended.set()
                self._advance()
            with self._answering:
                await self._serve(nursery)
            nursery.cancel_scope.cancel()

    async def _watch_reader(self) -> None:
        await wait_for_hang_up()
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE), "standard output")

    async def _give_up(self, error: BaseException) -> None:
        """Interrupt the turn, since the output has no reader or can't be written."""
        is_hung_up = isinstance(error, BrokenPipeError)
        if self.inputs or not is_hung_up:  # else all that was asked for has been read
            self._code = BROKEN_PIPE if is_hung_up else FAILED
        if self._handle is not None:
            await self._handle.interrupt()
        if isinstance(error, OSError) and not is_hung_up:
            tell(f"{error.filename}: {error.strerror}")

    async def _watch_signals(self, task_status: trio.TaskStatus[None]) -> None:
        # What is to be ignored by whoever has started this, such as nohup, is ignored.
        numbers = [each for each in _ENDS if signal.getsignal(each) is not signal.SIG_IGN]
        if not numbers:
            task_status.started()
            return
        with trio.open_signal_receiver(*numbers) as signals:
            task_status.started()
            async for number in signals:
                if self._signal is not None and self._handle is not None:
                    self._handle.kill()
                self._signal = number
                if self._handle is not None:
                    self._handle.interrupt_nowait()
                self._advance()

    def _advance(self) -> None:
        """Send the first input if that is to be done, or stop where none is left and none comes."""
        if self.inputs:
            self._has_work.set()
            if self._handle is not None and not self.inputs[0].id:
                self._send_first(self._handle)
        elif self._has_ended.is_set() or self._signal is not None:
            self._answering.cancel()

    async def _serve(self, nursery: trio.Nursery) -> None:
        """Start the agent once there is an input, and print what it does."""
        await self._has_work.wait()
        unattended: Unattended = "suspend" if self._options.on_question == "wait" else "deny"
        self._handle = handle = self._setup.spawn(self._runtime, unattended=unattended)
        # Before the agent first asks for input, so that it skips what an earlier run left open.
        self._send_first(handle)
        nursery.start_soon(self._setup.watch, handle)
        if not self._has_ended.is_set():
            await nursery.start(self._attend, handle)
        async with handle.subscribe("all") as chunks:
            async for chunk in chunks:
                await self._note(chunk, handle)

    async def _attend(self, handle: AgentHandle, task_status: trio.TaskStatus[None]) -> None:
        """Let questions wait for an answer until the input is at its end."""
        async with handle.attend():
            task_status.started()
            await self._has_ended.wait()

    def _send_first(self, handle: AgentHandle) -> None:
        first = self.inputs[0]
        first.before = len(self._setup.session.history)
        first.id = handle.send_input_nowait(first.content).input_id

    async def _note(self, chunk: OutputChunk, handle: AgentHandle) -> None:
        """Take one chunk of the agent."""
        self._note_question(chunk)
        first = self.inputs[0] if self.inputs and self.inputs[0].id else None
        if first is not None:
            self._record(first).note(chunk)
        if self._format == "stream-json":
            await self._print_line(serde.encode(chunk))
        is_told = self._format == "text" or (self._format == "json" and _is_of_hook(chunk))
        if is_told and isinstance(chunk, core.Custom) and chunk.text:
            tell(" ".join(chunk.text.split()))  # such as why it waits
        match chunk:
            case core.TurnStart():
                describe_session(self._setup.session, self._setup.workspace, is_headless=True)
                if self._signal is not None or (first is not None and first.is_interrupted):
                    handle.interrupt_nowait()  # that came before the turn
            case core.Done() if first is not None and first.id in {chunk.input_id, *chunk.inputs}:
                await self._finish(first)
                if self._signal is not None:
                    await self._drop_rest(core.Done("", TurnStatus.INTERRUPTED))
                self._advance()
            case core.Exited():
                await self._drop_rest(chunk)
                self._answering.cancel()
            case _:
                pass

    def _note_question(self, chunk: OutputChunk) -> None:
        """Remember the questions that are open, those of subagents too."""
        while isinstance(chunk, core.SubAgentOutput):
            chunk = chunk.chunk
        if isinstance(chunk, PermissionRequest):
            self._questions[chunk.request_id] = chunk
        elif isinstance(chunk, core.PermissionResponse):
            self._questions.pop(chunk.request_id, None)

    def _record(self, each: _Input) -> TurnRecord:
        if each.record is None:
            each.record = TurnRecord(self._setup.session.session_id, self._setup.model_name)
        return each.record

    async def _drop_rest(self, end: core.Done | core.Exited) -> None:
        """Finish the inputs that wait, none of which gets a turn any more."""
        error = self.inputs[0].record.error if self.inputs and self.inputs[0].record else None
        while self.inputs:
            record = self._record(self.inputs[0])
            record.end, record.error = end, record.error or error
            await self._finish(self.inputs[0])

    async def _finish(self, first: _Input) -> None:
        """Print the result of the first input, and take it from the queue."""
        record = self._record(first)
        record.signal = self._signal
        self._code = record.exit_code
        await self._print_result(first, record)
        self.inputs.popleft()

    async def _read_lines(self) -> None:
        """Obey the lines of standard input, and say which of them could not be."""
        lines = InputLines()
        async for line in lines:
            if fault := await self._obey(line):
                error = {"type": "input_error", "line": lines.number, "message": fault}
                await self._print_line(serde.dumps(error))
        self._has_ended.set()
        self._advance()

    async def _obey(self, line: InputLine) -> str:
        """Do what a line asks for; return why it can't be done, or an empty text."""
        if self._signal is not None:
            return "the run ends"
        match line:
            case BadLine():
                return line.message
            case AnswerLine():
                return await self._answer_question(line)
            case UserLine() if len(self.inputs) >= MAX_WAITING:
                return f"{MAX_WAITING:,} inputs wait: send it again after a result"
            case UserLine():
                self.inputs.append(_Input(line.message.blocks))
                self._advance()
            case _:
                self._interrupt_first()
        return ""

    def _interrupt_first(self) -> None:
        if self.inputs:
            self.inputs[0].is_interrupted = True
        if self._handle is not None:
            self._handle.interrupt_nowait()

    async def _answer_question(self, line: AnswerLine) -> str:
        """Answer a question; return why that can't be done, or an empty text."""
        request = self._questions.get(line.request_id)
        if request is None or self._handle is None:
            return f"no question {line.request_id!r} is open"
        decision, remember = _ANSWERS[line.choice]
        if decision is RuleDecision.ALLOW and request.credential:
            return "a credential can only be given at a terminal: answer no"
        if remember and not (request.forbids if line.choice == "never" else request.remembers):
            return f"the answer {line.choice} is not offered for this call: answer once or no"
        try:
            is_taken = await self._handle.respond_permission(
                line.request_id, decision, remember=remember, message=line.reason
            )
        except InvalidAnswerError as error:
            return error.message
        return "" if is_taken else f"the question {line.request_id!r} is answered already"

    def _describe_run(self) -> dict[str, object]:
        setup = self._setup
        return {
            "type": "init",
            "session_id": setup.session.session_id,
            "cwd": str(setup.workspace),
            "model": setup.model_name,
            "permission_mode": setup.permissions.mode,
            "tools": setup.tools.list_tools(),
            "agents": sorted(setup.own.agents) if setup.own else (),
            "commands": sorted(setup.own.commands) if setup.own else (),
            "version": __version__,
        }

    async def _print_line(self, line: bytes) -> None:
        async with self._one_writer:
            await self._out.line(line)

    async def _print_result(self, first: _Input, record: TurnRecord) -> None:
        for request in record.credentials.values():
            tell(
                f"{exact(request.tool_name)} needs the credential {exact(request.credential)},"
                " which only a person at a terminal can give; to be asked, run"
                f" {resume_command(self._setup.session.session_id, self._options)}"
            )
        new = self._setup.session.history[first.before :] if first.id else ()
        if self._format == "text":
            reply = next((each for each in reversed(new) if each.role == "assistant"), None)
            await self._print_text(reply, record)
        else:
            await self._print_line(serde.dumps(record.result(new)))
        if denied := record.describe_denials():
            tell(denied)

    async def _print_text(self, reply: Message | None, record: TurnRecord) -> None:
        if reply is not None and reply.text:
            await self._out.text(reply.text)
        for request in record.pending:
            if request.credential:
                continue  # said above
            call = f"{exact(request.tool_name)} {describe_call(request.input)}"
            command = resume_command(self._setup.session.session_id, self._options)
            tell(f"waits for an answer: {call}; to be asked, run {command}")
        error = record.error
        if error is not None:
            # What can't be stored is lost with this process.
            hint = error.hint.removesuffix("; what is unsaved is kept in memory")
            tell(f"{error.message} ({hint})" if hint else error.message)


def _is_of_hook(chunk: OutputChunk) -> bool:
    return isinstance(chunk, core.Custom) and chunk.kind.startswith("hook.")
