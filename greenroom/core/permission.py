"""Decisions about tool calls, and a person's answer to a prompt."""

from enum import StrEnum
from typing import Literal, TypeAlias

from greenroom.core.wire import Wire

__all__ = ["Answer", "PermissionPart", "Remember", "RuleDecision"]

Remember: TypeAlias = Literal["session", "project", "always"]
"""How long an answer is remembered: this session, this project, everywhere."""


class RuleDecision(StrEnum):
    """What the rules say to a call."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class PermissionPart(Wire, frozen=True):
    """The verdict on one part of a call, such as one simple command or one written path.

    Attributes:
        text: the part, for people, with nothing hidden.
        decision: what the rules say to this part.
        reason: why, in words; names the rule where one decided.
        rule_id: the id of the rule that decided, or empty.
    """

    text: str
    decision: RuleDecision
    reason: str
    rule_id: str = ""


class Answer(Wire, frozen=True):
    """The answer to a permission request.

    Attributes:
        decision: allow or deny.
        remember: whether, and for how long, the answer becomes a rule.
        message: what the person said to the model, or why it was denied.
        by: who answered: "user", or the runtime's reason such as "time-out".
        input: the call's input as the person edited it, or None; it is judged again.
    """

    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    by: str = "user"
    input: dict[str, object] | None = None

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.decision is RuleDecision.ALLOW
