"""Decisions about tool calls, and a person's answer to a prompt."""

from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from greenroom.core.wire import Wire

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
        source: where that rule comes from, such as a file, or empty.
    """

    text: str
    decision: RuleDecision
    reason: str
    rule_id: str = ""
    source: str = ""


class PermissionEffects(Wire, frozen=True):
    """What a call would do beyond the workspace and beyond itself, as far as it can be told.

    Attributes:
        reads: files outside the workspace that are read.
        writes: files outside the workspace that are written.
        names: files outside the workspace that words of a command name; it may read or write them.
        hosts: hosts that are contacted, or named by an address in a command.
        changes: variables that are set, functions that are defined.
        privileges: commands that run something with other rights, such as sudo.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()


DECIDED_BY_ITSELF = frozenset(
    {"rules", "recheck", "time-out", "shutdown", "withdrawn", "unattended"}
)
"""What `Answer.by` says where no person answered; a person can't answer by such a name."""


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


class PermissionRecord(Wire, frozen=True):
    """What was decided about one tool call, as a session keeps it.

    Attributes:
        tool_use_id: the call.
        tool_name: the tool.
        at: when it was decided.
        decision: allow or deny: what came of it.
        by: who decided: "rules" (a rule, the mode, or that there is no rule); "user", or the name
            under which somebody answered; "time-out", "unattended" or "shutdown" where nobody did;
            "withdrawn" where the turn ended first; "recheck" where it had changed since.
        asked: whether the rules left it to a person.
        reason: why the rules allowed it, denied it, or asked.
        rule_id: the rule that decided or asked, or empty.
        digest: binds it to tool, input, folder, words and resolved paths.
        parts: the verdict on each part of the call.
        left_out: how many more parts there were.
        mode: the permission mode that held.
        sandbox: what the call is held to, and what of that is not held here, in words; empty without.
        remember: how long the answer was to be remembered, or None.
        rules: the rules that were made of the answer, in words.
        edited: whether a person changed the input; the digest is then of what they wrote.
        message: what the person said to the model, or why nobody could.
    """

    tool_use_id: str
    tool_name: str
    at: datetime
    decision: RuleDecision
    by: str = "rules"
    asked: bool = False
    reason: str = ""
    rule_id: str = ""
    digest: str = ""
    parts: tuple[PermissionPart, ...] = ()
    left_out: int = 0
    mode: str = "default"
    sandbox: str = ""
    remember: Remember | None = None
    rules: tuple[str, ...] = ()
    edited: bool = False
    message: str = ""
