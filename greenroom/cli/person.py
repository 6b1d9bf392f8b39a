"""`Person` acts on what the person at the terminal does: inputs, answers, interrupts, leaving."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from greenroom import core
from greenroom.cli.command_context import CommandContext, OpenRun
from greenroom.cli.commands import COMMANDS, Command, CommandLine, read_command
from greenroom.cli.log_notices import WATCHDOG, catch_notices
from greenroom.cli.mcp_inputs import list_prompt_commands
from greenroom.cli.menu import Candidate
from greenroom.cli.modes import DESCRIPTIONS, ModeSwitch
from greenroom.cli.question_queue import TOO_LATE, PersonDecision
from greenroom.cli.render_chunk import render_user
from greenroom.cli.screen import Screen, innermost
from greenroom.cli.terminal import Closed, Key, KeyName, Line, PersonEvent, Wanted
from greenroom.core import ContentBlock, OutputChunk, PermissionRequest, RuleDecision
from greenroom.core._internal import StateKind, visible
from greenroom.runtime import AgentHandle, AgentNotRunningError
from greenroom.runtime._internal import InvalidAnswerError

if TYPE_CHECKING:
    from greenroom.cli.run_inputs import RunInputs


class SentInput(msgspec.Struct, frozen=True):
    """An input as the person has typed it, and as it was shown."""

    text: str
    shown: str


class InputQueue:
    """Sends inputs, shows those that wait, and takes them back.

    An input is printed when its turn begins, or when it joins the turn that runs.
    """

    def __init__(self, handle: AgentHandle, screen: Screen) -> None:
        self._handle = handle
        self._screen = screen
        self._unanswered_ids: set[str] = set()
        self._queued: dict[str, SentInput] = {}
        self._steered: dict[str, SentInput] = {}  # meant for the open turn, at its next step

    @property
    def is_answered(self) -> bool:
        """Whether every input has been answered."""
        return not self._unanswered_ids

    @property
    def waiting(self) -> Sequence[str]:
        """What waits for its turn, as it was shown."""
        return [each.shown for each in self._queued.values()]

    def note(self, chunk: OutputChunk) -> None:
        """Follow a chunk of the agent: an input is taken, joins a turn, or is answered."""
        match chunk:
            case core.TurnStart() if chunk.input_id in self._queued:
                self._print(chunk.input_id)
            case core.Custom(kind="input.joined"):
                input_id = str(chunk.data.get("input_id"))
                self._unanswered_ids.discard(input_id)
                if input_id in self._queued:
                    self._print(input_id)
            case core.Done():
                self._unanswered_ids.discard(chunk.input_id)
                self._steered.clear()
            case _:
                pass

    def _print(self, input_id: str) -> None:
        self.echo(self._queued.pop(input_id).shown)
        self._show()

    def echo(self, text: str) -> None:
        """Print what the person has said, unless the terminal has shown it as it was typed."""
        if not self._screen.terminal.echoes:
            self._screen.print(render_user(text, self._screen.scheme))

    def send(self, sent: SentInput, content: str | Sequence[ContentBlock]) -> bool:
        """Send an input; return whether it was taken or queued."""
        try:
            receipt = self._handle.send_input_nowait(content)
        except (core.MailboxFullError, AgentNotRunningError) as error:
            self._screen.error(f"not sent: {sent.shown}\n{error}")
            return False
        if receipt.status == "queued":
            # It is printed when its turn begins; until then it is shown below.
            self._queued[receipt.input_id] = sent
            self._show()
        else:
            self.echo(sent.shown)
        if receipt.status == "steered":
            self._steered[receipt.input_id] = sent
        else:
            self._unanswered_ids.add(receipt.input_id)
        return True

    def send_hidden(self, text: str, metadata: dict[str, object]) -> None:
        """Send an input that asks the agent's function for something, and is not shown."""
        try:
            receipt = self._handle.send_input_nowait(text, metadata=metadata)
        except (core.MailboxFullError, AgentNotRunningError) as error:
            self._screen.error(f"not done: {error}")
        else:
            self._unanswered_ids.add(receipt.input_id)

    async def steer_first(self) -> None:
        """Let the first input that waits join the turn that runs."""
        if self._queued and await self._handle.steer_input(next(iter(self._queued))):
            self._screen.hint = "the first queued input joins the turn at its next step"

    async def take_back(self, *, only_last: bool = False) -> None:
        """Return inputs that the agent has not taken to the person's line: all, or the last one."""
        sent = self._steered | self._queued
        ids = list(sent)[-1:] if only_last else list(sent)
        withdrawn = await self._handle.withdraw_inputs(*ids)
        for id_ in withdrawn:
            self._unanswered_ids.discard(id_)
            self._steered.pop(id_, None)
            self._queued.pop(id_, None)
        if withdrawn:
            self._screen.put_back("\n".join(sent[id_].text for id_ in withdrawn))
        self._show()

    def _show(self) -> None:
        self._screen.queued_inputs = tuple(self.waiting)


_FOREIGN = (
    "this project: counts in this run only, since {path} has more than your answers; "
    "move that away, and it counts in later runs too"
)
_DOUBLE_PRESS = 1.0  # seconds within which a second press counts
_NOTICE = 5.0  # seconds for which it is shown that something held up the terminal


class Person:
    """Handles what the person does: inputs, answers, interrupts, leaving."""

    def __init__(
        self,
        handle: AgentHandle,
        screen: Screen,
        nursery: trio.Nursery,
        open_run: OpenRun | None = None,
        modes: ModeSwitch | None = None,
    ) -> None:
        """Act on this agent; leaving cancels the nursery."""
        self._modes = modes
        self._handle = handle
        self._screen = screen
        self._nursery = nursery
        self._inputs = InputQueue(handle, screen)
        self._run_inputs = _open_inputs(open_run, screen)
        self._context = CommandContext(
            handle,
            screen,
            _list_commands(open_run),
            self._inputs.send_hidden,
            self._leave,
            nursery.start_soon,
            self._find_candidates,
            open_run,
        )
        screen.terminal.know(self._context.commands)
        self._is_leaving = False
        self._pressed_at = float("-inf")
        self._has_cleared = False  # the line, by Ctrl-C, since when nothing else was pressed

    async def note(self, chunk: OutputChunk) -> None:
        """Follow a chunk of the agent: ask or withdraw a question, end a turn."""
        if isinstance(
            innermost(chunk), PermissionRequest | core.PermissionResponse | core.Lagged | core.Done
        ):
            await self._follow_requests()
        self._inputs.note(chunk)
        if isinstance(chunk, core.Done):
            self._screen.hint = ""
            self._leave_when_done()
            if self._context.open_run is not None:
                self._nursery.start_soon(self._context.open_run.look_at_branch)

    async def _follow_requests(self) -> None:
        pending = await self._handle.pending()
        if self._is_leaving:
            for request in pending:
                await self._handle.respond_permission(
                    request.request_id,
                    RuleDecision.DENY,
                    message="standard input has ended",
                    by="terminal",
                )
            return
        await self._ask(self._screen.questions.follow(pending))

    async def _ask(self, request: PermissionRequest | None) -> None:
        if request is None:
            return
        is_here = bool(request.remembers) and not request.host
        warning = await trio.to_thread.run_sync(_warn_of_foreign, request.cwd) if is_here else ""
        if self._screen.questions.current is not request:
            return  # decided meanwhile; what decided it shows the next one
        self._screen.ask(request, warning)

    async def handle_events(self, events: trio.MemoryReceiveChannel[PersonEvent]) -> None:
        """Carry out what the person does; leave when the terminal is closed."""
        await self._enter_said()
        async for event in events:
            match event:
                case Line():
                    await self._enter(event)
                case Key():
                    await self.press(event)
                case Wanted():
                    self._nursery.start_soon(self._offer, event.kind)
                case Closed():
                    self._is_leaving = True
                    await self._follow_requests()
                    self._leave_when_done()
            if self._nursery.cancel_scope.cancel_called:
                return  # the last frame is drawn once everything has ended
            # What came faster than frames are drawn is shown together.
            if not events.statistics().current_buffer_used:
                await self._screen.draw()
        self._leave()

    async def show_notices(self) -> None:
        """Show in a line what is logged and would go to standard error; runs until cancelled.

        A call that held up the event loop is named below the input line for some seconds.
        """
        with catch_notices() as records:
            async for record in records:
                line, _, stack = record.getMessage().partition("\n")
                if record.name != WATCHDOG:
                    self._screen.note(line)
                    await self._screen.draw()
                elif stack:  # the end of it is logged as well, and names no call
                    await self._show_briefly(visible(line), _NOTICE)

    async def _enter_said(self) -> None:
        """Enter what the person has said on the command line, as if they had typed it."""
        run = self._context.open_run
        if run is not None and run.said:
            said, run.said = run.said, ""
            await self._enter(Line(said))
            await self._screen.draw()

    async def _enter(self, line: Line) -> None:
        self._screen.hint = ""
        questions = self._screen.questions
        if not (line.question and questions.asks_for_words):
            command = read_command(line.text, self._context.commands)
            is_sent = isinstance(command, CommandLine) and command.command.is_sent
            if command is not None and not is_sent:
                await self._remember(line.text)
                await self._run_command(line.text.strip(), command)
                return
        if line.question:
            answer = questions.read(line)
            if isinstance(answer, PersonDecision):
                await self._decide(answer)
            elif answer:
                self._screen.refuse(answer)
        elif line.text.strip():
            await self._remember(line.text)
            await self._say(line)

    async def _remember(self, text: str) -> None:
        if self._run_inputs is not None:
            await self._run_inputs.remember(text)

    async def _say(self, line: Line) -> None:
        """Send a text to the agent, or run what stands behind an exclamation mark."""
        run, shown = self._run_inputs, line.shown or line.text
        if run is None:
            self._inputs.send(SentInput(line.text, shown), line.text)
        elif line.text.startswith("!") and line.text[1:].strip():
            self._inputs.echo(shown)
            self._nursery.start_soon(run.run_command, line.text[1:].strip())
        else:
            self._inputs.send(SentInput(line.text, shown), await run.complete(line.text))

    async def _decide(self, decision: PersonDecision) -> None:
        if decision.value:
            await self._give_credential(decision)
        try:
            accepted = await self._handle.respond_permission(
                decision.request_id,
                decision.decision,
                remember=decision.remember,
                message=decision.message,
                input=decision.input,
                prefix=decision.prefix,
            )
        except InvalidAnswerError as error:
            self._screen.refuse(error.message)  # the question is still open
            return
        if not accepted:
            self._screen.refuse(TOO_LATE)
        await self._ask(self._screen.questions.drop(decision.request_id))

    async def _give_credential(self, decision: PersonDecision) -> None:
        """Give a credential, if it is still asked for."""
        for request in await self._handle.pending():
            if request.request_id == decision.request_id:
                await self._handle.give_credential(request.credential, decision.value)

    async def _run_command(self, line: str, command: CommandLine | str) -> None:
        """Carry out a command; what is none is answered, and never sent."""
        self._inputs.echo(line)
        if isinstance(command, str):
            self._screen.error(command)
            return
        what = command.command
        if what.needs_idle and not self._is_idle:
            self._screen.error(f"/{what.name} has to wait for the end of the turn")
            return
        name, _, function = what.function.partition(".")
        # In a thread, since it may take far longer than a key may wait.
        module = await trio.to_thread.run_sync(import_module, f"greenroom.cli.{name}")
        try:
            await getattr(module, function)(self._context, command.words)
        except (core.GreenroomError, OSError) as error:
            self._screen.error(str(error))

    async def _find_candidates(self, kind: str) -> Sequence[Candidate]:
        run = self._context.open_run
        if run is None:
            return ()
        from greenroom.cli.candidates import find_candidates  # once a menu needs some

        return await find_candidates(run, kind)

    async def _offer(self, kind: str) -> None:
        """Find what a menu needs, and hand it over."""
        try:
            found = await self._find_candidates(kind)
        except (core.GreenroomError, OSError) as error:
            self._screen.hint = str(error)
            await self._screen.draw()
        else:
            self._screen.terminal.offer("session" if kind == "all sessions" else kind, found)

    async def press(self, key: Key) -> None:
        """Carry out a key that is not text."""
        match key.name:
            case KeyName.ESCAPE:
                if not self._screen.questions.go_back():
                    self._press_escape(key)
            case KeyName.CTRL_C:
                self._press_ctrl_c(key)
            case KeyName.CTRL_D:
                await self._press_ctrl_d()
            case KeyName.TAKE_BACK:
                await self._inputs.take_back(only_last=True)
            case KeyName.STEER:
                await self._inputs.steer_first()
            case KeyName.TAB | KeyName.NEXT_CHOICE | KeyName.PREVIOUS_CHOICE:
                self._press_at_question(key)
            case KeyName.UNFOLD if self._screen.questions.current is not None:
                self._screen.questions.toggle_long()
            case KeyName.NEXT_MODE:
                self._switch_mode()
            case KeyName.UNFOLD:
                await self._screen.unfold()
            case KeyName.TODOS:
                self._screen.toggle_todos()

    def _press_at_question(self, key: Key) -> None:
        """Carry out a key of the question that was open when it was pressed."""
        questions = self._screen.questions
        asked = questions.current
        if asked is None or not key.question.startswith(asked.request_id):
            return
        if key.name is KeyName.TAB:
            questions.switch()
        else:
            questions.move(1 if key.name is KeyName.NEXT_CHOICE else -1)

    def _switch_mode(self) -> None:
        """Switch to the next mode, for the calls to come."""
        modes = self._modes
        if modes is None:
            self._show_hint("the mode can't be switched here")
            return
        self._show_hint(f"mode {modes.next()}: {DESCRIPTIONS[modes.current]}")
        if modes.warning:
            self._screen.error(modes.warning)

    def _press_escape(self, key: Key) -> None:
        if self._ends_something():
            return
        has_rewind = any(each.name == "rewind" for each in self._context.commands)
        if not key.line and self._is_second_press(key) and has_rewind:
            self._screen.put_back("/rewind ")

    def _press_ctrl_c(self, key: Key) -> None:
        # The next press may have come before the line was empty.
        self._has_cleared = self._has_cleared and not key.is_first
        has_text = bool(key.line) and not self._has_cleared
        if self._ends_something():
            self._pressed_at = float("-inf")
        elif has_text:
            self._screen.clear_line()
            self._pressed_at, self._has_cleared = float("-inf"), True
        elif self._is_second_press(key):
            # One alone never leaves: it may have been meant for the turn that ended this moment.
            self._leave()
        else:
            self._show_hint("Ctrl-C again leaves")

    def _ends_something(self) -> bool:
        """End the person's own command, else the turn; return whether there was either."""
        if self._run_inputs is not None and self._run_inputs.end_command():
            return True
        if not self._is_idle:
            self._nursery.start_soon(self._interrupt_and_report)
            return True
        return False

    async def _press_ctrl_d(self) -> None:
        request = self._screen.questions.current
        if request is not None:
            await self._decide(PersonDecision(request.request_id, RuleDecision.DENY))
        else:
            self._leave()

    def _show_hint(self, text: str) -> None:
        self._screen.hint = text
        self._nursery.start_soon(self._clear_hint, self._pressed_at)

    async def _clear_hint(self, pressed_at: float) -> None:
        await trio.sleep(_DOUBLE_PRESS)
        if self._pressed_at == pressed_at:
            self._screen.hint = ""
            await self._screen.draw()

    async def _show_briefly(self, text: str, seconds: float) -> None:
        self._screen.hint = text
        await self._screen.draw()
        await trio.sleep(seconds)
        if self._screen.hint == text:
            self._screen.hint = ""
            await self._screen.draw()

    def _is_second_press(self, key: Key) -> bool:
        now = trio.current_time()
        is_second = not key.is_first and now - self._pressed_at < _DOUBLE_PRESS
        self._pressed_at = now
        return is_second

    @property
    def _is_idle(self) -> bool:
        return self._handle.state.kind is StateKind.IDLE and self._inputs.is_answered

    async def _interrupt_and_report(self) -> None:
        await self._inputs.take_back()
        await self._screen.draw()
        report = await self._handle.interrupt()
        if report.abandoned:
            self._screen.error("still running: " + ", ".join(report.abandoned))
            await self._screen.draw()

    def _leave_when_done(self) -> None:
        if self._is_leaving and self._is_idle:
            self._leave()

    def _leave(self) -> None:
        """End the run, and show the text that was not sent."""
        for text in self._inputs.waiting:
            self._screen.note(f"not sent: {text}")
        self._nursery.cancel_scope.cancel()


def _open_inputs(open_run: OpenRun | None, screen: Screen) -> "RunInputs | None":
    """Return what the input line has in a run of the command, and in no other."""
    if open_run is None:
        return None
    from greenroom.cli.run_inputs import RunInputs

    return RunInputs(open_run, screen)


def _warn_of_foreign(folder: str) -> str:
    """Say if an answer that is remembered for this project would count in this run only."""
    from greenroom.cli.run_rules import is_foreign, project_rules_path  # loads all about rules

    path = project_rules_path(Path(folder))
    return _FOREIGN.format(path=path) if is_foreign(path) else ""


def _list_commands(open_run: OpenRun | None) -> tuple[Command, ...]:
    """List the commands of the input line; one in a file can't take the name of another."""
    if open_run is None:
        return tuple(each for each in COMMANDS if not each.needs_run)
    names = {each.name for each in COMMANDS}
    own = open_run.setup.own
    files = own.commands.values() if own is not None else ()
    return (
        *COMMANDS,
        *(
            Command(each.name, each.description, "", each.hint, is_sent=True)
            for each in files
            if each.name not in names
        ),
        *list_prompt_commands(open_run.setup.prompts),
    )
