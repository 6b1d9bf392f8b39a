"""What an instrument may watch: the moments before and after each thing that an agent does."""

from dataclasses import dataclass

from greenroom.core.content import ToolUseBlock
from greenroom.core.context import AgentContext
from greenroom.core.input import SubAgentResult, UserInput
from greenroom.core.message import Message
from greenroom.core.output import Done, Exited, PermissionRequest
from greenroom.core.permission import Answer
from greenroom.core.request import ModelRequest
from greenroom.core.tooling import ToolResult


@dataclass(frozen=True, eq=False)
class ModelCall:
    """One call of a model; both hooks get the same object, so it can be a key.

    Attributes:
        provider: the provider's name, such as "anthropic".
        model: the model's name.
        request: what is asked.
    """

    provider: str
    model: str
    request: ModelRequest


class Instrument:
    """The hooks of an instrument; write a class with those that you want, derived from this or not.

    Pass it to `AgentRuntime(instruments=[…])`, or add it to `runtime.instruments`. It sees every
    agent of the runtime: each hook is told whose moment it is, by the agent's context (`session_id`,
    `lineage`, `current_turn` and so on). Each "before" that was called is followed by its "after"
    once, also on an error, an interrupt or a crash.

    Hooks are plain functions. They run on the event loop, between two steps of the agent, so they
    must be quick and can't wait; hand what takes time to a task of your own, such as over a memory
    channel. A hook that raises is logged with the agent's path and counted, and changes nothing. A
    hook can't decide anything either; the one thing that it may change is a tool's input.
    """

    def before_agent(self, agent: AgentContext) -> None:
        """An agent begins, before it has the lock of its session."""

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """The agent has ended, with everything that it started."""

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """A turn begins with this input."""

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """The turn has ended and is saved; `end.input_id` is its message's id."""

    def before_model_call(self, agent: AgentContext, call: ModelCall) -> None:
        """A request is about to be sent to a model."""

    def after_model_call(
        self,
        agent: AgentContext,
        call: ModelCall,
        reply: Message | None,
        error: BaseException | None,
    ) -> None:
        """The reply is complete; or it is not, for this reason (`trio.Cancelled` on an interrupt)."""

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> dict[str, object] | None:
        """A model asks for a tool; nothing is judged yet.

        Return another input and it takes the place of the one that was asked for: it is validated,
        judged, shown to the person, and run, and the model is told of it. Return None to leave it.
        The call is a copy; the next instrument gets what this one has made of it.
        """

    def after_tool_call(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """The call has its result, be it a refusal; or it has none, for this reason."""

    def before_permission(self, agent: AgentContext, request: PermissionRequest) -> None:
        """Somebody is about to be asked."""

    def after_permission(
        self, agent: AgentContext, request: PermissionRequest, answer: Answer
    ) -> None:
        """The request is decided; one that was withdrawn is denied by "withdrawn"."""
