"""Plan mode: the model looks, writes a plan, and a person decides whether it is carried out.

The permission mode `plan` denies all but reading. `PlanMode` tells the model so, and offers the
tool `SubmitPlan` for as long as the mode lasts.
"""

import math

from greenroom.core import (
    AgentContext,
    Answer,
    Message,
    RuleDecision,
    TextComplete,
    ToolError,
    ToolInfo,
    ToolResult,
)
from greenroom.core._internal import AUTOMATIC_DECIDERS, clip
from greenroom.permissions import PermissionManager
from greenroom.permissions._internal import PermissionMode
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

PLAN_PROMPT = """The user has switched to plan mode. Read and search as much as you need, but change
nothing: edits, new files and commands with effects are denied. When you know what has to be done,
submit the plan with SubmitPlan: which files change and how, in which order, and how the result is
checked. The user then approves it, changes it or refuses it."""
"""The system prompt that plan mode adds."""

_LOOK_ONLY = """The user has switched to plan mode: read and search, but change nothing. Edits, new
files and commands with effects are denied. Report what you have found."""

PLAN_OPTIONS = ("approve", "approve, and accept edits")
"""The answers that approve a plan; any other words refuse it, and are the reason."""

_MODES: tuple[PermissionMode, ...] = ("default", "accept-edits")  # that these answers switch to
_MOST = 30_000  # characters of a reason or of a changed plan


class SubmitPlan:
    """Put a plan before the person, who approves it, changes it, or refuses it with a reason.

    It is asked like `AskPerson`, as a `PermissionRequest` with the plan in `details` and
    `PLAN_OPTIONS` as its `options`: an allow with the number or the words of an option approves the
    plan, and ends plan mode; an allow without words is the first option. The answer's `input` may
    have a changed `plan`. An allow with other words, and a denial, refuse it, and plan mode goes
    on. If nobody can answer, the plan is the result of the turn.

    Args:
        permissions: the rules whose mode an approval changes.

    Example:
        ```python
        # … when a request of `SubmitPlan` arrives:
        await handle.respond_permission(request.request_id, "allow", message="approve")
        ```
    """

    name = "SubmitPlan"
    category = "plan"
    description = (
        "Submit the plan for the user's approval, once you know what has to be done. The result"
        " says whether the user approves it, has changed it, or refuses it and why."
    )
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "plan": {
                "type": "string",
                "minLength": 1,
                "maxLength": 30_000,
                "description": "The whole plan, in Markdown.",
            },
        },
        "required": ["plan"],
        "additionalProperties": False,
    }
    requires_permission = False  # to submit a plan is to do nothing; a rule may deny it

    def __init__(self, permissions: PermissionManager) -> None:
        self._permissions = permissions
        self.unanswered = ""
        """The plan that nobody could answer, which ends the turn."""

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the plan."""
        return ToolInfo("Approve a plan", str(input["plan"]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Refuse: only `run_tools` asks questions, for it knows the agent.

        Raises:
            ToolError: always.
        """
        raise ToolError("there is no one to ask here", hint="run the calls with run_tools")

    async def ask(
        self,
        agent: AgentInternals,
        input: dict[str, object],  # noqa: A002
        tool_use_id: str,
        digest: str,
    ) -> Answer:
        """Ask about one plan, unless nobody can answer; the answer is bound to the digest."""
        if agent.would_suspend:
            return Answer(RuleDecision.DENY, by="unattended")
        info = self.info(input)
        return await agent.request_permission(
            self.name,
            info.action,
            details=info.details,
            input=input,
            options=PLAN_OPTIONS,
            digest=digest,
            tool_use_id=tool_use_id,
            timeout=math.inf,
        )

    def result(self, input: dict[str, object], answer: Answer) -> ToolResult:  # noqa: A002
        """Switch the mode if the plan is approved; return what the model is told."""
        words = clip(answer.message.strip(), _MOST)
        if not answer.allowed and answer.by == "unattended":
            self.unanswered = str(input["plan"])
            return ToolResult.ok("The plan was handed to the user, who is not here to approve it.")
        if not answer.allowed and answer.by in AUTOMATIC_DECIDERS:
            return ToolResult.ok(f"There is no answer: {words or answer.by}. Plan mode goes on.")
        chosen = _find_option(words)
        if not answer.allowed or chosen is None:
            reason = f": {words}" if words else ", and gave no reason"
            return ToolResult.ok(f"The user refuses the plan{reason}. Plan mode goes on.")
        if chosen or self._permissions.mode == "plan":
            self._permissions.mode = _MODES[chosen]
        changed = (answer.input or input).get("plan")
        if changed != input["plan"]:
            text = clip(str(changed), _MOST)
            approved = f"The user changed the plan, and approves this one:\n\n{text}\n\n"
        else:
            approved = "The user approves the plan. "
        edits = "Edits in the workspace need no question now. " if chosen else ""
        return ToolResult.ok(f"{approved}Plan mode is over. {edits}Carry it out.")


def _find_option(words: str) -> int | None:
    """Return the place of the option that an answer names; no words mean the first."""
    known = {"": 0, **{str(n): n - 1 for n in range(1, len(PLAN_OPTIONS) + 1)}}
    known |= {option: place for place, option in enumerate(PLAN_OPTIONS)}
    return known.get(words.casefold())


class PlanMode:
    """What plan mode adds to the steps of an agent: words in the prompt, and a tool.

    Subagents are told to change nothing, and have no plan to submit.
    """

    def __init__(self, agent: AgentInternals, permissions: PermissionManager) -> None:
        self._agent = agent
        self._permissions = permissions
        self._submit = SubmitPlan(permissions)
        self._is_root = agent.context.parent_session_id is None

    def begin_step(self, system: str, tools: ToolRegistry) -> tuple[str, ToolRegistry]:
        """Return the system prompt and the tools of the next step."""
        if self._permissions.mode != "plan":
            return system, tools
        return f"{system}\n\n{PLAN_PROMPT if self._is_root else _LOOK_ONLY}", self.add_to(tools)

    def add_to(self, tools: ToolRegistry) -> ToolRegistry:
        """Return the tools with `SubmitPlan`.

        A call of it runs also once the mode has changed: the person may be asked by a later
        process, or have switched the mode meanwhile.
        """
        return tools.with_tools(self._submit) if self._is_root else tools

    async def hand_over(self) -> bool:
        """Whether the turn ends, since nobody could answer a plan, which is its last reply then."""
        plan, self._submit.unanswered = self._submit.unanswered, ""
        if plan:
            self._agent.session.add_message(Message.assistant(plan))
            await self._agent.send(TextComplete(plan))
        return bool(plan)
