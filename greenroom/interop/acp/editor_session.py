"""One conversation of an editor: its inputs, what the editor is shown, and who is asked."""

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import trio

from greenroom import core
from greenroom.core import (
    Answer,
    BudgetExceededError,
    ContentBlock,
    OutputChunk,
    PermissionRequest,
    RuleDecision,
    StopReason,
    TextBlock,
    TurnError,
    TurnStatus,
)
from greenroom.interop.acp.json_rpc import INTERNAL_ERROR, NOT_FOUND, Peer, RPCError
from greenroom.interop.acp.parts import SessionParts
from greenroom.interop.acp.questions import (
    CONNECT,
    NO_SECRETS,
    NO_WORDS,
    list_choices,
    list_connect,
    read_form,
    write_form,
    write_servers,
)
from greenroom.interop.acp.updates import Update, UpdateWriter
from greenroom.interop.acp.wire import Abilities, Filled, Permission, read
from greenroom.runtime import AgentNotRunningError
from greenroom.runtime._internal import InvalidAnswerError

EditorStop = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

_STOPS: Mapping[StopReason | None, EditorStop] = {
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSAL: "refusal",
    StopReason.CONTENT_FILTER: "refusal",
}
_SPENT = BudgetExceededError.__name__
_LAST_WORDS = 1.0  # seconds for what is still to be shown of a session that is closed
_NO_ANSWER = "The editor gave no answer"


class _Prompt:
    """An input of the editor that has no result yet."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.before = trio.CancelScope()  # what comes before it is sent
        self.error: core.Error | None = None
        self.end: core.Done | core.Exited | None = None
        self.has_ended = trio.Event()

    def finish(self, end: core.Done | core.Exited, error: core.Error | None = None) -> None:
        self.end, self.error = end, error
        self.has_ended.set()


class EditorSession:
    """One session, from the moment that it is open.

    Args:
        peer: the editor.
        abilities: what the editor can do.
        parts: the open session.
    """

    def __init__(self, peer: Peer, abilities: Abilities, parts: SessionParts) -> None:
        self.parts = parts
        self._peer, self._abilities = peer, abilities
        self._updates = UpdateWriter(parts.tools, parts.folder)
        self._prompts: dict[str, _Prompt] = {}
        self._starting: list[_Prompt] = []  # that are not sent yet
        self._admission, self._cancelling = trio.Lock(), trio.Lock()
        self._is_admitted = not parts.waiting
        self._asking: dict[str, trio.CancelScope] = {}
        self._error: core.Error | None = None  # of the turn
        self._shown: object = None  # the options, as the editor has them
        self._title: object = parts.session.get_metadata("title")

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.parts.session.session_id

    async def run(self) -> None:
        """Show what the agent does, and ask the person, until the agent ends."""
        handle = self.parts.handle
        chunks = handle.subscribe("all", answers=True)
        async with chunks, trio.open_nursery() as nursery:
            while True:
                try:
                    batch = await chunks.take()
                except StopAsyncIteration:
                    break
                for update in self._updates.write(batch):
                    await self._show(update)
                for chunk in batch:
                    await self._note(chunk, nursery)
            nursery.cancel_scope.cancel()

    async def _show(self, update: Update) -> None:
        await self._peer.notify("session/update", {"sessionId": self.id, "update": update})

    async def _show_all(self, updates: Iterable[Update]) -> None:
        for each in updates:
            await self._show(each)

    async def _note(self, chunk: OutputChunk, nursery: trio.Nursery) -> None:
        match chunk:
            case core.TurnStart():
                await self._begin_turn(chunk)
            case core.UsageReport():
                await self._show_usage(chunk)
            case core.Error():
                self._error = chunk
                if chunk.kind == _SPENT:  # which a stop reason says, without the words
                    await self._show_all(self._updates.note(chunk.message))
            case core.Done():
                await self.show_options()
                for id_ in {chunk.input_id, *chunk.inputs} & set(self._prompts):
                    self._prompts.pop(id_).finish(chunk, self._error)
            case core.ToolEnd():
                await self.show_options()  # an approved plan changes the mode
            case core.Lagged():
                for request in await self.parts.handle.pending():
                    self._begin_question(request, nursery)
                for id_ in self._prompts:  # whose end may be what was missed
                    nursery.start_soon(self._ask_for_end, id_)
            case core.Exited():
                self.finish_all(chunk)
            case _:
                self._note_question(chunk, nursery)

    def finish_all(self, end: core.Done | core.Exited) -> None:
        """Give each prompt that has no result yet this one."""
        for prompt in self._prompts.values():
            prompt.finish(end)
        self._prompts.clear()

    async def _ask_for_end(self, input_id: str) -> None:
        """Wait for the end of the turn of an input, without the chunk that says so."""
        try:
            result = await self.parts.handle.answer(input_id)
        except (TurnError, AgentNotRunningError):
            return  # it is told in another way
        prompt = self._prompts.pop(input_id, None)
        if prompt is not None:
            end = core.Done(input_id, result.status, result.stop_reason, error=result.error)
            prompt.finish(end)

    def _note_question(self, chunk: OutputChunk, nursery: trio.Nursery) -> None:
        while isinstance(chunk, core.SubAgentOutput):
            chunk = chunk.chunk
        if isinstance(chunk, PermissionRequest):
            self._begin_question(chunk, nursery)
        elif isinstance(chunk, core.PermissionResponse) and chunk.request_id in self._asking:
            self._asking[chunk.request_id].cancel()

    async def _begin_turn(self, start: core.TurnStart) -> None:
        self._error = None
        self.parts.begin()
        title = self.parts.session.get_metadata("title")
        if title != self._title and isinstance(title, str):
            self._title = title
            await self._show({"sessionUpdate": "session_info_update", "title": title})
        prompt = self._prompts.get(start.input_id)
        if prompt is not None and prompt.is_cancelled:  # that came before the turn
            self.parts.handle.interrupt_nowait()

    async def _show_usage(self, report: core.UsageReport) -> None:
        window, cost = self.parts.window(), report.total.cost
        if not window:
            return
        update: Update = {"sessionUpdate": "usage_update", "used": report.usage.total}
        update["size"] = window
        if cost is not None and self.parts.currency:
            update["cost"] = {"amount": cost, "currency": self.parts.currency}
        await self._show(update)

    # What the editor asks for.

    async def prompt(self, blocks: list[ContentBlock]) -> EditorStop:
        """Give the agent an input, and return why its turn ended; a cancel interrupts the turn.

        Raises:
            RPCError: the turn failed.
            GreenroomError: the agent takes no input.
        """
        prompt = _Prompt()
        self._starting.append(prompt)
        more, metadata = list[ContentBlock](), dict[str, object]()
        try:
            with prompt.before:
                await self._ask_to_connect()
                text = next((each.text for each in blocks if isinstance(each, TextBlock)), "")
                added, metadata = await self.parts.complete(text)
                more.extend(added)
        finally:
            self._starting.remove(prompt)
        if prompt.is_cancelled:
            return "cancelled"
        handle = self.parts.handle
        try:
            receipt = handle.send_input_nowait([*blocks, *more], metadata=metadata)
        except AgentNotRunningError as ended:
            error = (await handle.wait()).error
            if not error:  # it was closed in the meantime
                raise RPCError(NOT_FOUND, f"the session {self.id} is not open") from ended
            raise RPCError(INTERNAL_ERROR, f"the agent has ended: {error}") from ended
        self._prompts[receipt.input_id] = prompt
        try:
            await prompt.has_ended.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):  # an interrupt is over within its grace
                await self.cancel()
            raise
        async with self._cancelling:  # nothing of the turn is left behind it
            pass
        assert prompt.end is not None  # set in the same step as the event
        return _read_end(prompt.end, prompt.error)

    async def cancel(self) -> None:
        """Stop the turn, and take back what waits for one; nothing of it is left on return."""
        for each in (*self._starting, *self._prompts.values()):
            each.is_cancelled = True
            each.before.cancel()
        handle = self.parts.handle
        async with self._cancelling:
            for id_ in await handle.withdraw_inputs(*self._prompts):
                self._prompts.pop(id_).finish(core.Done(id_, TurnStatus.INTERRUPTED))
            await handle.interrupt()

    async def close(self) -> None:
        """Stop the turn, and see to it that each input has its result."""
        await self.cancel()
        with trio.move_on_after(_LAST_WORDS):
            for each in tuple(self._prompts.values()):
                await each.has_ended.wait()
        self.finish_all(core.Done("", TurnStatus.INTERRUPTED))

    async def choose(self, option: str, value: str) -> None:
        """Choose a value of an option.

        Raises:
            ConfigurationError: the value does not exist, or it can't be chosen.
        """
        await self.parts.choose(option, value)
        await self.show_options()

    def write_options(self) -> dict[str, object]:
        """Write the options as an answer has them, the mode in its older form as well."""
        options = self.parts.options()
        self._shown = options
        found: dict[str, object] = {
            "configOptions": [
                {
                    "type": "select",
                    "id": each.id,
                    "name": each.name,
                    "category": each.category,
                    "currentValue": each.current,
                    "options": [
                        {"value": value, "name": value, **({"description": about} if about else {})}
                        for value, about in each.values
                    ],
                }
                for each in options
            ]
        }
        for each in options:
            if each.id == "mode":
                modes = [
                    {"id": value, "name": value, "description": about}
                    for value, about in each.values
                ]
                found["modes"] = {"currentModeId": each.current, "availableModes": modes}
        return found

    async def show_options(self) -> None:
        """Tell the editor of options that have changed."""
        before = self._shown
        if self.parts.options() == before:
            return
        written = self.write_options()
        options = written["configOptions"]
        await self._show({"sessionUpdate": "config_option_update", "configOptions": options})
        modes = cast("Mapping[str, object]", written.get("modes", {}))
        if "currentModeId" in modes:
            mode = modes["currentModeId"]
            await self._show({"sessionUpdate": "current_mode_update", "currentModeId": mode})

    async def show_commands(self) -> None:
        """Tell the editor which commands there are."""
        commands = [
            {
                "name": each.name,
                "description": each.description,
                **({"input": {"hint": each.hint}} if each.hint else {}),
            }
            for each in self.parts.commands()
        ]
        update: Update = {
            "sessionUpdate": "available_commands_update",
            "availableCommands": commands,
        }
        await self._show(update)

    async def begin(self) -> None:
        """Tell the editor what it has to know of a session that it has just opened."""
        await self.show_commands()
        for each in self.parts.warnings:
            await self._show_all(self._updates.note(each))

    async def replay(self) -> None:
        """Show the conversation so far."""
        session = self.parts.session
        await self._show_all(self._updates.replay(session.history))

    # What the agent asks.

    async def _ask_to_connect(self) -> None:
        """Ask once about servers that the editor has named, before the first turn."""
        async with self._admission:
            if self._is_admitted:
                return
            call = {"toolCallId": f"servers-{self.id}", **write_servers(self.parts.waiting)}
            await self._show({"sessionUpdate": "tool_call", "status": "pending", **call})
            params = {"sessionId": self.id, "toolCall": call, "options": list_connect()}
            chosen = ""
            try:
                answer = await self._peer.request("session/request_permission", params)
                outcome = read(answer, Permission).outcome
                chosen = outcome.option_id if outcome.outcome == "selected" else ""
                if chosen in CONNECT[:2]:
                    await self.parts.admit(chosen == CONNECT[1])
                    await self.show_commands()
            except RPCError:
                chosen = ""
            finally:
                status = "completed" if chosen in CONNECT[:2] else "failed"
                await self._end_call(str(call["toolCallId"]), status)
            self._is_admitted = True

    async def _end_call(self, id_: str, status: str) -> None:
        with trio.CancelScope(shield=True):  # as long as there is room to write
            await self._show(
                {"sessionUpdate": "tool_call_update", "toolCallId": id_, "status": status}
            )

    def _begin_question(self, request: PermissionRequest, nursery: trio.Nursery) -> None:
        if request.request_id not in self._asking:
            self._asking[request.request_id] = trio.CancelScope()
            nursery.start_soon(self._ask, request)

    async def _ask(self, request: PermissionRequest) -> None:
        """Put a question before the person, and pass on the answer; no answer is a denial."""
        try:
            with self._asking[request.request_id]:
                answer = await self._find_answer(request)
                try:
                    await self._respond(request, answer)
                except InvalidAnswerError as error:
                    reason = f"The answer can't be used: {error.message}"
                    await self._respond(request, _deny(reason))
        finally:
            del self._asking[request.request_id]

    async def _respond(self, request: PermissionRequest, answer: Answer) -> None:
        await self.parts.handle.respond_permission(
            request.request_id,
            answer.decision,
            remember=answer.remember,
            message=answer.message,
            input=None if answer.input is None else dict(answer.input),
        )

    async def _find_answer(self, request: PermissionRequest) -> Answer:
        if request.credential:
            return _deny(NO_SECRETS)
        try:
            form = write_form(request)
            if form is None:
                return await self._ask_choice(request)
            return await self._ask_words(request, form)
        except RPCError as error:
            return _deny(f"{_NO_ANSWER}: {error.message}")

    async def _ask_choice(self, request: PermissionRequest) -> Answer:
        await self._show_all(self._updates.ask(request))
        choices = list_choices(request)
        params = {
            "sessionId": self.id,
            "toolCall": self._updates.write_question(request),
            "options": [each.write() for each in choices],
        }
        answer = await self._peer.request("session/request_permission", params)
        outcome = read(answer, Permission).outcome
        chosen = next((each for each in choices if each.id == outcome.option_id), None)
        is_chosen = outcome.outcome == "selected" and chosen is not None
        return chosen.answer if is_chosen and chosen is not None else _deny(_NO_ANSWER)

    async def _ask_words(self, request: PermissionRequest, form: Mapping[str, object]) -> Answer:
        elicitation = self._abilities.elicitation
        if elicitation is None or elicitation.form is None:
            return _deny(NO_WORDS)
        params = {"sessionId": self.id, "mode": "form", **form}
        filled = read(await self._peer.request("elicitation/create", params), Filled)
        if filled.action != "accept":
            return _deny("")
        return read_form(request, dict(filled.content or {}))


def _deny(reason: str) -> Answer:
    return Answer(RuleDecision.DENY, message=reason)


def _read_end(end: core.Done | core.Exited, error: core.Error | None) -> EditorStop:
    """Return why a turn ended.

    Raises:
        RPCError: it failed.
    """
    if isinstance(end, core.Exited):
        raise RPCError(INTERNAL_ERROR, end.error or "the agent has ended")
    if end.status is TurnStatus.INTERRUPTED:
        return "cancelled"
    if end.status is not TurnStatus.FAILED:
        return _STOPS.get(end.stop_reason, "end_turn")
    if error is None:
        raise RPCError(INTERNAL_ERROR, end.error or "the turn failed")
    if error.kind == _SPENT:
        return "max_turn_requests"
    message = f"{error.message} ({error.hint})" if error.hint else error.message
    raise RPCError(INTERNAL_ERROR, message, {"kind": error.kind})
