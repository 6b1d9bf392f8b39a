"""A person who answers permission requests as the test wrote."""

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

import trio

from greenroom.core import (
    Answer,
    ConfigurationError,
    Lagged,
    OutputChunk,
    PermissionRequest,
    RuleDecision,
    SubAgentOutput,
)
from greenroom.runtime import AgentHandle

ScriptedAnswer: TypeAlias = (
    Literal["allow", "deny"] | Answer | Callable[[PermissionRequest], "ScriptedAnswer"]
)
"""What a script is made of: a decision, a whole `Answer`, or a function of the request."""

_NOT_WRITTEN = Answer(
    RuleDecision.DENY, message="the test's approver has no answer for this request", by="script"
)


class ScriptedApprover:
    """Answers the permission requests of an agent and its subagents, each with the next answer.

    A request beyond the script is denied, and `check()` fails; so does an answer that nobody asked
    for. `run_agent` takes one as its `approver`; elsewhere start `attend` in a nursery.

    Attributes:
        requests: what it was asked, in order.
        unexpected: those of them for which no answer was written.

    Example:
        ```python
        approver = ScriptedApprover("allow", Answer(RuleDecision.DENY, message="not on Sundays"))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            result = await handle.ask("Tidy up.")
        assert [request.tool_name for request in approver.requests] == ["Bash", "Write"]
        ```
    """

    def __init__(self, *answers: ScriptedAnswer) -> None:
        """Take the answers in order.

        Raises:
            ConfigurationError: something is no answer.
        """
        for answer in answers:
            if not (answer in ("allow", "deny") or isinstance(answer, Answer) or callable(answer)):
                raise ConfigurationError(
                    f"{answer!r} is no answer",
                    hint="write 'allow', 'deny', an Answer, or a function of the request",
                )
        self.requests: list[PermissionRequest] = []
        self.unexpected: list[PermissionRequest] = []
        self._script = deque(answers)
        self._seen: set[str] = set()

    @property
    def unused(self) -> int:
        """How many answers nobody has asked for yet."""
        return len(self._script)

    async def attend(
        self,
        handle: AgentHandle,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer for this agent, and for its subagents, until it has ended.

        With `await nursery.start(approver.attend, handle)` it is registered before the next line.

        Raises:
            ValueError: an answer is neither allow nor deny.
            BaseException: whatever an answer that is a function raises, such as a failed `assert`.
        """
        async with handle.subscribe(replay="none", answers=True) as chunks:
            task_status.started()
            await self._answer_all(handle)
            async for chunk in chunks:
                if isinstance(_unwrapped(chunk), (PermissionRequest, Lagged)):
                    await self._answer_all(handle)

    def check(self) -> None:
        """Fail unless each request had an answer in the script, and each answer its request.

        Raises:
            AssertionError: it was asked something else than written.
        """
        self.check_requests()
        assert not self._script, f"answers that nobody asked for: {len(self._script)}"

    def check_requests(self) -> None:
        """Fail unless each request had an answer in the script; some answers may be unused.

        Raises:
            AssertionError: it was asked more than written.
        """
        asked = "; ".join(f"{each.tool_name}: {each.action}" for each in self.unexpected)
        assert not self.unexpected, f"no answer was written for these requests: {asked}"

    async def _answer_all(self, handle: AgentHandle) -> None:
        """Answer what is open; the handle knows it better than a reader that may have lagged."""
        for request in await handle.pending():
            if request.request_id in self._seen:
                continue
            self._seen.add(request.request_id)
            self.requests.append(request)
            answer = self._next(request)
            await handle.respond_permission(
                request.request_id,
                answer.decision,
                remember=answer.remember,
                message=answer.message,
                input=answer.input,
                by=answer.by,
            )

    def _next(self, request: PermissionRequest) -> Answer:
        if not self._script:
            self.unexpected.append(request)
            return _NOT_WRITTEN
        answer = self._script.popleft()
        while callable(answer):
            answer = answer(request)
        return answer if isinstance(answer, Answer) else Answer(RuleDecision(answer))


def _unwrapped(chunk: OutputChunk) -> OutputChunk:
    while isinstance(chunk, SubAgentOutput):
        chunk = chunk.chunk
    return chunk
