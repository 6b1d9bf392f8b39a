"""The hooks of a run at work: before and after tools, at inputs, questions and ends.

Theory of operation
===================

Hooks are shell commands in settings files (`hook_files`), each run by `run_hook`. Here they meet
the agent:

    PreToolUse, PostToolUse         `Hooks` is a gate of the runtime: it denies, asks, or adds
    UserPromptSubmit                it is the `TurnHooks` of the coder as well
    Stop, SubagentStop              likewise
    PermissionRequest               `watch` reads the questions, and answers them as a person does
    SessionStart, SessionEnd        `watch` runs them when the run begins and when it ends

A hook can only tighten, except that a `PermissionRequest` hook of the user's own file stands
in the person's place. A hook that fails decides nothing, and the person is told; before a tool it
makes the call a question. Several of one event run side by side, and the strictest answer counts.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
import trio

from greenroom.cli.hook_files import Hook
from greenroom.cli.hook_run import HookAnswer, run_hook
from greenroom.core import (
    AgentContext,
    Ask,
    Custom,
    Deny,
    Lagged,
    Message,
    PermissionRequest,
    SubAgentOutput,
    ToolResult,
    ToolRun,
    ToolUseBlock,
    UserInput,
    Workspace,
)
from greenroom.runtime import AgentHandle, AgentInternals

SessionSource: TypeAlias = Literal["startup", "resume", "fork", "clear"]
"""Why a session begins or ends."""

_SIDE_BY_SIDE = 8
_MOST_NOTES = 100
_END_SECONDS = 10.0  # that the hooks of a session's end have together
_BY = "hook"  # who answers, in the record


class Hooks:
    """The hooks of one run, as a gate and as what the coder asks at the edges of its turns.

    A server has many sessions in one run: what one of them is told stays in it.
    """

    timeout = 610.0  # each hook has its own, of at most 600 seconds

    def __init__(
        self, hooks: Sequence[Hook], workspace: Path, mode: Callable[[], str] = lambda: "default"
    ) -> None:
        """Take the hooks, the folder of the project, and what tells the mode of the moment."""
        self._hooks = tuple(hooks)
        self._workspace = workspace
        self._mode = mode
        self._limiter = trio.CapacityLimiter(_SIDE_BY_SIDE)
        self._said_once = set[str]()
        self._notes = deque[tuple[str, str]](maxlen=_MOST_NOTES)  # sessions, and what to tell there
        self._openings = dict[str, _Opening]()  # by session
        self._opens = any(each.settings.event == "SessionStart" for each in hooks)

    def __len__(self) -> int:
        return len(self._hooks)

    async def _run(
        self,
        event: str,
        session_id: str,
        more: Mapping[str, object],
        matches: Callable[[Hook], bool] = lambda _: True,
    ) -> list[HookAnswer]:
        """Run the hooks of an event side by side; note what has failed."""
        hooks = [each for each in self._hooks if each.settings.event == event and matches(each)]
        given = {
            "session_id": session_id,
            "cwd": str(self._workspace),
            "permission_mode": self._mode(),
            "hook_event_name": event,
            **more,
        }
        answers = list[HookAnswer]()

        async def run(hook: Hook) -> None:
            async with self._limiter:
                answers.append(await run_hook(hook, given))

        async with trio.open_nursery() as nursery:
            for each in hooks:
                nursery.start_soon(run, each)
        for answer in answers:
            self._note(session_id, answer)
        return answers

    def _note(self, session_id: str, answer: HookAnswer) -> None:
        if answer.failure:
            self._notes.append((session_id, answer.failure))
        if answer.decision == "allow" and answer.hook.settings.event == "PreToolUse":
            self._note_once(session_id, answer.hook, "allows nothing: a hook can only tighten")
        if answer.changes_input:
            self._note_once(session_id, answer.hook, "can't change the input of a call")

    def _note_once(self, session_id: str, hook: Hook, text: str) -> None:
        note = f"{hook} {text}"
        if note not in self._said_once:
            self._said_once.add(note)
            self._notes.append((session_id, note))

    def take_notes(self) -> tuple[str, ...]:
        """Take what is still to be told, such as a hook of the session's end that has failed."""
        notes = tuple(note for _, note in self._notes)
        self._notes.clear()
        return notes

    async def _tell(self, agent: AgentInternals) -> None:
        """Tell the person what is to be told of their session."""
        own = [each for each in self._notes if each[0] == agent.context.session_id]
        for each in own:
            self._notes.remove(each)
        for _, note in own:
            await agent.send(Custom("hook.note", {}, note))

    async def judge(self, agent: AgentContext, call: ToolUseBlock) -> Deny | Ask | None:
        """Run the hooks before a call: the strictest answer counts, and a failure asks."""
        answers = await self._run(
            "PreToolUse",
            agent.session_id,
            {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id},
            lambda hook: hook.matches(call.name, call.input, agent),
        )
        for each in answers:
            if each.decision == "deny":
                return Deny(each.reason or f"{each.hook} refused it")
        reasons = [
            each.failure or each.reason or f"{each.hook} asks"
            for each in answers
            if each.failure or each.decision == "ask"
        ]
        return Ask("; ".join(reasons)) if reasons else None

    async def after_run(self, agent: AgentContext, call: ToolRun, result: ToolResult) -> str | None:
        """Run the hooks behind a call, and return what they add to its result."""
        answers = await self._run(
            "PostToolUse",
            agent.session_id,
            {
                "tool_name": call.name,
                "tool_input": call.input,
                "tool_use_id": call.id,
                "tool_response": {"text": result.text, "is_error": result.is_error},
            },
            lambda hook: hook.matches(call.name, call.input, agent),
        )
        return _join(_find_context(answers)) or None

    async def on_input(self, agent: AgentInternals, message: UserInput) -> Sequence[str] | None:
        """Run the hooks of an input; one that refuses it drops it."""
        if agent.context.parent_session_id is not None:
            return ()  # that is what another agent says
        id_ = agent.context.session_id
        opening = await self._take_opening(id_)
        answers = await self._run("UserPromptSubmit", id_, {"prompt": message.text})
        await self._tell(agent)
        for each in answers:
            if each.decision == "deny":
                reason = each.reason or f"{each.hook} refused it"
                await agent.send(Custom("hook.dropped", {}, f"the input was dropped: {reason}"))
                self._find_opening(id_).texts += opening
                return None
        return (*opening, *_find_context(answers))

    def _find_opening(self, session_id: str) -> "_Opening":
        return self._openings.setdefault(session_id, _Opening())

    async def _take_opening(self, session_id: str) -> list[str]:
        """Take what the hooks of the session's begin have to say, once they have said it."""
        if not self._opens:
            return []
        opening = self._find_opening(session_id)
        await opening.is_said.wait()
        texts, opening.texts = opening.texts, []
        return texts

    async def on_stop(self, agent: AgentInternals, reply: Message) -> str:
        """Run the hooks of a turn's end; return what they want done before."""
        is_subagent = agent.context.parent_session_id is not None
        answers = await self._run(
            "SubagentStop" if is_subagent else "Stop",
            agent.context.session_id,
            {"stop_reason": str(reply.stop_reason or ""), "agent": agent.context.name},
        )
        await self._tell(agent)
        return _join([each.reason for each in answers if each.decision == "deny"])

    async def watch(
        self, handle: AgentHandle, source: SessionSource, *, grace: float = _END_SECONDS
    ) -> None:
        """Run the hooks of the session's begin, answer its questions, and at a cancel run its last.

        An input waits for the former, and brings what they have to say; the last have `grace`
        seconds together.
        """
        id_, about = handle.session_id, {"source": source}
        try:
            answers = await self._run("SessionStart", id_, about)
            opening = self._find_opening(id_)
            opening.texts = _find_context(answers)
            opening.is_said.set()
            if any(each.settings.event == "PermissionRequest" for each in self._hooks):
                await _Answerer(self._ask, handle).run()
            else:
                await trio.sleep_forever()
        finally:
            with trio.move_on_after(grace, shield=True):
                await self._run("SessionEnd", id_, about)
            self._openings.pop(id_, None)

    async def _ask(self, request: PermissionRequest) -> HookAnswer | None:
        """Return the answer of the hooks to a question; None where none has one."""
        if request.credential or request.options is not None:
            return None  # only a person has these
        agent = AgentContext(
            session_id=request.session_id, agent_type="", workspace=Workspace(self._workspace)
        )
        answers = await self._run(
            "PermissionRequest",
            request.session_id,
            {
                "tool_name": request.tool_name,
                "tool_input": request.input,
                "request_id": request.request_id,
                "digest": request.digest,
            },
            lambda hook: hook.matches(request.tool_name, request.input, agent),
        )
        found: HookAnswer | None = None
        for each in answers:
            if each.decision == "deny":
                return each
            if each.decision == "allow" and each.hook.is_users:
                found = each
            elif each.decision == "allow":
                why = "allows nothing: only a hook of your own file can"
                self._note_once(request.session_id, each.hook, why)
        return found


class _Opening(msgspec.Struct):
    """What the hooks of a session's begin have to say to its first input."""

    is_said: trio.Event = msgspec.field(default_factory=trio.Event)
    texts: list[str] = msgspec.field(default_factory=list)


class _Answerer:
    """Answers the questions of one agent and its subagents by hooks, in the person's place.

    It attends, so that a question waits for the hooks. When they have no answer, it stops for a
    moment: then a question is denied, or left open, unless somebody else can answer.
    """

    def __init__(
        self, ask: Callable[[PermissionRequest], Awaitable[HookAnswer | None]], handle: AgentHandle
    ) -> None:
        self._ask = ask
        self._handle = handle
        self._at_work = 0
        self._is_undecided = False
        self._has_none = trio.Event()  # no hook is at work, and a question has no answer

    async def run(self) -> None:
        """Answer until it is cancelled."""
        async with self._handle.subscribe("all") as chunks, trio.open_nursery() as nursery:
            await nursery.start(self._attend)
            async for chunk in chunks:
                request = chunk
                while isinstance(request, SubAgentOutput):
                    request = request.chunk
                if isinstance(request, PermissionRequest):
                    self._at_work += 1
                    nursery.start_soon(self._answer, request)
                elif isinstance(request, Lagged):  # it may have been a question
                    self._note_end(is_decided=False)

    async def _attend(self, task_status: trio.TaskStatus[None]) -> None:
        while True:
            async with self._handle.attend():
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await self._has_none.wait()
                self._has_none = trio.Event()

    async def _answer(self, request: PermissionRequest) -> None:
        answer = await self._ask(request)
        if answer is not None:
            message = answer.reason if answer.decision == "deny" else None
            await self._handle.respond_permission(
                request.request_id, answer.decision, message=message, by=_BY
            )
        self._at_work -= 1
        self._note_end(is_decided=answer is not None)

    def _note_end(self, *, is_decided: bool) -> None:
        self._is_undecided |= not is_decided
        if self._is_undecided and not self._at_work:
            self._is_undecided = False
            self._has_none.set()


def _find_context(answers: Sequence[HookAnswer]) -> list[str]:
    return [each.context for each in answers if each.context]


def _join(texts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, texts))
