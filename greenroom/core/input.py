"""What an agent receives."""

from typing import TypeAlias

import msgspec

from greenroom.core.frozen import EMPTY, freeze_fields
from greenroom.core.message import (
    RECALLED,
    RUNTIME,
    SUMMARY,
    ContentBlock,
    TextBlock,
    ToolUseBlock,
    check_sender,
    new_id,
)
from greenroom.core.output import EndStatus
from greenroom.core.serde import Wire
from greenroom.core.tooling import ToolResult


def _input_id() -> str:
    return new_id("i")


class UserInput(Wire, frozen=True, tag="user_input"):
    """A person's, or a program's, contribution to the conversation.

    Attributes:
        content: its blocks.
        id: the input's id, and the id of the message that it becomes.
        sender: the program or agent that sends it; empty for a person. The message keeps it, and
            the model sees it. It can't be `SUMMARY` or `RECALLED`.
        metadata: JSON facts for the agent's function; the model does not see them.
    """

    content: tuple[ContentBlock, ...]
    id: str = msgspec.field(default_factory=_input_id)
    sender: str = ""
    metadata: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        freeze_fields(self, "metadata")
        if self.sender in {SUMMARY, RECALLED}:
            raise ValueError(f"{self.sender!r} can't name a sender: it marks what is quoted")
        if self.sender:
            check_sender(self.sender)

    @property
    def text(self) -> str:
        """The input's text, its text blocks joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class SubAgentResult(Wire, frozen=True, tag="subagent_result"):
    """A subagent that outlived the turn that spawned it has ended; its result is an input.

    Attributes:
        session_id: the subagent's session.
        agent_type: its type.
        status: how it ended.
        text: its last reply.
        error: what went wrong, or empty.
        id: the input's id.
        value: the result that its last turn has set, for programs; else `msgspec.UNSET`.
    """

    session_id: str
    agent_type: str
    status: EndStatus
    text: str = ""
    error: str = ""
    id: str = msgspec.field(default_factory=_input_id)
    value: object = msgspec.UNSET

    def __post_init__(self) -> None:
        freeze_fields(self, "value")

    @property
    def sender(self) -> str:
        """The runtime, which sends it."""
        return RUNTIME

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The result as content for the conversation, with a line on where it comes from."""
        head = f"[The subagent {self.agent_type} ({self.session_id}) has ended: {self.status}]"
        return (TextBlock("\n".join(part for part in (head, self.text, self.error) if part)),)


class AgentExit(Wire, frozen=True, tag="agent_exit"):
    """An agent that this one watches by `agent.monitor` has ended for good.

    Attributes:
        session_id: that agent's session.
        agent_type: its type.
        status: how it ended.
        error: what went wrong, or empty.
        id: the input's id.
    """

    session_id: str
    agent_type: str
    status: EndStatus
    error: str = ""
    id: str = msgspec.field(default_factory=_input_id)

    @property
    def sender(self) -> str:
        """The runtime, which sends it."""
        return RUNTIME

    @property
    def text(self) -> str:
        """One line that says which agent ended, and how."""
        reason = f": {self.error}" if self.error else ""
        return f"[The agent {self.agent_type} ({self.session_id}) has ended: {self.status}{reason}]"

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """The same as content for the conversation."""
        return (TextBlock(self.text),)


class Resume(Wire, frozen=True, tag="resume"):
    """Continues with a turn that an earlier process began.

    It is the first input of an agent if nothing else waits and its session was loaded with
    `keep_open` and has calls or questions that were left open, or with
    `on_cut_off="continue"` and has a turn that was cut off. Its turn appends no message, and goes
    on from the history: `await run_tools(agent, resume.calls, …)` asks about the calls again, and
    `stream_reply` answers them as not run.

    Attributes:
        calls: the calls, as the model asked for them.
        id: the input's id.
        cut_off: the id of the input whose turn was cut off; empty unless the session was loaded
            with `on_cut_off="continue"`, or the turn has asked something that is still open.
    """

    calls: tuple[ToolUseBlock, ...] = ()
    id: str = msgspec.field(default_factory=_input_id)
    cut_off: str = ""

    @property
    def sender(self) -> str:
        """Empty, as for a person: a `Resume` speaks for no agent."""
        return ""

    @property
    def text(self) -> str:
        """Empty: a `Resume` says nothing."""
        return ""

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """Empty, too."""
        return ()


class ToolResultInput(Wire, frozen=True, tag="tool_result_input"):
    """The result of a tool that the client runs; only `wait_tool_result` takes it."""

    tool_use_id: str
    result: ToolResult


class Interrupt(Wire, frozen=True, tag="interrupt"):
    """An interrupt that came while no turn was open; only `receive()` shows it."""


class Shutdown(Wire, frozen=True, tag="shutdown"):
    """The agent is asked to end; only `receive()` shows it."""


ConversationInput: TypeAlias = UserInput | SubAgentResult | AgentExit | Resume
"""An input that a turn can answer; each has an id, a sender, a text and content."""

InputMessage: TypeAlias = ConversationInput | ToolResultInput | Interrupt | Shutdown
"""Anything that an agent receives."""
