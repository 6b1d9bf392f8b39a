"""What a session keeps of a decision about a tool call: whole enough to tell why, and bounded."""

from msgspec.structs import replace

from greenroom.core import (
    Answer,
    PermissionPart,
    PermissionRecord,
    RuleDecision,
    SandboxReport,
    ToolUseBlock,
    clip,
    clock,
)
from greenroom.permissions import Explanation, PermissionManager, PermissionRule

_PARTS = 32  # of a call
_TEXT = 300  # characters of each part, and of each rule
_REASON = 1_000


def decided(
    call: ToolUseBlock,
    permissions: PermissionManager,
    found: Explanation,
    sandbox: SandboxReport | None = None,
) -> PermissionRecord:
    """Say what the rules have decided; what they ask about is not decided, and so denied."""
    allowed = found.decision is RuleDecision.ALLOW
    parts = _weightiest(found.parts)
    return PermissionRecord(
        tool_use_id=call.id,
        tool_name=call.name,
        at=clock.now(),
        decision=RuleDecision.ALLOW if allowed else RuleDecision.DENY,
        asked=found.decision is RuleDecision.ASK,
        reason=clip(found.reason, _REASON),
        rule_id=clip(found.rule.id, _TEXT) if found.rule else "",
        digest=found.digest,
        parts=tuple(_clipped(part) for part in parts),
        left_out=len(found.parts) - len(parts),
        mode=permissions.mode,
        sandbox=str(sandbox or ""),
    )


def answered(
    record: PermissionRecord,
    answer: Answer,
    rules: tuple[PermissionRule, ...] = (),
    *,
    edited: bool = False,
) -> PermissionRecord:
    """Say what the answer to a question has decided."""
    return replace(
        record,
        decision=answer.decision,
        by=answer.by,
        remember=answer.remember if rules else None,
        rules=tuple(clip(str(rule), _TEXT) for rule in rules[:_PARTS]),
        asked=True,
        edited=edited,
        message=clip(answer.message, _REASON),
    )


def overruled(record: PermissionRecord) -> PermissionRecord:
    """Say that a rule denies what a person has approved in other words."""
    return replace(record, decision=RuleDecision.DENY, by="rules")


def rechecked(record: PermissionRecord) -> PermissionRecord:
    """Say that a call was refused, since it was no longer what had been approved."""
    return replace(record, decision=RuleDecision.DENY, by="recheck")


def _weightiest(parts: tuple[PermissionPart, ...]) -> tuple[PermissionPart, ...]:
    """Leave out parts of a long call, those first that are allowed; the others keep their order."""
    if len(parts) <= _PARTS:
        return parts
    by_weight = sorted(parts, key=lambda part: part.decision is RuleDecision.ALLOW)
    kept = {id(part) for part in by_weight[:_PARTS]}
    return tuple(part for part in parts if id(part) in kept)


def _clipped(part: PermissionPart) -> PermissionPart:
    return PermissionPart(
        text=clip(part.text, _TEXT),
        decision=part.decision,
        reason=clip(part.reason, _TEXT),
        rule_id=clip(part.rule_id, _TEXT),
        source=clip(part.source, _TEXT),
    )
