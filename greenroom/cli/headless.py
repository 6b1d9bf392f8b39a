"""`greenroom -p`: one prompt, one answer, one exit code."""

import signal
from typing import TYPE_CHECKING

import trio

from greenroom.cli.drawing.call_words import call_words
from greenroom.cli.run.conversation import describe_session, way_back
from greenroom.cli.run.dump_target import dump_target
from greenroom.cli.run.live_tree import tell_tree
from greenroom.cli.run.run_setup import RunSetup, open_setup
from greenroom.cli.streams.output_writer import OutputWriter, tell
from greenroom.cli.streams.piped_input import read_piped, with_context
from greenroom.cli.turn_record import FAILED, TurnRecord
from greenroom.core import Custom, Done, Exited, Message, TurnStart, serde, visible
from greenroom.runtime import AgentHandle, AgentRuntime, Unattended

if TYPE_CHECKING:
    from greenroom.cli.options import Options

_BROKEN_PIPE = 128 + signal.SIGPIPE


async def run_headless(options: "Options") -> int:
    """Answer one prompt and return the exit code.

    SIGINT and SIGTERM interrupt the turn, a second one ends the agent at once; the session is saved
    all the same. SIGUSR1 writes what the agents are doing to the log, else to the standard error.

    Raises:
        GreenroomError: the run can't begin: its set-up or its session can't be used.
    """
    prompt = with_context(options.prompt or "", await read_piped())
    async with open_setup(options) as setup:
        tell(*setup.warnings, *setup.notes)
        async with AgentRuntime(setup.store, workspace=setup.workspace) as runtime:
            unattended: Unattended = "suspend" if options.on_question == "wait" else "deny"
            handle = setup.spawn(runtime, unattended=unattended)
            # Before the agent first asks for input: what an earlier run left open is passed over.
            handle.send_input_nowait(prompt)
            with runtime.dump_on_signal(signal.SIGUSR1, dump_target(options, owns_terminal=False)):
                code = await _Headless(handle, setup, options).answer(runtime)
    return code


class _Headless:
    """One headless run of one agent."""

    def __init__(self, handle: AgentHandle, setup: RunSetup, options: "Options") -> None:
        self._handle = handle
        self._setup = setup
        self._options = options
        self._format = options.output_format
        self._out = OutputWriter()
        self._record = TurnRecord(handle.session_id, setup.model_name)

    async def answer(self, runtime: AgentRuntime) -> int:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._heed_signals)
            nursery.start_soon(tell_tree, runtime)
            try:
                code = await self._run_turn()
            except BrokenPipeError:
                await self._handle.interrupt()
                code = _BROKEN_PIPE
            except OSError as error:
                await self._handle.interrupt()
                tell(f"{error.filename}: {error.strerror}")
                code = FAILED
            nursery.cancel_scope.cancel()
        return code

    async def _heed_signals(self, task_status: trio.TaskStatus[None]) -> None:
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
                if self._format == "text" and isinstance(chunk, Custom) and chunk.text:
                    tell(" ".join(chunk.text.split()))  # such as why it waits
                if isinstance(chunk, TurnStart):
                    self._begin_turn()
                if isinstance(chunk, Done | Exited):
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
                f"{visible(request.tool_name)} needs the credential {visible(request.credential)}, which"
                " only a person at a terminal can give; to be asked, run"
                f" {way_back(self._handle.session_id, self._options)}"
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
                continue  # told already
            call = f"{visible(request.tool_name)} {call_words(request.input)}"
            command = way_back(self._handle.session_id, self._options)
            tell(f"waits for an answer: {call}; to be asked, run {command}")
        error = self._record.error
        if error is not None:
            # What can't be stored is gone with this process.
            hint = error.hint.removesuffix("; what is unsaved is kept in memory")
            tell(f"{error.message} ({hint})" if hint else error.message)
